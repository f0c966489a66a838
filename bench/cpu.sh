#!/usr/bin/env bash
# Ours and the peers on the same networks in one interleaved run on this CPU: bench/cpu.sh [--quick] [OPTION...]
#
# Installs the peers (bench/setup.sh), builds, compares all outputs, measures, and writes bench/results/DATE-CPU-cpu.json,
# docs/bench-cpu.md and docs/bench-cpu.svg (with --families docs/bench-families.*; with --quick only a JSON in the build folder). `bench/cpu.sh --help` lists the
# options. Ends with 1 when the run is void: outputs differ, or a peer did worse than it can.
#
#   BENCH_BUILD     build folder, default build; another is taken as it is
#   BENCH_VENV      folder of the peers' environment, default build/bench-venv
#   BENCH_TORCH     0: without PyTorch
#   BENCH_REALTIME  1: the runners are in the real-time class (SCHED_FIFO 50) while they run; needs the right to that
#   BENCH_WRAP      command prefix that keeps others off the machine while its command runs; wants BENCH_REALTIME=1
#                   when it does so by filling the cores
#   BENCH_WRAP_SECONDS  how long its command may run at most, default 40; tuning wants 35
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BENCH_BUILD:-build}
venv=${BENCH_VENV:-build/bench-venv}

python3 bench/options.py "$@"
for word in "$@"; do
    case $word in -h | --help) exit 0 ;; esac
done
bench/setup.sh "$venv"
if [ "$build" = build ]; then
    cmake -S . -B build -G Ninja --log-level=WARNING
    cmake --build build --target yoloc bench_ours bench_peak
fi
peers=()
[ "${BENCH_TORCH:-1}" != 0 ] || peers=("--peers=onnxruntime,openvino")
code=0
"$venv/bin/python" bench/cpu.py --build "$build" "${peers[@]}" "$@" | tee "$build/bench.log" || code=$?
result=$(sed -n 's/^result: //p' "$build/bench.log")
case "$result" in
    bench/results/*-families*) "$venv/bin/python" bench/report.py "$result" docs/bench-families ;;
    bench/results/*) "$venv/bin/python" bench/report.py "$result" docs/bench-cpu ;;
esac
exit "$code"
