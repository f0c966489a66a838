#!/usr/bin/env bash
# Installs what a fresh Debian 12 machine lacks to build, test and use yoloc.
# The README, CI and developers all use this script; it is safe to run again.
set -euo pipefail

build=(gcc g++ clang make cmake ninja-build pkg-config git ca-certificates)
libs=(llvm-19-dev libyaml-dev libsqlite3-dev libjansson-dev libxxhash-dev
      libjpeg62-turbo-dev libpng-dev libsodium-dev)
tests=(libcriterion-dev libclang-rt-14-dev python3 python3-pip strace qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
packages=("${build[@]}" "${libs[@]}" "${tests[@]}")

# NVRTC compiles kernels for GPUs, and needs none. Where no toolkit brought it, its package goes to build/nvrtc; without it the
# tests of such kernels are skipped.
nvrtc=nvidia-cuda-nvrtc-cu12==12.9.86
get_nvrtc() {
    local to work
    to=$(cd "$(dirname "$0")/.." && pwd)/build/nvrtc
    [ "$(uname -m)" = x86_64 ] || return 0
    PATH=$PATH:/sbin ldconfig -p | grep 'libnvrtc\.so\.1[23] ' >/dev/null && return 0
    compgen -G "$to/nvidia/*/lib/libnvrtc.so.*" >/dev/null && return 0
    work=$(mktemp -d)
    if python3 -m pip download -q --no-deps --only-binary=:all: --disable-pip-version-check -d "$work" "$nvrtc" >"$work/log" 2>&1; then
        mkdir -p "$to"
        python3 -m zipfile -e "$work"/*.whl "$to"
        echo "setup: $nvrtc is in build/nvrtc"
    else
        echo "setup: no $nvrtc ($(tail -n 1 "$work/log")); tests of kernels for GPUs are skipped"
    fi
    rm -r "$work"
}

missing=()
for p in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "setup: all ${#packages[@]} packages are installed"
    get_nvrtc
    exit 0
fi
echo "setup: installing ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
get_nvrtc
echo "setup: done"
