/* What sm_90 adds, on the host, for host.h: barriers in shared memory, copies of boxes, products of warpgroups. Copies arrive at once
 * and products are made as late as they may be, so that a stage given back too early shows. */
#include <deque>
#include <map>

#include "hostmap.h"

#define __grid_constant__

static inline void __trap()
{
    host_fail("a trap");
}

struct host_barrier {
    unsigned arrivals, pending, turn; /* turn: phases that are over */
    long bytes;                       /* to come */
    unsigned copied, seen;            /* phases up to the last one with a copy; those whose end a thread has waited for */
};

static thread_local std::map<unsigned, host_barrier> host_barriers;

static inline host_barrier *host_barrier_at(unsigned at)
{
    auto found = host_barriers.find(at);
    if (found == host_barriers.end()) host_fail("no barrier there");
    return &found->second;
}

static inline void host_barrier_check(host_barrier *b)
{
    if (b->pending || b->bytes) return;
    b->pending = b->arrivals;
    b->turn++;
}

/* A copy still on its way when its block ends is written over the memory of the next one. */
static inline void host_barriers_over()
{
    for (const auto &b : host_barriers)
        if (b.second.copied > b.second.seen) host_fail("a copy that nothing waits for");
    host_barriers.clear();
}

static inline void ptx_barrier_init(unsigned at, unsigned arrivals)
{
    host_at(at, 8, 8);
    host_barriers[at] = {arrivals, arrivals, 0, 0, 0, 0};
    host_over = host_barriers_over;
}

static inline void ptx_barriers_ready()
{
}

static inline void ptx_arrive_bytes(unsigned at, unsigned bytes)
{
    host_barrier *b = host_barrier_at(at);
    if (!b->pending || bytes >= 1u << 20) host_fail("a bad arrival");
    b->pending--;
    b->bytes += bytes;
    host_barrier_check(b);
}

static inline void ptx_arrive(unsigned at)
{
    ptx_arrive_bytes(at, 0);
}

static inline void ptx_await(unsigned at, unsigned phase)
{
    host_barrier *b = host_barrier_at(at);
    if (b->turn % 2 == phase) host_wait(&b->turn);
    if (b->seen < b->turn) b->seen = b->turn;
}

static inline void host_arrived(unsigned barrier, long bytes)
{
    host_barrier *b = host_barrier_at(barrier);
    b->bytes -= bytes;
    b->copied = b->turn + 1;
    host_barrier_check(b);
}

static inline void ptx_copy_bytes(unsigned to, const void *from, unsigned bytes, unsigned barrier)
{
    if (bytes % 16 || (uintptr_t)from % 16) host_fail("a bad bulk copy");
    std::memcpy(host_at(to, bytes, 16), from, bytes);
    host_arrived(barrier, bytes);
}

static inline void ptx_map_ahead(const void *)
{
}

static inline void ptx_grid_wait()
{
}

static inline void ptx_grid_go()
{
}

/* Where a swizzle puts an address: parts of 16 bytes change places within 8 rows of 32, 64 or 128 bytes. */
static inline unsigned host_swizzled(unsigned address, unsigned swizzle)
{
    unsigned mask = (1u << swizzle) - 1;
    return address ^ (address >> 7 & mask) << 4;
}

template <typename... C> static inline void ptx_copy_box(unsigned to, const void *map, unsigned barrier, C... corner)
{
    const host_map *m = (const host_map *)map;
    const long c[] = {corner...};
    unsigned total = 1, row = m->box[0] * m->size;
    if (sizeof...(C) != m->rank || to % 128) host_fail("a bad box");
    for (unsigned i = 0; i < m->rank; i++) total *= m->box[i];
    host_at(to, total * m->size, 128);
    for (unsigned n = 0; n < total; n++) {
        const unsigned char *from = (const unsigned char *)m->address;
        bool inside = true;
        unsigned left = n;
        for (unsigned i = 0; i < m->rank; i++) {
            long at = c[i] + left % m->box[i];
            left /= m->box[i];
            inside = inside && at >= 0 && at < (long)m->dim[i];
            from += at * (long)(i ? m->stride[i - 1] : m->size);
        }
        unsigned char *put = host_shared + host_swizzled(to + n / m->box[0] * row + n % m->box[0] * m->size, m->swizzle);
        if (inside)
            std::memcpy(put, from, m->size);
        else
            std::memset(put, 0, m->size);
    }
    host_arrived(barrier, (long)total * m->size);
}

/* --- products of warpgroups --------------------------------------------------------------------------------- */

enum { HOST_GROUP = 128, HOST_GROUPS = HOST_THREADS / HOST_GROUP };

struct host_wgmma {
    unsigned long long a, b;
    int n;
    float *d[HOST_GROUP];
    float (*load)(unsigned short);
    bool rows;                        /* the left operand was in registers, those of each thread for two rows */
    unsigned left[HOST_GROUP][2];
};

struct host_warpgroup {
    std::deque<host_wgmma> products; /* not made */
    std::deque<size_t> groups;       /* how many of them each committed group has */
    size_t open, first;              /* products after the last commit; number of products[0] */
    size_t issued[HOST_GROUP], committed[HOST_GROUP];
    size_t commits;
    unsigned came, turn;
};

static thread_local host_warpgroup host_warpgroups[HOST_GROUPS];

static inline host_warpgroup *host_my_group()
{
    return &host_warpgroups[host_now->index / HOST_GROUP];
}

/* Element k of row r of an operand whose rows' first 16 bytes are where the descriptor says. */
static inline float host_operand(const host_wgmma *p, unsigned long long descriptor, int r, int k)
{
    unsigned start = (unsigned)(descriptor & 0x3fff) << 4, stride = (unsigned)(descriptor >> 32 & 0x3fff) << 4;
    unsigned kind = (unsigned)(descriptor >> 62), swizzle = 4 - kind, pitch = 16u << swizzle;
    if (!kind || descriptor >> 49 & 7) host_fail("a bad descriptor");
    unsigned at = host_swizzled(start + (unsigned)r / 8 * stride + (unsigned)r % 8 * pitch + (unsigned)k * 2, swizzle);
    unsigned short v;
    std::memcpy(&v, host_at(at, 2, 2), 2);
    return p->load(v);
}

/* Element k of row r, which a thread has in registers. */
static inline float host_register(const host_wgmma *p, int r, int k)
{
    return p->load((unsigned short)(p->left[r / 16 * 32 + r % 8 * 4 + k % 8 / 2][k / 8] >> k % 2 * 16));
}

static inline void host_make(const host_wgmma *p)
{
    float a[64][16];
    for (int r = 0; r < 64; r++)
        for (int k = 0; k < 16; k++) a[r][k] = p->rows ? host_register(p, r, k) : host_operand(p, p->a, r, k);
    for (int n = 0; n < p->n; n++) {
        float b[16];
        for (int k = 0; k < 16; k++) b[k] = host_operand(p, p->b, n, k);
        for (int r = 0; r < 64; r++) {
            float *d = &p->d[r / 16 * 32 + r % 8 * 4 + n % 8 / 2][n / 8 * 4 + r % 16 / 8 * 2 + n % 2];
            for (int k = 0; k < 16; k++) *d += a[r][k] * b[k];
        }
    }
}

template <int N> static inline host_wgmma *host_issue(float (&d)[N], unsigned long long a, unsigned long long b, float (*load)(unsigned short))
{
    host_warpgroup *g = host_my_group();
    unsigned lane = host_now->index % HOST_GROUP;
    size_t number = g->issued[lane]++;
    if (number == g->first + g->products.size()) {
        g->products.push_back({a, b, 2 * N, {}, load, false, {}});
        g->open++;
    }
    host_wgmma *p = &g->products[number - g->first];
    if (p->a != a || p->b != b) host_fail("another product than its neighbours'");
    p->d[lane] = d;
    return p;
}

template <int N>
static inline void host_issue_rows(float (&d)[N], unsigned low, unsigned high, unsigned long long b, float (*load)(unsigned short))
{
    host_wgmma *p = host_issue(d, 0, b, load);
    p->rows = true;
    p->left[host_now->index % HOST_GROUP][0] = low;
    p->left[host_now->index % HOST_GROUP][1] = high;
}

template <int N> static inline void ptx_wgmma_f16(float (&d)[N], unsigned long long a, unsigned long long b)
{
    host_issue(d, a, b, host_f16);
}

template <int N> static inline void ptx_wgmma_bf16(float (&d)[N], unsigned long long a, unsigned long long b)
{
    host_issue(d, a, b, host_bf16);
}

template <int N> static inline void ptx_wgmma_rows_f16(float (&d)[N], unsigned low, unsigned high, unsigned long long b)
{
    host_issue_rows(d, low, high, b, host_f16);
}

template <int N> static inline void ptx_wgmma_rows_bf16(float (&d)[N], unsigned low, unsigned high, unsigned long long b)
{
    host_issue_rows(d, low, high, b, host_bf16);
}

static inline void ptx_wgmma_fence()
{
}

static inline void ptx_wgmma_commit()
{
    host_warpgroup *g = host_my_group();
    if (g->committed[host_now->index % HOST_GROUP]++ < g->commits) return;
    g->commits++;
    g->groups.push_back(g->open);
    g->open = 0;
}

template <int PENDING> static inline void ptx_wgmma_settle()
{
    host_warpgroup *g = host_my_group();
    if (++g->came < HOST_GROUP) {
        host_wait(&g->turn);
        return;
    }
    while (g->groups.size() > PENDING) {
        for (size_t i = 0; i < g->groups.front(); i++, g->first++) {
            host_make(&g->products.front());
            g->products.pop_front();
        }
        g->groups.pop_front();
    }
    g->came = 0;
    g->turn++;
}

template <int N> static inline void ptx_registers_down()
{
}

template <int N> static inline void ptx_registers_up()
{
}

/* --- exchange between lanes --------------------------------------------------------------------------------- */

template <typename T> static inline T host_exchange(T v, unsigned from)
{
    host_warp *w = host_my_warp();
    T got = v;
    unsigned lane = host_now->index % HOST_LANES;
    w->in[lane] = &v;
    w->out[lane] = &got;
    w->address[lane] = from;
    if (!host_together(w)) return got;
    for (unsigned l = 0; l < HOST_LANES; l++) *(T *)w->out[l] = *(const T *)w->in[w->address[l]];
    host_together_done(w);
    return got;
}

template <typename T> static inline T __shfl_sync(unsigned, T v, int lane)
{
    return host_exchange(v, (unsigned)lane);
}

template <typename T> static inline T __shfl_xor_sync(unsigned, T v, int mask)
{
    return host_exchange(v, host_now->index % HOST_LANES ^ (unsigned)mask);
}
