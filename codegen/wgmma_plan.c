#include "wgmma.h"

#include <string.h>

enum {
    SHARED_BLOCK = 227 << 10, /* bytes of one block, and of all blocks of a multiprocessor, which takes 1024 of each */
    SHARED_ALL = 228 << 10,
    SHARED_OWN = 1024,
    REGISTERS = 65536,        /* of a multiprocessor */
    MOST_REGISTERS = 248,     /* of a thread as launched, a multiple of 8 */
    MOST_RAISED = 240,        /* after setmaxnreg */
    OTHER_REGISTERS = 56,     /* beside the accumulators, at ease and at least */
    FEW_OTHER_REGISTERS = 32,
    PART_REGISTERS = 16,      /* of 64 repeated pixels of two chunks */
    MOST_SUMS = 200,          /* accumulators of a thread */
    MOST_BOX = 256,           /* elements of a box along one dimension */
    SMALLEST_GPU = 16         /* multiprocessors of the smallest part that a GPU is divided into */
};

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static int64_t ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

/* --- order of the steps ------------------------------------------------------------------------------------- */

int32_t wg_pack_arg(int n, int kc, enum wg_feed feed)
{
    return (int32_t)(n | kc / WG_DEPTH << 10 | (feed == WG_PAIRS ? 1 : feed == WG_PARITY ? 2 : 0) << 14);
}

int wg_pack_rows(int32_t arg)
{
    return arg & 1023;
}

struct wg_order wg_order_of(const struct yir_tdesc *weight, int32_t arg)
{
    int64_t ci = weight->dim[1];
    struct wg_order o = {.ci = ci, .taps = (int)(weight->dim[2] * weight->dim[3]), .kc = (arg >> 10 & 15) * WG_DEPTH};
    int stride2 = arg >> 14;
    if (stride2) o.half = stride2 == 1 ? ci : round_up(ci, o.kc);
    return o;
}

int64_t wg_chunks(const struct wg_order *o)
{
    return ceil_div(o->half ? 2 * o->half : o->ci, o->kc);
}

int wg_chunk_steps(const struct wg_order *o, int64_t chunk, struct wg_step *out)
{
    int n = 0;
    for (int tap = 0; tap < o->taps; tap++)
        for (int k = 0; k < o->kc / WG_DEPTH; k++) {
            int64_t at = chunk * o->kc + (int64_t)k * WG_DEPTH, odd = o->half ? at / o->half : 0;
            int64_t channel = o->half ? at % o->half : at;
            if (channel >= o->ci || odd > 1 || (o->half && (odd == 0) != (tap % 3 == 1))) continue;
            out[n++] = (struct wg_step){.chunk = chunk, .channel = channel, .tap = tap, .within = k};
        }
    return n;
}

int64_t wg_steps(const struct wg_order *o)
{
    struct wg_step steps[WG_MOST_STEPS];
    int64_t n = 0, chunks = wg_chunks(o);
    for (int64_t c = 0; c < chunks; c++) n += wg_chunk_steps(o, c, steps);
    return n;
}

int64_t wg_packed_elems(const struct yir_tdesc *weight, int32_t arg)
{
    struct wg_order o = wg_order_of(weight, arg);
    return round_up(weight->dim[0], wg_pack_rows(arg)) * wg_steps(&o) * WG_DEPTH;
}

/* Element k of row n; every other four rows have their halves the other way round. */
static int64_t swizzled(int64_t n, int k)
{
    return n * WG_DEPTH + (k ^ (n / 4 % 2 ? WG_DEPTH / 2 : 0));
}

static void pack_step(const struct yir_tdesc *w, const char *in, const struct wg_step *s, int64_t first, int64_t rows, char *out)
{
    size_t size = yir_dtype_size(w->dtype);
    int64_t ci = w->dim[1], taps = w->dim[2] * w->dim[3];
    for (int64_t n = 0; n < rows && first + n < w->dim[0]; n++)
        for (int k = 0; k < WG_DEPTH && s->channel + k < ci; k++)
            memcpy(out + (size_t)swizzled(n, k) * size,
                   in + (size_t)(((first + n) * ci + s->channel + k) * taps + s->tap) * size, size);
}

void wg_pack(const struct yir_tdesc *weight, const void *data, int32_t arg, void *out)
{
    struct wg_order o = wg_order_of(weight, arg);
    struct wg_step steps[WG_MOST_STEPS];
    int64_t rows = wg_pack_rows(arg), chunks = wg_chunks(&o);
    char *to = out;
    for (int64_t first = 0; first < weight->dim[0]; first += rows)
        for (int64_t c = 0; c < chunks; c++)
            for (int i = 0, n = wg_chunk_steps(&o, c, steps); i < n; i++) {
                pack_step(weight, data, &steps[i], first, rows, to);
                to += (size_t)(rows * WG_DEPTH) * yir_dtype_size(weight->dtype);
            }
}

/* --- guard -------------------------------------------------------------------------------------------------- */

/* Where tensor copies can read it: 16-byte strides and address, in the arena. */
static bool can_copy(const struct yir_func *f, yir_ref x)
{
    enum { EIGHT = 8 }; /* 2-byte elements of 16 bytes */
    const struct yir_place *p = &f->place[yir_index(x)];
    const struct yir_tdesc *d = yir_desc(f, x);
    const struct yir_buf *buf = p->buf ? &f->buf[p->buf - 1] : NULL;
    if (!buf || buf->kind != YIR_BUF_ARENA || d->dim[1] % EIGHT) return false;
    for (int i = 0; i < 4; i++)
        if (i != 1 && p->stride[i] % EIGHT) return false;
    return (buf->offset + p->offset) % 16 == 0;
}

static bool is_3x3(const struct conv *c)
{
    return c->win.kernel[0] == 3 && c->win.kernel[1] == 3 && c->win.pad[0] == 1 && c->win.pad[1] == 1;
}

static bool fits_window(const struct conv *c)
{
    const struct cg_window *w = &c->win;
    bool once = w->stride[0] == 1 && w->stride[1] == 1, twice = w->stride[0] == 2 && w->stride[1] == 2;
    if (w->dil[0] != 1 || w->dil[1] != 1) return false;
    if (once && (c->oh != c->ih || c->ow != c->iw)) return false;
    if (is_3x3(c)) return once || (twice && c->iw % 2 == 0);
    return once && w->kernel[0] == 1 && w->kernel[1] == 1;
}

/* Of several sources, or of one that is enlarged. */
static bool in_parts(const struct cg_sources *in)
{
    return in->n > 1 || in->at[0].shift > 0;
}

static bool takes_sources(const struct conv *c, const struct cg_sources *in)
{
    const bool point = c->win.kernel[0] == 1;
    if (in->n > WG_MOST_SOURCES) return false;
    for (int i = 0; i < in->n; i++)
        if (in->at[i].wide || in->at[i].shift > 1 || !can_copy(c->f, in->at[i].ref)) return false;
    return in_parts(in) ? point : !point || cg_one_run(c->f, c->x);
}

bool wg_takes(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c, struct cg_sources *in)
{
    if (t->sm != 90 || !t->sm_a || !cg_conv_of(f, first, last, t, c)) return false;
    enum yir_dtype type = yir_desc(f, c->x)->dtype;
    if ((type != YIR_F16 && type != YIR_BF16) || yir_desc(f, c->w)->dtype != type) return false;
    return c->groups == 1 && c->co % 8 == 0 && fits_window(c) && cg_conv_sources(f, f->op[last].kernel, c->x, in) && takes_sources(c, in);
}

/* --- plans -------------------------------------------------------------------------------------------------- */

static enum wg_feed choose_feed(const struct wg_plan *p)
{
    const struct conv *c = &p->c;
    if (in_parts(&p->in)) return WG_PARTS;
    if (c->win.kernel[0] == 1) return WG_POINT;
    if (c->win.stride[0] == 2) return p->ld == c->ci && c->ci % WG_DEPTH == 0 ? WG_PAIRS : WG_PARITY;
    int64_t lines = (WG_ROWS * p->m + 2) / (c->iw + 2);
    if (lines > c->oh) lines = c->oh;
    if (lines < 1 || c->iw + 2 > MOST_BOX) return WG_HALO;
    return ceil_div(c->oh, lines) < ceil_div(c->oh, (int64_t)8 * p->m) * ceil_div(c->ow, 8) ? WG_LINES : WG_HALO;
}

static void set_tiles(struct wg_plan *p)
{
    const struct conv *c = &p->c;
    int m = p->m;
    p->tiles_x = 1;
    switch (p->feed) {
    case WG_POINT:
        p->tiles = ceil_div(c->oh * c->ow, (int64_t)WG_ROWS * m);
        p->box_rows = WG_ROWS * m;
        p->stride_rows = 8;
        p->block_rows = WG_ROWS;
        return;
    case WG_LINES:
        p->lines = (int)((WG_ROWS * m + 2) / (c->iw + 2));
        if (p->lines > c->oh) p->lines = (int)c->oh;
        p->tiles = ceil_div(c->oh, p->lines);
        p->box_rows = (int)((c->iw + 2) * (p->lines + 2));
        p->stride_rows = 8;
        p->block_rows = WG_ROWS;
        return;
    case WG_HALO:
    case WG_PAIRS:
    case WG_PARITY:
    case WG_PARTS:
        p->tiles_x = ceil_div(c->ow, 8);
        p->tiles = p->tiles_x * ceil_div(c->oh, (int64_t)8 * m);
        p->box_rows = p->feed == WG_HALO ? 10 * (8 * m + 2) : p->feed == WG_PARTS ? WG_ROWS * m : 9 * (16 * m + 1);
        p->stride_rows = p->feed == WG_HALO ? 10 : p->feed == WG_PARTS ? 8 : 18;
        p->block_rows = 8 * p->stride_rows;
        return;
    }
}

const struct cg_source *wg_source(const struct wg_plan *p, int64_t chunk)
{
    int i = 0;
    while (i + 1 < p->in.n && p->in.at[i + 1].first <= chunk * p->kc) i++;
    return &p->in.at[i];
}

int wg_tap_row(const struct wg_plan *p, int tap)
{
    int r = tap / 3, s = tap % 3;
    switch (p->feed) {
    case WG_POINT:
    case WG_PARTS: return 0;
    case WG_HALO: return r * 10 + s;
    case WG_LINES: return (int)(r * (p->c.iw + 2) + s);
    case WG_PAIRS:
    case WG_PARITY: return r * 9 + (s > 0);
    }
    YIR_BUG("no such feed: %d", (int)p->feed);
}

/* Rows that the taps of the last pixels reach, which may be more than the box has: what lies there is only read for rows that
 * are not stored. */
static int rows_read(const struct wg_plan *p)
{
    if (p->feed != WG_LINES) return p->box_rows;
    int last = WG_ROWS * p->m + wg_tap_row(p, WG_MOST_TAPS - 1);
    return last > p->box_rows ? last : p->box_rows;
}

static bool box_fits(const struct wg_plan *p)
{
    if (p->feed == WG_LINES) return p->c.iw + 2 <= MOST_BOX && p->lines + 2 <= MOST_BOX;
    return p->feed == WG_POINT ? p->box_rows <= MOST_BOX : true;
}

/* Each stage of the ring holds steps of one chunk. */
static bool group_fits(const struct wg_plan *p)
{
    struct wg_step steps[WG_MOST_STEPS];
    for (int64_t c = 0; c < p->chunks; c++)
        if (wg_chunk_steps(&p->order, c, steps) % p->group) return false;
    return true;
}

static bool set_shared(struct wg_plan *p)
{
    int64_t step = (int64_t)p->n * WG_DEPTH * 2, stage = round_up((int64_t)rows_read(p) * p->pitch, 8 * p->pitch);
    int64_t weights = p->ring ? p->ring * p->group * step : p->steps * step;
    int64_t barriers = 8 * (2 * (int64_t)p->w * p->stages + 2 * (p->ring ? p->ring : 1));
    int64_t all = (int64_t)p->w * p->stages * stage + weights + barriers;
    if (all > SHARED_BLOCK || p->resident * (all + SHARED_OWN) > SHARED_ALL) return false;
    p->stage_bytes = (int)stage;
    p->weight_bytes = (int)weights;
    p->shared = (int)all;
    return true;
}

bool wg_repeats(const struct wg_plan *p)
{
    bool any = false;
    for (int i = 0; i < p->in.n; i++) any |= p->in.at[i].shift > 0;
    return any;
}

/* setmaxnreg hands the launch's registers out anew, no more than there are: asking for more hangs. An instruction's own operands, the
 * accumulators and some 26 more, must fit into those of the launch all the same: ptxas refuses it else (C7602). */
static bool set_registers(struct wg_plan *p)
{
    int sums = p->m * p->n / 2 + (wg_repeats(p) ? p->m * PART_REGISTERS : 0);
    int threads = 128 * (p->w + 1), launched = REGISTERS / (threads * p->resident) / 8 * 8;
    if (launched > MOST_REGISTERS) launched = MOST_REGISTERS;
    p->registers = 0;
    if (sums > MOST_SUMS || sums + FEW_OTHER_REGISTERS > launched) return false;
    if (sums + OTHER_REGISTERS <= launched) return true;
    int raised = ((p->w + 1) * launched - WG_PRODUCER_REGISTERS) / p->w / 8 * 8;
    p->registers = raised < MOST_RAISED ? raised : MOST_RAISED;
    return p->registers >= launched;
}

/* Chunks are of one source each. */
static bool chunks_fit(const struct wg_plan *p)
{
    for (int i = 0; i < p->in.n && p->feed == WG_PARTS; i++)
        if (p->in.at[i].channels % p->kc) return false;
    return true;
}

bool wg_plan(const struct conv *c, const struct cg_sources *in, const int32_t *knob, struct wg_plan *p)
{
    *p = (struct wg_plan){.c = *c, .in = *in, .n = knob[WG_N], .kc = knob[WG_KC], .m = knob[WG_M], .w = knob[WG_W], .stages = knob[WG_STAGES],
                          .ring = knob[WG_RING], .group = knob[WG_GROUP], .resident = knob[WG_RESIDENT]};
    p->ld = c->f->place[yir_index(in->at[0].ref)].stride[3];
    p->pitch = p->kc * 2;
    p->images = c->t->batch > 0 ? c->t->batch : 1;
    p->feed = choose_feed(p);
    p->order = wg_order_of(yir_desc(c->f, c->w), wg_pack_arg(p->n, p->kc, p->feed));
    p->chunks = wg_chunks(&p->order);
    p->steps = wg_steps(&p->order);
    p->ntiles = ceil_div(c->co, p->n);
    set_tiles(p);
    if (p->ntiles > SMALLEST_GPU * p->resident) return false; /* each column has a block, even when blocks are few */
    if (!chunks_fit(p) || !box_fits(p) || p->ring == 1 || (p->ring && !group_fits(p))) return false;
    if (p->stages == 1 && p->chunks > 1) return false; /* a stage is given back when the next one's products have begun */
    return set_shared(p) && set_registers(p);
}

int64_t wg_units(const struct wg_plan *p)
{
    return ceil_div(p->tiles, p->w) * p->ntiles;
}

/* --- predictions: the numbers are fitted to some 1000 kernels measured on an H200 --------------------------- */

static double larger(double x, double y)
{
    return x > y ? x : y;
}

/* Cycles of a step, that is 16 channels of a tap for 64 pixels: what it takes of the tensor pipe or, if that is more, of shared
 * memory, which products read and copies write. */
static double step_cycles(const struct wg_plan *p)
{
    double mma = p->n / 2.0, shared = 22 + 0.18 * p->n;
    shared += p->feed == WG_POINT || p->feed == WG_PARTS ? 31 : p->feed == WG_PAIRS || p->feed == WG_PARITY ? 15 : 0;
    if (p->ring) shared += 0.22 * p->n / (p->m * p->w);
    return larger(mma, shared);
}

/* What blocks do when all images are shared out: how many there are, how many of them the busiest multiprocessor has at a time,
 * and tiles of each of their warpgroups. */
struct share {
    int64_t blocks, each, rounds;
};

static struct share share_of(const struct wg_plan *p)
{
    int64_t groups = ceil_div(p->tiles * p->images, p->w), sms = p->c.t->sms, columns = sms * p->resident / p->ntiles;
    if (columns < 1) columns = 1;
    if (columns > groups) columns = groups;
    return (struct share){columns * p->ntiles, ceil_div(columns * p->ntiles, sms), ceil_div(groups, columns)};
}

/* Cycles that the products and epilogues take: of one warpgroup alone, or of all of a multiprocessor; few of them leave it idle
 * in their epilogues. */
static double work_cycles(const struct wg_plan *p, const struct share *s)
{
    enum { SLOWEST_STEP = 26, EPILOGUE = 160, COMMIT = 69, BUSY = 4 };
    double steps = (double)p->steps * p->m, each = step_cycles(p), end = EPILOGUE + 15.8 * p->n * p->m;
    double commits = p->ring ? (double)p->steps / p->group : (double)p->chunks, groups = (double)s->each * p->w;
    double alone = steps * larger(each, SLOWEST_STEP) + end + COMMIT * commits;
    double together = groups * (steps * each + 0.52 * end + 0.3 * COMMIT * commits);
    if (s->rounds > 1 && groups < BUSY) together *= 1 + 0.08 * (BUSY - groups);
    return (double)s->rounds * larger(alone, together);
}

/* Cycles that products wait for copies because there are few stages. */
static double late_cycles(const struct wg_plan *p, const struct share *s)
{
    enum { LATE = 200, LATE_WEIGHTS = 46, ENOUGH = 3, ENOUGH_WEIGHTS = 4 };
    double all = (double)(s->rounds * p->chunks), wanted = all < ENOUGH ? all : ENOUGH, cycles = 0;
    if (p->stages < wanted) cycles = LATE * (wanted - p->stages);
    if (p->ring && p->ring < ENOUGH_WEIGHTS) cycles += LATE_WEIGHTS * (double)p->steps / p->group * (ENOUGH_WEIGHTS - p->ring);
    return cycles * (double)s->rounds;
}

/* Rows copied for a tile, of all chunks; and elements of the input's memory. */
static double rows_copied(const struct wg_plan *p)
{
    double rows = 0;
    for (int i = 0; i < p->in.n && p->feed == WG_PARTS; i++)
        rows += (double)(p->in.at[i].channels / p->kc) * (p->box_rows >> 2 * p->in.at[i].shift);
    return p->feed == WG_PARTS ? rows : (double)p->chunks * p->box_rows;
}

static double input_elements(const struct wg_plan *p)
{
    double all = 0;
    for (int i = 0; i < p->in.n; i++) all += (double)(p->c.ih * p->c.iw * p->in.at[i].channels >> 2 * p->in.at[i].shift);
    return all;
}

double wg_cycles(const struct wg_plan *p)
{
    enum { START = 1800 };
    const double flow = 109, level2 = 3900, memory = 2470; /* bytes a cycle: to one multiprocessor, to all, of memory */
    const struct conv *c = &p->c;
    const struct share s = share_of(p);
    double step = (double)p->n * WG_DEPTH * 2, weights = (double)p->steps * step, rounds = (double)s.rounds;
    double input = rounds * p->w * rows_copied(p) * p->pitch, streamed = p->ring ? rounds * weights : 0;
    double map = (double)p->images * 2 * (input_elements(p) + (double)(c->oh * c->ow * c->co));
    double copies = larger((double)s.each * (input + streamed) / flow, (double)s.blocks * (input + larger(streamed, weights)) / level2);
    double before = (double)s.each * (p->ring ? p->group * step : weights) * 0.8 / flow; /* the first product waits for it */
    return START + before + late_cycles(p, &s) + larger(work_cycles(p, &s), larger(copies, map / memory));
}
