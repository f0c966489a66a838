#include "ir.h"

#include <string.h>

static const char *const layout_name[YIR_NLAYOUT] = {"", "nchw", "nhwc", "oihw"};

struct yir_types {
    struct yir_arena *arena;
    struct yir_tdesc *desc; /* [0] unused */
    size_t n, cap;
    uint32_t *slot; /* open addressing; 0 empty; power of two */
    size_t nslot;
};

struct yir_types *yir_types_new(struct yir_arena *a)
{
    struct yir_types *t = yir_alloc(a, sizeof *t);
    t->arena = a;
    t->n = 1;
    t->desc = yir_grow(a, NULL, &t->cap, 16, sizeof *t->desc);
    t->nslot = 64;
    t->slot = yir_alloc_n(a, t->nslot, sizeof *t->slot);
    return t;
}

bool yir_tdesc_same(const struct yir_tdesc *a, const struct yir_tdesc *b)
{
    return a->dtype == b->dtype && a->layout == b->layout && a->rank == b->rank &&
           !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]);
}

static size_t hash_desc(const struct yir_tdesc *d)
{
    uint64_t h = (uint64_t)d->dtype * 31 + (uint64_t)d->layout * 7 + (uint64_t)d->rank;
    for (int i = 0; i < d->rank; i++) h = (h ^ (uint64_t)d->dim[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 20);
}

static size_t find_slot(const struct yir_types *t, const struct yir_tdesc *d)
{
    size_t i = hash_desc(d) & (t->nslot - 1);
    while (t->slot[i] && !yir_tdesc_same(&t->desc[t->slot[i]], d)) i = (i + 1) & (t->nslot - 1);
    return i;
}

static void rehash(struct yir_types *t)
{
    t->nslot *= 2;
    t->slot = yir_alloc_n(t->arena, t->nslot, sizeof *t->slot);
    for (uint32_t i = 1; i < t->n; i++) t->slot[find_slot(t, &t->desc[i])] = i;
}

yir_type yir_type_of(struct yir_types *t, const struct yir_tdesc *d)
{
    YIR_ASSERT(d->rank >= 0 && d->rank <= YIR_MAX_RANK);
    size_t i = find_slot(t, d);
    if (t->slot[i]) return (yir_type){t->slot[i]};
    t->desc = yir_grow(t->arena, t->desc, &t->cap, t->n + 1, sizeof *t->desc);
    t->desc[t->n] = *d;
    for (int k = d->rank; k < YIR_MAX_RANK; k++) t->desc[t->n].dim[k] = 0;
    uint32_t id = (uint32_t)t->n++;
    t->slot[i] = id;
    if (t->n * 2 > t->nslot) rehash(t);
    return (yir_type){id};
}

const struct yir_tdesc *yir_tdesc(const struct yir_types *t, yir_type ty)
{
    YIR_ASSERT(ty.id && ty.id < t->n);
    return &t->desc[ty.id];
}

int64_t yir_numel(const struct yir_tdesc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++) n *= d->dim[i];
    return n;
}

void yir_dense_strides(const struct yir_tdesc *d, int64_t stride[YIR_MAX_RANK])
{
    static const int row_order[YIR_MAX_RANK] = {0, 1, 2, 3, 4, 5};
    static const int nhwc_order[YIR_MAX_RANK] = {0, 2, 3, 1, 4, 5};
    const int *order = d->layout == YIR_NHWC ? nhwc_order : row_order;
    int64_t s = 1;
    memset(stride, 0, YIR_MAX_RANK * sizeof stride[0]);
    for (int i = d->rank - 1; i >= 0; i--) {
        stride[order[i]] = s;
        s *= d->dim[order[i]];
    }
}

bool yir_pixel_strides(const struct yir_tdesc *d, int64_t ld, int64_t stride[YIR_MAX_RANK])
{
    uint64_t row, image;
    YIR_ASSERT(d->rank == 4);
    if (ld < 0 || !yir_mul_u64((uint64_t)ld, (uint64_t)d->dim[3], &row) ||
        !yir_mul_u64(row, (uint64_t)d->dim[2], &image) || image > INT64_MAX)
        return false;
    memset(stride, 0, YIR_MAX_RANK * sizeof stride[0]);
    stride[0] = (int64_t)image;
    stride[1] = 1;
    stride[2] = (int64_t)row;
    stride[3] = ld;
    return true;
}

enum yir_layout yir_default_layout(int rank)
{
    return rank == 4 ? YIR_NCHW : YIR_ROW;
}

const char *yir_layout_name(enum yir_layout l)
{
    return layout_name[l];
}

bool yir_layout_by_name(const char *s, size_t n, enum yir_layout *out)
{
    for (int i = 1; i < YIR_NLAYOUT; i++)
        if (strlen(layout_name[i]) == n && !memcmp(layout_name[i], s, n)) {
            *out = (enum yir_layout)i;
            return true;
        }
    return false;
}
