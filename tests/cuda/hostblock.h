/* Blocks of threads on the host, for host.h: the threads of a block are fibers that take turns, so that they can wait for each other.
 * What they share is poisoned before each block; what cp.async copies arrives no earlier than its wait. */
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#include <vector>

#define __align__(n)

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

static inline float2 make_float2(float x, float y)
{
    return {x, y};
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

enum { HOST_SHARED = 227 << 10, HOST_THREADS = 1024, HOST_STACK = 128 << 10, HOST_LANES = 32 };

alignas(1024) static thread_local unsigned char host_shared[HOST_SHARED];

/* A copy that has been asked for. */
struct host_copy {
    unsigned to;
    const void *from;
    int bytes, size;
};

struct host_fiber {
    jmp_buf at;
    bool begun, done;
    unsigned index;
    const unsigned *wait; /* runs on when it is no longer `until` */
    unsigned until;
    std::vector<host_copy> copies; /* not arrived */
    std::vector<size_t> groups;    /* how many of them each committed group ends with */
    std::vector<unsigned char> stack;
};

/* What lanes of a warp do together: the last to come does it for all. */
struct host_warp {
    unsigned came, turn;
    const void *in[HOST_LANES];
    void *out[HOST_LANES];
    unsigned address[HOST_LANES];
};

static thread_local host_fiber host_fibers[HOST_THREADS], *host_now;
static thread_local host_warp host_warps[HOST_THREADS / HOST_LANES];
static thread_local unsigned host_came, host_turn, host_size; /* of the block's barrier; its threads */
static thread_local jmp_buf host_scheduler;
static thread_local ucontext_t host_first;
static thread_local void (*host_call)(void *);
static thread_local void *host_call_arg;
static thread_local void (*host_over)(); /* looks at what a block leaves behind; may be null */

[[noreturn]] static inline void host_fail(const char *what)
{
    std::fprintf(stderr, "hostblock: %s in thread %u of block %u\n", what, host_now ? host_now->index : 0u, blockIdx.x);
    std::abort();
}

static inline void host_wait(const unsigned *turn)
{
    host_now->wait = turn;
    host_now->until = *turn;
    if (!_setjmp(host_now->at)) _longjmp(host_scheduler, 1);
}

static inline void __syncthreads()
{
    if (++host_came < host_size) {
        host_wait(&host_turn);
        return;
    }
    host_came = 0;
    host_turn++;
}

/* A fiber serves thread after thread. */
static inline void host_main()
{
    for (;;) {
        host_call(host_call_arg);
        host_now->done = true;
        if (!_setjmp(host_now->at)) _longjmp(host_scheduler, 1);
    }
}

static inline void host_resume(host_fiber *f)
{
    host_now = f;
    threadIdx.x = f->index;
    if (_setjmp(host_scheduler)) return;
    if (f->begun) _longjmp(f->at, 1);
    f->begun = true;
    ucontext_t c;
    getcontext(&c);
    f->stack.resize(HOST_STACK);
    c.uc_stack.ss_sp = f->stack.data();
    c.uc_stack.ss_size = HOST_STACK;
    c.uc_link = nullptr;
    makecontext(&c, host_main, 0);
    setcontext(&c);
}

/* Runs call(arg) as each thread of one block. */
static inline void host_block(unsigned threads, void (*call)(void *), void *arg)
{
    host_call = call;
    host_call_arg = arg;
    host_size = threads;
    host_came = 0;
    std::memset(host_shared, 0xff, sizeof host_shared);
    if (threads > HOST_THREADS) host_fail("too many threads");
    for (unsigned i = 0; i < threads; i++) {
        host_fiber *f = &host_fibers[i];
        f->index = i;
        f->done = false;
        f->wait = nullptr;
        f->copies.clear();
        f->groups.clear();
    }
    for (unsigned left = threads, moved = 1; left; moved = 0) {
        for (unsigned i = 0; i < threads; i++) {
            host_fiber *f = &host_fibers[i];
            if (f->done || (f->wait && *f->wait == f->until)) continue;
            moved = 1;
            f->wait = nullptr;
            host_resume(f);
            left -= f->done;
        }
        if (!moved) host_fail("threads wait for each other");
    }
    if (host_over) host_over();
}

/* --- the functions of PTX that kernels call ----------------------------------------------------------------- */

static inline size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)((const unsigned char *)p - host_shared);
}

static inline unsigned char *host_at(unsigned address, unsigned bytes, unsigned align)
{
    if (address % align || address > HOST_SHARED || bytes > HOST_SHARED - address) host_fail("a bad address of shared memory");
    return host_shared + address;
}

static inline void host_copy_later(unsigned to, const void *from, int bytes, int size)
{
    if (bytes < 0 || bytes > size || (uintptr_t)from % (unsigned)size) host_fail("a bad copy");
    host_at(to, (unsigned)size, (unsigned)size);
    host_now->copies.push_back({to, from, bytes, size});
}

static inline void ptx_copy16(unsigned to, const void *from, int bytes)
{
    host_copy_later(to, from, bytes, 16);
}

static inline void ptx_copy8(unsigned to, const void *from, int bytes)
{
    host_copy_later(to, from, bytes, 8);
}

static inline void ptx_copy4(unsigned to, const void *from, int bytes)
{
    host_copy_later(to, from, bytes, 4);
}

static inline void ptx_commit()
{
    size_t n = host_now->copies.size();
    for (size_t g : host_now->groups) n -= g;
    host_now->groups.push_back(n);
}

template <int LEFT> static inline void ptx_wait()
{
    host_fiber *f = host_now;
    while (f->groups.size() > LEFT) {
        for (size_t i = 0; i < f->groups[0]; i++) {
            const host_copy *c = &f->copies[i];
            std::memset(host_shared + c->to, 0, (size_t)c->size);
            std::memcpy(host_shared + c->to, c->from, (size_t)c->bytes);
        }
        f->copies.erase(f->copies.begin(), f->copies.begin() + (long)f->groups[0]);
        f->groups.erase(f->groups.begin());
    }
}

/* Waits for the other lanes; true for the one that does the work of all. */
static inline bool host_together(host_warp *w)
{
    if (++w->came == HOST_LANES) return true;
    host_wait(&w->turn);
    return false;
}

static inline void host_together_done(host_warp *w)
{
    w->came = 0;
    w->turn++;
}

static inline host_warp *host_my_warp()
{
    return &host_warps[host_now->index / HOST_LANES];
}

/* ldmatrix x4: lane l gives row l % 8 of matrix l / 8 and gets the two halves 2 * (l % 4) of row l / 4 of each. */
static inline void ptx_fragment(unsigned v[4], unsigned from)
{
    host_warp *w = host_my_warp();
    unsigned lane = host_now->index % HOST_LANES;
    w->address[lane] = from;
    w->out[lane] = v;
    if (!host_together(w)) return;
    for (unsigned l = 0; l < HOST_LANES; l++)
        for (unsigned i = 0; i < 4; i++)
            std::memcpy((unsigned *)w->out[l] + i, host_at(w->address[i * 8 + l / 4], 16, 16) + l % 4 * 4, 4);
    host_together_done(w);
}

/* The same with the matrices turned: a lane gets rows 2 * (l % 4) and the next of column l / 4. */
static inline void ptx_fragment_turned(unsigned v[4], unsigned from)
{
    host_warp *w = host_my_warp();
    unsigned lane = host_now->index % HOST_LANES;
    w->address[lane] = from;
    w->out[lane] = v;
    if (!host_together(w)) return;
    for (unsigned l = 0; l < HOST_LANES; l++)
        for (unsigned i = 0; i < 4; i++)
            for (unsigned e = 0; e < 2; e++)
                std::memcpy((unsigned char *)w->out[l] + i * 4 + e * 2, host_at(w->address[i * 8 + l % 4 * 2 + e], 16, 16) + l / 4 * 2, 2);
    host_together_done(w);
}

static inline float __shfl_xor_sync(unsigned, float v, int other)
{
    host_warp *w = host_my_warp();
    unsigned lane = host_now->index % HOST_LANES;
    float got;
    w->in[lane] = &v;
    w->out[lane] = &got;
    w->address[lane] = lane ^ (unsigned)other;
    if (!host_together(w)) return got;
    for (unsigned l = 0; l < HOST_LANES; l++) *(float *)w->out[l] = *(const float *)w->in[w->address[l]];
    host_together_done(w);
    return got;
}

struct host_operands {
    unsigned a[4], b[2];
    float *d;
};

static inline float host_f16(unsigned short v)
{
    _Float16 h;
    std::memcpy(&h, &v, sizeof h);
    return (float)h;
}

static inline float host_bf16(unsigned short v)
{
    return __uint_as_float((unsigned)v << 16);
}

/* D += A B of 16 x 8 x 16 halves, or 16 x 8 x 8 words of which the lowest bits do not count. */
template <float (*LOAD)(unsigned short)> static void host_product(const host_operands *const o[HOST_LANES])
{
    constexpr int each = LOAD ? 2 : 1, depth = 8 * each;
    float a[16][depth], b[depth][8];
    for (int l = 0; l < HOST_LANES; l++)
        for (int i = 0; i < 6; i++)
            for (int e = 0; e < each; e++) {
                unsigned word = i < 4 ? o[l]->a[i] : o[l]->b[i - 4];
                float v;
                if constexpr (LOAD != nullptr)
                    v = LOAD((unsigned short)(word >> 16 * e));
                else
                    v = __uint_as_float(word & 0xffffe000u);
                if (i < 4)
                    a[l / 4 + i % 2 * 8][l % 4 * each + i / 2 * 4 * each + e] = v;
                else
                    b[l % 4 * each + (i - 4) * 4 * each + e][l / 4] = v;
            }
    for (int l = 0; l < HOST_LANES; l++)
        for (int i = 0; i < 4; i++) {
            float sum = o[l]->d[i];
            for (int k = 0; k < depth; k++) sum += a[l / 4 + i / 2 * 8][k] * b[k][l % 4 * 2 + i % 2];
            o[l]->d[i] = sum;
        }
}

static inline void host_mma(float *d, const unsigned *a, unsigned b0, unsigned b1, void (*product)(const host_operands *const *))
{
    host_warp *w = host_my_warp();
    host_operands mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}, d};
    const host_operands *all[HOST_LANES];
    w->in[host_now->index % HOST_LANES] = &mine;
    if (!host_together(w)) return;
    for (int l = 0; l < HOST_LANES; l++) all[l] = (const host_operands *)w->in[l];
    product(all);
    host_together_done(w);
}

static inline void ptx_mma_f16(float d[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    host_mma(d, a, b0, b1, host_product<host_f16>);
}

static inline void ptx_mma_bf16(float d[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    host_mma(d, a, b0, b1, host_product<host_bf16>);
}

static inline void ptx_mma_tf32(float d[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    host_mma(d, a, b0, b1, host_product<nullptr>);
}

static inline float ptx_rcp(float x)
{
    return 1.0f / x;
}

static inline float ptx_exp2(float x)
{
    return std::exp2(x);
}

static inline float ptx_power(float x)
{
    return std::exp2(x);
}

static inline unsigned ptx_pack_f16(float low, float high)
{
    const _Float16 h[2] = {(_Float16)low, (_Float16)high};
    unsigned v;
    std::memcpy(&v, h, sizeof v);
    return v;
}

/* To nearest, ties to even. */
static inline unsigned ptx_pack_bf16(float low, float high)
{
    unsigned v[2] = {__float_as_uint(low), __float_as_uint(high)};
    for (unsigned &w : v) w = (w & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (w + 0x7fff + (w >> 16 & 1)) >> 16;
    return v[0] | v[1] << 16;
}

static inline unsigned ptx_pair_f16(float low, float high)
{
    return ptx_pack_f16(low, high);
}

static inline unsigned ptx_pair_bf16(float low, float high)
{
    return ptx_pack_bf16(low, high);
}

/* To nearest, ties away from zero. */
static inline unsigned ptx_tf32(unsigned v)
{
    return (v & 0x7f800000u) == 0x7f800000u ? v : (v + 0x1000u) & 0xffffe000u;
}

template <typename... A> struct host_work {
    void (*kernel)(A...);
    void **parameter;

    template <size_t... I> void run(std::index_sequence<I...>)
    {
        kernel(*static_cast<A *>(parameter[I])...);
    }

    static void call(void *work)
    {
        static_cast<host_work *>(work)->run(std::index_sequence_for<A...>{});
    }
};

template <typename... A> static void host_run_blocks(void (*kernel)(A...), unsigned blocks, unsigned threads, void **parameter)
{
    host_work<A...> work = {kernel, parameter};
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) host_block(threads, host_work<A...>::call, &work);
}

#define HOST_BLOCK(name)                                                                                     \
    HOST_SIZE(name)                                                                                          \
    extern "C" __attribute__((visibility("default"))) void name##_run(unsigned blocks, unsigned threads, void **parameter)  \
    {                                                                                                        \
        host_run_blocks(name, blocks, threads, parameter);                                                   \
    }
