/* Attention in memory: products of maps with maps. What must lie side by side as vectors (keys, or queries) is turned into scratch
 * once a unit; sums then grow in registers as those of a convolution. */
#include "fast_sums.h"

enum { UNITS = 16, LEAST_CHUNK = 64 }; /* units of an image worth having; queries worth turning keys for */
enum { MOST_TURNED = 1 << 22 };        /* elements of scratch */

/* Queries and keys of one head and area, and how they lie in memory. */
struct pairs {
    uint32_t first, last, op;
    yir_ref q, k;
    int64_t heads, areas, dim, qat, kat; /* channels of a head's part, and where it starts in the head's share */
    int64_t queries, keys;               /* of an area */
    int64_t q_step, k_step;              /* elements from one position to the next */
    double scale;
};

static int64_t positions(const struct yir_tdesc *d)
{
    return d->dim[2] * d->dim[3];
}

static struct pairs pairs_of(const struct yir_func *f, uint32_t first, uint32_t last, uint32_t op)
{
    struct pairs p = {.first = first, .last = last, .op = op, .q = yir_src(f, op, 0), .k = yir_src(f, op, 1), .scale = 1};
    const struct yir_tdesc *q = yir_desc(f, p.q), *k = yir_desc(f, p.k);
    p.heads = p.areas = 1;
    p.dim = q->dim[1];
    if (f->op[op].code != YIR_contrast) {
        const struct yir_a_attn *a = yir_attrs(f, op);
        p.heads = a->heads;
        p.areas = a->areas;
        p.dim = a->dim;
        p.qat = a->qat;
        p.kat = a->kat;
        p.scale = (double)a->scale;
    }
    p.queries = positions(q) / p.areas;
    p.keys = positions(k) / p.areas;
    p.q_step = f->place[yir_index(p.q)].stride[3];
    p.k_step = f->place[yir_index(p.k)].stride[3];
    return p;
}

static bool readable_pair(const struct yir_func *f, uint32_t op)
{
    return cg_readable(f, f->op[op].kernel, yir_src(f, op, 0)) && cg_readable(f, f->op[op].kernel, yir_src(f, op, 1));
}

/* --- units -------------------------------------------------------------------------------------------------- */

/* A head's queries of an area in chunks of equal length; the last starts early. */
struct share {
    int64_t chunk;
    kv n, head, area, q0; /* image; first query within the area */
};

static int64_t chunk_of(int64_t parts, int64_t queries)
{
    int64_t chunks = (UNITS + parts - 1) / parts, most = queries / LEAST_CHUNK;
    if (chunks > most) chunks = most;
    return chunks > 1 ? (queries + chunks - 1) / chunks : queries;
}

static struct share begin_share(struct kb *b, int64_t heads, int64_t areas, int64_t queries)
{
    struct share s = {.chunk = chunk_of(heads * areas, queries)};
    int64_t chunks = (queries + s.chunk - 1) / s.chunk;
    kv u;
    cg_split_unit(b, heads * areas * chunks, &s.n, &u);
    kv part = kb_idiv(b, u, kb_immi(b, chunks));
    kv number = kb_irem(b, u, kb_immi(b, chunks));
    s.head = kb_irem(b, part, kb_immi(b, heads));
    s.area = kb_idiv(b, part, kb_immi(b, heads));
    kv start = kb_muli(b, number, s.chunk);
    s.q0 = cg_early(b, start, queries, s.chunk);
    return s;
}

/* Position in the map of element i of the unit's area. */
static kv in_area(struct kb *b, const struct share *s, int64_t size, kv i)
{
    kv start = kb_muli(b, s->area, size);
    return kb_iadd(b, start, i);
}

/* Element of channel head * share + at at the map's position. */
static kv head_address(struct kb *b, yir_ref x, const struct share *s, int64_t heads, int64_t at, kv position)
{
    kv zero = kb_immi(b, 0);
    kv first = kb_muli(b, s->head, yir_desc(b->f, x)->dim[1] / heads);
    kv channel = kb_addi(b, first, at);
    return kb_address(b, x, (kv[]){s->n, channel, zero, position});
}

/* --- turning ------------------------------------------------------------------------------------------------ */

/* Scratch [channels][positions] from memory with adjacent channels. */
struct turned {
    int from, scratch;
    int64_t step, positions; /* elements from one position to the next; at least a vector of them */
    kv first, p0;
};

static void turn_channels(struct kb *b, void *ctx, kv c)
{
    const struct turned *t = ctx;
    int channels = b->valid;
    kv v[KB_MAX_LANES], shift = kb_muli(b, t->p0, t->step), base = kb_iadd(b, t->first, shift);
    for (int i = 0; i < b->lanes; i++) {
        kv row = kb_addi(b, base, i * t->step);
        kv at = kb_iadd(b, row, c);
        v[i] = kb_load(b, t->from, at);
    }
    cg_turn(b, v);
    b->valid = b->lanes;
    kv line = kb_muli(b, kb_unmarked(b, c), t->positions);
    kv to = kb_iadd(b, line, t->p0);
    for (int i = 0; i < channels; i++) {
        kv row = kb_addi(b, to, i * t->positions);
        kb_store(b, t->scratch, kb_lane(b, row), v[i]);
    }
    b->valid = channels;
}

static void turn_map(struct kb *b, struct turned *t, int64_t channels)
{
    int64_t lanes = b->target->lanes;
    kv start = kb_loop(b, kb_immi(b, 0), kb_immi(b, t->positions), lanes);
    t->p0 = cg_early(b, start, t->positions, lanes);
    cg_channels(b, 0, channels, turn_channels, t);
    kb_end(b);
}

/* --- scores and contrast: all products ---------------------------------------------------------------------- */

bool guard_attn_dot(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = cg_only_op(f, first, last, YIR_contrast);
    bool scores = f->op[last].code == YIR_attn_scores && first == last;
    if (t->lanes == 1 || (!op && !scores)) return false;
    if (scores) op = last;
    if (!readable_pair(f, op)) return false;
    const struct pairs p = pairs_of(f, first, last, op);
    if (p.keys < t->lanes || p.keys > MOST_TURNED / p.dim) return false;
    return scores ? cg_rows_of(f, yir_mkref(YIR_VAL, op), &(struct cg_rows){0}) : cg_pointwise(f, first, last, op);
}

/* Multiply-adds at two vectors a cycle. */
static size_t list_products(double products, const struct kb_target *t, struct cg_config *out)
{
    *out = (struct cg_config){.cycles = products / (2 * t->lanes) * 1.3};
    return 1;
}

static double pair_products(const struct pairs *p)
{
    return (double)(p->heads * p->areas * p->queries) * (double)(p->keys * p->dim);
}

size_t list_attn_dot(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    uint32_t op = cg_only_op(f, first, last, YIR_contrast);
    const struct pairs p = pairs_of(f, first, last, op ? op : last);
    (void)most;
    return list_products(pair_products(&p), t, out);
}

struct dot {
    struct pairs p;
    struct share at;
    struct cg_sums s;
    kv query, key;      /* first of a block: position in the map; within the area */
    kv factor, bias;    /* of contrast */
};

static void store_scores(struct kb *b, const struct dot *d, kv acc[][MAX_VECTORS])
{
    const int64_t *stride = b->f->place[d->p.op].stride;
    int mem = kb_mem_value(b, yir_mkref(YIR_VAL, d->p.op));
    kv zero = kb_immi(b, 0), scale = kb_immf(b, d->p.scale);
    kv first = kb_address(b, yir_mkref(YIR_VAL, d->p.op), (kv[]){d->at.n, zero, d->query, d->at.head, d->key});
    for (int64_t i = 0; i < d->s.pixels; i++)
        for (int v = 0; v < d->s.vectors; v++) {
            kv row = kb_addi(b, first, i * stride[2]);
            kv to = cg_vector(b, &d->s, row, v);
            kv sum = kb_get(b, acc[i][v]);
            kb_store(b, mem, to, kb_fmul(b, sum, scale));
        }
}

static void store_contrast(struct kb *b, const struct dot *d, kv acc[][MAX_VECTORS])
{
    kv zero = kb_immi(b, 0);
    for (int64_t i = 0; i < d->s.pixels; i++)
        for (int v = 0; v < d->s.vectors; v++) {
            kv sum = kb_get(b, acc[i][v]);
            kv value = kb_fma(b, sum, d->factor, d->bias);
            kv channel = cg_vector(b, &d->s, d->key, v);
            kv position = kb_addi(b, d->query, i);
            cg_bind(b, d->p.op, value);
            cg_store_all(b, d->p.first, d->p.last, (kv[]){d->at.n, channel, zero, position});
            b->nbound--;
        }
}

static void read_contrast(struct kb *b, struct dot *d)
{
    kv zero = kb_immi(b, 0);
    kv scale = kb_ref_at(b, yir_src(b->f, d->p.op, 2), &zero);
    d->factor = kb_exp(b, scale);
    d->bias = kb_ref_at(b, yir_src(b->f, d->p.op, 3), &zero);
}

/* All blocks of the unit: keys innermost, so that a block's queries stay near. */
static void dot_blocks(struct kb *b, struct dot *d, bool contrast)
{
    kv acc[MAX_PIXELS][MAX_VECTORS];
    int64_t block = (int64_t)d->s.vectors * b->target->lanes;
    b->lanes = b->valid = b->target->lanes;
    kv qi = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->at.chunk), d->s.pixels);
    kv start = cg_early(b, qi, d->at.chunk, d->s.pixels);
    kv within = kb_iadd(b, d->at.q0, start);
    d->query = in_area(b, &d->at, d->p.queries, within);
    kv x = head_address(b, d->p.q, &d->at, d->p.heads, d->p.qat, d->query);
    kv ki = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->p.keys), block);
    d->key = cg_early(b, ki, d->p.keys, block);
    cg_new_products(b, &d->s, x, d->key, acc);
    if (contrast) store_contrast(b, d, acc);
    else store_scores(b, d, acc);
    kb_end(b);
    kb_end(b);
    b->lanes = b->valid = 1;
}

/* The unit's keys, turned. */
static void turn_keys(struct kb *b, struct dot *d)
{
    struct turned t = {.from = kb_mem_value(b, d->p.k), .step = d->p.k_step, .positions = d->p.keys, .scratch = d->s.mem_w};
    kv start = in_area(b, &d->at, d->p.keys, kb_immi(b, 0));
    t.first = head_address(b, d->p.k, &d->at, d->p.heads, d->p.kat, start);
    turn_map(b, &t, d->p.dim);
}

void emit_fast_attn_dot(struct kb *b, struct cg_kernel *k)
{
    uint32_t contrast = cg_only_op(b->f, k->first, k->last, YIR_contrast);
    struct dot d = {.p = pairs_of(b->f, k->first, k->last, contrast ? contrast : k->last)};
    d.at = begin_share(b, d.p.heads, d.p.areas, d.p.queries);
    cg_choose_block(b->target, d.p.keys, d.at.chunk, &d.s);
    d.s.mem_x = kb_mem_value(b, d.p.q);
    d.s.mem_w = kb_mem_scratch(b, d.p.dim * d.p.keys);
    d.s.steps = d.p.dim;
    d.s.x_pixel = d.p.q_step;
    d.s.x_step = 1;
    d.s.w_step = d.p.keys;
    if (contrast) read_contrast(b, &d);
    turn_keys(b, &d);
    dot_blocks(b, &d, contrast);
}

/* --- the largest product ------------------------------------------------------------------------------------- */

bool guard_attn_peak(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    if (t->lanes == 1 || first != last || f->op[last].code != YIR_attn_peak || !readable_pair(f, last)) return false;
    const struct pairs p = pairs_of(f, first, last, last);
    int64_t chunk = chunk_of(p.heads * p.areas, p.queries);
    return chunk >= t->lanes && chunk <= MOST_TURNED / p.dim && cg_one_run(f, yir_mkref(YIR_VAL, last)) &&
           yir_tdesc(f->types, f->op[last].type)->dtype == YIR_F32;
}

size_t list_attn_peak(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                      size_t most)
{
    const struct pairs p = pairs_of(f, first, last, last);
    (void)most;
    return list_products(pair_products(&p), t, out);
}

/* The largest product of each of a block's queries with any key. */
static void peak_block(struct kb *b, struct dot *d, kv query, kv *top)
{
    kv acc[MAX_PIXELS][MAX_VECTORS], scale = kb_immf(b, d->p.scale);
    for (int v = 0; v < d->s.vectors; v++) top[v] = kb_var(b, kb_wide(b, kb_immf(b, -3.4028234663852886e38)));
    kv ki = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->p.keys), d->s.pixels);
    kv key = cg_early(b, ki, d->p.keys, d->s.pixels);
    kv place = in_area(b, &d->at, d->p.keys, key);
    kv x = head_address(b, d->p.k, &d->at, d->p.heads, d->p.kat, place);
    cg_new_products(b, &d->s, x, query, acc);
    for (int64_t i = 0; i < d->s.pixels; i++)
        for (int v = 0; v < d->s.vectors; v++) {
            kv sum = kb_get(b, acc[i][v]);
            kv score = kb_fmul(b, sum, scale);
            kv old = kb_get(b, top[v]);
            kb_set(b, top[v], kb_fmax(b, old, score));
        }
    kb_end(b);
}

/* Neighbouring queries of a head are no neighbours in the result: its elements go through the scratch from `spare` on. */
static void store_peaks(struct kb *b, struct dot *d, kv query, const kv *top, int64_t spare)
{
    int mem = kb_mem_value(b, yir_mkref(YIR_VAL, d->p.op));
    kv zero = kb_immi(b, 0);
    for (int v = 0; v < d->s.vectors; v++) {
        kv to = kb_lane(b, kb_immi(b, spare + (int64_t)v * b->lanes));
        kb_store(b, d->s.mem_w, to, kb_get(b, top[v]));
    }
    int64_t n = (int64_t)d->s.vectors * b->lanes;
    b->lanes = b->valid = 1;
    kv i = kb_loop(b, zero, kb_immi(b, n), 1);
    kv value = kb_load(b, d->s.mem_w, kb_addi(b, i, spare));
    kv in_chunk = kb_iadd(b, query, i);
    kv within = kb_iadd(b, d->at.q0, in_chunk);
    kv place = in_area(b, &d->at, d->p.queries, within);
    kv to = kb_address(b, yir_mkref(YIR_VAL, d->p.op), (kv[]){d->at.n, d->at.head, zero, place});
    kb_store(b, mem, to, value);
    kb_end(b);
}

void emit_fast_attn_peak(struct kb *b, struct cg_kernel *k)
{
    struct dot d = {.p = pairs_of(b->f, k->first, k->last, k->last)};
    d.at = begin_share(b, d.p.heads, d.p.areas, d.p.queries);
    cg_choose_block(b->target, d.at.chunk, d.p.keys, &d.s);
    int64_t lanes = b->target->lanes, block = d.s.vectors * lanes, spare = d.p.dim * d.at.chunk;
    d.s.mem_x = kb_mem_value(b, d.p.k);
    d.s.mem_w = kb_mem_scratch(b, spare + block);
    d.s.steps = d.p.dim;
    d.s.x_pixel = d.p.k_step;
    d.s.x_step = 1;
    d.s.w_step = d.at.chunk;
    struct turned t = {.from = kb_mem_value(b, d.p.q), .step = d.p.q_step, .positions = d.at.chunk, .scratch = d.s.mem_w};
    kv start = in_area(b, &d.at, d.p.queries, d.at.q0);
    t.first = head_address(b, d.p.q, &d.at, d.p.heads, d.p.qat, start);
    turn_map(b, &t, d.p.dim);
    kv qi = kb_loop(b, kb_immi(b, 0), kb_immi(b, d.at.chunk), block), top[MAX_VECTORS];
    kv query = cg_early(b, qi, d.at.chunk, block);
    b->lanes = b->valid = b->target->lanes;
    peak_block(b, &d, query, top);
    store_peaks(b, &d, query, top, spare);
    kb_end(b);
}

/* --- weighted sums of values ---------------------------------------------------------------------------------- */

struct mixing {
    uint32_t op;
    yir_ref w, v;
    int64_t heads, areas, dim, at, queries, keys;
};

static struct mixing mixing_of(const struct yir_func *f, uint32_t op)
{
    const struct yir_a_mix *a = yir_attrs(f, op);
    struct mixing m = {.op = op, .w = yir_src(f, op, 0), .v = yir_src(f, op, 1), .areas = a->areas, .dim = a->dim, .at = a->at};
    const struct yir_tdesc *w = yir_desc(f, m.w);
    m.heads = w->dim[3];
    m.queries = w->dim[1] * w->dim[2] / m.areas;
    m.keys = w->dim[4];
    return m;
}

bool guard_attn_mix(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = cg_only_op(f, first, last, YIR_attn_mix);
    if (t->lanes == 1 || !op || !cg_pointwise(f, first, last, op)) return false;
    const struct mixing m = mixing_of(f, op);
    struct cg_rows rows;
    return cg_readable(f, f->op[op].kernel, m.v) && cg_in_memory(f, f->op[op].kernel, m.w) && cg_rows_of(f, m.w, &rows);
}

size_t list_attn_mix(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    uint32_t op = cg_only_op(f, first, last, YIR_attn_mix);
    const struct mixing m = mixing_of(f, op);
    (void)most;
    return list_products((double)(m.heads * m.areas * m.queries) * (double)(m.keys * m.dim), t, out);
}

struct mix_block {
    struct share at;
    struct cg_sums s;
    kv channel, query; /* first of the result's; position in the map */
};

static void store_mix(struct kb *b, struct cg_kernel *k, uint32_t op, const struct mix_block *m, kv acc[][MAX_VECTORS])
{
    kv zero = kb_immi(b, 0);
    for (int64_t i = 0; i < m->s.pixels; i++)
        for (int v = 0; v < m->s.vectors; v++) {
            kv channel = cg_vector(b, &m->s, m->channel, v);
            kv position = kb_addi(b, m->query, i);
            cg_bind(b, op, kb_get(b, acc[i][v]));
            cg_store_all(b, k->first, k->last, (kv[]){m->at.n, channel, zero, position});
            b->nbound--;
        }
}

void emit_fast_attn_mix(struct kb *b, struct cg_kernel *k)
{
    const struct mixing m = mixing_of(b->f, cg_only_op(b->f, k->first, k->last, YIR_attn_mix));
    struct mix_block x = {.at = begin_share(b, m.heads, m.areas, m.queries)};
    kv acc[MAX_PIXELS][MAX_VECTORS], zero = kb_immi(b, 0);
    cg_choose_block(b->target, m.dim, x.at.chunk, &x.s);
    int64_t block = m.dim < b->target->lanes ? m.dim : (int64_t)x.s.vectors * b->target->lanes;
    x.s.mem_x = kb_mem_value(b, m.w);
    x.s.mem_w = kb_mem_value(b, m.v);
    x.s.steps = m.keys;
    x.s.x_pixel = b->f->place[yir_index(m.w)].stride[2];
    x.s.x_step = 1;
    x.s.w_step = b->f->place[yir_index(m.v)].stride[3];
    kv keys = in_area(b, &x.at, m.keys, zero);
    kv values = head_address(b, m.v, &x.at, m.heads, m.at, keys);
    kv share = kb_muli(b, x.at.head, m.dim);
    b->lanes = b->valid = b->target->lanes;
    kv ci = kb_loop(b, zero, kb_immi(b, m.dim), block);
    kv part = cg_early(b, ci, m.dim, block);
    x.channel = kb_iadd(b, share, part);
    kv from = kb_iadd(b, values, part);
    kv qi = kb_loop(b, zero, kb_immi(b, x.at.chunk), x.s.pixels);
    kv start = cg_early(b, qi, x.at.chunk, x.s.pixels);
    kv within = kb_iadd(b, x.at.q0, start);
    x.query = in_area(b, &x.at, m.queries, within);
    kv weights = kb_address(b, m.w, (kv[]){x.at.n, zero, x.query, x.at.head, zero});
    cg_new_products(b, &x.s, weights, from, acc);
    store_mix(b, k, m.op, &x, acc);
    kb_end(b);
    kb_end(b);
    b->lanes = b->valid = 1;
}
