#!/usr/bin/env bash
# Trained checkpoints on a real GPU against stored boxes and raw outputs, in fp32 and in half precision: gpu_expected.sh YOLOC TEST_EXPECTED
# 77: no GPU here, or no NVRTC.
set -euo pipefail
yoloc=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/gpu_target.sh"
export YOLOC_TEST_SCRATCH=$work YOLOC_CACHE_DIR=$work/cache

find_gpu
"$yoloc" compile tests/tiny.yaml --weights rule --target "$target" --output "$work/m.yoloc" 2>"$work/log" || not_compiled
# Several checkpoints at a time.
shares=$((($(nproc) + 3) / 4))
run() { # NAME OPTION...
    local name=$1 pids=() code=0
    shift
    for ((i = 0; i < shares; i++)); do
        mkdir -p "$work/$name.$i"
        YOLOC_TEST_SCRATCH=$work/$name.$i "$program" "$yoloc" --share "$i/$shares" --target "$target" "$@" >"$work/$name.$i/log" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
    echo "$name:"
    cat "$work/$name".*/log
    rm -r "$work/$name".*
    return $code
}
code=0
run fp32 || code=$?
run fp16 --half --precision fp16 || code=$?
exit "$code"
