/* Convolutions by wgmma (sm_90a): geometry in wgmma_plan.c, text in wgmma_text.c. */
#include "fast.h"
#include "wgmma_text.h"

#include <string.h>

/* Columns that tiles may have, and the plainest configuration with that many. */
static const int32_t columns[] = {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192};

static bool plainest(const struct conv *c, const struct cg_sources *in, int32_t knob[CG_KNOBS])
{
    struct wg_plan p;
    for (size_t i = 0; i < YIR_COUNT(columns); i++) {
        const int32_t plain[CG_KNOBS] = {[WG_N] = columns[i], [WG_KC] = 16, [WG_M] = 1, [WG_W] = 1, [WG_STAGES] = 2,
                                         [WG_RING] = 2, [WG_GROUP] = 1, [WG_RESIDENT] = 1};
        memcpy(knob, plain, sizeof plain);
        if (wg_plan(c, in, knob, &p)) return true;
    }
    return false;
}

bool guard_conv_wgmma(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    struct cg_sources in;
    int32_t knob[CG_KNOBS];
    return wg_takes(f, first, last, t, &c, &in) && plainest(&c, &in, knob);
}

/* --- configurations ----------------------------------------------------------------------------------------- */

enum { KEPT = 24 };

struct list {
    struct conv c;
    struct cg_sources in;
    struct cg_config all[CG_MAX_CONFIGS * 64];
    size_t n;
};

/* More blocks of a multiprocessor than there are, or more stages than a block has chunks, change nothing. */
static bool is_vain(const struct wg_plan *p)
{
    int64_t blocks = wg_units(p) * p->images, sms = p->c.t->sms;
    if (blocks > sms * p->resident) return false;
    return p->stages > p->chunks || blocks <= sms * (p->resident - 1);
}

static void add(struct list *l, const int32_t *knob)
{
    struct wg_plan p;
    if (l->n == YIR_COUNT(l->all) || !wg_plan(&l->c, &l->in, knob, &p) || (l->n && is_vain(&p))) return;
    struct cg_config *to = &l->all[l->n++];
    *to = (struct cg_config){.cycles = wg_cycles(&p)};
    memcpy(to->knob, knob, sizeof to->knob);
}

/* Weights that stay, or pass by in stages of some steps: products are waited for after each, so few steps are slow. */
static void add_weights(struct list *l, int32_t *knob)
{
    static const int groups[] = {24, 18, 12, 9, 6, 8, 4, 3};
    size_t before = l->n;
    knob[WG_RING] = knob[WG_GROUP] = 0;
    add(l, knob);
    bool large = knob[WG_N] * l->c.ci * l->c.win.kernel[0] * l->c.win.kernel[1] * 2 > 48 << 10;
    if (l->n > before && !large) return;
    for (size_t i = 0, found = 0; i < YIR_COUNT(groups) && found < 2; i++) {
        before = l->n;
        knob[WG_GROUP] = groups[i];
        for (knob[WG_RING] = 3; knob[WG_RING] <= 4; knob[WG_RING]++) add(l, knob);
        found += l->n > before;
    }
}

static void add_blocks(struct list *l, int32_t *knob)
{
    static const struct {
        int w, stages, m;
    } blocks[] = {{1, 1, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {2, 2, 1}, {2, 3, 1},
                  {2, 4, 1}, {3, 2, 1}, {3, 3, 1}, {3, 4, 1}, {3, 2, 2}, {3, 3, 2}};
    for (size_t i = 0; i < YIR_COUNT(blocks); i++)
        for (knob[WG_RESIDENT] = 1; knob[WG_RESIDENT] <= 3; knob[WG_RESIDENT]++) {
            knob[WG_W] = blocks[i].w;
            knob[WG_STAGES] = blocks[i].stages;
            knob[WG_M] = blocks[i].m;
            if (knob[WG_M] > 1 && knob[WG_N] > 96) continue;
            add_weights(l, knob);
        }
}

static bool divides(int64_t n, int64_t of)
{
    return of % n == 0;
}

static int64_t common(int64_t x, int64_t y)
{
    return y ? common(y, x % y) : x;
}

/* Chunks as wide as the channels let them be. */
static void add_chunks(struct list *l, int32_t *knob)
{
    int64_t axis = 0;
    for (int i = 0; i < l->in.n; i++) axis = common(axis, l->in.at[i].channels * l->c.win.stride[0]);
    int32_t best = divides(64, axis) ? 64 : divides(32, axis) ? 32 : 16;
    static const int32_t other[] = {64, 32};
    knob[WG_KC] = best;
    add_blocks(l, knob);
    for (size_t i = 0; i < YIR_COUNT(other); i++) {
        knob[WG_KC] = other[i];
        if (other[i] == best || (other[i] < best && l->c.win.stride[0] == 1) || other[i] > 2 * axis) continue;
        add_blocks(l, knob);
    }
}

size_t list_conv_wgmma(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                       size_t most)
{
    struct list *l = yir_alloc(f->arena, sizeof *l);
    int32_t knob[CG_KNOBS] = {0};
    l->n = 0;
    wg_takes(f, first, last, t, &l->c, &l->in);
    int64_t rounded = (l->c.co + 15) / 16 * 16;
    for (int all = 0; all < 2 && !l->n; all++) /* columns of the same width, if they can be */
        for (size_t i = 0; i < YIR_COUNT(columns); i++) {
            knob[WG_N] = columns[i];
            if (all || divides(columns[i], rounded)) add_chunks(l, knob);
        }
    if (!l->n && plainest(&l->c, &l->in, knob)) add(l, knob);
    size_t n = cg_best_configs(l->all, l->n, most < KEPT ? most : KEPT);
    memcpy(out, l->all, n * sizeof *out);
    return n;
}

/* --- program ------------------------------------------------------------------------------------------------ */

enum { SWIZZLE_32 = 1, SWIZZLE_64 = 2, SWIZZLE_128 = 3 }; /* as the driver numbers them */

static void add_dim(struct cg_map *m, int64_t dim, int64_t stride, int64_t box)
{
    m->dim[m->rank] = (uint32_t)dim;
    m->stride[m->rank] = (uint64_t)stride;
    m->box[m->rank++] = (uint32_t)box;
}

/* How the tensor copies see a source: innermost dimension first, strides in bytes, the images last. */
static struct cg_map map_of(const struct wg_plan *p, const struct cg_source *from, int mem)
{
    const struct conv *c = &p->c;
    const int64_t *stride = c->f->place[yir_index(from->ref)].stride;
    int64_t size = 2, column = stride[3] * size, row = stride[2] * size, rows = p->lines + 2;
    struct cg_map m = {.mem = mem, .swizzle = p->pitch == 128 ? SWIZZLE_128 : p->pitch == 64 ? SWIZZLE_64 : SWIZZLE_32};
    add_dim(&m, p->feed == WG_PAIRS ? 2 * c->ci : from->channels, size, p->kc);
    switch (p->feed) {
    case WG_POINT: add_dim(&m, c->ih * c->iw, column, WG_ROWS * p->m); break;
    case WG_HALO:
        add_dim(&m, c->iw, column, 10);
        add_dim(&m, c->ih, row, 8 * p->m + 2);
        break;
    case WG_LINES:
        add_dim(&m, c->iw, column, c->iw + 2);
        add_dim(&m, c->ih, row, rows);
        break;
    case WG_PARTS:
        add_dim(&m, c->iw >> from->shift, column, 8 >> from->shift);
        add_dim(&m, c->ih >> from->shift, row, 8 * p->m >> from->shift);
        break;
    case WG_PARITY: add_dim(&m, 2, column, 1); /* fall through */
    case WG_PAIRS:
        add_dim(&m, c->iw / 2, 2 * column, 9);
        add_dim(&m, c->ih, row, 16 * p->m + 1);
        break;
    }
    add_dim(&m, yir_desc(c->f, from->ref)->dim[0], stride[0] * size, 1);
    return m;
}

/* For people, and so that kernels with other maps are other kernels. */
static void put_map(struct yir_str *s, int number, const struct cg_map *m)
{
    yir_str_fmt(s, "// t%d: m%d as", number, m->mem);
    for (int i = 0; i < m->rank; i++)
        yir_str_fmt(s, "%s %u at %llu bytes", i ? "," : "", (unsigned)m->dim[i], (unsigned long long)m->stride[i]);
    yir_str_fmt(s, "; boxes of");
    for (int i = 0; i < m->rank; i++) yir_str_fmt(s, " %u", (unsigned)m->box[i]);
    yir_str_fmt(s, "\n");
}

static void record_epilogue(struct kb *b, const struct conv *c)
{
    b->lanes = b->valid = c->lanes;
    kv n = kb_given_index(b, 0, 1), channel = kb_given_index(b, 1, 8), y = kb_given_index(b, 2, 1), x = kb_given_index(b, 3, 1);
    kv sums = kb_given(b, KB_F, c->lanes, 4);
    kv ch = kb_lane(b, channel);
    cg_bind(b, c->op, sums);
    cg_store_all(b, c->first, c->last, (kv[]){n, ch, y, x});
    b->nbound--;
    b->lanes = b->valid = 1;
}

void emit_fast_conv_wgmma(struct kb *b, struct cg_kernel *k)
{
    struct conv c;
    struct wg_plan p;
    struct cg_sources in;
    struct wg_names names = {.bias = -1};
    struct yir_str maps = {.arena = b->arena};
    int mem[WG_MOST_SOURCES];
    wg_takes(b->f, k->first, k->last, b->target, &c, &in);
    bool legal = wg_plan(&c, &in, k->config.knob, &p);
    YIR_ASSERT(legal);
    for (int i = 0; i < in.n; i++) mem[i] = kb_mem_value(b, in.at[i].ref);
    names.weights = kb_mem_weight(b, c.w, KB_PACK_WGMMA, wg_pack_arg(p.n, p.kc, p.feed));
    if (yir_kind(c.bias) != YIR_NIL) names.bias = kb_mem_weight(b, c.bias, KB_PACK_OBLOCK, p.n);
    names.flat = p.feed == WG_POINT && cg_pointwise(b->f, k->first, k->last, c.op);
    record_epilogue(b, &c);
    b->units = wg_units(&p);
    k->launch = (struct cg_launch){.threads = 128 * (p.w + 1), .per_block = 1, .shared = p.shared, .most_blocks = p.resident,
                                   .least_blocks = (int32_t)p.ntiles, .resident = p.resident, .waits = 1};
    for (int i = 0; i < in.n; i++) {
        k->map[k->nmap] = map_of(&p, &in.at[i], mem[i]);
        put_map(&maps, i, &k->map[k->nmap++]);
    }
    k->cuda_head = yir_format(b->arena, "%s%s", maps.text, wg_head(b->arena, &p));
    k->cuda = wg_body(b, &p, &names);
}
