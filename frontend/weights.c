#include "weights.h"

#include <math.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "filekind.h"
#include "infile.h"
#include "pt.h"
#include "safetensors.h"
#include "strmap.h"

/* What stands behind a struct fe_weights that this file made. */
struct weights {
    struct fe_weights pub;
    struct fe_strmap names; /* -> index into pub.tensor */
};

/* Elements. */

/* Calls visit for each run of `n` elements along the last dimension, in row-major order; `at` is the place of
 * its first element. A tensor without elements has no run. */
static void for_runs(const struct fe_tensor *t,
                     void (*visit)(void *user, const struct fe_tensor *t, int64_t at, int64_t n), void *user)
{
    int64_t ix[FE_MAX_RANK] = {0}, at = 0;
    int outer = t->rank > 0 ? t->rank - 1 : 0;
    int64_t n = t->rank > 0 ? t->dim[outer] : 1;
    if (t->numel == 0) return;
    for (;;) {
        visit(user, t, at, n);
        int k = outer;
        while (k-- > 0) {
            at += t->stride[k];
            if (++ix[k] < t->dim[k]) break;
            at -= ix[k] * t->stride[k];
            ix[k] = 0;
        }
        if (k < 0) return;
    }
}

static bool is_dense(const struct fe_tensor *t)
{
    int64_t want = 1;
    for (int k = t->rank; k-- > 0; want *= t->dim[k]) {
        if (t->dim[k] != 1 && t->stride[k] != want) return false;
    }
    return true;
}

static int64_t step_of(const struct fe_tensor *t)
{
    return t->rank > 0 ? t->stride[t->rank - 1] : 1;
}

static void run_f32(void *user, const struct fe_tensor *t, int64_t at, int64_t n)
{
    float **out = user;
    int64_t step = step_of(t);
    for (int64_t i = 0; i < n; i++)
        *(*out)++ = (float)yir_dtype_load(t->dtype, t->data, (size_t)(at + i * step));
}

static void run_f64(void *user, const struct fe_tensor *t, int64_t at, int64_t n)
{
    double **out = user;
    int64_t step = step_of(t);
    for (int64_t i = 0; i < n; i++)
        *(*out)++ = yir_dtype_load(t->dtype, t->data, (size_t)(at + i * step));
}

static void run_nonfinite(void *user, const struct fe_tensor *t, int64_t at, int64_t n)
{
    int64_t *count = user, step = step_of(t);
    for (int64_t i = 0; i < n; i++)
        *count += !isfinite(yir_dtype_load(t->dtype, t->data, (size_t)(at + i * step)));
}

struct below {
    double most;
    int64_t count;
};

static void run_below(void *user, const struct fe_tensor *t, int64_t at, int64_t n)
{
    struct below *b = user;
    int64_t step = step_of(t);
    for (int64_t i = 0; i < n; i++)
        b->count += yir_dtype_load(t->dtype, t->data, (size_t)(at + i * step)) <= b->most;
}

void fe_tensor_f32(const struct fe_tensor *t, float *out)
{
    if (is_dense(t))
        yir_dtype_load_f32(t->dtype, t->data, (size_t)t->numel, out);
    else
        for_runs(t, run_f32, &out);
}

const float *fe_tensor_floats(struct yir_arena *a, const struct fe_tensor *t)
{
    if (t->dtype == YIR_F32 && is_dense(t) && (uintptr_t)t->data % sizeof(double) == 0) return t->data;
    float *out = yir_alloc_n(a, (size_t)t->numel, sizeof *out);
    fe_tensor_f32(t, out);
    return out;
}

void fe_tensor_f64(const struct fe_tensor *t, double *out)
{
    for_runs(t, run_f64, &out);
}

int64_t fe_tensor_nonfinite(const struct fe_tensor *t)
{
    int64_t count = 0;
    if (yir_dtype_is_float(t->dtype)) for_runs(t, run_nonfinite, &count);
    return count;
}

int64_t fe_tensor_below(const struct fe_tensor *t, double most)
{
    struct below b = {most, 0};
    if (yir_dtype_is_float(t->dtype)) for_runs(t, run_below, &b);
    return b.count;
}

/* Digest. */

static void run_digest(void *user, const struct fe_tensor *t, int64_t at, int64_t n)
{
    unsigned size = yir_dtype_size(t->dtype);
    int64_t step = step_of(t);
    const char *p = (const char *)t->data + at * size;
    if (step == 1) {
        XXH3_128bits_update(user, p, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        XXH3_128bits_update(user, p + i * step * size, size);
}

static void digest_tensor(XXH3_state_t *s, const struct fe_tensor *t)
{
    const char *type = yir_dtype_name(t->dtype);
    int64_t rank = t->rank;
    XXH3_128bits_update(s, t->name, strlen(t->name) + 1);
    XXH3_128bits_update(s, type, strlen(type) + 1);
    XXH3_128bits_update(s, &rank, sizeof rank);
    XXH3_128bits_update(s, t->dim, (size_t)t->rank * sizeof t->dim[0]);
    if (is_dense(t))
        XXH3_128bits_update(s, t->data, (size_t)t->numel * yir_dtype_size(t->dtype));
    else
        for_runs(t, run_digest, s);
}

static void set_digest(struct yir_arena *a, struct fe_weights *w)
{
    /* The state wants 64 bytes of alignment, the arena gives 16. */
    struct yir_arena_mark mark = yir_arena_mark(a);
    uintptr_t raw = (uintptr_t)yir_alloc(a, sizeof(XXH3_state_t) + 64);
    XXH3_state_t *s = (XXH3_state_t *)((raw + 63) / 64 * 64);
    XXH3_128bits_reset(s);
    for (size_t i = 0; i < w->ntensor; i++)
        digest_tensor(s, &w->tensor[i]);
    XXH128_hash_t h = XXH3_128bits_digest(s);
    w->digest[0] = h.low64;
    w->digest[1] = h.high64;
    yir_arena_reset(a, mark);
}

/* Names. */

/* Whether every name of a flat file begins with the prefix and a layer's number. */
static bool all_begin(const struct fe_weights *w, const char *prefix)
{
    size_t n = strlen(prefix);
    for (size_t i = 0; i < w->ntensor; i++) {
        const char *s = w->tensor[i].name;
        if (strncmp(s, prefix, n) != 0) return false;
        size_t digits = strspn(s + n, "0123456789");
        if (digits == 0 || s[n + digits] != '.') return false;
    }
    return w->ntensor > 0;
}

/* The same network has other names when it was taken out of an object around it, or without one: the state_dict of a
 * YOLO object says model.model.0, that of its layers alone says 0. Descriptions say model.0. */
static void settle_names(struct yir_arena *a, struct fe_weights *w)
{
    static const char *const outer[] = {"", "model.model.", "model.model.model."};
    if (w->root) return;
    for (size_t k = 0; k < YIR_COUNT(outer); k++) {
        if (!all_begin(w, outer[k])) continue;
        struct fe_tensor *t = yir_alloc_n(a, w->ntensor, sizeof *t);
        for (size_t i = 0; i < w->ntensor; i++) {
            t[i] = w->tensor[i];
            t[i].name = yir_format(a, "model.%s", t[i].name + strlen(outer[k]));
        }
        w->tensor = t;
        return;
    }
}

/* Files. */

static int read_kind(struct yir_arena *a, struct yir_diags *d, const uint8_t *bytes, size_t len,
                     const struct yir_limits *limits, struct fe_weights *w)
{
    const char *what;
    switch (fe_filekind_of(bytes, len, &what)) {
    case FE_FILE_PT_ZIP:
        w->kind = FE_WEIGHTS_PT;
        return fe_pt_read_zip(a, d, bytes, len, limits, w);
    case FE_FILE_PT_LEGACY:
        w->kind = FE_WEIGHTS_PT;
        return fe_pt_read_legacy(a, d, bytes, len, limits, w);
    case FE_FILE_SAFETENSORS:
        w->kind = FE_WEIGHTS_SAFETENSORS;
        return fe_safetensors_read(a, d, bytes, len, limits, w);
    case FE_FILE_OTHER:
        break;
    }
    return yir_diag(d, (struct yir_loc){.file = w->file}, E_PT_KIND, "the file %s", what);
}

static const struct fe_weights *read_all(struct yir_arena *a, struct yir_diags *d, const char *name,
                                         uint32_t file, const void *bytes, size_t len,
                                         const struct yir_limits *limits)
{
    struct weights *w = yir_alloc(a, sizeof *w);
    w->pub =
        (struct fe_weights){.path = yir_strdup(a, name), .file = file, .stored_in = "", .file_size = len};
    if (read_kind(a, d, bytes, len, limits ? limits : yir_limits_of(d), &w->pub) != 0) return NULL;
    settle_names(a, &w->pub);
    fe_strmap_init(&w->names, a, w->pub.ntensor);
    for (size_t i = 0; i < w->pub.ntensor; i++) {
        const char *s = w->pub.tensor[i].name;
        size_t at = i;
        fe_strmap_add(&w->names, s, strlen(s), &at);
    }
    set_digest(a, &w->pub);
    return &w->pub;
}

const struct fe_weights *fe_weights_open(struct yir_arena *a, struct yir_diags *d, const char *path,
                                         const struct yir_limits *limits)
{
    const uint8_t *bytes;
    size_t len;
    uint32_t file = yir_diag_file(d, path, NULL, 0);
    uint64_t most = (limits ? limits : yir_limits_of(d))->max_file;
    if (fe_infile_read(a, d, path, file, most, YIR_RAISE(max_file), &bytes, &len) != 0) return NULL;
    return read_all(a, d, path, file, bytes, len, limits);
}

const struct fe_weights *fe_weights_read(struct yir_arena *a, struct yir_diags *d, const char *name,
                                         const void *bytes, size_t len, const struct yir_limits *limits)
{
    return read_all(a, d, name, yir_diag_file(d, name, NULL, 0), bytes, len, limits);
}

/* Lookups. */

const struct fe_tensor *fe_weights_find(const struct fe_weights *w, const char *name)
{
    size_t i;
    const struct weights *all = (const struct weights *)w;
    return fe_strmap_find(&all->names, name, strlen(name), &i) ? &w->tensor[i] : NULL;
}

static const struct fe_node *child_of(const struct fe_node *n, const char *name, size_t len)
{
    for (size_t i = 0; i < n->nchild; i++) {
        if (strncmp(n->child[i]->name, name, len) == 0 && n->child[i]->name[len] == 0) return n->child[i];
    }
    return NULL;
}

const struct fe_node *fe_weights_node(const struct fe_weights *w, const char *path)
{
    const struct fe_node *n = w->root;
    while (n && *path) {
        size_t len = strcspn(path, ".");
        n = child_of(n, path, len);
        path += len + (path[len] == '.');
    }
    return n;
}

const struct fe_value *fe_node_attr(const struct fe_node *n, const char *key)
{
    return n ? fe_get(n->attrs, key) : NULL;
}
