#!/usr/bin/env bash
# Sets up the machine, builds everything and runs the tests but the long ones: tools/test.sh [CTEST-OPTION...]
# For all of them: ctest --test-dir build
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh
cmake -S . -B build -G Ninja -DYOLOC_TESTS=ON --log-level=WARNING
cmake --build build
[ $# -gt 0 ] || set -- -LE long
ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
