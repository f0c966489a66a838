#!/usr/bin/env bash
# How the tests for real GPUs begin, by the mock driver: target.sh YOLOC MOCK MOCKCUDNN
# Each is skipped (77) without a GPU and without NVRTC, and fails when a kernel can't be compiled; the target is that of GPU 0.
set -euo pipefail
yoloc=$1 mock=$2 dnn=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
here=$(cd "$(dirname "$0")/.." && pwd)
unset MOCKCUDA_KERNELS MOCKCUDA_DEVICES YOLOC_LIBNVRTC

# In place of the command: it refuses code for GPUs with $refusal and what it was asked.
cat >"$work/yoloc" <<'SH'
#!/usr/bin/env bash
case "$*" in
devices) exec "$real" devices ;;
*--target\ cuda:*)
    echo "error: $refusal: $*" >&2
    exit 1
    ;;
esac
SH
chmod +x "$work/yoloc"
export real=$yoloc refusal

bad=0
ends() { # CODE PATTERN SCRIPT ARGUMENT...
    local code=0
    bash "$here/$3" "$work/yoloc" "${@:4}" >"$work/out" 2>&1 || code=$?
    [ "$code" -eq "$1" ] && grep -q "$2" "$work/out" && return
    echo "target: $3 ends with $code, which is to be $1, or does not say: $2"
    cat "$work/out"
    bad=1
}
each_ends() { # CODE PATTERN
    ends "$1" "$2" gpu.sh false models/yolov8n.yaml rule
    ends "$1" "$2" gpu_expected.sh false
    ends "$1" "$2" gpu_cudnn.sh false models/yolov8n.yaml
    ends "$1" "$2" gpu_models.sh false false models/yolov8n.yaml
    ends "$1" "$2" cuda/answers.sh false gpu yolov8-seg
}

YOLOC_LIBCUDA=/nowhere/libcuda.so each_ends 77 'skipped: no GPU'
export YOLOC_LIBCUDA=$mock
YOLOC_LIBCUDNN=/nowhere/libcudnn.so ends 77 'skipped: no cuDNN' gpu_cudnn.sh false models/yolov8n.yaml
export YOLOC_LIBCUDNN=$dnn
refusal=$(sed -n 's/.*E_NVRTC, "\(no NVRTC found\) .*/\1/p' codegen/nvrtc_api.c)
[ -n "$refusal" ] || { echo "target: codegen/nvrtc_api.c no longer says that no NVRTC is found"; exit 1; }
each_ends 77 "$refusal: "
refusal='a kernel that NVRTC refuses'
MOCKCUDA_DEVICES=75 each_ends 1 "$refusal: .*--target cuda:sm_75 "
MOCKCUDA_DEVICES=90,89 each_ends 1 "$refusal: .*--target cuda:sm_90a "
exit "$bad"
