#!/usr/bin/env bash
# Runs a test of the bench with the first Python that has numpy and onnx, else with any: bench.sh SCRIPT BUILD-FOLDER
set -uo pipefail
for python in "${BENCH_VENV:-$2/bench-venv}/bin/python" build/bench-venv/bin/python python3; do
    "$python" -c 'import numpy, onnx' 2>/dev/null && exec "$python" "$1" "$2"
done
command -v python3 >/dev/null || { echo "skipped: no Python"; exit 77; }
exec python3 "$1" "$2"
