#!/usr/bin/env bash
# Every description of models/ on a real GPU: gpu_models.sh YOLOC TEST_GPU GPU_RUNTIME [MODEL.yaml...]
# Modules are of a size of 320 for four images. Each kernel of each precision is compared with the evaluator at a small size. In fp32 and fp16 the
# whole is compared with generic fp32 kernels and an image alone with the same beside others (not of networks that pick queries, where a
# rounding picks another), all kinds of runs give the same bytes, and nothing is written outside of the run's memory.
# PRECISIONS in the environment: fp32 tf32 fp16 bf16 unless it says otherwise; JOBS: models at a time.
# 77: no GPU here, or no NVRTC.
set -euo pipefail
yoloc=$1 program=$2 runtime=$3
shift 3
[ $# -gt 0 ] || set -- models/*.yaml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/gpu_target.sh"
export YOLOC_LIBCUDNN=/nowhere/libcudnn.so

find_gpu
"$yoloc" compile tests/tiny.yaml --weights rule --target "$target" --output "$work/m.yoloc" --no-cache 2>"$work/log" || not_compiled

compile() { # MODEL OUT OPTION...
    "$yoloc" compile "$1" --weights rule --imgsz 320 --batch 4 --target "$target" --no-cache --output "$2" "${@:3}"
}
failed() { # WHAT LOG: one line of it
    echo "FAIL $1: $(grep -E 'FAIL|error|^gpu|elements, the first' "$2" | head -4 | tr '\n' ' ')"
}
whole() { # NAME PRECISION FOLDER
    local bad=0
    case $1 in
    *rtdetr*) ;;
    *) "$program" "$3/generic.yoloc" "$3/m.yoloc" 1 >"$3/log" 2>&1 || { failed "$1 $2, whole" "$3/log"; bad=1; } ;;
    esac
    "$runtime" "$3/m.yoloc" equal guard >"$3/log" 2>&1 || { failed "$1 $2, runs" "$3/log"; bad=1; }
    return $bad
}
one() { # MODEL: a line for each precision; 1 when one fails
    local name out bad=0
    name=$(basename "$1" .yaml) out=$work/$(basename "$1" .yaml)
    mkdir "$out"
    compile "$1" "$out/generic.yoloc" --no-fast >"$out/log" 2>&1 || { failed "$name" "$out/log"; return 1; }
    for precision in ${PRECISIONS:-fp32 tf32 fp16 bf16}; do
        local bound=()
        case $name-$precision in # made weights' logits are large, and yolox takes their exponentials
        yolox*-tf32) bound=(--bound 0.1 --layer-bound 4) ;;
        yolox*-*16) bound=(--layer-bound 4) ;;
        esac
        if ! compile "$1" "$out/m.yoloc" --precision "$precision" >"$out/log" 2>&1 ||
            ! "$yoloc" verify "$out/m.yoloc" --imgsz 64 --samples 256 "${bound[@]}" >"$out/log" 2>&1; then
            failed "$name $precision" "$out/log"
            bad=1
            continue
        fi
        echo "ok   $name $precision: $(tail -1 "$out/log")"
        case $precision in
        fp32 | fp16) whole "$name" "$precision" "$out" || bad=1 ;;
        esac
    done
    rm -rf "$out"
    return $bad
}
export -f one whole compile failed
export yoloc program runtime target work
printf '%s\n' "$@" | xargs -P "${JOBS:-$((($(nproc) + 2) / 3))}" -I{} bash -c 'one {}'
