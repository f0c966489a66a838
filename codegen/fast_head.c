/* Heads on vectors. Decoding by the distribution (dfl_box) and flattening want neighbouring positions in a vector while memory
 * has neighbouring channels: squares of positions x channels are turned in registers. Heads whose rows stay rows of channels
 * (anchors, YOLOX) are computed along the channels. */
#include "fast.h"

enum { MOST_BINS = 64, MOST_POSITIONS = 1 << 20 };

/* Value `op` is in memory, and the next position of one channel is the next element there. */
static bool positions_adjacent(const struct yir_func *f, uint32_t op, int axis)
{
    return f->place[op].stride[axis] == 1;
}

static int64_t positions_of(const struct yir_func *f, yir_ref x)
{
    const struct yir_tdesc *d = yir_desc(f, x);
    return d->dim[2] * d->dim[3];
}

static bool is_float(const struct yir_func *f, uint32_t op)
{
    return yir_tdesc(f->types, f->op[op].type)->dtype == YIR_F32;
}

/* --- boxes from distributions ------------------------------------------------------------------------------- */

bool guard_head_dfl(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    const struct yir_a_box *a = yir_attrs(f, last);
    if (t->lanes == 1 || first != last || f->op[last].code != YIR_dfl_box || !is_float(f, last)) return false;
    yir_ref x = yir_src(f, last, 0);
    if (!cg_readable(f, f->op[last].kernel, x) || !positions_adjacent(f, last, 2)) return false;
    return a->bins <= MOST_BINS && positions_of(f, x) >= t->lanes && positions_of(f, x) <= MOST_POSITIONS;
}

size_t list_head_dfl(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t,
                   struct cg_config *out, size_t most)
{
    (void)most;
    const struct yir_a_box *a = yir_attrs(f, last);
    return cg_list_one(f, first, last, t, 16.0 * a->bins, out);
}

struct dfl {
    yir_ref x;
    int mem;
    int64_t bins;
    kv n, p0; /* image, first position of the block */
};

/* v[i]: channel i of the vector c (marked, as many as are valid) at the block's positions. */
static void load_square(struct kb *b, const struct dfl *d, kv c, kv *v)
{
    kv zero = kb_immi(b, 0);
    for (int i = 0; i < b->lanes; i++) {
        kv p = kb_addi(b, d->p0, i);
        kv at = kb_address(b, d->x, (kv[]){d->n, c, zero, p});
        v[i] = kb_load(b, d->mem, at);
    }
    cg_turn(b, v);
}

/* v[bin]: the logits of one side (an index) at the block's positions. */
static void load_side(struct kb *b, const struct dfl *d, kv side, kv *v)
{
    kv first = kb_muli(b, side, d->bins);
    for (int64_t j = 0; j < d->bins; j += b->lanes) {
        b->valid = (int)(d->bins - j < b->lanes ? d->bins - j : b->lanes);
        kv channel = kb_addi(b, first, j);
        kv square[KB_MAX_LANES];
        load_square(b, d, kb_lane(b, channel), square);
        for (int i = 0; i < b->valid; i++) v[j + i] = square[i];
    }
    b->valid = b->lanes;
}

/* Expectation of the softmax over the bins; one bin is the distance itself. */
static kv expectation(struct kb *b, const struct dfl *d, kv side)
{
    kv v[MOST_BINS + KB_MAX_LANES], sum = kb_immf(b, 0.0), weighted = sum;
    load_side(b, d, side, v);
    if (d->bins == 1) return v[0];
    kv top = v[0];
    for (int64_t j = 1; j < d->bins; j++) top = kb_fmax(b, top, v[j]);
    for (int64_t j = 0; j < d->bins; j++) {
        kv shifted = kb_fsub(b, v[j], top);
        kv e = kb_exp(b, shifted);
        sum = j ? kb_fadd(b, sum, e) : e;
        weighted = kb_fma(b, e, kb_immf(b, (double)j), weighted);
    }
    return kb_fdiv(b, weighted, sum);
}

/* Column and row of the block's positions p: the row is p/w rounded down, which is rint(p/w + 1/(2w) - 1/2), never a tie
 * and far enough from one for positions below 2^20. */
static void cells(struct kb *b, kv p0, int64_t width, kv *x, kv *y)
{
    double w = (double)width;
    kv marked = kb_lane(b, p0);
    kv p = kb_itof(b, marked);
    kv shift = kb_immf(b, 0.5 / w - 0.5);
    kv quotient = kb_fma(b, p, kb_immf(b, 1.0 / w), shift);
    *y = kb_rint(b, quotient);
    *x = kb_fma(b, *y, kb_immf(b, -w), p);
}

static void store_box(struct kb *b, uint32_t op, const struct dfl *d, kv channel, kv v, double stride)
{
    kv scaled = kb_fmul(b, v, kb_immf(b, stride));
    kv p = kb_lane(b, d->p0);
    kb_store_op(b, op, (kv[]){d->n, channel, p}, scaled);
}

void emit_fast_head_dfl(struct kb *b, struct cg_kernel *k)
{
    const struct yir_a_box *a = yir_attrs(b->f, k->last);
    struct dfl d = {.x = yir_src(b->f, k->last, 0), .bins = a->bins};
    d.p0 = cg_begin_block(b, positions_of(b->f, d.x), &d.n);
    d.mem = kb_mem_value(b, d.x);
    b->lanes = b->valid = b->target->lanes;
    kv x, y;
    cells(b, d.p0, yir_desc(b->f, d.x)->dim[3], &x, &y);
    kv axis = kb_loop(b, kb_immi(b, 0), kb_immi(b, 2), 1);
    kv horizontal = kb_ieq(b, axis, kb_immi(b, 0));
    kv far_side = kb_addi(b, axis, 2);
    kv near = expectation(b, &d, axis);
    kv far = expectation(b, &d, far_side);
    kv at = kb_select(b, horizontal, x, y);
    kv p = kb_fadd(b, at, kb_immf(b, 0.5));
    kv low = kb_fsub(b, p, near);
    kv high = kb_fadd(b, p, far);
    kv sum = kb_fadd(b, low, high);
    kv centre = kb_fmul(b, sum, kb_immf(b, 0.5));
    kv size = kb_fsub(b, high, low);
    store_box(b, k->last, &d, axis, a->corners ? low : centre, (double)a->stride);
    store_box(b, k->last, &d, far_side, a->corners ? high : size, (double)a->stride);
    kb_end(b);
    b->lanes = b->valid = 1;
}

/* --- turned boxes ------------------------------------------------------------------------------------------- */

bool guard_head_obb(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    if (t->lanes == 1 || first != last || f->op[last].code != YIR_obb_box || !is_float(f, last)) return false;
    const struct yir_a_box *a = yir_attrs(f, last);
    yir_ref x = yir_src(f, last, 0), angle = yir_src(f, last, 1);
    if (!cg_readable(f, f->op[last].kernel, x) || !cg_readable(f, f->op[last].kernel, angle)) return false;
    return f->place[yir_index(angle)].stride[3] == 1 && positions_adjacent(f, last, 2) && a->bins <= MOST_BINS &&
           positions_of(f, x) >= t->lanes && positions_of(f, x) <= MOST_POSITIONS;
}

size_t list_head_obb(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    (void)most;
    return cg_list_one(f, first, last, t, 16.0 * ((const struct yir_a_box *)yir_attrs(f, last))->bins + 20, out);
}

/* Middle of the turned box along both axes: the cell's, and half of what the sides differ by, turned. */
static void turned_middle(struct kb *b, const struct dfl *d, kv angle, const kv *side, kv *middle)
{
    kv x, y, turned[2], half = kb_immf(b, 0.5);
    cells(b, d->p0, yir_desc(b->f, d->x)->dim[3], &x, &y);
    kb_turned(b, side, angle, turned);
    kv column = kb_fadd(b, x, half);
    kv row = kb_fadd(b, y, half);
    middle[0] = kb_fadd(b, column, turned[0]);
    middle[1] = kb_fadd(b, row, turned[1]);
}

void emit_fast_head_obb(struct kb *b, struct cg_kernel *k)
{
    const struct yir_a_box *a = yir_attrs(b->f, k->last);
    struct dfl d = {.x = yir_src(b->f, k->last, 0), .bins = a->bins};
    yir_ref turned = yir_src(b->f, k->last, 1);
    kv side[4], v[4], zero = kb_immi(b, 0);
    d.p0 = cg_begin_block(b, positions_of(b->f, d.x), &d.n);
    d.mem = kb_mem_value(b, d.x);
    b->lanes = b->valid = b->target->lanes;
    for (int i = 0; i < 4; i++) side[i] = expectation(b, &d, kb_immi(b, i));
    kv at = kb_address(b, turned, (kv[]){d.n, zero, zero, d.p0});
    kv angle = kb_load(b, kb_mem_value(b, turned), kb_lane(b, at));
    turned_middle(b, &d, angle, side, v);
    v[2] = kb_fadd(b, side[0], side[2]);
    v[3] = kb_fadd(b, side[1], side[3]);
    for (int i = 0; i < 4; i++) store_box(b, k->last, &d, kb_immi(b, i), v[i], (double)a->stride);
    b->lanes = b->valid = 1;
}

/* --- keypoints ---------------------------------------------------------------------------------------------- */

bool guard_head_points(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    if (t->lanes == 1 || first != last || f->op[last].code != YIR_points || !is_float(f, last)) return false;
    yir_ref x = yir_src(f, last, 0);
    return cg_readable(f, f->op[last].kernel, x) && positions_adjacent(f, last, 2) && positions_of(f, x) >= t->lanes &&
           positions_of(f, x) <= MOST_POSITIONS;
}

size_t list_head_points(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                        size_t most)
{
    (void)most;
    return cg_list_one(f, first, last, t, 24, out);
}

struct points {
    const struct yir_a_points *a;
    uint32_t op;
    struct dfl d;
    kv x, y; /* of the block's cells, with the shift */
};

/* A number of the block's positions: x, y, or what says whether the point is seen. */
static kv point_value(struct kb *b, const struct points *p, kv channel, kv raw)
{
    kv number = kb_irem(b, channel, kb_immi(b, p->a->dims));
    kv is_y = kb_ieq(b, number, kb_immi(b, 1));
    kv start = kb_select(b, is_y, p->y, p->x);
    kv place = kb_fma(b, raw, kb_immf(b, (double)p->a->scale), start);
    kv pixels = kb_fmul(b, place, kb_immf(b, (double)p->a->stride));
    if (p->a->dims == 2) return pixels;
    kv seen = kb_sigmoid(b, raw);
    kv is_seen = kb_ieq(b, number, kb_immi(b, 2));
    return kb_select(b, is_seen, seen, pixels);
}

static void point_channels(struct kb *b, void *ctx, kv c)
{
    const struct points *p = ctx;
    int channels = b->valid;
    kv v[KB_MAX_LANES];
    load_square(b, &p->d, c, v);
    b->valid = b->lanes;
    for (int i = 0; i < channels; i++) {
        kv channel = kb_addi(b, kb_unmarked(b, c), i);
        kv value = point_value(b, p, channel, v[i]);
        kb_store_op(b, p->op, (kv[]){p->d.n, channel, kb_lane(b, p->d.p0)}, value);
    }
    b->valid = channels;
}

void emit_fast_head_points(struct kb *b, struct cg_kernel *k)
{
    struct points p = {.a = yir_attrs(b->f, k->last), .op = k->last, .d = {.x = yir_src(b->f, k->last, 0)}};
    const struct yir_tdesc *d = yir_desc(b->f, p.d.x);
    p.d.p0 = cg_begin_block(b, positions_of(b->f, p.d.x), &p.d.n);
    p.d.mem = kb_mem_value(b, p.d.x);
    b->lanes = b->valid = b->target->lanes;
    kv x, y, shift = kb_immf(b, (double)p.a->shift);
    cells(b, p.d.p0, d->dim[3], &x, &y);
    p.x = kb_fadd(b, x, shift);
    p.y = kb_fadd(b, y, shift);
    cg_channels(b, 0, d->dim[1], point_channels, &p);
}

/* --- flattening --------------------------------------------------------------------------------------------- */

bool cg_flat_source(const struct yir_func *f, uint32_t kernel, yir_ref x, int depth)
{
    if (yir_kind(x) == YIR_WGT) return cg_adjacent(f, x);
    if (yir_kind(x) != YIR_VAL || cg_in_memory(f, kernel, x)) return cg_readable(f, kernel, x);
    const struct yir_op *o = yir_opof(f, x);
    const struct yir_opinfo *info = yir_opinfo((enum yir_code)o->code);
    if ((info->cls != YIR_EW && o->code != YIR_cast) || !(info->traits & YIR_T_LANES) || depth > 16) return false;
    for (int k = 0; k < o->nsrc; k++)
        if (!cg_flat_source(f, kernel, yir_src(f, yir_index(x), k), depth + 1)) return false;
    return true;
}

/* The result's planes are dense: a flattened map, or one in logical order. */
static bool planes(const struct yir_func *f, uint32_t op)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[op].type);
    if (f->op[op].code == YIR_flatten) return positions_adjacent(f, op, 2);
    return f->op[op].code == YIR_cast && d->rank == 4 && d->layout == YIR_NCHW && positions_adjacent(f, op, 3) &&
           f->place[op].stride[2] == d->dim[3];
}

bool guard_head_flat(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    (void)first;
    if (t->lanes == 1 || !is_float(f, last) || !planes(f, last)) return false;
    yir_ref x = yir_src(f, last, 0);
    return cg_flat_source(f, f->op[last].kernel, x, 0) && yir_desc(f, x)->layout == YIR_NHWC && positions_of(f, x) >= t->lanes;
}

size_t list_head_flat(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t,
                   struct cg_config *out, size_t most)
{
    (void)most;
    return cg_list_one(f, first, last, t, 16, out);
}

struct flat {
    uint32_t op;
    yir_ref x;
    int64_t positions;
    kv n, lo, hi; /* image; positions of the unit */
};

/* Channel and position in the result's planes; position carries the lanes. */
static void store_plane(struct kb *b, const struct flat *s, kv channel, kv position, kv v)
{
    yir_ref r = yir_mkref(YIR_VAL, s->op);
    kv zero = kb_immi(b, 0);
    kv plane = kb_address(b, r, (kv[]){s->n, channel, zero, zero});
    kv to = kb_iadd(b, plane, position);
    kb_store(b, kb_mem_value(b, r), to, v);
}

/* Neighbouring squares of the same channels follow one another: the results of a few channels at a time are streams that
 * caches fetch ahead of the stores. */
static void flat_channels(struct kb *b, void *ctx, kv c)
{
    const struct flat *s = ctx;
    kv start = kb_loop(b, s->lo, s->hi, b->lanes);
    kv p0 = kb_imin(b, start, kb_immi(b, s->positions - b->lanes));
    kv zero = kb_immi(b, 0), v[KB_MAX_LANES];
    for (int i = 0; i < b->lanes; i++) {
        kv p = kb_addi(b, p0, i);
        kv value = kb_ref_at(b, s->x, (kv[]){s->n, c, zero, p});
        v[i] = kb_wide(b, value);
    }
    cg_turn(b, v);
    kv first = kb_unmarked(b, c);
    kv at = kb_lane(b, p0);
    int channels = b->valid;
    b->valid = b->lanes;
    for (int i = 0; i < channels; i++) {
        kv channel = kb_addi(b, first, i);
        store_plane(b, s, channel, at, v[i]);
    }
    b->valid = channels;
    kb_end(b);
}

void emit_fast_head_flat(struct kb *b, struct cg_kernel *k)
{
    enum { UNITS = 8, LEAST = 16, MOST = 64 }; /* squares of a unit, along the positions: many, so that runs are long */
    struct flat s = {.op = k->last, .x = yir_src(b->f, k->last, 0)};
    s.positions = positions_of(b->f, s.x);
    int64_t squares = s.positions / (UNITS * b->target->lanes);
    squares = squares < LEAST ? LEAST : squares > MOST ? MOST : squares;
    int64_t chunk = squares * b->target->lanes;
    kv u;
    cg_split_unit(b, (s.positions + chunk - 1) / chunk, &s.n, &u);
    s.lo = kb_muli(b, u, chunk);
    kv end = kb_addi(b, s.lo, chunk);
    s.hi = kb_imin(b, end, kb_immi(b, s.positions));
    cg_channels(b, 0, yir_desc(b->f, s.x)->dim[1], flat_channels, &s);
}

/* --- rows of channels --------------------------------------------------------------------------------------- */

bool guard_head_rows(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    enum yir_code code = (enum yir_code)f->op[last].code;
    if (t->lanes == 1 || first != last || !is_float(f, last)) return false;
    if (code != YIR_anchor_box && code != YIR_anchor_raw && code != YIR_x_box) return false;
    for (int k = 1; k < f->op[last].nsrc; k++)
        if (yir_kind(yir_src(f, last, k)) != YIR_WGT) return false;
    yir_ref x = yir_src(f, last, 0);
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[last].type);
    return yir_kind(x) == YIR_VAL && cg_in_memory(f, f->op[last].kernel, x) && cg_adjacent(f, x) &&
           f->place[last].stride[d->rank - 1] == 1;
}

size_t list_head_rows(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t,
                   struct cg_config *out, size_t most)
{
    (void)most;
    return cg_list_one(f, first, last, t, 20, out);
}

struct row {
    uint32_t op;
    enum yir_code code;
    yir_ref x;
    int mem;
    int64_t channels, height, width;   /* of a row; of the map */
    int64_t plain;                     /* channels at the end of a row that stay as they are */
    double stride;
    kv n, anchor, y, cx;               /* indexes */
    kv column, line, side[2];          /* F: the cell, the anchor's sides */
};

/* Lanes of the channels from `first` on that lie below `end`. */
static kv below(struct kb *b, int64_t first, double end)
{
    kv marked = kb_lane(b, kb_immi(b, first));
    kv number = kb_itof(b, marked);
    return kb_flt(b, number, kb_immf(b, end - 0.5));
}

/* The first channels of a row are the box: x, y, w, h. Four candidates, chosen by lane. */
static kv box_lanes(struct kb *b, const struct row *r, int64_t first, kv v)
{
    kv vertical = kb_select(b, below(b, first, 1), r->column, r->line), centre, size;
    if (r->code == YIR_anchor_box) {
        kv twice = kb_fmul(b, v, kb_immf(b, 2.0));
        kv corner = kb_fsub(b, vertical, kb_immf(b, 0.5));
        centre = kb_fadd(b, twice, corner);
        kv square = kb_fmul(b, twice, twice);
        kv side = kb_select(b, below(b, first, 3), r->side[0], r->side[1]);
        size = kb_fmul(b, square, side);
    } else {
        centre = kb_fadd(b, v, vertical);
        kv e = kb_exp(b, v);
        size = kb_fmul(b, e, kb_immf(b, r->stride));
    }
    centre = kb_fmul(b, centre, kb_immf(b, r->stride));
    kv box = kb_select(b, below(b, first, 2), centre, size);
    return kb_select(b, below(b, first, 4), box, v);
}

static kv source_channel(struct kb *b, const struct row *r, kv c)
{
    if (r->code == YIR_x_box) return c;
    kv base = kb_muli(b, r->anchor, r->channels);
    return kb_iadd(b, base, c);
}

static void store_row(struct kb *b, const struct row *r, kv c, kv v)
{
    if (r->code == YIR_anchor_raw) {
        kb_store_op(b, r->op, (kv[]){r->n, r->anchor, r->y, r->cx, c}, v);
        return;
    }
    kv plane = kb_muli(b, r->anchor, r->height * r->width);
    kv line = kb_muli(b, r->y, r->width);
    kv cell = kb_iadd(b, line, r->cx);
    kv position = kb_iadd(b, plane, cell);
    kb_store_op(b, r->op, (kv[]){r->n, position, c}, v);
}

static kv row_value(struct kb *b, const struct row *r, kv c)
{
    kv from = source_channel(b, r, c);
    kv at = kb_address(b, r->x, (kv[]){r->n, from, r->y, r->cx});
    kv v = kb_load(b, r->mem, at);
    if (r->code != YIR_anchor_box) return v;
    kv share = kb_sigmoid(b, v);
    if (!r->plain) return share;
    kv number = kb_itof(b, c);
    kv decoded = kb_flt(b, number, kb_immf(b, (double)(r->channels - r->plain) - 0.5));
    return kb_select(b, decoded, share, v);
}

static void row_rest(struct kb *b, void *ctx, kv c)
{
    const struct row *r = ctx;
    kv v = row_value(b, r, c);
    store_row(b, r, c, v);
}

/* Channels with a box among them, a vector at a time; the others in a loop. */
static void one_row(struct kb *b, struct row *r)
{
    int64_t lanes = b->target->lanes, boxed = r->code == YIR_anchor_raw ? 0 : (4 + lanes - 1) / lanes * lanes;
    if (boxed > r->channels) boxed = r->channels;
    for (int64_t first = 0; first < boxed; first += lanes) {
        b->lanes = (int)lanes;
        b->valid = (int)(r->channels - first < lanes ? r->channels - first : lanes);
        kv c = kb_lane(b, kb_immi(b, first));
        kv v = row_value(b, r, c);
        kv box = box_lanes(b, r, first, v);
        store_row(b, r, c, box);
    }
    cg_channels(b, boxed, r->channels, row_rest, r);
}

static void read_sides(struct kb *b, struct row *r)
{
    yir_ref sides = yir_src(b->f, r->op, 1);
    for (int i = 0; i < 2; i++) r->side[i] = kb_ref_at(b, sides, (kv[]){r->anchor, kb_immi(b, i)});
}

void emit_fast_head_rows(struct kb *b, struct cg_kernel *k)
{
    const struct yir_func *f = b->f;
    struct row r = {.op = k->last, .code = (enum yir_code)f->op[k->last].code, .x = yir_src(f, k->last, 0)};
    const struct yir_tdesc *x = yir_desc(f, r.x), *out = yir_tdesc(f->types, f->op[k->last].type);
    r.channels = out->dim[out->rank - 1];
    r.height = x->dim[2];
    r.width = x->dim[3];
    if (r.code == YIR_x_box) r.stride = ((const struct yir_a_stride *)yir_attrs(f, r.op))->stride;
    else r.stride = ((const struct yir_a_anchor *)yir_attrs(f, r.op))->stride;
    if (r.code == YIR_anchor_box) r.plain = ((const struct yir_a_anchor *)yir_attrs(f, r.op))->plain;
    kv u;
    cg_split_unit(b, x->dim[1] / r.channels * r.height, &r.n, &u); /* one row of the map for one anchor */
    r.anchor = kb_idiv(b, u, kb_immi(b, r.height));
    r.y = kb_irem(b, u, kb_immi(b, r.height));
    r.mem = kb_mem_value(b, r.x);
    if (r.code == YIR_anchor_box) read_sides(b, &r);
    r.line = kb_itof(b, r.y);
    r.cx = kb_loop(b, kb_immi(b, 0), kb_immi(b, r.width), 1);
    r.column = kb_itof(b, r.cx);
    one_row(b, &r);
    kb_end(b);
}
