#!/usr/bin/env bash
# Sets up the machine, builds, compiles the demo model and detects on a photo: tools/demo.sh [PICTURE...]
# Leaves the drawn pictures in yoloc-out/.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
cmake -S . -B build -G Ninja --log-level=WARNING
cmake --build build --target yoloc
mkdir -p yoloc-out
build/yoloc compile models/yolox.yaml --weights models/demo/yolox_nano.safetensors -o yoloc-out/yolox_nano.yoloc
[ $# -gt 0 ] || set -- models/demo/photos/chelsea.png
build/yoloc detect yoloc-out/yolox_nano.yoloc "$@" --save yoloc-out
echo "drawn: $(ls yoloc-out/*.png yoloc-out/*.jpg 2>/dev/null | tr '\n' ' ')"
