#include "tables.h"

#include "constants.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MAX_IO_BYTES      (1ull << 42) /* of one input or output at the largest batch */
#define MAX_ARENA_BYTES   (1ull << 42)
#define MAX_SCRATCH_BYTES (1ull << 32)
#define MAX_UNITS         (1ll << 40) /* of one image; times YM_MAX_BATCH it is still far from overflow */
enum { MAX_SIDE = 65535, MAX_CLASSES = 65536, MAX_STRIDE = 65536, MAX_DET_LIMIT = 1 << 24 };
#define MAX_MAP_STRIDE    (1ull << 40) /* what the driver takes */
enum { MAX_BOX = 256 };
enum { MAX_COEFFICIENTS = 4096, MAX_POINTS = 1024 }; /* of a row, as the front end takes them */

size_t rt_dtype_size(uint32_t dtype)
{
    static const uint8_t size[] = {
        [YOLORT_F32] = 4, [YOLORT_F16] = 2, [YOLORT_BF16] = 2, [YOLORT_F64] = 8,  [YOLORT_U8] = 1,
        [YOLORT_I8] = 1,  [YOLORT_I32] = 4, [YOLORT_I64] = 8,  [YOLORT_BOOL] = 1,
    };
    return dtype < sizeof size ? size[dtype] : 0;
}

/* A section as rows of `each` bytes. FORMAT when it is missing or no whole number of rows. */
static yolort_status rows_of(struct rt_tables *t, uint32_t kind, uint32_t index, size_t each,
                             struct rt_span *out, uint32_t *count, const struct rt_error *e)
{
    *out = rt_section(&t->file, kind, index);
    RT_CHECK(e, FORMAT, MOD_ROWS, out->data, "no section %s %u", rt_section_name(kind), index);
    RT_CHECK(e, FORMAT, MOD_ROWS_WHOLE, out->size % each == 0, "section %s %u: %zu bytes are no rows of %zu",
             rt_section_name(kind), index, out->size, each);
    *count = (uint32_t)(out->size / each);
    return YOLORT_OK;
}

static yolort_status check_string(const struct rt_tables *t, uint32_t offset, int may_be_empty,
                                  const char *what, const struct rt_error *e)
{
    RT_CHECK(e, FORMAT, MOD_STRING, offset < t->strings_size, "%s: string %u is outside STRINGS", what,
             offset);
    RT_CHECK(e, FORMAT, MOD_STRING_EMPTY, may_be_empty || t->strings[offset], "%s: empty string", what);
    return YOLORT_OK;
}

static yolort_status check_strings(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s = rt_section(&t->file, YM_STRINGS, 0);
    RT_CHECK(e, FORMAT, MOD_STRINGS, s.size > 0 && !s.data[0] && !s.data[s.size - 1],
             "STRINGS is missing, or does not begin and end with a NUL");
    t->strings = (const char *)s.data;
    t->strings_size = s.size;
    return YOLORT_OK;
}

static int within(int64_t v, int64_t lo, int64_t hi)
{
    return v >= lo && v <= hi;
}

static int is_fraction(double v)
{
    return v >= 0 && v <= 1; /* false for NaN */
}

static yolort_status check_meta_numbers(const struct ym_meta *m, const struct rt_error *e)
{
    int boxes = m->head != YOLORT_HEAD_NONE;
    RT_CHECK(e, FORMAT, MOD_META_HEAD, m->head <= YOLORT_HEAD_BEST, "META: head %u", m->head);
    RT_CHECK(e, FORMAT, MOD_META_LETTERBOX, m->letterbox <= YOLORT_TOPLEFT, "META: letterbox %u",
             m->letterbox);
    RT_CHECK(e, FORMAT, MOD_META_CLASSES, within(m->nc, boxes, MAX_CLASSES), "META: %d classes", m->nc);
    RT_CHECK(e, FORMAT, MOD_META_SIDES, within(m->height, 1, MAX_SIDE) && within(m->width, 1, MAX_SIDE),
             "META: %d x %d pixels", m->width, m->height);
    RT_CHECK(e, FORMAT, MOD_META_BATCH, within(m->max_batch, 1, YM_MAX_BATCH), "META: batch %d",
             m->max_batch);
    RT_CHECK(e, FORMAT, MOD_META_STRIDE, within(m->stride, boxes, MAX_STRIDE), "META: stride %d", m->stride);
    RT_CHECK(e, FORMAT, MOD_META_MAX_DET, within(m->max_det, 0, MAX_DET_LIMIT), "META: max_det %d",
             m->max_det);
    RT_CHECK(e, FORMAT, MOD_META_FRACTION, is_fraction(m->conf) && is_fraction(m->iou),
             "META: conf %g, iou %g", (double)m->conf, (double)m->iou);
    RT_CHECK(e, FORMAT, MOD_META_EXTRAS,
             within(m->coefficients, 0, MAX_COEFFICIENTS) && within(m->points, 0, MAX_POINTS) &&
                 within(m->angles, 0, 1) && (m->points ? within(m->point_dims, 2, 3) : m->point_dims == 0),
             "META: %d coefficients, %d points of %d numbers, %d angles", m->coefficients, m->points, m->point_dims,
             m->angles);
    return YOLORT_OK;
}

/* Numbers of a row of `decoded`. */
static int64_t row_width(const struct ym_meta *m)
{
    int across = m->head == YOLORT_HEAD_FREE || m->head == YOLORT_HEAD_BEST;
    return (across ? 4 : 5) + (int64_t)m->nc + m->coefficients + (int64_t)m->points * m->point_dims + m->angles;
}

static yolort_status check_names(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    uint32_t n;
    if (t->meta->nc == 0) return YOLORT_OK;
    RT_TRY(rows_of(t, YM_NAMES, 0, sizeof *t->names, &s, &n, e));
    RT_CHECK(e, FORMAT, MOD_NAMES_COUNT, n == (uint32_t)t->meta->nc, "NAMES: %u names of %d classes", n,
             t->meta->nc);
    t->names = (const uint32_t *)(const void *)s.data;
    for (uint32_t i = 0; i < n; i++)
        RT_TRY(check_string(t, t->names[i], 1, "NAMES", e));
    return YOLORT_OK;
}

/* Rank, type and sizes: the product of the dims times the element size, or 0 when any of them is impossible.
 */
static uint64_t tensor_bytes(uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    uint64_t bytes = rt_dtype_size(dtype);
    if (rank > YM_MAX_RANK) return 0;
    for (uint32_t i = 0; i < YM_MAX_RANK; i++) {
        if (i >= rank && dim[i]) return 0;
        if (i >= rank) continue;
        if (dim[i] < 1 || __builtin_mul_overflow(bytes, (uint64_t)dim[i], &bytes)) return 0;
    }
    return bytes;
}

static yolort_status check_weight(const struct rt_tables *t, const struct ym_weight *w, uint64_t pool,
                                  uint32_t i, const struct rt_error *e)
{
    uint64_t bytes = tensor_bytes(w->dtype, w->rank, w->dim);
    RT_TRY(check_string(t, w->name, 0, "WEIGHT: name", e));
    RT_CHECK(e, FORMAT, MOD_WEIGHT_TYPE, bytes && !w->pad[0] && !w->pad[1], "WEIGHT %u: bad type or dims", i);
    RT_CHECK(e, FORMAT, MOD_WEIGHT_BYTES, bytes == w->size,
             "WEIGHT %u: %" PRIu64 " bytes instead of %" PRIu64, i, w->size, bytes);
    RT_CHECK(e, FORMAT, MOD_WEIGHT_INSIDE,
             w->offset % YM_ALIGN == 0 && w->offset <= pool && w->size <= pool - w->offset,
             "WEIGHT %u: at %" PRIu64 ", outside WEIGHTS or not aligned", i, w->offset);
    return YOLORT_OK;
}

/* `compile --strip` leaves the canonical weights out. */
static yolort_status check_weights(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s, pool = rt_section(&t->file, YM_WEIGHTS, 0);
    uint32_t n;
    if (!rt_section(&t->file, YM_WEIGHT, 0).data) {
        RT_CHECK(e, FORMAT, MOD_WEIGHTS_ALONE, !pool.data, "WEIGHTS without WEIGHT");
        return YOLORT_OK;
    }
    RT_TRY(rows_of(t, YM_WEIGHT, 0, sizeof(struct ym_weight), &s, &n, e));
    const struct ym_weight *w = (const struct ym_weight *)(const void *)s.data;
    for (uint32_t i = 0; i < n; i++)
        RT_TRY(check_weight(t, &w[i], pool.size, i, e));
    t->weight = w;
    t->nweight = n;
    t->weights = pool;
    return YOLORT_OK;
}

yolort_status rt_tables_shared(struct rt_tables *t, const struct rt_error *e)
{
    RT_TRY(check_strings(t, e));
    struct rt_span s;
    uint32_t n;
    RT_TRY(rows_of(t, YM_META, 0, sizeof *t->meta, &s, &n, e));
    RT_CHECK(e, FORMAT, MOD_META_ONE, n == 1, "META: %u records", n);
    const struct ym_meta *m = t->meta = (const struct ym_meta *)(const void *)s.data;
    RT_TRY(check_string(t, m->model, 1, "META: model", e));
    RT_TRY(check_string(t, m->task, 1, "META: task", e));
    RT_TRY(check_string(t, m->weights_from, 1, "META: weights_from", e));
    RT_TRY(check_string(t, m->options, 1, "META: options", e));
    RT_TRY(check_meta_numbers(m, e));
    RT_TRY(check_names(t, e));
    return check_weights(t, e);
}

yolort_status rt_tables_target(struct rt_tables *t, uint32_t index, const struct rt_error *e)
{
    struct rt_span s;
    uint32_t n;
    RT_TRY(rows_of(t, YM_TARGET, index, sizeof *t->target, &s, &n, e));
    RT_CHECK(e, FORMAT, MOD_TARGET_ONE, n == 1, "TARGET %u: %u records", index, n);
    const struct ym_target *r = (const struct ym_target *)(const void *)s.data;
    RT_TRY(check_string(t, r->name, 0, "TARGET: name", e));
    RT_TRY(check_string(t, r->arch, 0, "TARGET: arch", e));
    RT_TRY(check_string(t, r->features, 1, "TARGET: features", e));
    RT_TRY(check_string(t, r->precision, 1, "TARGET: precision", e));
    RT_TRY(check_string(t, r->compiler, 1, "TARGET: compiler", e));
    RT_CHECK(e, LIMIT, MOD_TARGET_ARENA, r->arena_size <= MAX_ARENA_BYTES,
             "TARGET %u: an arena of %" PRIu64 " bytes", index, r->arena_size);
    RT_CHECK(e, LIMIT, MOD_TARGET_SCRATCH, r->scratch_size <= MAX_SCRATCH_BYTES,
             "TARGET %u: scratch of %" PRIu64 " bytes", index, r->scratch_size);
    RT_CHECK(e, FORMAT, MOD_TARGET_BATCH, within(r->max_batch, 1, YM_MAX_BATCH), "TARGET %u: batch %d", index,
             r->max_batch);
    RT_CHECK(e, FORMAT, MOD_TARGET_SIDES, within(r->height, 1, MAX_SIDE) && within(r->width, 1, MAX_SIDE),
             "TARGET %u: %d x %d pixels", index, r->width, r->height);
    RT_CHECK(e, FORMAT, MOD_TARGET_CHECKED, r->checked <= 1, "TARGET %u: checked is %u", index, r->checked);
    t->index = index;
    t->target = r;
    return YOLORT_OK;
}

uint64_t rt_io_bytes(const struct ym_io *io)
{
    return tensor_bytes(io->dtype, io->rank, io->dim) / (uint64_t)io->dim[0];
}

static yolort_status check_io_row(const struct rt_tables *t, uint32_t i, const struct rt_error *e)
{
    const struct ym_io *io = &t->io[i];
    uint64_t bytes = tensor_bytes(io->dtype, io->rank, io->dim);
    RT_TRY(check_string(t, io->name, 0, "IO: name", e));
    const char *name = t->strings + io->name;
    RT_CHECK(e, FORMAT, MOD_IO_TYPE, io->rank >= 1 && bytes, "IO %u (%s): bad type or dims", i, name);
    RT_CHECK(e, LIMIT, MOD_IO_BYTES_LIMIT, bytes <= MAX_IO_BYTES, "IO %u (%s): %" PRIu64 " bytes", i, name,
             bytes);
    RT_CHECK(e, FORMAT, MOD_IO_BATCH, io->dim[0] == t->target->max_batch,
             "IO %u (%s): dim 0 is not the batch", i, name);
    RT_CHECK(e, FORMAT, MOD_IO_FLAGS,
             io->flags == 0 || io->flags == YM_IO_BESIDE || io->flags == YM_IO_OUTPUT ||
                 io->flags == (YM_IO_OUTPUT | YM_IO_LAYER),
             "IO %u (%s): flags 0x%x", i, name, io->flags);
    RT_CHECK(e, FORMAT, MOD_IO_PAD, !io->pad, "IO %u (%s): padding is not zero", i, name);
    for (uint32_t k = 0; k < i; k++)
        RT_CHECK(e, FORMAT, MOD_IO_TWICE, strcmp(name, t->strings + t->io[k].name),
                 "IO %u and %u are both \"%s\"", k, i, name);
    return YOLORT_OK;
}

static int has_shape(const struct ym_io *io, uint32_t dtype, int64_t a, int64_t b, int64_t c)
{
    int64_t rank = c ? 4 : 3;
    return io->dtype == dtype && io->rank == rank && (a == YM_ANY || io->dim[1] == a) &&
           (b == YM_ANY || io->dim[2] == b) && (!c || io->dim[3] == c);
}

/* The tensors that yolort_detect binds by name have to be what it takes them for. */
static yolort_status check_known_io(const struct rt_tables *t, const struct ym_io *io,
                                    const struct rt_error *e)
{
    const char *name = t->strings + io->name;
    int64_t row = row_width(t->meta);
    int across = t->meta->head == YOLORT_HEAD_FREE || t->meta->head == YOLORT_HEAD_BEST;
    int input = !(io->flags & YM_IO_OUTPUT);
    if (!strcmp(name, "input_u8"))
        RT_CHECK(e, FORMAT, MOD_IO_PICTURE,
                 input && has_shape(io, YOLORT_U8, t->target->height, t->target->width, 3),
                 "IO: input_u8 is no picture of %d x %d", t->target->width, t->target->height);
    if (strcmp(name, "decoded") || t->meta->head == YOLORT_HEAD_NONE) return YOLORT_OK;
    int fits = across ? has_shape(io, YOLORT_F32, row, YM_ANY, 0) : has_shape(io, YOLORT_F32, YM_ANY, row, 0);
    RT_CHECK(e, FORMAT, MOD_IO_DECODED, !input && fits,
             "IO: decoded does not hold rows of %" PRId64 " numbers", row);
    return YOLORT_OK;
}

static yolort_status check_io(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    RT_TRY(rows_of(t, YM_IO, t->index, sizeof *t->io, &s, &t->nio, e));
    RT_CHECK(e, LIMIT, MOD_IO_COUNT_LIMIT, t->nio <= YM_MAX_IO,
             "%u inputs and outputs; at most %d are allowed", t->nio, YM_MAX_IO);
    t->io = (const struct ym_io *)(const void *)s.data;
    for (uint32_t i = 0; i < t->nio; i++) {
        RT_TRY(check_io_row(t, i, e));
        RT_TRY(check_known_io(t, &t->io[i], e));
    }
    return YOLORT_OK;
}

/* How blocks are launched: nothing on CPUs. */
static int is_launch(const struct rt_tables *t, const struct ym_kernel *k)
{
    if (t->target->kind != YM_CUDA)
        return !k->threads && !k->per_block && !k->shared && !k->most_blocks && !k->least_blocks && !k->waits;
    return k->waits <= 1 && k->threads && k->threads % YM_WARP == 0 && k->threads <= YM_MAX_THREADS && k->per_block && k->shared <= YM_MAX_SHARED;
}

static yolort_status check_param(const struct rt_tables *t, uint32_t row, uint32_t kernel, uint32_t i, const struct rt_error *e)
{
    const struct ym_param *p = &t->param[row];
    static const uint8_t zero[sizeof p->pad];
    RT_CHECK(e, FORMAT, MOD_PARAM_TYPE, rt_dtype_size(p->dtype), "KERNEL %u: parameter %u: type %u", kernel, i, p->dtype);
    RT_CHECK(e, FORMAT, MOD_PARAM_FLAGS, p->written <= 1 && !memcmp(p->pad, zero, sizeof zero),
             "KERNEL %u: parameter %u: bad flags", kernel, i);
    RT_CHECK(e, FORMAT, MOD_PARAM_ALIGN, p->align <= (t->target->kind == YM_CUDA ? YM_MOST_ALIGN : 0),
             "KERNEL %u: parameter %u: multiples of 2^%u", kernel, i, p->align);
    return YOLORT_OK;
}

/* Each dimension and box has a size, or none beyond the rank. */
static int is_map(const struct ym_map *m, uint64_t element)
{
    if (element > sizeof(uint32_t) || m->rank < 3 || m->rank > YM_MAP_RANK || m->swizzle < 1 || m->swizzle > 3 || m->pad) return 0;
    for (uint32_t i = 0; i < YM_MAP_RANK; i++) {
        if (i >= m->rank ? m->dim[i] || m->box[i] : !m->dim[i] || m->box[i] < 1 || m->box[i] > MAX_BOX) return 0;
        if (i == 0) continue;
        uint64_t stride = m->stride[i - 1];
        if (i >= m->rank ? stride != 0 : !stride || stride % 16 || stride >= MAX_MAP_STRIDE) return 0;
    }
    return m->box[0] * element == 16ull << m->swizzle && m->box[m->rank - 1] == 1;
}

/* The map of n images reaches no further than what the code may touch of n images. Strides and dimensions are under 2^40 and
 * 2^32, so products are not over 2^72: the check is for overflow too. */
static int is_map_inside(const struct rt_tables *t, const struct ym_map *m, const struct ym_param *p)
{
    uint64_t end = m->dim[0] * (uint64_t)rt_dtype_size(p->dtype), more;
    for (uint32_t i = 1; i + 1 < m->rank; i++)
        if (__builtin_mul_overflow(m->dim[i] - 1, m->stride[i - 1], &more) || __builtin_add_overflow(end, more, &end)) return 0;
    return end <= p->first && m->dim[m->rank - 1] == (uint32_t)t->target->max_batch && m->stride[m->rank - 2] == p->each;
}

/* maps: rows of MAP that the kernels before it have. */
static yolort_status check_maps(const struct rt_tables *t, uint32_t i, uint32_t maps, const struct rt_error *e)
{
    const struct ym_kernel *k = &t->kernel[i];
    RT_CHECK(e, FORMAT, MOD_KERNEL_MAPS,
             k->first_map == (k->nmap ? maps : 0) && k->nmap <= YM_MAX_MAPS && k->nmap <= t->nmap - maps && (!k->nmap || t->target->kind == YM_CUDA),
             "KERNEL %u: maps %u + %u of %u", i, k->first_map, k->nmap, t->nmap);
    for (uint32_t n = 0; n < k->nmap; n++) {
        const struct ym_map *m = &t->map[maps + n];
        const struct ym_param *p = m->param < k->nparam ? &t->param[k->first_param + m->param] : NULL;
        RT_CHECK(e, FORMAT, MOD_MAP_PARAM, p && !p->written && p->align == YM_MOST_ALIGN, "KERNEL %u: map %u: of parameter %u", i, n,
                 m->param);
        RT_CHECK(e, FORMAT, MOD_MAP_SHAPE, is_map(m, rt_dtype_size(p->dtype)), "KERNEL %u: map %u: bad dimensions", i, n);
        RT_CHECK(e, FORMAT, MOD_MAP_INSIDE, is_map_inside(t, m, p), "KERNEL %u: map %u: reaches outside its parameter", i, n);
    }
    return YOLORT_OK;
}

/* params, maps: rows of PARAM and MAP that the kernels before it have. */
static yolort_status check_kernel(const struct rt_tables *t, uint32_t i, uint32_t params, uint32_t maps, const struct rt_error *e)
{
    const struct ym_kernel *k = &t->kernel[i];
    RT_TRY(check_string(t, k->name, 0, "KERNEL: name", e));
    RT_TRY(check_string(t, k->family, 1, "KERNEL: family", e));
    RT_CHECK(e, FORMAT, MOD_KERNEL_ENTRY,
             k->offset % YM_ALIGN == 0 && k->offset >= sizeof(struct ym_seal) && k->offset < t->code.size,
             "KERNEL %u: entry %" PRIu64 " is outside CODE or not aligned", i, k->offset);
    RT_CHECK(e, FORMAT, MOD_KERNEL_UNITS, within(k->units, 1, MAX_UNITS), "KERNEL %u: %" PRId64 " units", i, k->units);
    RT_CHECK(e, FORMAT, MOD_KERNEL_SCRATCH, k->scratch <= t->target->scratch_size,
             "KERNEL %u: %" PRIu64 " bytes of scratch", i, k->scratch);
    RT_CHECK(e, FORMAT, MOD_KERNEL_LAUNCH, is_launch(t, k), "KERNEL %u: blocks of %u threads, %u units, %u bytes", i, k->threads,
             k->per_block, k->shared);
    RT_CHECK(e, FORMAT, MOD_KERNEL_PARAMS,
             k->first_param == params && k->nparam <= YM_MAX_ARGS && k->nparam <= t->nparam - params,
             "KERNEL %u: parameters %u + %u of %u", i, k->first_param, k->nparam, t->nparam);
    for (uint32_t p = 0; p < k->nparam; p++)
        RT_TRY(check_param(t, params + p, i, p, e));
    RT_TRY(check_maps(t, i, maps, e));
    RT_CHECK(e, FORMAT, MOD_KERNEL_SEAL, rt_is_sealed(t->code.data, k, t->param + params, t->map + maps),
             "KERNEL %u (%s): is not what CODE holds at %" PRIu64, i, t->strings + k->name, k->offset);
    return YOLORT_OK;
}

static yolort_status find_maps(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    static const struct ym_map none;
    t->map = &none;
    t->nmap = 0;
    if (!rt_section(&t->file, YM_MAP, t->index).data) return YOLORT_OK;
    RT_TRY(rows_of(t, YM_MAP, t->index, sizeof *t->map, &s, &t->nmap, e));
    t->map = (const struct ym_map *)(const void *)s.data;
    return YOLORT_OK;
}

static yolort_status check_kernels(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    uint32_t params = 0, maps = 0;
    RT_TRY(find_maps(t, e));
    RT_TRY(rows_of(t, YM_PARAM, t->index, sizeof *t->param, &s, &t->nparam, e));
    t->param = (const struct ym_param *)(const void *)s.data;
    RT_TRY(rows_of(t, YM_KERNEL, t->index, sizeof *t->kernel, &s, &t->nkernel, e));
    t->kernel = (const struct ym_kernel *)(const void *)s.data;
    for (uint32_t i = 0; i < t->nkernel; i++) {
        RT_TRY(check_kernel(t, i, params, maps, e));
        params += t->kernel[i].nparam;
        maps += t->kernel[i].nmap;
    }
    RT_CHECK(e, FORMAT, MOD_MAPS_WHOLE, maps == t->nmap, "MAP: %u rows, the kernels have %u", t->nmap, maps);
    RT_CHECK(e, FORMAT, MOD_PARAMS_WHOLE, params == t->nparam, "PARAM: %u rows, the kernels have %u", t->nparam, params);
    return YOLORT_OK;
}

/* The functions of service.h take no arguments of steps: the row tells where they lie. */
static yolort_status check_service(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    uint32_t n;
    if (!rt_section(&t->file, YM_SERVICE, t->index).data) return YOLORT_OK;
    RT_TRY(rows_of(t, YM_SERVICE, t->index, sizeof *t->service, &s, &n, e));
    const struct ym_kernel *k = (const struct ym_kernel *)(const void *)s.data;
    RT_CHECK(e, FORMAT, MOD_SERVICE, n == 1 && t->target->kind == YM_CUDA, "SERVICE: %u rows, of a program of kind %u", n,
             t->target->kind);
    RT_CHECK(e, FORMAT, MOD_SERVICE_ENTRY,
             k->offset % YM_ALIGN == 0 && k->offset >= sizeof(struct ym_seal) && k->offset < t->code.size && !k->nparam && !k->nmap,
             "SERVICE: entry %" PRIu64 " is outside CODE or not aligned", k->offset);
    RT_CHECK(e, INCOMPATIBLE, MOD_SERVICE_VERSION, k->units == YM_SERVICE_VERSION, "SERVICE: version %" PRId64 ", this runtime calls %d",
             k->units, YM_SERVICE_VERSION);
    RT_CHECK(e, FORMAT, MOD_SERVICE_SEAL, rt_is_sealed(t->code.data, k, NULL, NULL), "SERVICE: is not what CODE holds at %" PRIu64, k->offset);
    t->service = k;
    return YOLORT_OK;
}

/* Bytes that an argument's slot has at the largest batch. */
static uint64_t slot_size(const struct rt_tables *t, const struct ym_arg *a)
{
    return a->slot == YM_SLOT_ARENA      ? t->target->arena_size
           : a->slot == YM_SLOT_CONSTANT ? t->constants.size
                                         : rt_io_bytes(&t->io[a->io]) * (uint64_t)t->io[a->io].dim[0];
}

static yolort_status check_args(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    RT_TRY(rows_of(t, YM_ARG, t->index, sizeof *t->arg, &s, &t->narg, e));
    t->arg = (const struct ym_arg *)(const void *)s.data;
    for (uint32_t i = 0; i < t->narg; i++) {
        const struct ym_arg *a = &t->arg[i];
        RT_CHECK(e, FORMAT, MOD_ARG_SLOT, a->slot <= YM_SLOT_IO, "ARG %u: slot %u", i, a->slot);
        RT_CHECK(e, FORMAT, MOD_ARG_IO, a->slot == YM_SLOT_IO ? a->io < t->nio : a->io == 0, "ARG %u: io %u", i,
                 a->io);
        uint64_t size = slot_size(t, a);
        RT_CHECK(e, FORMAT, MOD_ARG_OFFSET, a->offset <= size,
                 "ARG %u: at %" PRIu64 ", its slot has %" PRIu64 " bytes", i, a->offset, size);
    }
    return YOLORT_OK;
}

/* Bits of the inputs (output 0) or of the outputs (1). */
static void io_mask(const struct rt_tables *t, int output, uint64_t mask[2])
{
    mask[0] = mask[1] = 0;
    for (uint32_t i = 0; i < t->nio; i++)
        if (!!(t->io[i].flags & YM_IO_OUTPUT) == output) rt_mask_set(mask, i);
}

static int is_subset(const uint64_t a[2], const uint64_t of[2])
{
    return !(a[0] & ~of[0]) && !(a[1] & ~of[1]);
}

static int is_empty(const uint64_t a[2])
{
    return !a[0] && !a[1];
}

static yolort_status check_step(const struct rt_tables *t, uint32_t i, const uint64_t in[2],
                                const uint64_t out[2], const struct rt_error *e)
{
    const struct ym_step *p = &t->step[i];
    RT_TRY(check_string(t, p->label, 1, "STEP: label", e));
    RT_CHECK(e, FORMAT, MOD_STEP_NEED, is_subset(p->need, in), "STEP %u: need names what is no input", i);
    RT_CHECK(e, FORMAT, MOD_STEP_WANT, is_subset(p->want, out) && !is_empty(p->want),
             "STEP %u: want names what is no output", i);
    RT_CHECK(e, FORMAT, MOD_STEP_KERNEL, p->kernel < t->nkernel, "STEP %u: kernel %u of %u", i, p->kernel,
             t->nkernel);
    RT_CHECK(e, FORMAT, MOD_STEP_ARGS,
             p->first_arg <= t->narg && p->narg <= t->narg - p->first_arg,
             "STEP %u: arguments %u + %u of %u", i, p->first_arg, p->narg, t->narg);
    RT_CHECK(e, FORMAT, MOD_STEP_NARG, p->narg == t->kernel[p->kernel].nparam,
             "STEP %u: %u arguments, its kernel has %u parameters", i, p->narg, t->kernel[p->kernel].nparam);
    RT_CHECK(e, FORMAT, MOD_STEP_LINE, p->line >= 0, "STEP %u: line %d", i, p->line);
    RT_CHECK(e, FORMAT, MOD_STEP_GRAIN, p->grain >= 1, "STEP %u: grain 0", i);
    RT_CHECK(e, FORMAT, MOD_STEP_COSTS,
             isfinite(p->flops) && isfinite(p->bytes) && p->flops >= 0 && p->bytes >= 0,
             "STEP %u: flops or bytes is no count", i);
    return YOLORT_OK;
}

/* Whether all that the code touches of an argument lies in its slot, with one image and with the most: then with each
 * number between, since both grow evenly. */
static int is_inside(const struct rt_tables *t, const struct ym_arg *a, const struct ym_param *p)
{
    uint64_t end, more, one = a->slot == YM_SLOT_IO ? rt_io_bytes(&t->io[a->io]) : slot_size(t, a);
    if (__builtin_add_overflow(a->offset, p->first, &end) || end > one) return 0;
    if (__builtin_mul_overflow(p->each, (uint64_t)t->target->max_batch - 1, &more)) return 0;
    return !__builtin_add_overflow(end, more, &end) && end <= slot_size(t, a);
}

static yolort_status check_step_args(const struct rt_tables *t, uint32_t i, const struct rt_error *e)
{
    const struct ym_step *step = &t->step[i];
    for (uint32_t k = 0; k < step->narg; k++) {
        const struct ym_arg *a = &t->arg[step->first_arg + k];
        const struct ym_param *p = &t->param[t->kernel[step->kernel].first_param + k];
        const struct ym_io *io = a->slot == YM_SLOT_IO ? &t->io[a->io] : NULL;
        RT_CHECK(e, FORMAT, MOD_ARG_TYPE, !io || io->dtype == p->dtype, "STEP %u: argument %u: has another type", i, k);
        RT_CHECK(e, FORMAT, MOD_ARG_ALIGN, a->offset % rt_dtype_size(p->dtype) == 0 && a->offset % (1u << p->align) == 0,
                 "STEP %u: argument %u: %" PRIu64 " is no address of its type", i, k, a->offset);
        RT_CHECK(e, FORMAT, MOD_ARG_WRITTEN,
                 !p->written || a->slot == YM_SLOT_ARENA || (io && io->flags & YM_IO_OUTPUT),
                 "STEP %u: argument %u: would be written", i, k);
        RT_CHECK(e, FORMAT, MOD_ARG_INSIDE, is_inside(t, a, p),
                 "STEP %u: argument %u: its kernel would leave the slot", i, k);
    }
    return YOLORT_OK;
}

/* A step that touches an input or output must not run while that is unbound: its mask holds that one alone.
 * reached[i]: inputs with which output i is written. */
static yolort_status check_step_io(const struct rt_tables *t, uint32_t i, const uint64_t in[2],
                                   uint64_t (*reached)[2], const struct rt_error *e)
{
    const struct ym_step *p = &t->step[i];
    const uint64_t *with = is_empty(p->need) ? in : p->need;
    for (uint32_t k = 0; k < p->narg; k++) {
        const struct ym_arg *a = &t->arg[p->first_arg + k];
        if (a->slot != YM_SLOT_IO) continue;
        int output = t->io[a->io].flags & YM_IO_OUTPUT;
        const uint64_t *mask = output ? p->want : p->need;
        uint64_t alone[2] = {0, 0};
        rt_mask_set(alone, a->io);
        RT_CHECK(e, FORMAT, MOD_STEP_ALONE, !memcmp(mask, alone, sizeof alone),
                 "STEP %u: may run without its argument %s", i, t->strings + t->io[a->io].name);
        if (!output) continue;
        reached[a->io][0] |= with[0];
        reached[a->io][1] |= with[1];
    }
    return YOLORT_OK;
}

static yolort_status check_steps(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    uint64_t in[2], out[2], reached[YM_MAX_IO][2] = {{0}};
    RT_TRY(rows_of(t, YM_STEP, t->index, sizeof *t->step, &s, &t->nstep, e));
    t->step = (const struct ym_step *)(const void *)s.data;
    io_mask(t, 0, in);
    io_mask(t, 1, out);
    RT_CHECK(e, FORMAT, MOD_IO_SIDES, !is_empty(in) && !is_empty(out), "IO: no input, or no output");
    for (uint32_t i = 0; i < t->nstep; i++) {
        RT_TRY(check_step(t, i, in, out, e));
        RT_TRY(check_step_args(t, i, e));
        RT_TRY(check_step_io(t, i, in, reached, e));
    }
    for (uint32_t i = 0; i < t->nio; i++)
        RT_CHECK(e, FORMAT, MOD_IO_WRITTEN, !rt_mask_has(out, i) || is_subset(in, reached[i]),
                 "IO %u (%s): with some input, no step writes it", i, t->strings + t->io[i].name);
    return YOLORT_OK;
}

static yolort_status check_engines(struct rt_tables *t, const struct rt_error *e)
{
    struct rt_span s;
    t->engine = NULL;
    t->nengine = 0;
    if (!rt_section(&t->file, YM_ENGINE, t->index).data) return YOLORT_OK;
    RT_TRY(rows_of(t, YM_ENGINE, t->index, sizeof *t->engine, &s, &t->nengine, e));
    t->engine = (const struct ym_engine *)(const void *)s.data;
    for (uint32_t i = 0; i < t->nengine; i++) RT_TRY(check_string(t, t->engine[i].name, 0, "ENGINE: name", e));
    return rt_engines_check(t, e);
}

yolort_status rt_tables_program(struct rt_tables *t, const struct rt_error *e)
{
    t->code = rt_section(&t->file, YM_CODE, t->index);
    RT_CHECK(e, FORMAT, MOD_CODE_PRESENT, t->code.data, "no section CODE %u", t->index);
    RT_TRY(rt_constants_check(t, e));
    RT_TRY(check_io(t, e));
    RT_TRY(check_kernels(t, e));
    RT_TRY(check_service(t, e));
    RT_TRY(check_args(t, e));
    RT_TRY(check_steps(t, e));
    return check_engines(t, e);
}
