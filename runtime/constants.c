#include "constants.h"

#include <fenv.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cpucount.h"
#include "cpufeature.h"
#include "packing.h"
#include "pool.h"

/* --- checks --------------------------------------------------------------------------------------------------- */

static int is_inside(uint64_t from, uint64_t size, uint64_t pool)
{
    return from % YM_ALIGN == 0 && from <= pool && size <= pool - from;
}

/* Bytes as they are. */
static yolort_status check_copy(const struct rt_tables *t, const struct ym_constant *c, uint32_t i, const struct rt_error *e)
{
    RT_CHECK(e, FORMAT, MOD_CONSTANT_COPY, !c->arg && !c->dtype && !c->packing && !c->scaled,
             "CONSTANT %u: has no weight, but says how it is packed", i);
    RT_CHECK(e, FORMAT, MOD_CONSTANT_INSIDE, is_inside(c->from, c->size, t->constants.size),
             "CONSTANT %u: at %" PRIu64 ", outside CONSTANTS or not aligned", i, c->from);
    return YOLORT_OK;
}

static struct rt_packing packing_of(const struct rt_tables *t, const struct ym_constant *c, uint64_t *elems)
{
    struct rt_packing p = {0};
    const struct ym_weight *w = &t->weight[c->weight];
    if (!rt_packing_of(&p, c->packing, c->arg, w->rank, w->dim, (int64_t)rt_dtype_size(c->dtype), elems)) *elems = 0;
    return p;
}

static yolort_status check_packed(const struct rt_tables *t, const struct ym_constant *c, uint32_t i, const struct rt_error *e)
{
    RT_CHECK(e, FORMAT, MOD_CONSTANT_WEIGHT, c->weight < t->nweight, "CONSTANT %u: weight %u of %u", i, c->weight, t->nweight);
    const struct ym_weight *w = &t->weight[c->weight];
    int widens = w->dtype == YOLORT_F16 && c->dtype == YOLORT_F32;
    RT_CHECK(e, FORMAT, MOD_CONSTANT_TYPE, (w->dtype == c->dtype || widens) && c->scaled <= (c->dtype == YOLORT_F32),
             "CONSTANT %u: can't be made of type %u from type %u", i, c->dtype, w->dtype);
    uint64_t elems, each = rt_dtype_size(c->dtype), size;
    struct rt_packing p = packing_of(t, c, &elems);
    RT_CHECK(e, FORMAT, MOD_CONSTANT_FORM, elems, "CONSTANT %u: packing %u by %d of weight %u", i, c->packing, c->arg, c->weight);
    RT_CHECK(e, FORMAT, MOD_CONSTANT_SIZE, !__builtin_mul_overflow(elems, each, &size) && size == c->size,
             "CONSTANT %u: %" PRIu64 " bytes, its form has %" PRIu64 " elements", i, c->size, elems);
    RT_CHECK(e, FORMAT, MOD_CONSTANT_FACTORS,
             c->scaled ? is_inside(c->from, (uint64_t)p.co * sizeof(double), t->constants.size) : c->from == 0,
             "CONSTANT %u: factors at %" PRIu64 ", outside CONSTANTS or not aligned", i, c->from);
    return YOLORT_OK;
}

/* end: where the row before ends; moved to where this one does. */
static yolort_status check_row(const struct rt_tables *t, uint32_t i, uint64_t *end, const struct rt_error *e)
{
    static const uint8_t zero[sizeof t->constant->pad];
    const struct ym_constant *c = &t->constant[i];
    uint64_t most = t->file.header->file_size * YM_MAX_GROWTH, start = rt_align(*end, YM_ALIGN);
    RT_CHECK(e, FORMAT, MOD_CONSTANT_PAD, !memcmp(c->pad, zero, sizeof zero), "CONSTANT %u: padding is not zero", i);
    RT_CHECK(e, FORMAT, MOD_CONSTANT_PLACE, c->offset == start, "CONSTANT %u: at %" PRIu64 " instead of %" PRIu64, i, c->offset, start);
    RT_CHECK(e, LIMIT, MOD_CONSTANT_LIMIT, start <= most && c->size <= most - start,
             "CONSTANT %u: %" PRIu64 " bytes; with those before at most %" PRIu64 " are allowed", i, c->size, most);
    *end = start + c->size;
    return c->weight == YM_ANY ? check_copy(t, c, i, e) : check_packed(t, c, i, e);
}

yolort_status rt_constants_check(struct rt_tables *t, const struct rt_error *e)
{
    uint64_t end = 0;
    struct rt_span rows = rt_section(&t->file, YM_CONSTANT, t->index);
    t->constants = rt_section(&t->file, YM_CONSTANTS, t->index);
    t->nconstant = 0;
    if (!rows.data) return YOLORT_OK;
    RT_CHECK(e, FORMAT, MOD_CONSTANT_WHOLE, rows.size && rows.size % sizeof *t->constant == 0, "CONSTANT: %zu bytes are no rows of %zu",
             rows.size, sizeof *t->constant);
    t->constant = (const struct ym_constant *)(const void *)rows.data;
    t->nconstant = (uint32_t)(rows.size / sizeof *t->constant);
    for (uint32_t i = 0; i < t->nconstant; i++) RT_TRY(check_row(t, i, &end, e));
    t->stored = t->constants;
    t->constants = (struct rt_span){NULL, (size_t)end};
    return YOLORT_OK;
}

/* --- making ------------------------------------------------------------------------------------------------------ */

/* All parts of all rows are units of one piece of work: row i has those from before[i] on. */
struct making {
    const struct rt_tables *t;
    int64_t *before; /* nconstant + 1 */
    float *stage;    /* stage_floats for each thread */
    size_t stage_floats;
    uint8_t *out;
    void (*pack)(const struct rt_packing *p, const struct rt_pack_rows *r, float *stage, void *out);
};

static void make_part(const struct making *m, uint32_t i, int64_t part, float *stage)
{
    const struct ym_constant *c = &m->t->constant[i];
    uint8_t *out = m->out + c->offset;
    if (c->weight == YM_ANY) {
        if (c->size) memcpy(out, m->t->stored.data + c->from, c->size);
        return;
    }
    uint64_t elems;
    struct rt_packing p = packing_of(m->t, c, &elems);
    const struct ym_weight *w = &m->t->weight[c->weight];
    struct rt_pack_rows r = {.from = w->dtype};
    rt_packing_part(&p, part, &r.first, &r.n);
    r.rows = m->t->weights.data + w->offset + (uint64_t)(r.first * p.ci * p.taps) * rt_dtype_size(w->dtype);
    if (c->scaled) r.factor = (const double *)(const void *)(m->t->stored.data + c->from);
    m->pack(&p, &r, stage, out);
}

static uint32_t row_of(const struct making *m, int64_t unit)
{
    uint32_t low = 0, high = m->t->nconstant;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (m->before[middle] <= unit) low = middle;
        else high = middle;
    }
    return low;
}

/* Numbers are rounded as they are at compile time, whatever the caller has set. */
static void make_units(void *ctx, int worker, int64_t begin, int64_t end)
{
    struct making *m = ctx;
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    uint32_t i = row_of(m, begin);
    for (int64_t unit = begin; unit < end; unit++) {
        while (unit >= m->before[i + 1]) i++;
        make_part(m, i, unit - m->before[i], m->stage + (size_t)worker * m->stage_floats);
    }
    fesetenv(&callers);
}

/* Counts units, and the floats that any of them stages. */
static void count_units(struct making *m)
{
    m->before[0] = 0;
    for (uint32_t i = 0; i < m->t->nconstant; i++) {
        const struct ym_constant *c = &m->t->constant[i];
        m->before[i + 1] = m->before[i] + 1;
        if (c->weight == YM_ANY) continue;
        uint64_t elems;
        struct rt_packing p = packing_of(m->t, c, &elems);
        m->before[i + 1] = m->before[i] + rt_packing_parts(&p);
        int stages = c->scaled || m->t->weight[c->weight].dtype != c->dtype;
        size_t need = (size_t)((p.co < RT_PACK_ROWS ? p.co : RT_PACK_ROWS) * p.ci * p.taps);
        if (stages && need > m->stage_floats) m->stage_floats = need;
    }
}

/* They pay from some megabytes on. */
static int threads_for(const struct rt_tables *t)
{
    enum { SERIAL = 4 << 20, MOST = 8 };
    int threads = t->file.limits->threads ? t->file.limits->threads : rt_cpu_count();
    if (t->constants.size < SERIAL) threads = 1;
    return threads < MOST ? threads : MOST;
}

static yolort_status make(struct making *m, const struct rt_error *e)
{
    count_units(m);
    int threads = threads_for(m->t);
    if (m->stage_floats > SIZE_MAX / sizeof *m->stage / 8) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    m->stage = malloc(m->stage_floats * sizeof *m->stage * (size_t)threads + 1);
    if (!m->stage) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    struct rt_pool *pool = threads > 1 ? rt_pool_new(threads, 0) : NULL;
    if (pool) rt_pool_run(pool, make_units, m, m->before[m->t->nconstant], 1);
    else make_units(m, 0, 0, m->before[m->t->nconstant]);
    rt_pool_free(pool);
    free(m->stage);
    return YOLORT_OK;
}

yolort_status rt_constants_make(struct rt_block *out, struct rt_tables *t, const struct rt_error *e)
{
    struct making m = {.t = t, .pack = rt_pack};
    if (!t->nconstant) return YOLORT_OK;
    if (rt_block_new(out, t->constants.size, 0)) return rt_fail(e, YOLORT_OOM_HOST, "no memory for %zu bytes", t->constants.size);
#ifdef RT_PACKING_AVX2
    if (rt_cpu_has("avx2")) m.pack = rt_pack_avx2;
#endif
    m.out = out->data;
    m.before = malloc(((size_t)t->nconstant + 1) * sizeof *m.before);
    yolort_status s = m.before ? make(&m, e) : rt_fail(e, YOLORT_OOM_HOST, "no memory");
    free(m.before);
    if (!s) t->constants.data = out->data;
    return s;
}
