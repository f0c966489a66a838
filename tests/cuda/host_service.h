/* What the service kernels need of host.h besides: included in their namespace, before their text. Threads of a block are run step by step
 * (EACH in codegen/service.cu) and blocks one after the other, so that nothing here has to be atomic. */
#undef __shared__
#define __shared__         static thread_local
#define __grid_constant__
#define YOLOC_HOST

static inline int atomicAdd(int *at, int v)
{
    int old = *at;
    *at += v;
    return old;
}

static inline int atomicOr(int *at, int v)
{
    int old = *at;
    *at |= v;
    return old;
}

static inline unsigned atomicOr(unsigned *at, unsigned v)
{
    unsigned old = *at;
    *at |= v;
    return old;
}

static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}

static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
