#!/usr/bin/env bash
# A network on a real GPU beside the CPU: gpu.sh YOLOC TEST_GPU MODEL WEIGHTS [CPU.yoloc [PICTURE]]
# SERVED and RUNTIME in the environment: the programs of served.c and gpu_runtime.c, which are then run on the module as well.
# CPU.yoloc, or CPU_MODULE in the environment: the same network (640 x 640, batch 4) made elsewhere for a CPU, for builds that
# can't make code for CPUs.
# 77: no GPU here, or no NVRTC.
set -euo pipefail
yoloc=$1 program=$2 model=$3 weights=$4 cpu=${5:-${CPU_MODULE-}} picture=${6-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/gpu_target.sh"

"$yoloc" devices
find_gpu
with=(--weights "$weights" --no-cache)
[ "$weights" != - ] || with=(--no-cache)

compile() { # TARGET OUT OPTION...
    "$yoloc" compile "$model" "${with[@]}" --imgsz 640 --batch 4 --target "$1" --output "$2" "${@:3}"
}
if [ -z "$cpu" ]; then
    cpu=$work/cpu.yoloc
    compile cpu:native "$cpu"
fi
start=$(date +%s%N)
compile "$target" "$work/cuda.yoloc" 2>"$work/log" || not_compiled
cat "$work/log"
echo "compiled in $((($(date +%s%N) - start) / 1000000)) ms"
"$program" "$cpu" "$work/cuda.yoloc" 50
for precision in tf32 fp16 bf16; do
    echo "$precision:"
    compile "$target" "$work/$precision.yoloc" --precision "$precision"
    "$program" "$cpu" "$work/$precision.yoloc" 50
    "$yoloc" verify "$work/$precision.yoloc" --imgsz 64 --samples 64 >"$work/log" || { grep FAIL "$work/log"; exit 1; }
    tail -2 "$work/log"
done

# From pictures to boxes on the GPU; the pictures are noise.
[ -z "${RUNTIME-}" ] || { "$RUNTIME" "$work/cuda.yoloc" && "$RUNTIME" "$work/fp16.yoloc" equal repeat threads guard; }
if [ -n "${SERVED-}" ]; then
    { printf 'P6 810 1080 255\n' && head -c 2624400 "$yoloc"; } >"$work/a.ppm"
    { printf 'P6 333 77 255\n' && head -c 999999 "$yoloc" | tail -c 76923; } >"$work/b.ppm"
    "$SERVED" "$work/cuda.yoloc" 50 "$work/a.ppm" "$work/b.ppm"
fi

# Boxes of a picture: the same classes in the same order, every number within a hundredth.
[ -n "$picture" ] || exit 0
for m in "$cpu" "$work/cuda.yoloc"; do
    "$yoloc" detect "$m" "$picture" --json >"$work/$(basename "$m").json"
done
head -c 1500 "$work/cuda.yoloc.json"
echo
python3 - "$work/$(basename "$cpu").json" "$work/cuda.yoloc.json" <<'PY'
import json, sys


def numbers(v, out):
    if isinstance(v, dict):
        for k in sorted(v):
            numbers(v[k], out)
    elif isinstance(v, list):
        for x in v:
            numbers(x, out)
    elif isinstance(v, (int, float)):
        out.append(float(v))
    return out


a, b = (numbers(json.load(open(p)), []) for p in sys.argv[1:3])
worst = max((abs(x - y) for x, y in zip(a, b)), default=0)
print(f"boxes: {len(a)} and {len(b)} numbers, off by at most {worst:.3g}")
sys.exit(len(a) != len(b) or worst > 0.01)
PY
