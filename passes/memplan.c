/* Offsets of the arena buffers. A buffer is live from the first kernel that writes it to the last that reads
 * it, both included and taken whole, so a kernel's output never lies over one of its inputs. Largest first,
 * each goes into the smallest gap it fits between those it lives together with. Steps that run only for some
 * inputs or outputs count as always run. With `apart`, two buffers share memory only where that makes no kernel wait for another
 * that its values do not make it wait for: kernels may then run side by side. Changes no op. */
#include "precede.h"

#include <stdlib.h>
#include <string.h>

struct life {
    uint32_t buf;          /* index */
    uint32_t first, last;  /* ops */
    uint64_t begin, bytes; /* rounded up to the alignment */
};

struct span { /* ops of a kernel */
    uint32_t first, last;
};

static struct span *kernel_spans(const struct yir_func *f, struct yir_arena *a)
{
    struct span *s = yir_alloc_n(a, (size_t)f->nkernel + 1, sizeof *s);
    for (uint32_t i = 1; i < f->nop; i++) {
        struct span *k = &s[f->op[i].kernel];
        if (!k->first) k->first = i;
        k->last = i;
    }
    return s;
}

static void touch(struct yir_func *f, uint32_t buf, const struct span *k)
{
    if (!buf) return;
    struct yir_buf *b = &f->buf[buf - 1];
    if (!b->first || k->first < b->first) b->first = k->first;
    if (k->last > b->last) b->last = k->last;
}

static void find_lives(struct yir_func *f, struct yir_arena *a)
{
    const struct span *span = kernel_spans(f, a);
    for (uint32_t i = 0; i < f->nbuf; i++) f->buf[i].first = f->buf[i].last = 0;
    for (uint32_t i = 1; i < f->nop; i++) {
        const struct span *k = &span[f->op[i].kernel];
        if (!f->op[i].kernel) continue; /* a view neither reads nor writes */
        touch(f, f->place[i].buf, k);
        for (int s = 0; s < f->op[i].nsrc; s++) {
            yir_ref x = yir_src(f, i, s);
            if (yir_kind(x) == YIR_VAL) touch(f, f->place[yir_index(x)].buf, k);
            if (yir_kind(x) == YIR_INP) touch(f, yir_index(x) + 1, k);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->buf < y->buf ? -1 : x->buf > y->buf;
}

/* Arena buffers, largest first. */
static uint32_t collect(const struct yir_func *f, struct life *life)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        if (b->kind != YIR_BUF_ARENA) continue;
        uint64_t bytes = (b->bytes + YIR_BUF_ALIGN - 1) / YIR_BUF_ALIGN * YIR_BUF_ALIGN;
        life[n++] = (struct life){i, b->first, b->last, 0, bytes};
    }
    qsort(life, n, sizeof *life, by_size);
    return n;
}

struct sharing {
    bool reuse;
    const struct pass_precede *apart; /* NULL: the order of the kernels is the one they are in */
};

static bool may_share(const struct sharing *s, const struct life *a, const struct life *b)
{
    if (!s->reuse || (a->last >= b->first && a->first <= b->last)) return false;
    return !s->apart || pass_precedes(s->apart, a->buf, b->buf);
}

/* Start of the smallest gap of at least l->bytes between the placed buffers, in order of their start, that
 * live together with l; behind them when there is none. */
static uint64_t best_gap(const struct life *placed, uint32_t n, const struct life *l, const struct sharing *sharing)
{
    uint64_t end = 0, best = UINT64_MAX, least = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct life *q = &placed[i];
        if (may_share(sharing, q, l)) continue;
        if (q->begin > end && q->begin - end >= l->bytes && q->begin - end < least) {
            best = end;
            least = q->begin - end;
        }
        if (q->begin + q->bytes > end) end = q->begin + q->bytes;
    }
    return best != UINT64_MAX ? best : end;
}

static void insert(struct life *placed, uint32_t n, struct life l)
{
    uint32_t i = n;
    for (; i > 0 && placed[i - 1].begin > l.begin; i--) placed[i] = placed[i - 1];
    placed[i] = l;
}

static int place_lives(struct yir_func *f, struct pass *p)
{
    struct life *life = yir_alloc_n(p->arena, f->nbuf, sizeof *life);
    struct life *placed = yir_alloc_n(p->arena, f->nbuf, sizeof *placed);
    uint32_t n = collect(f, life);
    uint64_t size = 0;
    const struct sharing sharing = {p->opts->reuse, p->opts->apart ? pass_precede(f, p->arena) : NULL};
    for (uint32_t i = 0; i < n; i++) {
        life[i].begin = best_gap(placed, i, &life[i], &sharing);
        insert(placed, i, life[i]);
        f->buf[life[i].buf].offset = life[i].begin;
        if (life[i].begin + life[i].bytes > size) size = life[i].begin + life[i].bytes;
        if (size > yir_limits_of(p->diags)->max_activations)
            return yir_diag(p->diags, (struct yir_loc){0}, E_LIMIT,
                            "the values of a batch of %d take more than %llu bytes%s", p->opts->max_batch,
                            (unsigned long long)yir_limits_of(p->diags)->max_activations, YIR_RAISE(max_activations));
    }
    f->arena_size = size;
    return 0;
}

int pass_memplan(struct pass *p)
{
    if (!p->in->place && p->in->nop > 1)
        return yir_diag(p->diags, (struct yir_loc){0}, E_PASS,
                        "memplan can't run here: it needs what views does");
    struct yir_func *f = yir_alloc(p->arena, sizeof *f);
    *f = *p->in;
    f->buf = yir_alloc_n(p->arena, f->nbuf, sizeof *f->buf);
    if (f->nbuf) memcpy(f->buf, p->in->buf, f->nbuf * sizeof *f->buf);
    f->cap_buf = f->nbuf;
    find_lives(f, p->arena);
    if (place_lives(f, p)) return -1;
    p->out = f;
    return 1;
}
