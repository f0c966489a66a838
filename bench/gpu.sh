#!/usr/bin/env bash
# Ours and PyTorch (eager, in a CUDA graph, compiled and in a CUDA graph; cuDNN's convolutions alone) on the same networks in one
# interleaved run on one GPU: bench/gpu.sh [OPTION...]; `bench/gpu.sh --help` lists the options.
#
# Needs python3 with torch and numpy, and a build folder with yoloc and libyolort.so (--build, default build); it builds and
# installs nothing, so that it runs on a bare GPU machine. Writes bench/results/DATE-GPU-gpu.json. Ends with 1 when the
# run is void: ours and PyTorch differ.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 bench/gpu.py "$@"
