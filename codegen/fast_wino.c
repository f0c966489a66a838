/* Winograd convolution: 3x3, stride 1, by F(m x m, 3 x 3), m = 4 or 2. A unit is a block of tiles of m x m outputs, for one part
 * of the output channels (parts share out the weights where a small map has many of them). Their input
 * windows of (m+2)^2 pixels are transformed into scratch, channels as vectors; then, for a block of output channels, each of the
 * (m+2)^2 frequencies is a small matrix product over tiles x channels in registers; the sums are transformed back and finished
 * by the epilogue. Multiplies 2.25 (m = 2) or 4 (m = 4) times less than the direct way. Points 0, 1, -1, 2, -2 and infinity. */
#include "fast_conv.h"

enum { MAX_M = 4, MAX_N = MAX_M + 2 };

struct wino {
    struct conv c;
    int m, n;               /* outputs and inputs of a tile along a side */
    int64_t across, tiles;  /* tiles in a row, and of the map */
    int64_t unit;           /* tiles of a unit */
    int64_t pixels;         /* register block: tiles ... */
    struct conv_parts p;    /* ... and vectors of channels; a unit's channels */
    int64_t plane_x;        /* scratch: transformed input [n*n][unit][ci], planes this far apart ... */
    int64_t at_sums;        /* ... then from here sums of a channel block [n*n][unit][vectors * lanes] ... */
    int64_t plane_sums;     /* ... with planes this far apart ... */
    int64_t at_half;        /* ... and a tile's transform half-way, n*n vectors */
    kv batch, tile0;
    int mem_x, mem_w, mem_bias, scratch;
};

bool guard_conv_wino(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    if (!cg_conv_of(f, first, last, t, &c) || c.groups != 1 || !t->has_fma) return false;
    for (int i = 0; i < 2; i++)
        if (c.win.kernel[i] != 3 || c.win.stride[i] != 1 || c.win.dil[i] != 1 || c.win.pad[i] < 0) return false;
    return c.ci >= t->lanes && c.co >= t->lanes && c.oh >= MAX_M && c.ow >= MAX_M && cg_conv_in_place(&c);
}

/* Planes are a cache line more than a multiple of what they hold apart: else they would fall on the same lines of the cache. */
static void lay_out(struct wino *w)
{
    int64_t line = w->c.lanes, nn = (int64_t)w->n * w->n;
    w->plane_x = w->unit * w->c.ci + line;
    w->plane_x += w->plane_x % (2 * line) ? 0 : line;
    w->at_sums = (w->plane_x * nn + line - 1) / line * line;
    w->plane_sums = w->unit * w->p.vectors * line + line;
    w->plane_sums += w->plane_sums % (2 * line) ? 0 : line;
    w->at_half = w->at_sums + w->plane_sums * nn;
}

static int64_t scratch_elems(const struct wino *w)
{
    return w->at_half + (int64_t)w->n * w->n * w->c.lanes;
}

static struct wino wino_of(const struct conv *c, int m, int64_t unit, int64_t pixels, int vectors, int64_t parts)
{
    struct wino w = {.c = *c, .m = m, .n = m + 2, .unit = unit, .pixels = pixels, .p = cg_conv_parts(c, vectors, parts)};
    w.across = (c->ow + m - 1) / m;
    w.tiles = w.across * ((c->oh + m - 1) / m);
    lay_out(&w);
    return w;
}

/* --- configurations ----------------------------------------------------------------------------------------- */

/* Measured on AVX-512. Weights stream beside the products at so many cycles a cache line: from beyond the second-level cache the
 * first time, and always when they are too many for it. Transforms cost more where what they write or read is not in the first-level
 * cache. */
static double config_cycles(const struct wino *w)
{
    enum { L1_BYTES = 40 * 1024, L2_BYTES = 1200 * 1024 };
    const double far = 8, near = 1;
    const struct conv *c = &w->c;
    double nn = w->n * w->n, v = w->p.vectors, p = (double)w->pixels, ci = (double)c->ci, tiles = (double)w->unit;
    double runs = (double)((w->tiles + w->unit - 1) / w->unit), parts = (double)w->p.parts;
    double in_vectors = (double)((c->ci + c->lanes - 1) / c->lanes), out_vectors = (double)((c->co + c->lanes - 1) / c->lanes);
    double step = v * p / 2 > (v + p) / 2 ? v * p / 2 : (v + p) / 2;
    if (step < 4) step = 4;
    if (v * p + v > c->t->vregs - 4) step *= 1.1;
    double blocks = (double)((w->unit + w->pixels - 1) / w->pixels), products = nn * blocks * out_vectors / v * (step * ci + 20 + v * p);
    double lines = nn * ci * (double)c->co * 4 / 64, again = lines * 64 > L2_BYTES ? far : near;
    double in_bytes = nn * tiles * ci * 4, out_bytes = nn * tiles * v * c->lanes * 4;
    double in = tiles * in_vectors * nn * (in_bytes > 8 * L1_BYTES ? 6.2 : in_bytes > L1_BYTES ? 5.4 : 4.2);
    double out = nn * (out_bytes > 4 * L1_BYTES ? 5.2 : out_bytes > L1_BYTES ? 4.4 : 3.2);
    if (ci * v * c->lanes * 4 > L1_BYTES / 2) products += lines * (blocks - 1) * 1.5; /* weights of a frequency leave the first level */
    out = tiles * out_vectors * (out + w->m * w->m * cg_epilogue_cycles(c));
    double all = lines * (far + (runs - 1) * again) + runs * (products + parts * in + out + parts * 200);
    return cg_shared_cycles(all, (int64_t)(runs * parts));
}

struct list {
    const struct conv *c;
    int m;
    struct cg_config *out;
    size_t n, most;
};

/* Register blocks of about equal size in a unit. */
static void list_blocks(struct list *l, int64_t unit, int64_t parts)
{
    enum { CACHE_ELEMS = 320 * 1024 };
    const struct conv *c = l->c;
    for (int vectors = 1; vectors <= 2; vectors++) {
        int64_t high = (c->t->vregs - vectors - (c->t->mem_splat ? 0 : 1)) / vectors, last = 0;
        if (high > MAX_PIXELS) high = MAX_PIXELS;
        if ((vectors == 2 && c->co <= c->lanes) || c->co < parts * vectors * c->lanes) continue;
        for (int64_t p = high; p >= (high + 1) / 2 && l->n < l->most; p--) {
            int64_t blocks = (unit + p - 1) / p, pixels = (unit + blocks - 1) / blocks;
            if (pixels == last) continue;
            last = pixels;
            struct wino w = wino_of(c, l->m, unit, pixels, vectors, parts);
            if (scratch_elems(&w) > CACHE_ELEMS || w.p.parts != parts) continue;
            l->out[l->n++] = (struct cg_config){.knob = {l->m, (int32_t)unit, (int32_t)pixels, vectors, (int32_t)parts},
                                                .cycles = config_cycles(&w)};
        }
    }
}

/* Units of about equal size, at least four to share out where the map has as many tiles. */
static void list_units(struct list *l)
{
    enum { MOST_TILES = 160, FEWEST_TILES = 6, UNITS = 4 };
    struct wino w = wino_of(l->c, l->m, 1, 1, 1, 1);
    int64_t before = 0;
    for (int64_t runs = (w.tiles + MOST_TILES - 1) / MOST_TILES; runs <= w.tiles; runs++) {
        int64_t unit = (w.tiles + runs - 1) / runs;
        if (unit == before) continue;
        if (unit < FEWEST_TILES && before) break;
        before = unit;
        for (int64_t parts = 1; parts <= 8; parts *= 2) {
            if (runs * parts < UNITS) continue;
            list_blocks(l, unit, parts);
            if (runs >= UNITS) break;
        }
        if (l->n > l->most / 2) l->n = cg_best_configs(l->out, l->n, l->most / 3);
    }
}

size_t list_conv_wino(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                      size_t most)
{
    struct conv c;
    struct cg_config all[256];
    cg_conv_of(f, first, last, t, &c);
    struct list l = {&c, 2, all, 0, YIR_COUNT(all)};
    list_units(&l);
    l.n = cg_best_configs(all, l.n, 6);
    l.m = 4;
    list_units(&l);
    size_t n = cg_best_configs(all, l.n, most < 24 ? most : 24);
    if (!n) { /* channels so many that no unit fits the cache: the smallest one all the same */
        struct wino w = wino_of(&c, 2, 1, 1, 1, 1);
        all[n++] = (struct cg_config){.knob = {2, 1, 1, 1, 1}, .cycles = config_cycles(&w)};
    }
    for (size_t i = 0; i < n; i++) out[i] = all[i];
    return n;
}

/* --- transforms --------------------------------------------------------------------------------------------- */

/* x*k + y */
static kv scaled(struct kb *b, double k, kv x, kv y)
{
    kv c = kb_immf(b, k);
    return kb_fma(b, c, x, y);
}

/* B^T d of one side. */
static void to_points(struct kb *b, int n, const kv *d, kv *o)
{
    if (n == 4) {
        o[0] = kb_fsub(b, d[0], d[2]);
        o[1] = kb_fadd(b, d[1], d[2]);
        o[2] = kb_fsub(b, d[2], d[1]);
        o[3] = kb_fsub(b, d[1], d[3]);
        return;
    }
    kv p = scaled(b, -4, d[2], d[4]), q = scaled(b, -4, d[1], d[3]);
    kv r = kb_fsub(b, d[4], d[2]), s = kb_fsub(b, d[3], d[1]);
    kv even = scaled(b, -5, d[2], d[4]), odd = scaled(b, -5, d[3], d[5]);
    o[0] = scaled(b, 4, d[0], even);
    o[1] = kb_fadd(b, p, q);
    o[2] = kb_fsub(b, p, q);
    o[3] = scaled(b, 2, s, r);
    o[4] = scaled(b, -2, s, r);
    o[5] = scaled(b, 4, d[1], odd);
}

/* A^T m of one side. */
static void from_points(struct kb *b, int n, const kv *m, kv *o)
{
    if (n == 4) {
        kv sum = kb_fadd(b, m[1], m[2]), diff = kb_fsub(b, m[1], m[2]);
        o[0] = kb_fadd(b, m[0], sum);
        o[1] = kb_fsub(b, diff, m[3]);
        return;
    }
    kv p = kb_fadd(b, m[1], m[2]), q = kb_fsub(b, m[1], m[2]);
    kv r = kb_fadd(b, m[3], m[4]), s = kb_fsub(b, m[3], m[4]);
    kv first = kb_fadd(b, m[0], p);
    o[0] = kb_fadd(b, first, r);
    o[1] = scaled(b, 2, s, q);
    o[2] = scaled(b, 4, r, p);
    kv last = scaled(b, 8, s, q);
    o[3] = kb_fadd(b, last, m[5]);
}

/* --- input -------------------------------------------------------------------------------------------------- */

/* A tile: its number in the unit, and the first row and column of its outputs. */
struct tile {
    const struct wino *w;
    kv number, y, x;
    kv base; /* address of the window's first pixel, channel 0, when all of it lies inside */
};

/* Pixel (r, q) of a window that may leave the map; q is a value. */
static kv edge_pixel(struct kb *b, const struct tile *t, int r, kv q, kv ch)
{
    const struct conv *c = &t->w->c;
    kv row = kb_addi(b, t->y, r - c->win.pad[0]), col0 = kb_iadd(b, t->x, q), col = kb_addi(b, col0, -c->win.pad[1]);
    kv row_in = kb_inside(b, row, c->ih), col_in = kb_inside(b, col, c->iw);
    kv in = kb_and(b, row_in, col_in);
    kv low_row = kb_imax(b, row, kb_immi(b, 0)), low_col = kb_imax(b, col, kb_immi(b, 0));
    kv safe_row = kb_imin(b, low_row, kb_immi(b, c->ih - 1)), safe_col = kb_imin(b, low_col, kb_immi(b, c->iw - 1));
    kv v = kb_ref_at(b, c->x, (kv[]){t->w->batch, ch, safe_row, safe_col});
    kv zero = kb_immf(b, 0.0);
    return kb_select(b, in, v, zero);
}

/* Where point k of the tile's channels ch goes. */
static kv point_address(struct kb *b, const struct tile *t, kv ch)
{
    kv at = kb_muli(b, t->number, t->w->c.ci);
    return kb_iadd(b, at, ch);
}

static void transform_inside(struct kb *b, void *ctx, kv ch)
{
    const struct tile *t = ctx;
    const struct wino *w = t->w;
    const int64_t *stride = b->f->place[yir_index(w->c.x)].stride;
    int n = w->n;
    kv half[MAX_N][MAX_N]; /* [column][row's point] */
    for (int q = 0; q < n; q++) {
        kv d[MAX_N];
        for (int r = 0; r < n; r++) {
            kv pixel = kb_addi(b, t->base, r * stride[2] + q * stride[3]);
            d[r] = kb_load(b, w->mem_x, kb_iadd(b, pixel, ch));
        }
        to_points(b, n, d, half[q]);
    }
    kv to = point_address(b, t, ch);
    for (int r = 0; r < n; r++) {
        kv d[MAX_N], o[MAX_N];
        for (int q = 0; q < n; q++) d[q] = half[q][r];
        to_points(b, n, d, o);
        for (int q = 0; q < n; q++) {
            kv where = kb_addi(b, to, (r * n + q) * w->plane_x);
            kb_store(b, w->scratch, where, o[q]);
        }
    }
}

/* As loops, with the half-way values in scratch: small code, for the few tiles at the edges. */
static void transform_edge(struct kb *b, void *ctx, kv ch)
{
    const struct tile *t = ctx;
    const struct wino *w = t->w;
    int n = w->n;
    kv in[MAX_N] = {{0}}, out[MAX_N];
    kv q = kb_loop(b, kb_immi(b, 0), kb_immi(b, n), 1);
    for (int r = 0; r < n; r++) in[r] = edge_pixel(b, t, r, q, ch);
    to_points(b, n, in, out);
    int64_t lanes = w->c.lanes;
    kv column = kb_muli(b, q, lanes);
    for (int r = 0; r < n; r++) {
        kv where = kb_addi(b, column, w->at_half + r * n * lanes);
        kb_store(b, w->scratch, kb_lane(b, where), out[r]);
    }
    kb_end(b);
    kv to = point_address(b, t, ch);
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, n), 1);
    kv row = kb_muli(b, r, n * lanes), plane = kb_muli(b, r, n * w->plane_x), to_row = kb_iadd(b, plane, to);
    for (int i = 0; i < n; i++) {
        kv where = kb_addi(b, row, w->at_half + i * lanes);
        in[i] = kb_load(b, w->scratch, kb_lane(b, where));
    }
    to_points(b, n, in, out);
    for (int i = 0; i < n; i++) {
        kv where = kb_addi(b, to_row, i * w->plane_x);
        kb_store(b, w->scratch, where, out[i]);
    }
    kb_end(b);
}

static struct tile begin_tile(struct kb *b, const struct wino *w)
{
    struct tile t = {.w = w};
    t.number = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->unit), 1);
    kv tile = kb_iadd(b, w->tile0, t.number);
    kv across = kb_immi(b, w->across);
    kv row = kb_idiv(b, tile, across), col = kb_irem(b, tile, across);
    t.y = kb_muli(b, row, w->m);
    t.x = kb_muli(b, col, w->m);
    return t;
}

/* Windows inside the map are read as they lie; at its edges each pixel is looked at. */
static void transform_input(struct kb *b, const struct wino *w)
{
    const struct conv *c = &w->c;
    struct tile t = begin_tile(b, w);
    kv top = kb_addi(b, t.y, -c->win.pad[0]), left = kb_addi(b, t.x, -c->win.pad[1]);
    kv top_in = kb_inside(b, top, c->ih - w->n + 1), left_in = kb_inside(b, left, c->iw - w->n + 1);
    kv inside = kb_and(b, top_in, left_in);
    cg_if(b, inside);
    t.base = kb_address(b, c->x, (kv[]){w->batch, kb_immi(b, 0), top, left});
    cg_channels(b, 0, c->ci, transform_inside, &t);
    kb_end(b);
    cg_if(b, kb_not(b, inside));
    cg_channels(b, 0, c->ci, transform_edge, &t);
    kb_end(b);
    kb_end(b);
}

/* --- products ----------------------------------------------------------------------------------------------- */

/* Sums of all frequencies for the channels from `channel` on, which are `vectors` vectors. */
static void multiply(struct kb *b, const struct wino *w, int vectors, kv channel)
{
    const struct conv *c = &w->c;
    int64_t nn = (int64_t)w->n * w->n, block = (int64_t)w->p.vectors * c->lanes;
    kv weights = kb_muli(b, channel, nn * c->ci);
    kv k = kb_loop(b, kb_immi(b, 0), kb_immi(b, nn), 1);
    kv plane_w = kb_muli(b, k, c->ci * block), plane_x = kb_muli(b, k, w->plane_x), plane_o = kb_muli(b, k, w->plane_sums);
    kv from_w = kb_iadd(b, weights, plane_w);
    kv ti = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->unit), w->pixels);
    kv t = kb_imin(b, ti, kb_immi(b, w->unit - w->pixels));
    kv row_x = kb_muli(b, t, c->ci), row_o = kb_muli(b, t, block);
    kv from_x = kb_iadd(b, plane_x, row_x), to = kb_iadd(b, plane_o, row_o);
    kv acc[MAX_PIXELS][MAX_VECTORS], zero = kb_wide(b, kb_immf(b, 0.0));
    for (int64_t p = 0; p < w->pixels; p++)
        for (int v = 0; v < vectors; v++) acc[p][v] = kb_var(b, zero);
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, c->ci), 1);
    kv step = kb_muli(b, j, block);
    kv at = kb_iadd(b, from_w, step), xj = kb_iadd(b, from_x, j), wv[MAX_VECTORS];
    for (int v = 0; v < vectors; v++) {
        kv a = kb_addi(b, at, (int64_t)v * c->lanes);
        wv[v] = kb_load(b, w->mem_w, kb_lane(b, a));
        kb_ahead(b, w->mem_w, kb_addi(b, a, CG_AHEAD * block));
    }
    for (int64_t p = 0; p < w->pixels; p++) {
        kv xp = kb_addi(b, xj, p * c->ci);
        kv x = kb_load(b, w->scratch, xp);
        for (int v = 0; v < vectors; v++) {
            kv old = kb_get(b, acc[p][v]);
            kb_set(b, acc[p][v], kb_fma(b, x, wv[v], old));
        }
    }
    kb_end(b);
    for (int64_t p = 0; p < w->pixels; p++)
        for (int v = 0; v < vectors; v++) {
            kv where = kb_addi(b, to, w->at_sums + p * block + (int64_t)v * c->lanes);
            kv sum = kb_get(b, acc[p][v]);
            kb_store(b, w->scratch, kb_lane(b, where), sum);
        }
    kb_end(b);
    kb_end(b);
}

/* --- output ------------------------------------------------------------------------------------------------- */

/* Stores an output pixel of the tile; the last tiles may hang over the map's edge. */
static void finish_pixel(struct kb *b, const struct tile *t, int r, int q, kv ch, kv sum)
{
    const struct wino *w = t->w;
    const struct conv *c = &w->c;
    kv y = kb_addi(b, t->y, r), x = kb_addi(b, t->x, q);
    bool over_y = r >= (c->oh - 1) % w->m + 1, over_x = q >= (c->ow - 1) % w->m + 1;
    if (over_y) cg_if(b, kb_ilt(b, y, kb_immi(b, c->oh)));
    if (over_x) cg_if(b, kb_ilt(b, x, kb_immi(b, c->ow)));
    cg_bind(b, c->op, sum);
    cg_store_all(b, c->first, c->last, (kv[]){w->batch, ch, y, x});
    b->nbound--;
    if (over_x) kb_end(b);
    if (over_y) kb_end(b);
}

/* One vector of channels of one tile; `column` is where its sums lie in the block. */
static void transform_sums(struct kb *b, const struct tile *t, kv channel, kv column)
{
    const struct wino *w = t->w;
    int n = w->n;
    kv half[MAX_N][MAX_M]; /* [column's point][row] */
    kv row = kb_muli(b, t->number, (int64_t)w->p.vectors * w->c.lanes);
    kv from = kb_iadd(b, row, column);
    int valid = b->valid;
    b->valid = b->lanes; /* sums of channels that do not exist are there too */
    for (int q = 0; q < n; q++) {
        kv m[MAX_N];
        for (int r = 0; r < n; r++) {
            kv where = kb_addi(b, from, w->at_sums + (r * n + q) * w->plane_sums);
            m[r] = kb_load(b, w->scratch, kb_lane(b, where));
        }
        from_points(b, n, m, half[q]);
    }
    kv bias = kb_immf(b, 0.0);
    if (yir_kind(w->c.bias) != YIR_NIL) bias = kb_load(b, w->mem_bias, kb_lane(b, channel));
    b->valid = valid;
    kv ch = kb_lane(b, channel);
    for (int r = 0; r < w->m; r++) {
        kv m[MAX_N], o[MAX_M];
        for (int q = 0; q < n; q++) m[q] = half[q][r];
        from_points(b, n, m, o);
        for (int q = 0; q < w->m; q++) finish_pixel(b, t, r, q, ch, kb_fadd(b, o[q], bias));
    }
}

/* The products of a block of channels, and what the epilogue makes of them; its last vector has `last` lanes. */
static void channel_block(struct kb *b, const void *ctx, int vectors, int last, kv channel)
{
    const struct wino *w = ctx;
    int rest = last < b->lanes ? last : 0, whole = vectors - (rest > 0);
    multiply(b, w, vectors, channel);
    struct tile t = begin_tile(b, w);
    if (whole) {
        kv column = kb_loop(b, kb_immi(b, 0), kb_immi(b, (int64_t)whole * b->lanes), b->lanes);
        transform_sums(b, &t, kb_iadd(b, channel, column), column);
        kb_end(b);
    }
    if (rest) {
        kv column = kb_immi(b, (int64_t)whole * b->lanes);
        b->valid = rest;
        transform_sums(b, &t, kb_iadd(b, channel, column), column);
        b->valid = b->lanes;
    }
    kb_end(b);
}

void emit_fast_conv_wino(struct kb *b, struct cg_kernel *k)
{
    struct conv c;
    const int32_t *knob = k->config.knob;
    cg_conv_of(b->f, k->first, k->last, b->target, &c);
    struct wino w = wino_of(&c, knob[0], knob[1], knob[2], knob[3], knob[4]);
    kv run, part;
    cg_conv_units(b, &w.p, (w.tiles + w.unit - 1) / w.unit, &w.batch, &run, &part);
    kv tile = kb_muli(b, run, w.unit);
    w.tile0 = kb_imin(b, tile, kb_immi(b, w.tiles - w.unit));
    w.mem_x = kb_mem_value(b, c.x);
    w.scratch = kb_mem_scratch(b, scratch_elems(&w));
    int32_t block = (int32_t)(w.p.vectors * c.lanes);
    w.mem_w = kb_mem_weight(b, c.w, w.m == 4 ? KB_PACK_WINO4 : KB_PACK_WINO2, block);
    if (yir_kind(c.bias) != YIR_NIL) w.mem_bias = kb_mem_weight(b, c.bias, KB_PACK_OBLOCK, block);
    transform_input(b, &w);
    cg_conv_channels(b, &c, &w.p, part, channel_block, &w);
}
