/* Maxima over windows on GPUs: some channels of a pixel a thread. Outside the map stands its edge, which is in the window anyway
 * wherever that reaches over. Of pools one after the other, a later one may take the larger window of an earlier one's input, so that
 * it need not wait for that. */
#include "fast_vec.h"

enum { MOST_WINDOW = 16, MOST_LEVELS = 4, MOST_LANES = 8, KNOB_LANES = 0, KNOB_LEVELS = 1 };

struct pool {
    uint32_t op;
    yir_ref x;                     /* what is read */
    int64_t kernel[2], stride[2], pad[2];
    int64_t channels, ih, iw, oh, ow;
};

/* The memory still holds the value when `op` runs. */
static bool is_there(const struct yir_func *f, yir_ref r, uint32_t op)
{
    if (yir_kind(r) != YIR_VAL || !f->place[yir_index(r)].buf) return false;
    const struct yir_buf *b = &f->buf[f->place[yir_index(r)].buf - 1];
    return b->kind == YIR_BUF_ARENA && b->first <= op && op <= b->last;
}

/* No window lies outside the map altogether. */
static bool meets_map(const struct pool *p)
{
    return p->pad[0] < p->kernel[0] && p->pad[1] < p->kernel[1] && (p->oh - 1) * p->stride[0] - p->pad[0] < p->ih &&
           (p->ow - 1) * p->stride[1] - p->pad[1] < p->iw && p->kernel[0] <= MOST_WINDOW && p->kernel[1] <= MOST_WINDOW;
}

static struct pool pool_of(const struct yir_func *f, uint32_t op)
{
    const struct yir_a_pool *a = yir_attrs(f, op);
    struct pool p = {.op = op, .x = yir_src(f, op, 0)};
    const struct yir_tdesc *in = yir_desc(f, p.x), *out = yir_tdesc(f->types, f->op[op].type);
    for (int i = 0; i < 2; i++) {
        p.kernel[i] = a->kernel[i];
        p.stride[i] = a->stride[i];
        p.pad[i] = a->pad[i];
    }
    p.channels = in->dim[1];
    p.ih = in->dim[2];
    p.iw = in->dim[3];
    p.oh = out->dim[2];
    p.ow = out->dim[3];
    return p;
}

/* One level down: the window over the input of the pool that makes the present one; that pool keeps the size of its map. */
static bool deeper(const struct yir_func *f, struct pool *p)
{
    if (yir_kind(p->x) != YIR_VAL || yir_opof(f, p->x)->code != YIR_maxpool) return false;
    struct pool under = pool_of(f, yir_index(p->x));
    if (under.stride[0] != 1 || under.stride[1] != 1 || under.oh != under.ih || under.ow != under.iw || !meets_map(&under)) return false;
    if (!is_there(f, under.x, p->op) || !cg_adjacent(f, under.x)) return false;
    if (yir_desc(f, under.x)->dtype != yir_desc(f, p->x)->dtype) return false;
    struct pool larger = *p;
    larger.x = under.x;
    for (int i = 0; i < 2; i++) {
        larger.kernel[i] += under.kernel[i] - 1;
        larger.pad[i] += under.pad[i];
    }
    if (!meets_map(&larger)) return false;
    *p = larger;
    return true;
}

bool guard_vec_pool(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = cg_only_op(f, first, last, YIR_maxpool);
    if (!t->sm || !op || !cg_lanes_ok(f, first, last, op)) return false;
    struct pool p = pool_of(f, op);
    return yir_kind(p.x) == YIR_VAL && cg_in_memory(f, f->op[op].kernel, p.x) && cg_adjacent(f, p.x) && p.channels >= 2 && meets_map(&p);
}

size_t list_vec_pool(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    enum { WAIT = 3000, MORE = 150 }; /* cycles that the kernel before takes at least; that each element of a larger window takes to come */
    struct pool p = pool_of(f, cg_only_op(f, first, last, YIR_maxpool));
    const double own = (double)(p.kernel[0] * p.kernel[1]);
    size_t n = 0;
    for (int32_t levels = 1; levels <= MOST_LEVELS; levels++) {
        double taps = (double)(p.kernel[0] * p.kernel[1]);
        for (int32_t lanes = 2; lanes <= MOST_LANES && (lanes == 2 || lanes < 2 * p.channels) && n < most; lanes *= 2) {
            double threads = (double)(p.oh * p.ow * ((p.channels + lanes - 1) / lanes));
            double cycles = cg_gpu_cycles(t, threads, 80 + taps * (2 + 2 * lanes)) + (taps - own) * MORE - WAIT * (levels - 1);
            out[n++] = (struct cg_config){.knob = {lanes, levels}, .cycles = cycles};
        }
        if (!deeper(f, &p)) break;
    }
    return n;
}

struct window {
    struct cg_kernel *k;
    struct pool p;
    int mem;
    kv n, y, x, row[MOST_WINDOW], column[MOST_WINDOW]; /* row, column: parts of addresses */
};

static void pool_channels(struct kb *b, void *ctx, kv c)
{
    const struct window *w = ctx;
    kv top = {0};
    for (int64_t r = 0; r < w->p.kernel[0]; r++)
        for (int64_t q = 0; q < w->p.kernel[1]; q++) {
            kv place = kb_iadd(b, w->row[r], w->column[q]);
            kv at = kb_iadd(b, place, c);
            kv v = kb_load(b, w->mem, at);
            top = r || q ? kb_fmax(b, top, v) : v;
        }
    cg_bind(b, w->p.op, top);
    cg_store_all(b, w->k->first, w->k->last, (kv[]){w->n, c, w->y, w->x});
    b->nbound--;
}

/* Addresses of the window's lines along an axis, held within the map. */
static void find_lines(struct kb *b, const struct pool *p, int axis, kv out, int64_t size, int64_t step, kv *line)
{
    kv start = kb_muli(b, out, p->stride[axis]);
    for (int64_t i = 0; i < p->kernel[axis]; i++) {
        kv at = kb_addi(b, start, i - p->pad[axis]);
        kv low = kb_imax(b, at, kb_immi(b, 0));
        kv held = kb_imin(b, low, kb_immi(b, size - 1));
        line[i] = kb_muli(b, held, step);
    }
}

void emit_fast_vec_pool(struct kb *b, struct cg_kernel *k)
{
    struct window w = {.k = k, .p = pool_of(b->f, cg_only_op(b->f, k->first, k->last, YIR_maxpool))};
    int lanes = k->config.knob[KNOB_LANES];
    for (int32_t level = 1; level < k->config.knob[KNOB_LEVELS]; level++) {
        bool there = deeper(b->f, &w.p);
        YIR_ASSERT(there);
    }
    const int64_t *stride = b->f->place[yir_index(w.p.x)].stride;
    int64_t groups = (w.p.channels + lanes - 1) / lanes;
    kv u, count = kb_immi(b, groups), width = kb_immi(b, w.p.ow), zero = kb_immi(b, 0);
    w.mem = kb_mem_value(b, w.p.x);
    cg_split_unit(b, w.p.oh * w.p.ow * groups, &w.n, &u);
    kv group = kb_irem(b, u, count);
    kv pixel = kb_idiv(b, u, count);
    w.y = kb_idiv(b, pixel, width);
    w.x = kb_irem(b, pixel, width);
    find_lines(b, &w.p, 0, w.y, w.p.ih, stride[2], w.row);
    find_lines(b, &w.p, 1, w.x, w.p.iw, stride[3], w.column);
    kv image = kb_address(b, w.p.x, (kv[]){w.n, zero, zero, zero});
    for (int64_t i = 0; i < w.p.kernel[0]; i++) w.row[i] = kb_iadd(b, image, w.row[i]);
    cg_group_channels(b, w.p.channels, lanes, group, pool_channels, &w);
}
