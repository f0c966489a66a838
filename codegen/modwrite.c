#include "modwrite.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "runtime/module.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* A section being filled. */
struct part {
    uint32_t kind, index;
    unsigned char *data;
    size_t size, cap;
};

struct writer {
    struct yir_arena *arena;
    struct yir_diags *diags;
    const struct cg_module *m;
    const struct cg_variant *v; /* the one being written */
    struct part *part;
    size_t npart, most_parts;
    struct part *strings, *code, *constants, *rows, *engines; /* rows: of CONSTANT, engines: of ENGINE, NULL before the first */
    struct packed { /* weights as kernels read them, each once */
        uint32_t weight;
        enum kb_packing packing;
        int32_t arg;
        uint64_t offset;
    } * packed;
    size_t npacked, cap_packed;
    uint64_t end;             /* of the constants as kernels read them */
    uint64_t canonical_bytes; /* WEIGHTS */
    uint64_t (*need)[2], (*want)[2]; /* by op */
};

static struct part *new_part(struct writer *w, uint32_t kind)
{
    YIR_ASSERT(w->npart < w->most_parts);
    struct part *p = &w->part[w->npart++];
    *p = (struct part){.kind = kind, .index = kind < YM_TARGET ? 0 : (uint32_t)(w->v - w->m->variant)};
    return p;
}

/* Room for `size` more bytes, zeroed, at a multiple of `align`; returns their offset. */
static size_t reserve(struct writer *w, struct part *p, size_t size, size_t align)
{
    size_t at = (p->size + align - 1) / align * align;
    p->data = yir_grow(w->arena, p->data, &p->cap, at + size, 1);
    p->size = at + size;
    return at;
}

static void put(struct writer *w, struct part *p, const void *record, size_t size)
{
    size_t at = reserve(w, p, size, 8);
    memcpy(p->data + at, record, size);
}

static uint32_t string(struct writer *w, const char *s)
{
    if (!s || !*s) return 0;
    size_t n = strlen(s) + 1;
    size_t at = reserve(w, w->strings, n, 1);
    memcpy(w->strings->data + at, s, n);
    return (uint32_t)at;
}

/* --- meta, IR, canonical weights ---------------------------------------------------------------------------- */

static void write_meta(struct writer *w)
{
    const struct cg_meta *m = &w->m->meta;
    struct ym_meta out = {.model = string(w, m->model),
                          .task = string(w, m->task),
                          .head = (uint32_t)m->head,
                          .letterbox = (uint32_t)m->letterbox,
                          .nc = m->nc,
                          .height = m->height,
                          .width = m->width,
                          .max_batch = m->max_batch,
                          .stride = m->stride,
                          .max_det = m->max_det,
                          .conf = m->conf,
                          .iou = m->iou,
                          .weights_from = string(w, m->weights_from),
                          .options = string(w, m->options),
                          .coefficients = m->coefficients,
                          .points = m->points,
                          .point_dims = m->point_dims,
                          .angles = m->angles,
                          .weights_digest = {m->weights_digest[0], m->weights_digest[1]}};
    put(w, new_part(w, YM_META), &out, sizeof out);
    struct part *names = new_part(w, YM_NAMES);
    for (int i = 0; i < m->nc; i++) {
        uint32_t s = string(w, m->names[i]);
        size_t at = reserve(w, names, sizeof s, 4);
        memcpy(names->data + at, &s, sizeof s);
    }
}

static void write_ir(struct writer *w)
{
    struct yir_str text = {.arena = w->arena};
    yir_print(&text, w->m->front, YIR_PRINT_LOCS);
    struct part *p = new_part(w, YM_IR);
    p->data = (unsigned char *)text.text;
    p->size = text.len;
}

/* Half precision when that loses nothing, as for weights that came from a half-precision file. */
static enum yir_dtype stored_type(const struct yir_tdesc *d, const void *data)
{
    if (d->dtype != YIR_F32) return d->dtype;
    enum { PART = 256 };
    for (size_t at = 0, all = (size_t)yir_numel(d), n; at < all; at += n) {
        const float *in = (const float *)data + at;
        uint16_t half[PART];
        float back[PART];
        n = all - at < PART ? all - at : PART;
        yir_dtype_store_f32(YIR_F16, half, n, in);
        yir_dtype_load_f32(YIR_F16, half, n, back);
        if (memcmp(back, in, n * sizeof *in)) return YIR_F32;
    }
    return YIR_F16;
}

/* The types that weights are stored in, and the bytes of all. */
static enum yir_dtype *stored_types(struct writer *w, size_t *bytes)
{
    const struct yir_func *f = w->m->front;
    enum yir_dtype *type = yir_alloc_n(w->arena, f->nweight + 1u, sizeof *type);
    *bytes = 0;
    for (uint32_t i = 0; i < f->nweight; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->weight[i].type);
        type[i] = stored_type(d, f->weight[i].data);
        *bytes = (*bytes + YM_ALIGN - 1) / YM_ALIGN * YM_ALIGN + (size_t)yir_numel(d) * yir_dtype_size(type[i]);
    }
    return type;
}

static void write_weights(struct writer *w)
{
    if (w->m->strip) return;
    struct part *table = new_part(w, YM_WEIGHT), *bytes = new_part(w, YM_WEIGHTS);
    const struct yir_func *f = w->m->front;
    size_t all;
    const enum yir_dtype *types = stored_types(w, &all);
    bytes->data = yir_alloc(w->arena, all); /* at once: growing it would copy what is large */
    bytes->cap = all;
    for (uint32_t i = 0; i < f->nweight; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->weight[i].type);
        enum yir_dtype type = types[i];
        size_t n = (size_t)yir_numel(d), size = n * yir_dtype_size(type);
        size_t at = reserve(w, bytes, size, YM_ALIGN);
        struct ym_weight out = {.name = string(w, f->weight[i].name),
                                .dtype = (uint8_t)type,
                                .rank = (uint8_t)d->rank,
                                .offset = at,
                                .size = size};
        memcpy(out.dim, d->dim, sizeof out.dim);
        if (type == d->dtype)
            memcpy(bytes->data + at, f->weight[i].data, size);
        else
            yir_dtype_store_f32(type, bytes->data + at, n, f->weight[i].data);
        put(w, table, &out, sizeof out);
    }
    w->canonical_bytes = bytes->size;
}

/* --- program ------------------------------------------------------------------------------------------------ */

static void add_bits(uint64_t to[2], const uint64_t from[2])
{
    to[0] |= from[0];
    to[1] |= from[1];
}

static bool has_bit(const uint64_t mask[2], uint32_t bit)
{
    return mask[bit / 64] >> bit % 64 & 1;
}

static void add_bit(uint64_t to[2], uint32_t bit)
{
    to[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* Inputs beside the picture, which every run has. */
static bool is_beside(const struct yir_func *f, uint32_t input)
{
    bool images = false;
    for (uint32_t i = 0; i < f->ninput; i++) images = images || !strcmp(f->input[i].name, "images");
    return images && strcmp(f->input[input].name, "images") && strcmp(f->input[input].name, "input_u8");
}

/* need: inputs that an op depends on before `either` has chosen; those beside the picture for their own readers alone. want: outputs that depend on an op. */
static void find_masks(struct writer *w)
{
    const struct yir_func *f = w->v->program->f;
    w->need = yir_alloc_n(w->arena, f->nop, sizeof *w->need);
    w->want = yir_alloc_n(w->arena, f->nop, sizeof *w->want);
    for (uint32_t i = 1; i < f->nop; i++) {
        for (int k = 0; k < f->op[i].nsrc && f->op[i].code != YIR_either; k++) {
            yir_ref r = yir_src(f, i, k);
            if (yir_kind(r) == YIR_INP) add_bit(w->need[i], yir_index(r));
            if (yir_kind(r) != YIR_VAL) continue;
            for (uint32_t in = 0; in < f->ninput; in++)
                if (has_bit(w->need[yir_index(r)], in) && !is_beside(f, in)) add_bit(w->need[i], in);
        }
    }
    for (uint32_t i = 0; i < f->noutput; i++)
        if (yir_kind(f->output[i].ref) == YIR_VAL) add_bit(w->want[yir_index(f->output[i].ref)], f->ninput + i);
    for (uint32_t i = f->nop - 1; i >= 1; i--)
        for (int k = 0; k < f->op[i].nsrc; k++)
            if (yir_kind(yir_src(f, i, k)) == YIR_VAL) add_bits(w->want[yir_index(yir_src(f, i, k))], w->want[i]);
}

static void write_io(struct writer *w)
{
    const struct yir_func *f = w->v->program->f;
    struct part *p = new_part(w, YM_IO);
    for (uint32_t i = 0; i < f->ninput + f->noutput; i++) {
        bool in = i < f->ninput;
        const struct yir_output *o = in ? NULL : &f->output[i - f->ninput];
        const struct yir_tdesc *d = in ? yir_tdesc(f->types, f->input[i].type) : yir_desc(f, o->ref);
        struct ym_io out = {.name = string(w, in ? f->input[i].name : o->name),
                            .dtype = (uint8_t)d->dtype,
                            .rank = (uint8_t)d->rank,
                            .flags = (uint8_t)(in ? is_beside(f, i) ? YM_IO_BESIDE : 0 : YM_IO_OUTPUT | (o->layer ? YM_IO_LAYER : 0))};
        memcpy(out.dim, d->dim, sizeof out.dim);
        put(w, p, &out, sizeof out);
    }
}

/* Whether a weight is what the loader makes of the canonical one. */
static bool is_scaled(const struct yir_tdesc *d, const void *from, const double *factor, const void *data)
{
    size_t n = (size_t)yir_numel(d), row = n / (size_t)(d->rank ? d->dim[0] : 1);
    const float *x = from, *y = data;
    if (!factor) return !memcmp(from, data, n * yir_dtype_size(d->dtype));
    for (size_t i = 0; d->dtype == YIR_F32 && i < n; i++) {
        float v = (float)(factor[i / row] * (double)x[i]);
        if (memcmp(&v, &y[i], sizeof v)) return false;
    }
    return d->dtype == YIR_F32;
}

/* The canonical weight that `weight` is made from; YM_ANY: there is none. */
static uint32_t canonical_of(const struct writer *w, const struct yir_weight *weight)
{
    const struct yir_func *front = w->m->front;
    yir_ref r = yir_find_weight(front, weight->origin ? weight->origin : weight->name);
    if (w->m->strip || yir_kind(r) != YIR_WGT) return YM_ANY;
    const struct yir_weight *from = &front->weight[yir_index(r)];
    const struct yir_tdesc *d = yir_tdesc(front->types, weight->type), *c = yir_tdesc(front->types, from->type);
    bool same = d->dtype == c->dtype && d->rank == c->rank && !memcmp(d->dim, c->dim, (size_t)d->rank * sizeof *d->dim);
    return same && is_scaled(d, from->data, weight->factor, weight->data) ? yir_index(r) : YM_ANY;
}

static size_t store_constant(struct writer *w, const struct yir_tdesc *d, const void *data, const struct kb_mem *mem, size_t size)
{
    size_t at = reserve(w, w->constants, size, YM_ALIGN);
    cg_pack(d, data, mem->packing, mem->pack_arg, w->constants->data + at);
    return at;
}

/* A row of CONSTANT: how the loader makes the packed weight, or where it lies packed. Its offset. */
static uint64_t write_constant(struct writer *w, const struct yir_weight *weight, const struct kb_mem *mem, size_t size)
{
    const struct yir_tdesc *d = yir_tdesc(w->v->program->f->types, weight->type);
    struct ym_constant row = {.offset = (w->end + YM_ALIGN - 1) / YM_ALIGN * YM_ALIGN, .size = size};
    row.weight = canonical_of(w, weight);
    if (row.offset + size > w->canonical_bytes * YM_MAX_GROWTH || (uint32_t)mem->packing >= YM_NPACK) row.weight = YM_ANY;
    if (row.weight == YM_ANY) {
        row.from = store_constant(w, d, weight->data, mem, size);
    } else {
        row.arg = mem->packing == KB_PACK_NONE ? 0 : mem->pack_arg;
        row.dtype = (uint8_t)d->dtype;
        row.packing = (uint8_t)mem->packing;
        row.scaled = weight->factor != NULL;
    }
    if (row.scaled) {
        size_t bytes = (size_t)d->dim[0] * sizeof *weight->factor;
        row.from = reserve(w, w->constants, bytes, YM_ALIGN);
        memcpy(w->constants->data + row.from, weight->factor, bytes);
    }
    if (!w->rows) w->rows = new_part(w, YM_CONSTANT);
    put(w, w->rows, &row, sizeof row);
    w->end = row.offset + size;
    return row.offset;
}

/* Offset of a packed weight in what kernels read. */
static uint64_t pack_once(struct writer *w, const struct kb_mem *mem)
{
    const struct yir_func *f = w->v->program->f;
    uint32_t weight = yir_index(mem->ref);
    for (size_t i = 0; i < w->npacked; i++)
        if (w->packed[i].weight == weight && w->packed[i].packing == mem->packing && w->packed[i].arg == mem->pack_arg)
            return w->packed[i].offset;
    const struct yir_tdesc *d = yir_tdesc(f->types, f->weight[weight].type);
    size_t size = (size_t)mem->elems * yir_dtype_size(d->dtype);
    uint64_t at = w->m->strip ? store_constant(w, d, f->weight[weight].data, mem, size) : write_constant(w, &f->weight[weight], mem, size);
    w->packed = yir_grow(w->arena, w->packed, &w->cap_packed, w->npacked + 1, sizeof *w->packed);
    w->packed[w->npacked++] = (struct packed){weight, mem->packing, mem->pack_arg, at};
    return at;
}

static struct ym_arg arg_of(struct writer *w, const struct kb_mem *mem)
{
    const struct yir_func *f = w->v->program->f;
    struct ym_arg arg = {0};
    if (mem->kind == KB_MEM_WEIGHT) {
        arg.slot = YM_SLOT_CONSTANT;
        arg.offset = pack_once(w, mem);
        return arg;
    }
    arg.slot = YM_SLOT_IO;
    arg.io = yir_index(mem->ref);
    if (yir_kind(mem->ref) == YIR_INP) return arg;
    const struct yir_place *place = &f->place[yir_index(mem->ref)];
    YIR_ASSERT(place->buf && place->buf <= f->nbuf);
    const struct yir_buf *buf = &f->buf[place->buf - 1];
    arg.offset = place->offset;
    arg.io = buf->kind == YIR_BUF_OUT ? f->ninput + buf->io : buf->io;
    if (buf->kind != YIR_BUF_ARENA) return arg;
    arg.slot = YM_SLOT_ARENA;
    arg.io = 0;
    arg.offset += buf->offset;
    return arg;
}

/* Values have the images as dimension 0; weights are there once. */
static struct ym_param param_of(const struct yir_func *f, const struct kb_mem *mem)
{
    uint64_t size = yir_dtype_size(mem->dtype), all = (uint64_t)mem->elems * size;
    struct ym_param out = {.first = all, .dtype = (uint8_t)mem->dtype, .written = mem->written, .align = (uint8_t)mem->align};
    if (mem->kind == KB_MEM_WEIGHT) return out;
    const struct yir_tdesc *d = yir_desc(f, mem->ref);
    int64_t stride[YIR_MAX_RANK];
    kb_input_strides(d, stride);
    if (yir_kind(mem->ref) == YIR_VAL) stride[0] = f->place[yir_index(mem->ref)].stride[0];
    out.each = (uint64_t)stride[0] * size;
    out.first = all - (uint64_t)(d->dim[0] - 1) * out.each;
    return out;
}

static uint32_t list_params(const struct yir_func *f, const struct cg_kernel *k, struct ym_param out[YM_MAX_ARGS])
{
    uint32_t n = 0;
    for (int m = 0; m < k->prog->nmem; m++)
        if (k->prog->mem[m].kind != KB_MEM_SCRATCH) out[n++] = param_of(f, &k->prog->mem[m]);
    return n;
}

static uint32_t list_maps(const struct cg_kernel *k, struct ym_map out[YM_MAX_MAPS])
{
    _Static_assert((int)CG_MAX_MAPS == (int)YM_MAX_MAPS, "a kernel's maps fit");
    for (int i = 0; i < k->nmap; i++) {
        const struct cg_map *from = &k->map[i];
        struct ym_map *to = &out[i];
        *to = (struct ym_map){.param = (uint32_t)from->mem, .rank = (uint32_t)from->rank, .swizzle = (uint32_t)from->swizzle};
        memcpy(to->dim, from->dim, sizeof to->dim);
        memcpy(to->box, from->box, sizeof to->box);
        memcpy(to->stride, from->stride + 1, sizeof to->stride);
    }
    return (uint32_t)k->nmap;
}

/* Writes what the function may touch right before it. */
static int seal(struct writer *w, const char *symbol, const struct ym_kernel *row, const struct ym_param *p, const struct ym_map *m)
{
    static const unsigned char none[sizeof(struct ym_seal)];
    struct ym_seal s = {.magic = YM_SEAL_MAGIC, .offset = row->offset};
    uint8_t bytes[YM_CONTRACT_BYTES];
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, ym_contract(row, p, m, bytes)));
    memcpy(s.contract, &digest, sizeof s.contract);
    unsigned char *to = w->code->data + row->offset - sizeof s;
    if (row->offset % YM_ALIGN || row->offset < sizeof s || (memcmp(to, none, sizeof s) && memcmp(to, &s, sizeof s)))
        return yir_diag(w->diags, (struct yir_loc){0}, E_LINK, "kernel %s has no room before its code", symbol);
    memcpy(to, &s, sizeof s);
    return 0;
}

static int write_kernels(struct writer *w)
{
    const struct cg_program *p = w->v->program;
    struct part *kernels = new_part(w, YM_KERNEL), *params = new_part(w, YM_PARAM);
    struct part *maps = w->v->target->backend == CG_CUDA ? new_part(w, YM_MAP) : NULL;
    struct ym_param row[YM_MAX_ARGS];
    struct ym_map map[YM_MAX_MAPS];
    uint32_t nparam = 0, nmap = 0;
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_kernel *k = &p->kernel[i];
        uint32_t n = list_params(p->f, k, row), m = list_maps(k, map);
        if (k->same_as != i) {
            struct ym_param of[YM_MAX_ARGS];
            uint32_t same = list_params(p->f, &p->kernel[k->same_as], of);
            YIR_ASSERT(same == n && !memcmp(of, row, n * sizeof *row) && p->kernel[k->same_as].nmap == k->nmap);
            continue;
        }
        struct ym_kernel out = {.name = string(w, k->symbol),
                                .family = string(w, k->family),
                                .first_param = nparam,
                                .nparam = n,
                                .offset = w->v->code->entry[i],
                                .units = k->units,
                                .scratch = (uint64_t)k->scratch_bytes,
                                .threads = (uint32_t)k->launch.threads,
                                .first_map = m ? nmap : 0,
                                .nmap = m,
                                .per_block = (uint32_t)k->launch.per_block,
                                .shared = (uint32_t)k->launch.shared,
                                .most_blocks = (uint32_t)k->launch.most_blocks,
                                .least_blocks = (uint32_t)k->launch.least_blocks,
                                .waits = (uint32_t)k->launch.waits};
        put(w, kernels, &out, sizeof out);
        for (uint32_t r = 0; r < n; r++) put(w, params, &row[r], sizeof *row);
        for (uint32_t r = 0; r < m; r++) put(w, maps, &map[r], sizeof *map);
        nparam += n;
        nmap += m;
        if (seal(w, k->symbol, &out, row, map)) return -1;
    }
    return 0;
}

static int write_service(struct writer *w)
{
    if (!w->v->code->service) return 0;
    struct ym_kernel out = {.name = string(w, "service"), .family = string(w, "service"), .offset = w->v->code->service, .units = YM_SERVICE_VERSION};
    put(w, new_part(w, YM_SERVICE), &out, sizeof out);
    return seal(w, "service", &out, NULL, NULL);
}

static void write_steps(struct writer *w)
{
    const struct cg_program *p = w->v->program;
    struct part *steps = new_part(w, YM_STEP), *args = new_part(w, YM_ARG);
    w->constants = new_part(w, YM_CONSTANTS);
    w->rows = NULL;
    w->npacked = w->end = 0;
    uint32_t *number = yir_alloc_n(w->arena, p->nkernel + 1u, sizeof *number), nkernel = 0, narg = 0;
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_kernel *k = &p->kernel[i];
        number[i] = k->same_as == i ? nkernel++ : number[k->same_as];
        struct ym_step step = {.kernel = number[i],
                               .first_arg = narg,
                               .label = string(w, k->label),
                               .line = k->line,
                               .grain = (uint32_t)k->grain,
                               .flops = k->flops,
                               .bytes = k->bytes};
        for (uint32_t op = k->first; op <= k->last; op++) {
            add_bits(step.need, w->need[op]);
            add_bits(step.want, w->want[op]);
        }
        for (int m = 0; m < k->prog->nmem; m++) {
            if (k->prog->mem[m].kind == KB_MEM_SCRATCH) continue;
            struct ym_arg arg = arg_of(w, &k->prog->mem[m]);
            put(w, args, &arg, sizeof arg);
            step.narg++;
        }
        narg += step.narg;
        put(w, steps, &step, sizeof step);
    }
}

/* --- engines of cuDNN ------------------------------------------------------------------------------------------ */

enum { SPACE_ALIGN = 256 };

/* Where the working memory of engines lies, one after another in the same: behind the arena of the plan. */
static uint64_t space_at(const struct yir_func *f)
{
    return (f->arena_size + SPACE_ALIGN - 1) / SPACE_ALIGN * SPACE_ALIGN;
}

static uint64_t arena_bytes(const struct cg_program *p)
{
    uint64_t size = p->f->arena_size;
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_engine *e = p->kernel[i].engine;
        if (e && e->space && size < space_at(p->f) + e->space) size = space_at(p->f) + e->space;
    }
    return size;
}

/* The step's argument that a value is. */
static uint32_t argument_of(const struct cg_kernel *k, yir_ref r, bool written)
{
    uint32_t n = 0;
    for (int m = 0; m < k->prog->nmem; m++) {
        const struct kb_mem *mem = &k->prog->mem[m];
        if (mem->kind == KB_MEM_SCRATCH) continue;
        if (mem->kind != KB_MEM_WEIGHT && yir_same(mem->ref, r) && mem->written == written) return n;
        n++;
    }
    return YM_ANY;
}

static uint64_t pack_as(struct writer *w, yir_ref r, enum kb_packing packing, int32_t arg)
{
    const struct yir_tdesc *d = yir_desc(w->v->program->f, r);
    const struct kb_mem mem = {.kind = KB_MEM_WEIGHT, .dtype = d->dtype, .ref = r, .packing = packing, .pack_arg = arg, .elems = yir_numel(d)};
    return pack_once(w, &mem);
}

/* A kernel that does not read what cuDNN would, or does so in another way, keeps its work. */
static void write_engine(struct writer *w, uint32_t step)
{
    const struct cg_program *p = w->v->program;
    const struct cg_kernel *k = &p->kernel[step];
    struct cg_engine_work work;
    if (!k->engine || !cg_engine_work(p->f, k->first, k->last, w->m->meta.max_batch, &work)) return;
    struct ym_engine row = {.step = step, .version = k->engine->version, .number = k->engine->number, .nknob = k->engine->nknob,
                            .x = argument_of(k, work.x, false), .out = argument_of(k, work.out, true), .added = YM_ANY,
                            .space = k->engine->space ? space_at(p->f) : 0, .space_bytes = k->engine->space, .conv = work.conv};
    memcpy(row.knob, k->engine->knob, sizeof row.knob);
    if (work.conv.added) row.added = argument_of(k, work.added, false);
    if (row.x == YM_ANY || row.out == YM_ANY || (work.conv.added && row.added == YM_ANY)) return;
    row.name = string(w, cg_engine_text(w->arena, k->engine));
    row.weights = pack_as(w, work.weights, KB_PACK_OBLOCK, 1);
    if (work.conv.biased) row.bias = pack_as(w, work.bias, KB_PACK_NONE, 0);
    if (!w->engines) w->engines = new_part(w, YM_ENGINE);
    put(w, w->engines, &row, sizeof row);
}

static void write_engines(struct writer *w)
{
    w->engines = NULL;
    for (uint32_t i = 0; i < w->v->program->nkernel; i++) write_engine(w, i);
}

static void write_target(struct writer *w)
{
    const struct cg_target *t = w->v->target;
    const struct cg_program *p = w->v->program;
    struct ym_target out = {.kind = t->backend == CG_CUDA ? YM_CUDA : YM_CPU,
                            .name = string(w, t->text),
                            .arch = string(w, t->arch),
                            .features = string(w, t->needs),
                            .precision = string(w, w->m->meta.precision),
                            .compiler = string(w, w->v->code->compiler),
                            .arena_size = arena_bytes(p),
                            .max_batch = w->m->meta.max_batch,
                            .height = w->m->meta.height,
                            .width = w->m->meta.width,
                            .checked = p->opts.checked};
    for (uint32_t i = 0; i < p->nkernel; i++)
        if (out.scratch_size < (uint64_t)p->kernel[i].scratch_bytes) out.scratch_size = (uint64_t)p->kernel[i].scratch_bytes;
    put(w, new_part(w, YM_TARGET), &out, sizeof out);
    w->code = new_part(w, YM_CODE);
    size_t at = reserve(w, w->code, w->v->code->size, YM_ALIGN);
    memcpy(w->code->data + at, w->v->code->blob, w->v->code->size);
}

/* --- the file ----------------------------------------------------------------------------------------------- */

static size_t aligned(size_t n)
{
    return (n + YM_ALIGN - 1) / YM_ALIGN * YM_ALIGN;
}

static int assemble(struct writer *w, void **bytes, size_t *size)
{
    size_t head = sizeof(struct ym_header) + w->npart * sizeof(struct ym_section), total = aligned(head);
    for (size_t i = 0; i < w->npart; i++) total += aligned(w->part[i].size);
    unsigned char *file = calloc(1, total);
    if (!file) return yir_diag(w->diags, (struct yir_loc){0}, E_MEMORY, "a module of %zu bytes does not fit into memory", total);
    struct ym_header h = {.format = YM_FORMAT, .byte_order = YM_BYTE_ORDER, .file_size = total, .nsection = (uint32_t)w->npart,
                          .ntarget = w->m->nvariant, .producer = YOLOC_VERSION};
    memcpy(h.magic, YM_MAGIC, sizeof h.magic);
    size_t at = aligned(head);
    for (size_t i = 0; i < w->npart; i++) {
        const struct part *p = &w->part[i];
        struct ym_section s = {p->kind, p->index, at, p->size};
        memcpy(file + sizeof h + i * sizeof s, &s, sizeof s);
        if (p->size) memcpy(file + at, p->data, p->size);
        at += aligned(p->size);
    }
    memcpy(file, &h, sizeof h);
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(file, total));
    memcpy(file + offsetof(struct ym_header, digest), &digest, sizeof digest);
    *bytes = file;
    *size = total;
    return 0;
}

static int write_variant(struct writer *w)
{
    write_io(w);
    write_target(w);
    if (write_kernels(w) || write_service(w)) return -1;
    write_steps(w);
    write_engines(w);
    return 0;
}

int cg_module_write(struct yir_arena *a, struct yir_diags *d, const struct cg_module *m, void **bytes, size_t *size)
{
    enum { SHARED = YM_WEIGHTS, EACH = YM_ENGINE - YM_TARGET + 1 }; /* sections at most */
    struct writer w = {.arena = a, .diags = d, .m = m, .v = m->variant};
    const struct yir_func *f = m->variant->program->f;
    YIR_ASSERT(m->nvariant && m->nvariant <= YM_MAX_TARGETS);
    if (f->ninput + f->noutput > YM_MAX_IO)
        return yir_diag(d, (struct yir_loc){0}, E_LIMIT, "%u inputs and outputs; a module holds %d", f->ninput + f->noutput, YM_MAX_IO);
    w.most_parts = SHARED + EACH * (size_t)m->nvariant;
    w.part = yir_alloc_n(a, w.most_parts, sizeof *w.part);
    w.strings = new_part(&w, YM_STRINGS);
    reserve(&w, w.strings, 1, 1); /* offset 0 is the empty string */
    find_masks(&w);
    write_meta(&w);
    write_ir(&w);
    write_weights(&w);
    for (w.v = m->variant; w.v < m->variant + m->nvariant; w.v++)
        if (write_variant(&w)) return -1;
    return assemble(&w, bytes, size);
}
