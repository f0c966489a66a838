/* Lets a C++ compiler for the host take the CUDA C of kernels, so that the mock driver can run them. Included before them; for
 * each kernel, tests/cuda/host.sh adds a HOST_KERNEL. Products are not fused but where fmaf says so: compile with -ffp-contract=off. */
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

struct place {
    unsigned x;
};
static thread_local place blockIdx, threadIdx, gridDim;

static inline float __int_as_float(int v)
{
    float f;
    std::memcpy(&f, &v, sizeof f);
    return f;
}

static inline float __uint_as_float(unsigned v)
{
    return __int_as_float((int)v);
}

static inline int __float_as_int(float f)
{
    int v;
    std::memcpy(&v, &f, sizeof v);
    return v;
}

static inline unsigned __float_as_uint(float f)
{
    return (unsigned)__float_as_int(f);
}

static inline float ptx_tanh(float f)
{
    return std::tanh(f);
}

/* Toward zero; what does not fit becomes the nearest that does, NaN 0. */
static inline int __float2int_rz(float f)
{
    return f != f ? 0 : f >= 2147483648.0f ? INT32_MAX : f < -2147483648.0f ? INT32_MIN : (int)f;
}

static inline long long __float2ll_rz(float f)
{
    return f >= 9223372036854775808.0f ? INT64_MAX : f < -9223372036854775808.0f ? INT64_MIN : (long long)f;
}

template <typename... A, size_t... I>
static void host_run(void (*kernel)(A...), unsigned blocks, unsigned threads, void **parameter, std::index_sequence<I...>)
{
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) kernel(*static_cast<A *>(parameter[I])...);
}

template <typename... A>
static void host_run(void (*kernel)(A...), unsigned blocks, unsigned threads, void **parameter)
{
    host_run(kernel, blocks, threads, parameter, std::index_sequence_for<A...>{});
}

template <typename... A>
static size_t host_parameter(void (*)(A...), unsigned i)
{
    const size_t size[] = {sizeof(A)..., 0};
    return size[i];
}

/* Bytes of parameter i of a kernel; 0 behind the last. */
#define HOST_SIZE(name)                                                                                      \
    extern "C" __attribute__((visibility("default"))) size_t name##_size(unsigned i)                         \
    {                                                                                                        \
        return host_parameter(name, i);                                                                      \
    }

#define HOST_KERNEL(name)                                                                                    \
    HOST_SIZE(name)                                                                                          \
    extern "C" __attribute__((visibility("default"))) void name##_run(unsigned blocks, unsigned threads, void **parameter)  \
    {                                                                                                        \
        host_run(name, blocks, threads, parameter);                                                          \
    }

#include "hostblock.h"

#include "hosthopper.h"
