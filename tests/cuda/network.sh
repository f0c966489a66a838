#!/usr/bin/env bash
# CUDA modules without a GPU, through the command: NVRTC compiles a network, the mock driver runs its kernels on the host, the
# results are those of the CPU: network.sh YOLOC TEST_GPU MOCK MOCKCUDNN [long]
# long: every bench model for every target compiles.
set -euo pipefail
yoloc=$1 program=$2 mock=$3 dnn=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../gpu_target.sh"
export YOLOC_LIBCUDNN=/nowhere/libcudnn.so # but where it is wanted
unset YOLOC_LIBCUDA MOCKCUDA_KERNELS MOCKCUDA_DEVICES

compile() { # MODEL TARGET OUT OPTION...
    "$yoloc" compile "$1" --weights rule --target "$2" --output "$3" --no-cache "${@:4}"
}
fail() {
    echo "cuda: $*"
    exit 1
}

compile tests/tiny.yaml cuda:sm_90a "$work/tiny.yoloc" 2>"$work/log" || not_compiled
beside_cpu() { # CPU CUDA DEVICE TIMES: its kernels run on the host
    "$yoloc" inspect --code "$2" >"$work/k.cu"
    bash "$here/host.sh" "$work/k.cu" "$work/k.so" service
    YOLOC_LIBCUDA=$mock MOCKCUDA_DEVICES=$3 MOCKCUDA_KERNELS=$work/k.so "$program" "$1" "$2" "$4"
}
half() { # TARGET DEVICE: beside fp32
    compile models/yolov8n.yaml "cuda:sm_$1" "$work/half.yoloc" --imgsz 96,128 --batch 2 --precision fp16
    beside_cpu "$work/cpu.yoloc" "$work/half.yoloc" "$2" 1
}

if [ "${5-}" = long ]; then
    for target in 75 80 86 87 89 90a 100 120; do
        for model in yolov8{n,s,m,l,x} yolov5{n,s,m} yolov10n yolo11n yolo12n yolo26n; do
            compile "models/$model.yaml" "cuda:sm_$target" "$work/m.yoloc" --strip || fail "$model for sm_$target"
        done
    done
    compile models/yolov8n.yaml cpu:native "$work/cpu.yoloc" --imgsz 96,128 --batch 2 --no-fast
    half 90a 90 # by wgmma, on few multiprocessors
    exit 0
fi

# One text, one module, however many threads there are.
taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" "$yoloc" compile tests/tiny.yaml --weights rule --target cuda:sm_90a \
    --output "$work/again.yoloc" --no-cache
cmp "$work/tiny.yoloc" "$work/again.yoloc" || fail "two compilations differ"

# Mistakes.
refused() { # NUMBER OPTION...
    "$yoloc" compile tests/tiny.yaml --weights rule --no-cache --output "$work/no.yoloc" "${@:2}" 2>"$work/log" && fail "${*:2} is accepted"
    grep -q "\[$1\]" "$work/log" || fail "${*:2}: $(cat "$work/log")"
}
refused E402 --target cuda:sm_91
refused E402 --target cuda:sm_90a,cuda:sm_90a
refused E402 --target cuda:sm_90a --checked
refused E405 --target cuda:sm_75 --precision tf32
refused E405 --target cuda:sm_90a,cpu:native --precision tf32
refused E001 --target cuda:sm_90a,cuda:sm_80 --keep-kernels "$work/kept"
YOLOC_LIBNVRTC=/nowhere/libnvrtc.so refused E407 --target cuda:sm_90a

# Tuning: on a GPU only, and what was measured once is not measured again.
refused E406 --target cuda:sm_90a --precision fp16 --tune fast
tuned() { # OUT
    YOLOC_LIBCUDA=$mock YOLOC_CACHE_DIR=$work/cache "$yoloc" compile tests/tiny.yaml --weights rule --target cuda:sm_90a --precision fp16 \
        --tune fast --tune-budget 300s --output "$1" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
}
tuned "$work/tuned.yoloc"
grep -q ' 0 known, [1-9][0-9]* measured, 0 left' "$work/log" || fail "tuning measures nothing: $(cat "$work/log")"
tuned "$work/known.yoloc"
grep -q measured "$work/log" && fail "what is known is measured again"
cmp "$work/tuned.yoloc" "$work/known.yoloc" || fail "the second compile gives another module"

# What there is of cuDNN.
YOLOC_LIBCUDNN=$dnn "$yoloc" devices | grep -q '^cudnn  *9\.19\.0$' || fail "devices does not name cuDNN"
YOLOC_LIBCUDNN=$dnn "$yoloc" devices --json | grep -q '"cudnn":"9\.19\.0"}' || fail "devices --json does not name cuDNN"
YOLOC_LIBCUDNN=/nowhere/dnn.so "$yoloc" devices | grep -q '^cudnn  *none: no cuDNN (/nowhere/dnn.so' || fail "devices finds cuDNN nowhere"
YOLOC_LIBCUDNN=/nowhere/dnn.so "$yoloc" devices --json | grep -q '"cudnn":null}' || fail "devices --json finds cuDNN nowhere"

# A module for several: the first that runs here.
compile tests/tiny.yaml cuda:sm_86,cuda:sm_90a "$work/two.yoloc"
picks() { # DEVICES TARGET
    local got
    got=$(YOLOC_LIBCUDA=$mock MOCKCUDA_DEVICES=$1 "$yoloc" inspect --json "$work/two.yoloc" | grep -o '"target":"[^"]*"')
    [ "$got" = "\"target\":\"$2\"" ] || fail "with devices $1: $got instead of $2"
}
picks 89 cuda:sm_86
picks 90 cuda:sm_90a

# What a module holds is shown where there is neither a driver nor NVRTC.
shows() { # PATTERN MODULE OPTION...
    YOLOC_LIBCUDA=/nowhere/libcuda.so YOLOC_LIBNVRTC=/nowhere/libnvrtc.so "$yoloc" inspect "${@:2}" >"$work/shown" 2>&1 ||
        fail "inspect ${*:3}: $(cat "$work/shown")"
    grep -q -e "$1" "$work/shown" || fail "inspect ${*:3} does not show $1: $(cat "$work/shown")"
}
shows '^target   cuda:sm_90a, fp32' "$work/tiny.yoloc"
shows 'generic .* (model\.0\.conv .*, line 6)$' "$work/tiny.yoloc" --kernels
shows ' -> b[0-9]' "$work/tiny.yoloc" --memory
shows '^%1 = conv2d' "$work/tiny.yoloc" --ir
shows '^units [1-9]' "$work/tiny.yoloc" --program
shows '__global__' "$work/tiny.yoloc" --code
shows '"target":"cuda:sm_90a"' "$work/tiny.yoloc" --json
shows '{"kernel":"image_conv2d_silu_.*,"line":6,' "$work/tiny.yoloc" --json
shows '"target":"cuda:sm_86"' "$work/two.yoloc" --json
shows 'also for cuda:sm_90a' "$work/two.yoloc"

# A whole network, its kernels run on the host.
command -v "${CXX:-g++}" >/dev/null || exit 77
compile models/yolov8n.yaml cuda:sm_90a "$work/cuda.yoloc" --imgsz 96,128 --batch 2
if ! compile models/yolov8n.yaml cpu:native "$work/cpu.yoloc" --imgsz 96,128 --batch 2 --no-fast 2>"$work/log"; then
    grep -q 'no CPU code generation' "$work/log" && exit 77
    fail "$(cat "$work/log")"
fi
"$yoloc" inspect --code "$work/cuda.yoloc" >"$work/k.cu"
grep -v '^/\* ' "$work/k.cu" | grep -q 'model\.' && fail "a kernel's text names a layer"
beside_cpu "$work/cpu.yoloc" "$work/cuda.yoloc" 90 2
half 80 80 # by mma.sync

# Tuned with cuDNN, which the mock's clock finds faster: the same results with it and, by the kernel kept beside it, without.
printf 'model.2* fp32\n' >"$work/layers"
competing() { # OUT OPTION...
    YOLOC_LIBCUDA=$mock YOLOC_LIBCUDNN=$dnn MOCKCUDA_DEVICES=80 YOLOC_CACHE_DIR=$work/cache "$yoloc" compile tests/tiny.yaml --weights rule \
        --target cuda:sm_80 --imgsz 64 --precision fp16 --precision-file "$work/layers" --tune-budget 300s --output "$1" "${@:2}" \
        >"$work/log" 2>&1 || fail "$(cat "$work/log")"
}
compile tests/tiny.yaml cpu:native "$work/tiny_cpu.yoloc" --imgsz 64 --no-fast
competing "$work/dnn.yoloc" --tune full --tune-report
grep -q ' ms, .*cudnn engine=12 space=4096 24=2, model.1.conv' "$work/log" || fail "cuDNN was not measured: $(cat "$work/log")"
grep -aq 'cudnn engine=[0-9]' "$work/dnn.yoloc" || fail "cuDNN was not chosen: $(cat "$work/log")"
shows "^cuDNN    may do [1-9] of the 6 steps, " "$work/dnn.yoloc"
shows '^     or cuDNN 9\.19\.0: engine [0-9]* with 24=[0-9]*, [0-9]* bytes of working memory$' "$work/dnn.yoloc" --kernels
shows '"engine":{"cudnn":91900,"number":[0-9]*,"space_bytes":[0-9]*,"text":"cudnn engine=[0-9]* space=[0-9]* 24=[0-9]*"}}' "$work/dnn.yoloc" --json
competing "$work/dnn_again.yoloc" --tune fast --deterministic
grep -aq 'cudnn engine=' "$work/dnn_again.yoloc" && fail "a record of other options counts"
rm -r "$work"/cache/objects
competing "$work/dnn_again.yoloc" --tune fast
cmp "$work/dnn.yoloc" "$work/dnn_again.yoloc" || fail "what was found is not used"
competing "$work/own.yoloc" --tune fast --no-cudnn
grep -aq 'cudnn engine=' "$work/own.yoloc" && fail "--no-cudnn uses cuDNN"
"$yoloc" inspect --code "$work/dnn.yoloc" >"$work/d.cu"
bash "$here/host.sh" "$work/d.cu" "$work/d.so" service
for lib in "$dnn" /nowhere/libcudnn.so; do
    YOLOC_LIBCUDA=$mock YOLOC_LIBCUDNN=$lib MOCKCUDA_DEVICES=80 MOCKCUDA_KERNELS=$work/d.so "$program" "$work/tiny_cpu.yoloc" "$work/dnn.yoloc" 1
done
YOLOC_LIBCUDA=$mock YOLOC_LIBCUDNN=$dnn MOCKCUDA_DEVICES=80 "$yoloc" bench "$work/dnn.yoloc" --json | grep -q '"kernel":"cudnn engine=' ||
    fail "the profile does not name cuDNN"
