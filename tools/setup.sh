#!/usr/bin/env bash
# Installs what a fresh Debian 12 machine lacks to build, test and use yoloc.
# The README, CI and developers all use this script; it is safe to run again.
set -euo pipefail

build=(gcc g++ clang make cmake ninja-build pkg-config git ca-certificates)
libs=(llvm-19-dev libyaml-dev libsqlite3-dev libjansson-dev libxxhash-dev
      libjpeg62-turbo-dev libpng-dev libsodium-dev)
tests=(libcriterion-dev libclang-rt-14-dev python3 strace qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
packages=("${build[@]}" "${libs[@]}" "${tests[@]}")

missing=()
for p in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "setup: all ${#packages[@]} packages are installed"
    exit 0
fi
echo "setup: installing ${missing[*]}"
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "setup: done"
