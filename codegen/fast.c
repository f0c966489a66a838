#include "fast.h"

uint32_t cg_only_op(const struct yir_func *f, uint32_t first, uint32_t last, enum yir_code code)
{
    uint32_t found = 0;
    for (uint32_t i = first; i <= last; i++) {
        if (f->op[i].code != code) continue;
        if (found) return 0;
        found = i;
    }
    return found;
}

size_t cg_list_one(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, double per_vector,
                   struct cg_config *out)
{
    double elements = 0;
    for (uint32_t i = first; i <= last; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->op[i].type);
        if (f->op[i].flags & YIR_F_STORED) elements += (double)yir_numel(d) / (double)d->dim[0];
    }
    *out = (struct cg_config){.cycles = elements / t->lanes * per_vector};
    return 1;
}

bool cg_in_memory(const struct yir_func *f, uint32_t kernel, yir_ref r)
{
    if (yir_kind(r) != YIR_VAL) return true;
    const struct yir_op *o = yir_opof(f, r);
    return o->kernel != kernel || (o->flags & (YIR_F_STORED | YIR_F_VIEW));
}

bool cg_is_float(enum yir_dtype t)
{
    return t == YIR_F32 || t == YIR_F16 || t == YIR_BF16;
}

bool cg_adjacent(const struct yir_func *f, yir_ref r)
{
    const struct yir_tdesc *d = yir_desc(f, r);
    if (yir_kind(r) == YIR_WGT) return d->rank == 1;
    if (d->rank != 4 || d->layout != YIR_NHWC || !cg_is_float(d->dtype) || yir_kind(r) != YIR_VAL) return false;
    return f->place[yir_index(r)].stride[1] == 1;
}

bool cg_one_run(const struct yir_func *f, yir_ref r)
{
    if (yir_kind(r) != YIR_VAL) return yir_kind(r) == YIR_WGT;
    const struct yir_place *p = &f->place[yir_index(r)];
    return p->stride[2] == yir_desc(f, r)->dim[3] * p->stride[3];
}

/* Marks what the stored ops need, down to `stop` and to memory. Every op in need[] must then be fit for vectors. */
static void find_needed(const struct yir_func *f, uint32_t first, uint32_t last, uint32_t stop, uint32_t op, bool *need)
{
    need[op - first] = true;
    if (op == stop) return;
    for (int k = 0; k < f->op[op].nsrc; k++) {
        yir_ref r = yir_src(f, op, k);
        if (yir_kind(r) != YIR_VAL || yir_index(r) < first || yir_index(r) > last) continue;
        if (!need[yir_index(r) - first]) find_needed(f, first, last, stop, yir_index(r), need);
    }
}

static bool fit(const struct yir_func *f, uint32_t first, uint32_t last, uint32_t stop, bool pointwise)
{
    enum { MOST = 256 };
    bool need[MOST] = {false};
    const struct yir_tdesc *shape = NULL;
    if (last - first >= MOST) return false;
    for (uint32_t i = first; i <= last; i++) {
        if (!(f->op[i].flags & YIR_F_STORED)) continue;
        const struct yir_tdesc *d = yir_tdesc(f->types, f->op[i].type);
        if (!cg_adjacent(f, yir_mkref(YIR_VAL, i)) || (shape && shape != d)) return false;
        if (pointwise && !cg_one_run(f, yir_mkref(YIR_VAL, i))) return false;
        shape = d;
        find_needed(f, first, last, stop, i, need);
    }
    for (uint32_t i = first; i <= last; i++) {
        const struct yir_op *o = &f->op[i];
        if (!need[i - first] || i == stop) continue;
        const struct yir_opinfo *info = yir_opinfo((enum yir_code)o->code);
        if (!(info->traits & YIR_T_LANES) || (pointwise && info->cls != YIR_EW)) return false;
        for (int k = 0; k < o->nsrc; k++) {
            yir_ref r = yir_src(f, i, k);
            if (!cg_in_memory(f, o->kernel, r)) continue;
            if (!cg_adjacent(f, r) || (pointwise && !cg_one_run(f, r))) return false;
        }
    }
    return shape && (!stop || need[stop - first]);
}

bool cg_lanes_ok(const struct yir_func *f, uint32_t first, uint32_t last, uint32_t stop)
{
    return fit(f, first, last, stop, false);
}

bool cg_pointwise(const struct yir_func *f, uint32_t first, uint32_t last, uint32_t stop)
{
    return fit(f, first, last, stop, true);
}

void cg_channels(struct kb *b, int64_t lo, int64_t hi, cg_channel_body body, void *ctx)
{
    int64_t lanes = b->target->lanes, whole = (hi - lo) / lanes, rest = (hi - lo) % lanes;
    b->lanes = (int)lanes;
    if (whole) {
        b->valid = b->lanes;
        kv i = kb_loop(b, kb_immi(b, lo), kb_immi(b, lo + whole * lanes), lanes);
        kv c = kb_lane(b, i);
        body(b, ctx, c);
        kb_end(b);
    }
    if (rest) {
        b->valid = (int)rest;
        kv c = kb_lane(b, kb_immi(b, lo + whole * lanes));
        body(b, ctx, c);
    }
    b->lanes = b->valid = 1;
}

void cg_if(struct kb *b, kv cond)
{
    kv times = kb_select(b, cond, kb_immi(b, 1), kb_immi(b, 0));
    kb_loop(b, kb_immi(b, 0), times, 1);
}

void cg_bind(struct kb *b, uint32_t op, kv value)
{
    YIR_ASSERT(b->nbound < (int)YIR_COUNT(b->bound));
    b->bound[b->nbound].op = op;
    b->bound[b->nbound++].value = value;
}

void cg_store_all(struct kb *b, uint32_t first, uint32_t last, const kv *ix)
{
    int bound = b->nbound;
    for (uint32_t i = first; i <= last; i++) {
        if (!(b->f->op[i].flags & YIR_F_STORED)) continue;
        kv v = kb_op_at(b, i, ix);
        kb_store_op(b, i, ix, v);
        if (i < last) cg_bind(b, i, v);
    }
    b->nbound = bound;
}

void cg_store_cell(struct kb *b, void *ctx, kv c)
{
    const struct cg_cell *at = ctx;
    cg_store_all(b, at->k->first, at->k->last, (kv[]){at->n, c, at->y, at->x});
}

void cg_split_unit(struct kb *b, int64_t units, kv *n, kv *u)
{
    b->units = units;
    kv unit = kb_unit(b);
    *n = kb_idiv(b, unit, kb_immi(b, units));
    *u = kb_irem(b, unit, kb_immi(b, units));
}

bool cg_readable(const struct yir_func *f, uint32_t kernel, yir_ref x)
{
    return yir_kind(x) == YIR_VAL && cg_in_memory(f, kernel, x) && cg_adjacent(f, x) && cg_one_run(f, x);
}

/* In log2(lanes) steps that each rotate the bits of (row, lane) by one. */
void cg_turn(struct kb *b, kv *v)
{
    int n = b->lanes;
    kv next[KB_MAX_LANES];
    for (int step = 1; step < n; step *= 2) {
        for (int i = 0; i < n / 2; i++) {
            next[2 * i] = kb_ziplo(b, v[i], v[i + n / 2]);
            next[2 * i + 1] = kb_ziphi(b, v[i], v[i + n / 2]);
        }
        for (int i = 0; i < n; i++) v[i] = next[i];
    }
}

kv cg_begin_block(struct kb *b, int64_t positions, kv *n)
{
    kv u;
    int64_t lanes = b->target->lanes;
    cg_split_unit(b, (positions + lanes - 1) / lanes, n, &u);
    kv first = kb_muli(b, u, lanes);
    return kb_imin(b, first, kb_immi(b, positions - lanes));
}

/* --- packing rows ------------------------------------------------------------------------------------------- */

static int64_t packed_lines(const struct cg_window *w, int64_t rows)
{
    return (rows - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dil[0] + 1;
}

static int64_t packed_columns(const struct cg_window *w, int64_t out_width)
{
    return (out_width - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dil[1] + 1;
}

int64_t cg_packed_size(const struct cg_window *w, int64_t rows, int64_t out_width, int64_t channels)
{
    return packed_lines(w, rows) * packed_columns(w, out_width) * channels;
}

struct packer {
    struct cg_packed p;
    yir_ref x;
    kv n, line, row, row_in, column, from_column; /* from_column: of the map */
    int64_t offset;                               /* first channel of the part being packed */
};

/* Address in the scratch of channel c of the current line and column. */
static kv packed_address(struct kb *b, const struct packer *k, kv c)
{
    kv line = kb_muli(b, k->line, k->p.columns * k->p.channels);
    kv column = kb_muli(b, k->column, k->p.channels);
    kv cell = kb_iadd(b, line, column);
    kv shifted = kb_addi(b, c, k->offset);
    return kb_iadd(b, cell, shifted);
}

static void pack_value(struct kb *b, void *ctx, kv c)
{
    const struct packer *k = ctx;
    kv v = kb_ref_at(b, k->x, (kv[]){k->n, c, k->row, k->from_column});
    kv zero = kb_immf(b, 0.0);
    kv kept = kb_select(b, k->row_in, v, zero);
    kv where = packed_address(b, k, c);
    kb_store(b, k->p.mem, where, kept);
}

static void pack_zero(struct kb *b, void *ctx, kv c)
{
    const struct packer *k = ctx;
    kv where = packed_address(b, k, c);
    kb_store(b, k->p.mem, where, kb_immf(b, 0.0));
}

/* The value at rest in memory, or what computes it in place, keeps channels apart and reads adjacent ones. */
static bool vector_source(const struct kb *b, yir_ref r, int depth)
{
    if (cg_in_memory(b->f, b->kernel, r)) return cg_adjacent(b->f, r);
    const struct yir_op *o = yir_opof(b->f, r);
    if (!(yir_opinfo((enum yir_code)o->code)->traits & YIR_T_LANES) || depth > 16) return false;
    for (int i = 0; i < o->nsrc; i++)
        if (!vector_source(b, yir_src(b->f, yir_index(r), i), depth + 1)) return false;
    return true;
}

/* One part of the channels: an operand of a concat computed in place, or the whole input. */
static void pack_part(struct kb *b, struct packer *k, yir_ref r, int64_t offset)
{
    int64_t channels = yir_desc(b->f, r)->dim[1];
    k->x = r;
    k->offset = offset;
    if (vector_source(b, r, 0)) {
        cg_channels(b, 0, channels, pack_value, k);
        return;
    }
    kv c = kb_loop(b, kb_immi(b, 0), kb_immi(b, channels), 1);
    pack_value(b, k, c);
    kb_end(b);
}

static void pack_parts(struct kb *b, struct packer *k, yir_ref x)
{
    const struct yir_op *o = yir_kind(x) == YIR_VAL ? yir_opof(b->f, x) : NULL;
    bool parts = o && o->code == YIR_concat && !cg_in_memory(b->f, b->kernel, x) &&
                 ((const struct yir_a_axis *)yir_attrs(b->f, yir_index(x)))->axis == 1;
    int64_t offset = 0;
    for (int i = 0; i < (parts ? o->nsrc : 1); i++) {
        yir_ref r = parts ? yir_src(b->f, yir_index(x), i) : x;
        pack_part(b, k, r, offset);
        offset += yir_desc(b->f, r)->dim[1];
    }
}

/* --- packing whole rows ------------------------------------------------------------------------------------- */

/* Where a row of the map is one run of elements, or one in each plane. */
struct run_source {
    yir_ref r;                 /* in memory */
    enum cg_order order;
    int64_t elems, planes;     /* of a run; runs of a row */
    const struct yir_a_image *image; /* the run is of bytes of a picture, else NULL */
};

/* The pixels of all rows and planes are dense where the reference lies. */
static bool dense(const struct yir_func *f, yir_ref r)
{
    int64_t want[YIR_MAX_RANK];
    const struct yir_tdesc *d = yir_desc(f, r);
    if (yir_kind(r) == YIR_INP) return true;
    if (yir_kind(r) != YIR_VAL) return false;
    yir_dense_strides(d, want);
    const int64_t *stride = f->place[yir_index(r)].stride;
    return stride[1] == want[1] && stride[2] == want[2] && stride[3] == want[3];
}

static bool find_runs(const struct kb *b, yir_ref x, const struct cg_window *w, int64_t align, struct run_source *s)
{
    const struct yir_func *f = b->f;
    const struct yir_tdesc *d = yir_desc(f, x);
    *s = (struct run_source){.r = x, .order = CG_CHANNELS, .elems = d->dim[1], .planes = 1};
    if (yir_kind(x) != YIR_VAL) return false;
    if (cg_in_memory(f, b->kernel, x))
        return cg_adjacent(f, x) && d->dim[1] % align == 0 && f->place[yir_index(x)].stride[3] == d->dim[1];
    const struct yir_op *o = yir_opof(f, x);
    if (align != 1 || (o->code != YIR_image && o->code != YIR_cast)) return false;
    s->r = yir_src(f, yir_index(x), 0);
    if (!cg_in_memory(f, b->kernel, s->r) || !dense(f, s->r)) return false;
    if (o->code == YIR_image) {
        s->image = yir_attrs(f, yir_index(x));
        if (s->image->bgr) s->order = CG_REVERSED;
        return true;
    }
    s->order = CG_PLANES;
    s->elems = 1;
    s->planes = d->dim[1];
    /* Callers take all lines of a 1x1 window for one run of pixels. */
    return yir_desc(f, s->r)->layout == YIR_NCHW && w->dil[0] == 1 && w->kernel[0] * w->kernel[1] > 1;
}

struct run {
    const struct packer *k;
    const struct run_source *s;
    int mem;
    kv from, to; /* first element in memory, and in the scratch */
};

static void pack_run(struct kb *b, void *ctx, kv i)
{
    const struct run *r = ctx;
    kv at = kb_iadd(b, r->from, i);
    kv v = kb_load(b, r->mem, at);
    if (r->s->image) v = kb_pixel(b, v, r->s->image);
    kv kept = kb_select(b, r->k->row_in, v, kb_immf(b, 0.0));
    kv where = kb_iadd(b, r->to, i);
    kb_store(b, r->k->p.mem, where, kept);
}

static void zero_run(struct kb *b, void *ctx, kv i)
{
    const struct run *r = ctx;
    kv where = kb_iadd(b, r->to, i);
    kb_store(b, r->k->p.mem, where, kb_immf(b, 0.0));
}

/* First element of a row's run in memory. A picture is [n,h,w,3], a map in logical order. */
static kv run_address(struct kb *b, const struct packer *k, const struct run_source *s, kv plane)
{
    kv zero = kb_immi(b, 0);
    if (s->image) return kb_address(b, s->r, (kv[]){k->n, k->row, zero, zero});
    return kb_address(b, s->r, (kv[]){k->n, plane, k->row, zero});
}

/* Columns [lo, hi) of the current line come from the map, the others are zero. */
static void pack_runs(struct kb *b, const struct packer *k, const struct run_source *s, int64_t lo, int64_t hi)
{
    struct run r = {.k = k, .s = s, .mem = kb_mem_value(b, s->r)};
    int64_t length = k->p.columns * s->elems;
    kv plane = kb_loop(b, kb_immi(b, 0), kb_immi(b, s->planes), 1);
    kv line = kb_muli(b, k->line, length * s->planes);
    kv before = kb_muli(b, plane, length);
    r.to = kb_iadd(b, line, before);
    cg_channels(b, 0, lo * s->elems, zero_run, &r);
    cg_channels(b, hi * s->elems, length, zero_run, &r);
    r.from = run_address(b, k, s, plane);
    r.to = kb_addi(b, r.to, lo * s->elems);
    cg_channels(b, 0, (hi - lo) * s->elems, pack_run, &r);
    kb_end(b);
}

/* --- packing ------------------------------------------------------------------------------------------------ */

static void zero_columns(struct kb *b, struct packer *k, int64_t lo, int64_t hi)
{
    if (lo >= hi) return;
    k->offset = 0;
    k->column = kb_loop(b, kb_immi(b, lo), kb_immi(b, hi), 1);
    cg_channels(b, 0, k->p.channels, pack_zero, k);
    kb_end(b);
}

struct cg_packed cg_pack_rows(struct kb *b, yir_ref x, const struct cg_window *w, kv n, kv row0, int64_t rows, int64_t out_width,
                              int64_t align)
{
    const struct yir_tdesc *d = yir_desc(b->f, x);
    struct packer k = {.n = n};
    k.p.lines = packed_lines(w, rows);
    k.p.columns = packed_columns(w, out_width);
    k.p.channels = (d->dim[1] + align - 1) / align * align;
    k.p.mem = kb_mem_scratch(b, k.p.lines * k.p.columns * k.p.channels);
    int64_t end = w->pad[1] + d->dim[3]; /* column after the map's last */
    int64_t start = w->pad[1] < k.p.columns ? w->pad[1] : k.p.columns;
    if (end > k.p.columns) end = k.p.columns;

    k.line = kb_loop(b, kb_immi(b, 0), kb_immi(b, k.p.lines), 1);
    kv first = kb_muli(b, row0, w->stride[0]);
    kv from = kb_addi(b, first, -w->pad[0]);
    kv row = kb_iadd(b, from, k.line);
    k.row_in = kb_inside(b, row, d->dim[2]);
    kv low = kb_imax(b, row, kb_immi(b, 0));
    k.row = kb_imin(b, low, kb_immi(b, d->dim[2] - 1));
    struct run_source s;
    if (find_runs(b, x, w, align, &s)) {
        k.p.order = s.order;
        pack_runs(b, &k, &s, start, end);
        kb_end(b);
        return k.p;
    }
    zero_columns(b, &k, 0, start);
    k.from_column = kb_loop(b, kb_immi(b, 0), kb_immi(b, end - start), 1);
    k.column = kb_addi(b, k.from_column, start);
    pack_parts(b, &k, x);
    kb_end(b);
    zero_columns(b, &k, end, k.p.columns);
    kb_end(b);
    return k.p;
}

int64_t cg_rows_per_unit(int64_t height, int64_t width, int64_t scratch_row_elems)
{
    enum { UNITS = 8, PIXELS = 48, CACHE_ELEMS = 64 * 1024 };
    int64_t rows = (PIXELS + width - 1) / width;
    while (rows < 8 && height / (rows + 1) >= UNITS && scratch_row_elems * (rows + 1) <= CACHE_ELEMS) rows++;
    if (rows > height) rows = height;
    while (rows > 1 && (height + rows - 1) / rows * rows - height >= (rows + 1) / 2) rows--; /* little done twice */
    return rows;
}

int64_t cg_pixels(int64_t width, int64_t most)
{
    if (width <= most) return width;
    int64_t best = most, best_cost = INT64_MAX;
    for (int64_t p = most; p >= (most + 1) / 2; p--) {
        int64_t cost = (width + p - 1) / p * (8 * p + 10); /* a block's fixed work counts as a pixel and a quarter */
        if (cost >= best_cost) continue;
        best = p;
        best_cost = cost;
    }
    return best;
}
