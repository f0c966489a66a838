#!/usr/bin/env bash
# A network tuned with cuDNN on a real GPU: gpu_cudnn.sh YOLOC TEST_GPU MODEL [CPU.yoloc]
# Its results are those of the CPU, with cuDNN and by the kernels that are kept beside it; an image at a time, as smaller batches than the
# module's take the kernels and are rounded otherwise. CPU.yoloc: the same network (640 x 640, batch 1, rule weights) for builds that can't make
# code for CPUs. BUDGET in the environment: time to tune, 150s unless it says otherwise.
# 77: no GPU, no cuDNN or no NVRTC here.
set -euo pipefail
yoloc=$1 program=$2 model=$3 cpu=${4:-${CPU_MODULE_1-}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/gpu_target.sh"

"$yoloc" devices
find_gpu
"$yoloc" devices | grep -q '^cudnn  *[0-9]' || { echo "skipped: no cuDNN"; exit 77; }
compile() { # OUT OPTION...
    "$yoloc" compile "$model" --weights rule --imgsz 640 --output "$1" "${@:2}"
}
if [ -z "$cpu" ]; then
    cpu=$work/cpu.yoloc
    compile "$cpu" --no-cache
fi
tuned() { # OUT OPTION...
    compile "$1" --cache-dir "$work/cache" --target "$target" --precision fp16 "${@:2}"
}
mkdir -m 700 "$work/cache"
tuned "$work/full.yoloc" --tune full --tune-budget "${BUDGET:-150s}" --tune-report >"$work/log" 2>&1 || not_compiled
grep -v 'candidate: ' "$work/log"
echo "engines measured: $(grep -c 'predicted: cudnn' "$work/log" || true)"
grep -q 'predicted: cudnn' "$work/log" || { echo "gpu: cuDNN proposed nothing that runs"; exit 1; }
grep 'candidate: ' "$work/log" | sort -t: -k4 | sed -n '1,400p'
for lib in '' /nowhere/libcudnn.so; do
    echo "cuDNN: ${lib:-as it is}"
    YOLOC_LIBCUDNN=${lib:-${YOLOC_LIBCUDNN-}} "$program" "$cpu" "$work/full.yoloc" 200
    YOLOC_LIBCUDNN=${lib:-${YOLOC_LIBCUDNN-}} "$yoloc" bench "$work/full.yoloc" --json | grep -o '"kernel":"cudnn[^"]*"' | sort | uniq -c || true
done
tuned "$work/fast.yoloc" --tune fast --no-cudnn
"$program" "$cpu" "$work/fast.yoloc" 200
