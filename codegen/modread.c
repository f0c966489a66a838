#include "modread.h"

#include "check.h"

#include "ir/limits.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static int bad(struct yir_diags *d, const struct cg_modview *v, uint64_t at, const char *what)
{
    return yir_diag_bin(d, v->file, at, E_MODULE_FILE, "%s", what);
}

static int check_digest(struct yir_diags *d, const struct cg_modview *v, const struct ym_header *h)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    (void)d, (void)v, (void)h;
    return 0;
#else
    static const unsigned char zero[sizeof h->digest];
    size_t at = offsetof(struct ym_header, digest), after = at + sizeof h->digest;
    XXH3_state_t *state = XXH3_createState();
    XXH128_canonical_t digest;
    if (!state) return yir_diag(d, (struct yir_loc){0}, E_MEMORY, "no memory for a digest");
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, v->bytes, at);
    XXH3_128bits_update(state, zero, sizeof zero);
    XXH3_128bits_update(state, v->bytes + after, v->size - after);
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    if (CG_BREAKS(READ_DIGEST, memcmp(&digest, h->digest, sizeof digest)))
        return bad(d, v, at, "the digest does not match: the file is damaged");
    return 0;
#endif
}

static int check_version(struct yir_diags *d, const struct cg_modview *v, const struct ym_header *h)
{
    if (CG_BREAKS(READ_BYTE_ORDER, h->byte_order != YM_BYTE_ORDER))
        return yir_diag_bin(d, v->file, offsetof(struct ym_header, byte_order), E_MODULE_FILE,
                            "byte order 0x%08x; this yoloc reads 0x%08x", h->byte_order, YM_BYTE_ORDER);
    if (CG_BREAKS(READ_FORMAT, h->format != YM_FORMAT))
        return yir_diag_bin(d, v->file, offsetof(struct ym_header, format), E_MODULE_VERSION,
                            "format %u; this yoloc reads format %u", h->format, YM_FORMAT);
    return 0;
}

static int check_header(struct yir_diags *d, struct cg_modview *v)
{
    struct ym_header h;
    if (CG_BREAKS(READ_MAGIC, v->size < sizeof h || memcmp(v->bytes, YM_MAGIC, sizeof h.magic)))
        return bad(d, v, 0, "not a module of yoloc");
    memcpy(&h, v->bytes, sizeof h);
    if (check_version(d, v, &h)) return -1;
    if (CG_BREAKS(READ_SIZE, h.file_size != v->size))
        return bad(d, v, offsetof(struct ym_header, file_size), "the file is cut or has bytes too many");
    if (check_digest(d, v, &h)) return -1;
    if (CG_BREAKS(READ_FEATURES, h.features))
        return yir_diag_bin(d, v->file, offsetof(struct ym_header, features), E_MODULE_FILE,
                            "needs reader features 0x%x; this yoloc has none", h.features);
    if (CG_BREAKS(READ_SECTIONS_LIMIT, h.nsection > yir_limits_of(d)->max_sections))
        return bad(d, v, offsetof(struct ym_header, nsection), "more sections than are allowed");
    if (CG_BREAKS(READ_SECTIONS, h.nsection * sizeof(struct ym_section) > v->size - sizeof h))
        return bad(d, v, offsetof(struct ym_header, nsection), "more sections than the file holds");
    v->section = v->bytes + sizeof h;
    v->nsection = h.nsection;
    v->producer = h.producer;
    return 0;
}

static struct ym_section section_at(const struct cg_modview *v, uint32_t i)
{
    struct ym_section s;
    memcpy(&s, v->section + i * sizeof s, sizeof s);
    return s;
}

static int check_sections(struct yir_diags *d, const struct cg_modview *v)
{
    for (uint32_t i = 0; i < v->nsection; i++) {
        struct ym_section s = section_at(v, i);
        uint64_t at = sizeof(struct ym_header) + i * sizeof s;
        if (CG_BREAKS(READ_INSIDE, s.offset > v->size || s.size > v->size - s.offset))
            return bad(d, v, at, "a section is not inside the file");
        if (CG_BREAKS(READ_ALIGNED, s.offset % YM_ALIGN)) return bad(d, v, at, "a section is not aligned");
    }
    return 0;
}

const void *cg_module_section(const struct cg_modview *v, uint32_t kind, uint32_t index, size_t *size)
{
    for (uint32_t i = 0; i < v->nsection; i++) {
        struct ym_section s = section_at(v, i);
        if (s.kind != kind || s.index != index) continue;
        *size = (size_t)s.size;
        return v->bytes + s.offset;
    }
    *size = 0;
    return NULL;
}

const char *cg_module_string(const struct cg_modview *v, uint32_t at)
{
    return CG_HOLDS(READ_STRING, at < v->nstrings) ? v->strings + at : "";
}

/* Of the first target; all have the same. */
static const char *precision_of(const struct cg_modview *v)
{
    struct ym_target t;
    size_t size;
    const void *p = cg_module_section(v, YM_TARGET, 0, &size);
    if (!p || size != sizeof t) return "";
    memcpy(&t, p, sizeof t);
    return cg_module_string(v, t.precision);
}

static int read_meta(struct yir_arena *a, struct yir_diags *d, struct cg_modview *v)
{
    struct ym_meta m;
    size_t size;
    const void *p = cg_module_section(v, YM_META, 0, &size);
    if (CG_BREAKS(READ_META, !p || size != sizeof m)) return bad(d, v, 0, "no description of the model");
    memcpy(&m, p, sizeof m);
    p = cg_module_section(v, YM_NAMES, 0, &size);
    if (CG_BREAKS(READ_NAMES, m.nc < 0 || (uint64_t)m.nc * 4 != size))
        return bad(d, v, 0, "not as many names as the model has classes");
    if (CG_BREAKS(READ_NUMBERS, m.height < 1 || m.width < 1 || m.max_batch < 1 || m.stride < 1 || m.max_batch > YM_MAX_BATCH))
        return bad(d, v, 0, "the description of the model makes no sense");
    const char **names = yir_alloc_n(a, (size_t)m.nc, sizeof *names);
    for (int i = 0; i < m.nc; i++) {
        uint32_t at;
        memcpy(&at, (const char *)p + 4 * (size_t)i, sizeof at);
        names[i] = cg_module_string(v, at);
    }
    v->meta = (struct cg_meta){.model = cg_module_string(v, m.model),
                               .task = cg_module_string(v, m.task),
                               .weights_from = cg_module_string(v, m.weights_from),
                               .options = cg_module_string(v, m.options),
                               .precision = precision_of(v),
                               .head = (int)m.head,
                               .letterbox = (int)m.letterbox,
                               .nc = m.nc,
                               .height = m.height,
                               .width = m.width,
                               .max_batch = m.max_batch,
                               .stride = m.stride,
                               .max_det = m.max_det,
                               .conf = m.conf,
                               .iou = m.iou,
                               .coefficients = m.coefficients,
                               .points = m.points,
                               .point_dims = m.point_dims,
                               .angles = m.angles,
                               .names = names,
                               .weights_digest = {m.weights_digest[0], m.weights_digest[1]}};
    return 0;
}

int cg_module_open(struct yir_arena *a, struct yir_diags *d, const char *name, const void *bytes, size_t size,
                   struct cg_modview *out)
{
    *out = (struct cg_modview){.bytes = bytes, .size = size, .file = yir_diag_file(d, name, NULL, 0), .name = name};
    if (check_header(d, out) || check_sections(d, out)) return -1;
    out->strings = cg_module_section(out, YM_STRINGS, 0, &out->nstrings);
    if (CG_BREAKS(READ_STRINGS, !out->strings || !out->nstrings || out->strings[out->nstrings - 1]))
        return bad(d, out, 0, "the strings do not end");
    return read_meta(a, d, out);
}

/* --- front-end function ------------------------------------------------------------------------------------- */

struct reader {
    struct yir_arena *arena;
    struct yir_diags *diags;
    const struct cg_modview *v;
    struct yir_func *f;
    const unsigned char *table, *bytes;
    size_t ntable, nbytes;
};

static int read_weight(struct reader *r, const struct ym_weight *w)
{
    yir_ref ref = yir_find_weight(r->f, cg_module_string(r->v, w->name));
    if (yir_kind(ref) == YIR_NIL) return 0;
    struct yir_weight *to = &r->f->weight[yir_index(ref)];
    const struct yir_tdesc *d = yir_tdesc(r->f->types, to->type);
    uint64_t n = (uint64_t)yir_numel(d), size = 0;
    if (CG_BREAKS(READ_WEIGHT_TYPE, w->dtype >= YIR_NDTYPE)) return bad(r->diags, r->v, 0, "a weight has an unknown type");
    int fits = w->rank == d->rank && !memcmp(w->dim, d->dim, (size_t)d->rank * sizeof d->dim[0]);
    if (CG_BREAKS(READ_WEIGHT_DIMS, !fits)) return bad(r->diags, r->v, 0, "a weight has not the dims that the network wants");
    int counts = yir_mul_u64(n, yir_dtype_size((enum yir_dtype)w->dtype), &size) && size == w->size;
    if (CG_BREAKS(READ_WEIGHT_BYTES, !counts)) return bad(r->diags, r->v, 0, "a weight has not the size of its type");
    if (CG_BREAKS(READ_WEIGHT_INSIDE, w->offset > r->nbytes || size > r->nbytes - w->offset))
        return bad(r->diags, r->v, 0, "a weight lies outside the file");
    const void *from = r->bytes + w->offset;
    if (w->dtype == d->dtype && (uintptr_t)from % sizeof(double) == 0) {
        to->data = from; /* passes read weights as arrays, so the caller's bytes must be aligned for that */
        return 0;
    }
    void *data = yir_alloc_n(r->arena, (size_t)n, yir_dtype_size(d->dtype));
    for (size_t i = 0; i < n; i++) yir_dtype_store(d->dtype, data, i, yir_dtype_load((enum yir_dtype)w->dtype, from, i));
    to->data = data;
    return 0;
}

static int read_weights(struct reader *r)
{
    r->table = cg_module_section(r->v, YM_WEIGHT, 0, &r->ntable);
    r->bytes = cg_module_section(r->v, YM_WEIGHTS, 0, &r->nbytes);
    if (CG_BREAKS(READ_STRIPPED, !r->table || !r->bytes))
        return yir_diag(r->diags, (struct yir_loc){.file = r->v->file}, E_MODULE_FILE,
                        "the module was stripped of its canonical weights and can't be compiled again");
    for (size_t i = 0; i + sizeof(struct ym_weight) <= r->ntable; i += sizeof(struct ym_weight)) {
        struct ym_weight w;
        memcpy(&w, r->table + i, sizeof w);
        if (read_weight(r, &w)) return -1;
    }
    for (uint32_t i = 0; i < r->f->nweight; i++)
        if (CG_BREAKS(READ_WEIGHT_MISSING, !r->f->weight[i].data)) return bad(r->diags, r->v, 0, "a weight of the network is missing");
    return 0;
}

struct yir_func *cg_module_front(struct yir_arena *a, struct yir_types *t, struct yir_diags *d, const struct cg_modview *v,
                                 bool with_weights)
{
    size_t n;
    const char *text = cg_module_section(v, YM_IR, 0, &n);
    if (CG_BREAKS(READ_IR, !text)) {
        bad(d, v, 0, "the module holds no IR");
        return NULL;
    }
    struct reader r = {.arena = a, .diags = d, .v = v};
    const char *name = yir_format(a, "%s (IR)", v->name);
    r.f = yir_parse(a, t, d, name, yir_strndup(a, text, n), n);
    if (!r.f || (with_weights && read_weights(&r))) return NULL;
    return r.f;
}
