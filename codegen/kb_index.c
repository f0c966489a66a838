#include "kb_index.h"

/* --- ranges, by interval arithmetic over the nodes in order ------------------------------------------------------ */

struct range {
    int64_t lo, hi; /* both included */
};

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t most(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

static bool add(struct range x, struct range y, struct range *out)
{
    return !__builtin_add_overflow(x.lo, y.lo, &out->lo) && !__builtin_add_overflow(x.hi, y.hi, &out->hi);
}

static bool sub(struct range x, struct range y, struct range *out)
{
    return !__builtin_sub_overflow(x.lo, y.hi, &out->lo) && !__builtin_sub_overflow(x.hi, y.lo, &out->hi);
}

static bool mul(struct range x, struct range y, struct range *out)
{
    int64_t p[4];
    if (__builtin_mul_overflow(x.lo, y.lo, &p[0]) || __builtin_mul_overflow(x.lo, y.hi, &p[1]) ||
        __builtin_mul_overflow(x.hi, y.lo, &p[2]) || __builtin_mul_overflow(x.hi, y.hi, &p[3]))
        return false;
    out->lo = least(least(p[0], p[1]), least(p[2], p[3]));
    out->hi = most(most(p[0], p[1]), most(p[2], p[3]));
    return true;
}

/* Of x >= 0 and y > 0, as the builder promises. */
static struct range quotient(struct range x, struct range y)
{
    return (struct range){most(x.lo, 0) / most(y.hi, 1), most(x.hi, 0) / most(y.lo, 1)};
}

static struct range both(struct range x, struct range y)
{
    return (struct range){least(x.lo, y.lo), most(x.hi, y.hi)};
}

/* Range of an index node; false when it is not known or leaves 64 bits. */
static bool range_of(const struct kb_node *n, const struct range *r, int64_t total, struct range *out)
{
    struct range x = r[n->a], y = r[n->b];
    switch (n->code) {
    case KB_IMM_I: *out = (struct range){n->imm.i, n->imm.i}; return true;
    case KB_UNIT: *out = (struct range){0, total - 1}; return true;
    case KB_LANE: *out = (struct range){x.lo, x.hi + KB_MAX_LANES}; return x.hi < INT64_MAX - KB_MAX_LANES;
    case KB_IADD: return add(x, y, out);
    case KB_ISUB: return sub(x, y, out);
    case KB_IMUL: return mul(x, y, out);
    case KB_IDIV: *out = quotient(x, y); return true;
    case KB_IREM: *out = (struct range){0, most(least(x.hi, y.hi - 1), 0)}; return true;
    case KB_IMIN: *out = (struct range){least(x.lo, y.lo), least(x.hi, y.hi)}; return true;
    case KB_IMAX: *out = (struct range){most(x.lo, y.lo), most(x.hi, y.hi)}; return true;
    case KB_SELECT: *out = both(y, r[n->c]); return true;
    case KB_FTOI: *out = (struct range){INT32_MIN, INT32_MAX}; return true; /* saturates at the width it is drawn with */
    case KB_LOOP: /* the value after the last turn counts too */
        *out = (struct range){x.lo, y.hi};
        return !__builtin_add_overflow(most(x.lo, y.hi - 1), n->imm.i, &out->hi);
    default: return false;
    }
}

bool kb_index_small(struct yir_arena *a, const struct kb *b, int64_t total)
{
    struct yir_arena_mark m = yir_arena_mark(a);
    struct range *r = yir_alloc_n(a, b->nnode, sizeof *r);
    bool small = true;
    for (uint32_t i = 1; i < b->nnode && small; i++) {
        if (b->node[i].type != KB_I) continue;
        small = range_of(&b->node[i], r, total, &r[i]) && r[i].lo >= INT32_MIN && r[i].hi <= INT32_MAX;
    }
    yir_arena_reset(a, m);
    return small;
}

/* --- what they are multiples of ----------------------------------------------------------------------------------- */

enum { MOST_MULTIPLE = 16 }; /* log2 */

static int trailing_zeros(int64_t v)
{
    int n = 0;
    while (n < MOST_MULTIPLE && !((uint64_t)v >> n & 1)) n++;
    return n;
}

static int64_t multiple_of(const struct kb *b, const uint8_t *log, const struct kb_node *n)
{
    const struct kb_node *y = &b->node[n->b];
    switch (n->code) {
    case KB_IMM_I: return trailing_zeros(n->imm.i);
    case KB_GIVEN: return trailing_zeros(n->c);
    case KB_LANE: return log[n->a];
    case KB_IADD:
    case KB_ISUB:
    case KB_IMIN:
    case KB_IMAX:
    case KB_IREM: return least(log[n->a], log[n->b]);
    case KB_IMUL: return least(log[n->a] + log[n->b], MOST_MULTIPLE);
    case KB_SELECT: return least(log[n->b], log[n->c]);
    case KB_LOOP: return least(log[n->a], trailing_zeros(n->imm.i));
    case KB_IDIV:
        if (y->code != KB_IMM_I || (y->imm.i & (y->imm.i - 1)) || log[n->a] < log[n->b]) return 0;
        return log[n->a] - log[n->b];
    default: return 0;
    }
}

uint8_t *kb_index_multiples(struct yir_arena *a, const struct kb *b)
{
    uint8_t *log = yir_alloc_n(a, b->nnode, sizeof *log);
    for (uint32_t i = 1; i < b->nnode; i++)
        if (b->node[i].type == KB_I) log[i] = (uint8_t)multiple_of(b, log, &b->node[i]);
    return log;
}
