#!/usr/bin/env bash
# Answers of each task by a CUDA module beside the CPU's functions: answers.sh YOLOC TEST_ANSWERS MOCK|gpu MODEL...
# MOCK: the mock driver's library; kernels are run on the host, on small inputs. gpu: on a real one.
# 77: no NVRTC, no GPU, or no C++ compiler for the kernels.
set -euo pipefail
yoloc=$1 program=$2 mock=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../gpu_target.sh"

picture() { # NAME WIDTH HEIGHT: noise
    { printf 'P6 %d %d 255\n' "$2" "$3" && tail -c +$((1000 * $2)) "$yoloc" | head -c $((3 * $2 * $3)); } >"$work/$1.ppm" || true
}
if [ "$mock" = gpu ]; then
    find_gpu
    size=320 batch=4 runs=50
    picture a 405 540 && picture b 640 480 && picture c 33 700 && picture d 160 120 && picture e 320 320
else
    command -v "${CXX:-g++}" >/dev/null || exit 77
    target=cuda:sm_90a size=64 batch=2 runs=0
    unset YOLOC_LIBCUDA MOCKCUDA_KERNELS MOCKCUDA_DEVICES
    picture a 97 61 && picture b 64 64 && picture c 31 200
fi
for model in "$@"; do
    "$yoloc" compile "models/$model.yaml" --weights rule --imgsz "$size" --batch "$batch" --target "$target" \
        --output "$work/m.yoloc" --no-cache 2>"$work/log" || not_compiled
    if [ "$mock" != gpu ]; then
        "$yoloc" inspect --code "$work/m.yoloc" >"$work/k.cu"
        bash "$here/host.sh" "$work/k.cu" "$work/k.so" service
        export YOLOC_LIBCUDA=$mock MOCKCUDA_KERNELS=$work/k.so
    fi
    "$program" "$work/m.yoloc" "$runs" "$work"/?.ppm
    [ "$mock" = gpu ] || unset YOLOC_LIBCUDA MOCKCUDA_KERNELS
done
