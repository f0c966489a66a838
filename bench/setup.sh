#!/usr/bin/env bash
# The peers of the bench, from PyPI, into a virtual environment of their own: bench/setup.sh [FOLDER]
# FOLDER: build/bench-venv. BENCH_TORCH=0 leaves PyTorch out; on x86-64 its wheel does not load without some GB of CUDA
# libraries, which pip brings along.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-build/bench-venv}
wanted=(numpy onnx onnxruntime openvino)
[ "${BENCH_TORCH:-1}" = 0 ] || wanted+=(torch)

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
missing=$("$venv/bin/python" - "${wanted[@]}" <<'PY'
import importlib.util, sys
print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
PY
)
# shellcheck disable=SC2086
[ -z "$missing" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $missing
