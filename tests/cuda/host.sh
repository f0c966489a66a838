#!/usr/bin/env bash
# CUDA C of kernels, as `yoloc inspect --code` prints it, to a library for the mock driver: host.sh KERNELS.cu OUT.so [service]
# service: the service kernels as well, as programs with pictures of bytes have them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# Each kernel in a namespace of its own, since several may define the same conversion. The 16-bit floats' assembly as C++; functions
# named ptx_ are those of hostblock.h, which also runs kernels whose threads share memory.
{
    echo "#include \"$here/host.h\""
    awk 'function finish() { if (n) printf "HOST_%s(%s)\n}\n", shares ? "BLOCK" : "KERNEL", name }
         /^(template <.*> )?static __device__ .* ptx_/ { drop = 1 }
         drop { drop = !/^}/; next }
         /^\/\* / { finish(); printf "namespace k%d {\n", n++; shares = 0 }
         /extern __shared__|__shfl_/ { shares = 1 }
         / __global__ / { name = $0; sub(/\($/, "", name); sub(/.* /, "", name) }
         { print }
         END { finish() }' "$1" |
        sed -e 's/asm("cvt.f32.f16 .*/_Float16 h; std::memcpy(\&h, \&v, 2); f = h;/' \
            -e 's/asm("cvt.rn.f16.f32 .*/_Float16 h = f; std::memcpy(\&v, \&h, 2);/' \
            -e '/^ *asm volatile("griddepcontrol/d' \
            -e 's/extern __shared__ .* shared\[\];/unsigned char *const shared = host_shared;/'
    if [ "${3-}" = service ]; then
        echo "namespace service {"
        echo "#include \"$here/host_service.h\""
        cat "$here/../../runtime/service.h" "$here/../../codegen/service.cu" "$here/../../codegen/service_tasks.cu"
        sed -n 's/^    X(YM_[A-Z_]*, \(yoloc_[a-z_]*\), .*/HOST_KERNEL(\1)/p' "$here/../../runtime/service.h"
        echo "}"
    fi
} >"$2.cc"
"${CXX:-g++}" -std=c++17 -O1 -fno-strict-aliasing -Wno-unknown-pragmas -ffp-contract=off -fno-math-errno -march=native -shared -fPIC -o "$2" "$2.cc"
