#!/usr/bin/env bash
# The kernels of a CUDA module as a library of host code for the mock driver: emulate.sh YOLOC MODULE OUT.so
set -euo pipefail
yoloc=$1 module=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$yoloc" inspect --code "$module" >"$work/kernels.cu"
# Each kernel in a namespace of its own: several may define the same conversion. The assembly of the 16-bit floats as C++.
{
    echo "#include \"$here/host.h\""
    awk 'function close_one() { if (n) printf "HOST_KERNEL(%s)\n}\n", name }
         /^\/\* / { close_one(); printf "namespace k%d {\n", n++ }
         / __global__ / { name = $0; sub(/\($/, "", name); sub(/.* /, "", name) }
         { print }
         END { close_one() }' "$work/kernels.cu" |
        sed -e 's/asm("cvt.f32.f16 .*/_Float16 h; std::memcpy(\&h, \&v, 2); f = h;/' \
            -e 's/asm("cvt.rn.f16.f32 .*/_Float16 h = f; std::memcpy(\&v, \&h, 2);/'
} >"$work/kernels.cc"
"${CXX:-g++}" -std=c++17 -O2 -ffp-contract=off -fno-math-errno -march=native -shared -fPIC -o "$out" "$work/kernels.cc"
