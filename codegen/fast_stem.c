/* Convolutions with few input channels on tensor cores (stem_text.c): what is taken, configurations, and the programs of the input
 * and of the epilogue. The input is whatever the kernel computes in place: a picture, a cast. */
#include "fast_vec.h"
#include "kb_cuda.h"
#include "stem_text.h"

enum { KNOB_ROWS, KNOB_SEGMENTS, KNOB_THREADS };

static bool has_type(const struct kb_target *t, enum yir_dtype d)
{
    return t->sm >= 80 && (d == YIR_F16 || d == YIR_BF16 || (d == YIR_F32 && t->tf32));
}

enum { TILE = 16, MOST_SHARED = 48 << 10 }; /* pixels of a product; bytes that any block may have */

static void set_knobs(struct stem *s, const int32_t *knob)
{
    s->rows = knob[KNOB_ROWS];
    s->threads = knob[KNOB_THREADS];
    s->segments = knob[KNOB_SEGMENTS];
    int64_t width = (s->ow + s->segments - 1) / s->segments;
    s->width = (width + TILE - 1) / TILE * TILE;
    s->segments = (s->ow + s->width - 1) / s->width;
}

/* Units side by side: at least as many as keep the lines in shared memory short. */
static int32_t least_segments(const struct stem *s)
{
    enum { WIDEST = 336 };
    struct stem one = *s;
    int32_t n = (int32_t)((s->ow + WIDEST - 1) / WIDEST);
    for (;; n *= 2) {
        set_knobs(&one, (int32_t[]){1, n, 128});
        if (one.width == TILE || stem_shared(&one) <= MOST_SHARED) return n;
    }
}

/* Everything but the rows of a unit and its threads. Weights stay in registers. */
static bool take(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c, struct stem *s)
{
    enum { MOST_CHANNELS = 4, MOST_WEIGHTS = 144, MOST_SUMS = 128, MOST_ELEMS = INT32_MAX / 8 };
    if (!t->sm || !cg_conv_of(f, first, last, t, c)) return false;
    enum yir_dtype d = yir_desc(f, c->x)->dtype;
    if (!has_type(t, d) || yir_desc(f, c->w)->dtype != d || c->groups != 1 || c->ci > MOST_CHANNELS || c->co % 8) return false;
    *s = (struct stem){.dtype = d, .sm = t->sm, .ci = c->ci, .ih = c->ih, .iw = c->iw, .co = c->co, .oh = c->oh, .ow = c->ow};
    for (int i = 0; i < 2; i++) {
        s->kernel[i] = c->win.kernel[i];
        s->stride[i] = c->win.stride[i];
        s->dil[i] = c->win.dil[i];
        s->pad[i] = c->win.pad[i];
    }
    if (s->kernel[0] > 16 || s->kernel[1] > 16 || s->stride[0] > 4 || s->stride[1] > 4 || s->dil[0] > 4) return false;
    if (s->dil[1] != 1 || s->stride[1] * s->ci * (int64_t)yir_dtype_size(d) % 4 || c->oh * c->ow > MOST_ELEMS) return false;
    s->rows = 1;
    s->width = TILE;
    if (stem_shared(s) > MOST_SHARED) return false;
    return stem_steps(d, s->kernel[0], s->kernel[1], s->ci) * s->co / 4 <= MOST_WEIGHTS && s->co / 2 <= MOST_SUMS;
}

bool guard_conv_stem(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    struct stem s;
    return take(f, first, last, t, &c, &s);
}

/* Instructions of a block's warps, shared out to four schedulers. */
static double cycles_of(const struct conv *c, const struct stem *s, const struct kb_target *t)
{
    enum { START = 3000, ALONE = 1500, SCHEDULERS = 4 };
    double images = t->batch > 0 ? t->batch : 1, warps = s->threads / 32.0;
    double staging = (double)(((stem_columns(s) * s->ci + s->threads - 1) / s->threads) * s->threads) / 32 * (20 + 10 * (double)stem_lines(s));
    double steps = (double)stem_steps(s->dtype, s->kernel[0], s->kernel[1], s->ci), tiles = (double)(s->rows * s->width) / 16;
    double tile = 40 + steps * (12 + (double)s->co / 8 * 2) + (double)s->co / 2 * (cg_epilogue_cycles(c) + 2);
    double rounds = tiles / warps > 1 ? (double)(int64_t)((tiles + warps - 1) / warps) * warps / tiles : 1;
    double block = staging + tiles * tile * rounds, alone = block / warps * 3;
    double blocks = (double)(int64_t)(((double)stem_units(s) * images + t->sms - 1) / t->sms);
    double together = blocks * block / SCHEDULERS;
    return START + ALONE + (alone > together ? alone : together);
}

size_t list_conv_stem(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                      size_t most)
{
    struct conv c;
    struct stem s;
    size_t n = 0;
    take(f, first, last, t, &c, &s);
    int32_t least = least_segments(&s);
    for (int32_t rows = 1; rows <= 4; rows *= 2)
        for (int32_t segments = least; segments <= 4 * least; segments *= 2)
            for (int32_t threads = 128; threads <= 256 && n < most; threads *= 2) {
                struct cg_config config = {.knob = {rows, segments, threads}};
                set_knobs(&s, config.knob);
                if (n && (stem_shared(&s) > MOST_SHARED || rows >= 2 * s.oh || s.segments != segments)) continue;
                config.knob[KNOB_SEGMENTS] = (int32_t)s.segments;
                config.cycles = cycles_of(&c, &s, t);
                out[n++] = config;
            }
    return n;
}

/* The input at image g0, channel g1, row g2, column g3, as statements that return it; the last node of them. */
static uint32_t record_element(struct kb *b, const struct conv *c, struct yir_str *text)
{
    kv ix[4];
    for (int i = 0; i < 4; i++) ix[i] = kb_given_index(b, i, 1);
    kv v = kb_ref_at(b, c->x, ix);
    kb_cuda_part(text, b, 1, b->nnode, 2);
    yir_str_fmt(text, "        return ");
    kb_cuda_value(text, b, v);
    yir_str_fmt(text, ";\n");
    return b->nnode;
}

static void record_finish(struct kb *b, const struct conv *c, int lanes, uint32_t from, struct yir_str *text)
{
    kv n = kb_given_index(b, 4, 1), y = kb_given_index(b, 5, 1), x = kb_given_index(b, 6, 1);
    kv channel = kb_given_index(b, 7, (uint32_t)lanes);
    b->lanes = b->valid = lanes;
    kv ch = kb_lane(b, channel), sum = kb_given(b, KB_F, lanes, 8);
    if (yir_kind(c->bias) != YIR_NIL) {
        kv bias = kb_load(b, kb_mem_weight(b, c->bias, KB_PACK_NONE, 0), ch);
        sum = kb_fadd(b, sum, bias);
    }
    cg_bind(b, c->op, sum);
    cg_store_all(b, c->first, c->last, (kv[]){n, ch, y, x});
    b->nbound--;
    b->lanes = b->valid = 1;
    kb_cuda_part(text, b, from, b->nnode, 4);
}

/* Neighbours in memory are columns. */
static bool in_planes(const struct kb *b, const struct conv *c)
{
    for (int i = 0; i < b->nmem; i++) {
        if (b->mem[i].kind != KB_MEM_VALUE) continue;
        const struct yir_tdesc *d = yir_desc(b->f, b->mem[i].ref);
        return d->rank == 4 && d->layout == YIR_NCHW && d->dim[1] == c->ci && d->dim[3] == c->iw;
    }
    return false;
}

void emit_fast_conv_stem(struct kb *b, struct cg_kernel *k)
{
    struct conv c;
    struct stem s;
    struct yir_str head = {.arena = b->arena}, body = {.arena = b->arena}, wait = {.arena = b->arena};
    struct yir_str element = {.arena = b->arena}, finish = {.arena = b->arena};
    take(b->f, k->first, k->last, b->target, &c, &s);
    set_knobs(&s, k->config.knob);
    int lanes = s.co % 32 == 0 ? 8 : s.co % 16 == 0 ? 4 : 2;
    uint32_t end = record_element(b, &c, &element);
    s.planes = in_planes(b, &c);
    s.mem_w = kb_mem_weight(b, c.w, KB_PACK_STEM, 0);
    record_finish(b, &c, lanes, end, &finish);
    b->units = stem_units(&s);
    kb_cuda_wait(&wait, b->target, 1);
    stem_put_head(&head, &s);
    stem_put_body(&body, &s, wait.text ? wait.text : "", element.text, lanes, finish.text);
    k->cuda_head = head.text;
    k->cuda = body.text;
    k->launch = (struct cg_launch){.threads = s.threads, .per_block = 1, .shared = (int32_t)stem_shared(&s)};
}
