/* Convolutions by mma.sync (mma_text.c): what is taken, configurations, and the program of the epilogue. The input is read where it
 * lies: in one place, in several that a concat joins, each perhaps enlarged by repeating its pixels. */
#include "fast_conv.h"
#include "kb_cuda.h"
#include "mma_text.h"

#include <math.h>
#include <string.h>

enum { KNOB_M, KNOB_N, KNOB_K, KNOB_STAGES, KNOB_WARPS_M, KNOB_WARPS_N, KNOB_SPLIT };

/* --- what is taken ------------------------------------------------------------------------------------------ */

static bool set_sources(struct mma *m, const struct yir_func *f, const struct cg_sources *in)
{
    for (int i = 0; i < in->n; i++) {
        const struct cg_source *from = &in->at[i];
        const int64_t *stride = f->place[yir_index(from->ref)].stride;
        if (stride[0] > INT32_MAX) return false;
        m->source[i] = (struct mma_source){
            .first = from->first, .image = stride[0], .down = stride[2], .across = stride[3], .shift = from->shift};
        m->wide |= from->wide;
    }
    m->nsource = in->n;
    return !m->wide || m->nsource == 1;
}

/* A transposed convolution whose windows, 2x2 with stride 2, do not overlap, as a 1x1 convolution that gives the channels of four pixels
 * side by side. */
static bool spread_of(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c)
{
    uint32_t op = cg_only_op(f, first, last, YIR_deconv2d);
    if (!op) return false;
    const struct yir_a_deconv *a = yir_attrs(f, op);
    const struct yir_a_deconv want = {.stride = {2, 2}, .groups = 1};
    *c = (struct conv){.f = f, .t = t, .first = first, .last = last, .op = op, .lanes = t->lanes, .groups = 1};
    c->win = (struct cg_window){{1, 1}, {1, 1}, {1, 1}, {0, 0}};
    c->x = yir_src(f, op, 0);
    c->w = yir_src(f, op, 1);
    c->bias = f->op[op].nsrc == 3 ? yir_src(f, op, 2) : YIR_NONE;
    if (memcmp(a, &want, sizeof want) || yir_kind(c->w) != YIR_WGT || !cg_lanes_ok(f, first, last, op)) return false;
    if (yir_kind(c->bias) != YIR_NIL && (yir_kind(c->bias) != YIR_WGT || !cg_is_float(yir_desc(f, c->bias)->dtype))) return false;
    const struct yir_tdesc *w = yir_desc(f, c->w), *in = yir_desc(f, c->x);
    if (in->rank != 4 || w->dim[2] != 2 || w->dim[3] != 2 || w->dim[1] % c->lanes) return false;
    c->ci = in->dim[1];
    c->oh = c->ih = in->dim[2];
    c->ow = c->iw = in->dim[3];
    c->co = 4 * w->dim[1];
    return true;
}

static enum kb_packing packing_of(const struct mma *m)
{
    return m->spread ? KB_PACK_MMA_SPREAD : KB_PACK_MMA;
}

/* Everything but the tile. */
static bool take(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c, struct mma *m,
                 struct cg_sources *in)
{
    enum { MOST_TAPS = 8, MOST_ELEMS = INT32_MAX / 8 };
    if (!t->sm) return false;
    bool spread = spread_of(f, first, last, t, c);
    if (!spread && !cg_conv_of(f, first, last, t, c)) return false;
    enum yir_dtype d = yir_desc(f, c->x)->dtype;
    if (!mma_has_type(t, d) || yir_desc(f, c->w)->dtype != d) return false;
    *m = (struct mma){.dtype = d, .sm = t->sm, .ci = c->ci / c->groups, .ih = c->ih, .iw = c->iw,
                      .groups = c->groups, .co = c->co, .oh = c->oh, .ow = c->ow,
                      .spread = spread ? c->co / 4 : 0};
    for (int i = 0; i < 2; i++) {
        m->taps[i] = c->win.kernel[i];
        m->stride[i] = c->win.stride[i];
        m->dil[i] = c->win.dil[i];
        m->pad[i] = c->win.pad[i];
        if (m->taps[i] > MOST_TAPS) return false;
    }
    if (m->taps[0] * m->taps[1] > 49 || c->oh * c->ow > MOST_ELEMS) return false;
    if (!cg_conv_sources(f, f->op[last].kernel, c->x, in) || !set_sources(m, f, in)) return false;
    if (cg_packed_elems(yir_desc(f, c->w), packing_of(m), (int32_t)c->groups) > MOST_ELEMS) return false;
    return c->groups == 1 || (m->nsource == 1 && m->ci % mma_chunk(m) == 0 && c->co / c->groups % 8 == 0);
}

bool guard_conv_mma(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    struct mma m;
    struct cg_sources in;
    return take(f, first, last, t, &c, &m, &in);
}

/* --- configurations ----------------------------------------------------------------------------------------- */

static void set_knobs(struct mma *m, const int32_t *knob)
{
    m->tile_m = knob[KNOB_M];
    m->tile_n = knob[KNOB_N];
    m->tile_k = knob[KNOB_K];
    m->stages = knob[KNOB_STAGES];
    m->warps_m = knob[KNOB_WARPS_M];
    m->warps_n = knob[KNOB_WARPS_N];
    m->split = knob[KNOB_SPLIT];
}

void mma_limits(int sm, int64_t *all, int64_t *block, int *threads)
{
    bool large = sm == 80 || sm == 87, largest = sm >= 90 && sm < 120;
    *all = (sm == 75 ? 64 : largest ? 228 : large ? 164 : 100) << 10;
    *block = *all - (sm == 75 ? 0 : 1 << 10);
    *threads = sm == 75 ? 1024 : sm == 80 || largest ? 2048 : 1536;
}

/* Registers of a thread: sums, the operands of a step, addresses of copies, and the rest (measured). */
static int64_t registers(const struct mma *m)
{
    int64_t rows = m->tile_m / m->warps_m / 16, blocks = m->tile_n / m->warps_n / 16;
    int64_t columns = m->tile_k * (int64_t)yir_dtype_size(m->dtype) / 16, threads = mma_threads(m);
    int64_t copies = (m->tile_m * columns + threads - 1) / threads;
    return (rows * blocks * 8 + rows * 4 + blocks * 4 + copies * (m->nsource > 1 ? 4 : 3) + 34 + 7) / 8 * 8;
}

static bool legal(const struct mma *m)
{
    int64_t all, block, size = (int64_t)yir_dtype_size(m->dtype), columns = m->tile_k * size / 16;
    int threads;
    mma_limits(m->sm, &all, &block, &threads);
    if (m->tile_m % (16 * m->warps_m) || m->tile_n % (16 * m->warps_n) || columns / 2 % m->split) return false;
    if (mma_threads(m) > 512 || mma_threads(m) % columns || mma_shared(m) > block) return false;
    if (m->tile_k / ((m->ci + mma_chunk(m) - 1) / mma_chunk(m) * mma_chunk(m)) + 2 + m->taps[0] * m->taps[1] > 64) return false;
    return registers(m) <= 216 && registers(m) * mma_threads(m) <= 65536;
}

/* Blocks that a multiprocessor has room for at once. */
static int64_t resident(const struct mma *m)
{
    int64_t all, block;
    int threads;
    mma_limits(m->sm, &all, &block, &threads);
    int64_t fit = all / (mma_shared(m) + 1024), most = threads / mma_threads(m), regs = 65536 / (registers(m) * mma_threads(m));
    if (most < fit) fit = most;
    if (regs < fit) fit = regs;
    return fit < 1 ? 1 : fit;
}

static double fourth(double x)
{
    return x * x * x * x;
}

/* Cycles that `together` blocks take on one multiprocessor; a tile of k takes what its scarcest part does, and more where several are
 * scarce. Numbers fitted to 900 measurements on an H200; the first choice was 6 % slower than the best of them on the average, 23 % at worst. */
static double block_cycles(const struct mma *m, int64_t together)
{
    const double product = m->sm == 86 || m->sm == 87 || m->sm == 89 || m->sm == 120 ? 22 : 11, memory = 947;
    double columns = (double)(m->tile_k * (int64_t)yir_dtype_size(m->dtype) / 16), steps = columns / 2 / m->split;
    double rows = (double)(m->tile_m / m->warps_m / 16), blocks = (double)(m->tile_n / m->warps_n / 16), threads = mma_threads(m);
    double copies = ceil((double)m->tile_m * columns / threads), copies_b = ceil((double)m->tile_n * columns / threads);
    double share = fmax(threads / 32 * (double)together / 4, 1); /* warps on each of the four parts */
    double products = steps * rows * blocks * 2 * product;
    double issued = (products + steps * (rows + blocks) * 2 + copies * (m->nsource > 1 ? 11 : 6.3) + copies_b * 0.45 + 32) * share;
    double waited = products * 1.44 + steps * 50 + 150 + (copies + copies_b) * 4.7;
    double ahead = memory / (m->stages - 1);
    double copied = (double)(m->tile_m + m->tile_n) * columns * 16 * (double)together / 36;
    double shared = steps * threads / 32 * (rows + blocks) * 2.8 * (double)together + copied * 0.18;
    double tile = sqrt(sqrt(fourth(issued) + fourth(waited) + fourth(ahead) + fourth(copied) + fourth(shared)));
    double end = 83 + 0.86 * (double)(m->tile_m * m->tile_n) / threads * (7 * m->split + 1) * share;
    double apart = together > 1 ? 0.9 : 1; /* one block's ends fall into another's middle */
    return tile * ceil((double)mma_steps(m) * 2 / columns) + (1740 + end) * apart;
}

/* Cycles of all images: waves of blocks, or what memory takes. */
static double cycles_of(const struct mma *m, const struct kb_target *t)
{
    const double launch = 1740, bytes_a_cycle = 11.6;
    int64_t images = t->batch > 0 ? t->batch : 1, units = mma_units(m) * images, size = (int64_t)yir_dtype_size(m->dtype);
    int64_t each = (units + t->sms - 1) / t->sms, fit = resident(m), whole = each / fit, rest = each % fit;
    double work = whole ? (double)whole * block_cycles(m, fit) : 0;
    if (rest) work += block_cycles(m, rest) * (whole ? 0.73 : 1);
    double bytes = (double)(images * (m->ih * m->iw * m->ci * m->groups + m->oh * m->ow * m->co) * size);
    return launch + fmax(work, bytes / bytes_a_cycle / t->sms);
}

enum { KEPT = 24 };

struct list {
    struct conv c;
    struct mma m;
    struct cg_sources in;
    const struct kb_target *t;
    struct cg_config all[2 * KEPT];
    size_t n;
    double bound; /* slower ones are not among the best */
};

static void add(struct list *l, const int32_t *knob)
{
    set_knobs(&l->m, knob);
    if (!legal(&l->m)) return;
    double cycles = cycles_of(&l->m, l->t);
    if (cycles > l->bound) return;
    l->all[l->n] = (struct cg_config){.cycles = cycles};
    memcpy(l->all[l->n++].knob, knob, sizeof l->all->knob);
    if (l->n < YIR_COUNT(l->all)) return;
    l->n = cg_best_configs(l->all, l->n, KEPT);
    l->bound = l->all[KEPT - 1].cycles;
}

/* Depths and divisions among warps of one tile. */
static void add_tiles(struct list *l, int32_t m, int32_t n)
{
    static const int32_t warps[] = {1, 2, 4}, splits[] = {1, 2, 4, 8};
    int32_t chunk = (int32_t)mma_chunk(&l->m);
    int64_t steps = mma_steps(&l->m);
    for (int32_t columns = 4; columns <= 16; columns *= 2)
        for (int32_t stages = 2; stages <= 6; stages += stages == 4 ? 2 : 1) {
            int64_t tiles = (steps * 2 + columns - 1) / columns;
            if (stages > 2 && stages > tiles + 1) continue;
            for (size_t i = 0; i < YIR_COUNT(warps); i++)
                for (size_t j = 0; j < YIR_COUNT(warps); j++)
                    for (size_t s = 0; s < YIR_COUNT(splits); s++) {
                        int32_t all = warps[i] * warps[j] * splits[s];
                        if (all >= 2 && all <= 8)
                            add(l, (int32_t[CG_KNOBS]){m, n, columns * chunk, stages, warps[i], warps[j], splits[s]});
                    }
        }
}

/* Tiles of that size do little for nothing. */
static bool fits(int64_t n, int64_t tile)
{
    return tile == 16 || (n + tile - 1) / tile * tile * 4 <= n * 5;
}

size_t list_conv_mma(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    static const int32_t rows[] = {16, 32, 64, 80, 128, 256}, columns[] = {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192};
    struct list *l = yir_alloc(f->arena, sizeof *l);
    l->n = 0;
    l->t = t;
    l->bound = HUGE_VAL;
    take(f, first, last, t, &l->c, &l->m, &l->in);
    int64_t group = l->m.co / l->m.groups, pixels = l->m.oh * l->m.ow;
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        for (size_t j = 0; j < YIR_COUNT(columns); j++)
            if (fits(pixels, rows[i]) && fits(group, columns[j])) add_tiles(l, rows[i], columns[j]);
    size_t n = cg_best_configs(l->all, l->n, most < KEPT ? most : KEPT);
    memcpy(out, l->all, n * sizeof *out);
    return n;
}

/* --- program ------------------------------------------------------------------------------------------------ */

/* The sums g4 of 8 channels from g3 on, of which `valid` exist, through the rest of the kernel. */
static void finish(struct kb *b, const struct conv *c, int valid)
{
    kv n = kb_given_index(b, 0, 1), y = kb_given_index(b, 1, 1), x = kb_given_index(b, 2, 1), channel = kb_given_index(b, 3, 8);
    b->lanes = c->lanes;
    b->valid = valid;
    kv ch = kb_lane(b, channel), sum = kb_given(b, KB_F, c->lanes, 4);
    if (yir_kind(c->bias) != YIR_NIL) {
        int mem = kb_mem_weight(b, c->bias, KB_PACK_NONE, 0);
        kv bias = kb_load(b, mem, ch);
        sum = kb_fadd(b, sum, bias);
    }
    cg_bind(b, c->op, sum);
    cg_store_all(b, c->first, c->last, (kv[]){n, ch, y, x});
    b->nbound--;
    b->lanes = b->valid = 1;
}

/* Groups have whole vectors when there are several (take). */
static void record_epilogue(struct kb *b, const struct conv *c)
{
    int64_t whole = c->co / c->lanes * c->lanes;
    if (whole == c->co) {
        finish(b, c, c->lanes);
        return;
    }
    kv channel = kb_given_index(b, 3, 8), in = kb_ilt(b, channel, kb_immi(b, whole));
    if (whole) {
        cg_if(b, in);
        finish(b, c, c->lanes);
        kb_end(b);
    }
    cg_if(b, kb_not(b, in));
    finish(b, c, (int)(c->co - whole));
    kb_end(b);
}

/* What every pixel's first element is a multiple of, in bytes. */
static int source_align(const struct kb_mem *mem, const struct mma_source *s)
{
    int64_t size = (int64_t)yir_dtype_size(mem->dtype);
    int align = mem->align < 4 ? 1 << mem->align : 16;
    while (align > size && (s->image * size % align || s->down * size % align || s->across * size % align)) align /= 2;
    return align > size ? align : (int)size;
}

void emit_fast_conv_mma(struct kb *b, struct cg_kernel *k)
{
    struct conv c;
    struct mma m;
    struct cg_sources in;
    struct yir_str head = {.arena = b->arena}, body = {.arena = b->arena}, wait = {.arena = b->arena}, end = {.arena = b->arena};
    take(b->f, k->first, k->last, b->target, &c, &m, &in);
    set_knobs(&m, k->config.knob);
    for (int i = 0; i < m.nsource; i++) {
        m.source[i].mem = kb_mem_value(b, in.at[i].ref);
        m.source[i].align = source_align(&b->mem[m.source[i].mem], &m.source[i]);
    }
    m.mem_w = kb_mem_weight(b, c.w, packing_of(&m), (int32_t)c.groups);
    record_epilogue(b, &c);
    b->units = mma_units(&m);
    kb_cuda_wait(&wait, b->target, 1);
    kb_cuda_nodes(&end, b, 2);
    mma_put_head(&head, &m);
    mma_put_body(&body, &m, wait.text ? wait.text : "", end.text);
    k->cuda_head = head.text;
    k->cuda = body.text;
    k->launch = (struct cg_launch){.threads = mma_threads(&m), .per_block = 1, .shared = (int32_t)mma_shared(&m),
                                   .resident = (int32_t)resident(&m)};
}
