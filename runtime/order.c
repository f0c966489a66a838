#include "order.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_NODES = 4096,     /* a bit for each pair is kept */
    MOST_ACCESSES = 16384, /* each is compared with each */
    ARENA = -1,            /* space of an access; others are inputs and outputs */
};

/* Bytes [begin, end) of a space. */
struct access {
    int space, written;
    uint64_t begin, end;
};

struct sorter {
    struct rt_order *o;
    struct access *access;
    uint32_t *first;  /* accesses of node i: first[i] .. first[i + 1] - 1 */
    uint64_t *behind; /* row i: the nodes that node i comes after */
    size_t words;     /* of a row */
};

int rt_step_wanted(const struct ym_step *p, const uint64_t in[2], const uint64_t out[2])
{
    int fed = !(p->need[0] | p->need[1]) || rt_mask_meets(p->need, in);
    return fed && rt_mask_meets(p->want, out);
}

static yolort_status choose(struct rt_order *o, const struct rt_tables *t, const uint64_t in[2], const uint64_t out[2])
{
    o->step = calloc((size_t)t->nstep + 1, sizeof *o->step);
    if (!o->step) return YOLORT_OOM_HOST;
    for (uint32_t i = 0; i < t->nstep; i++)
        if (rt_step_wanted(&t->step[i], in, out)) o->step[o->n++] = i;
    return o->n <= MOST_NODES ? YOLORT_OK : YOLORT_LIMIT;
}

/* Constants are never written. */
static void read_step(struct sorter *s, const struct rt_tables *t, uint32_t node, uint64_t others)
{
    const struct ym_step *p = &t->step[s->o->step[node]];
    uint32_t n = s->first[node];
    for (uint32_t k = 0; k < p->narg; k++) {
        const struct ym_arg *a = &t->arg[p->first_arg + k];
        const struct ym_param *q = &t->param[t->kernel[p->kernel].first_param + k];
        if (a->slot == YM_SLOT_CONSTANT) continue;
        int space = a->slot == YM_SLOT_ARENA ? ARENA : (int)a->io;
        s->access[n++] = (struct access){space, q->written, a->offset, a->offset + q->first + others * q->each};
    }
    const struct ym_engine *g = rt_engine_of(t, s->o->step[node]);
    if (g && g->space_bytes) s->access[n++] = (struct access){ARENA, 1, g->space, g->space + g->space_bytes};
    s->first[node + 1] = n;
}

static yolort_status read_steps(struct sorter *s, const struct rt_tables *t, int batch)
{
    struct rt_order *o = s->o;
    size_t most = 0;
    for (uint32_t i = 0; i < o->n; i++) most += t->step[o->step[i]].narg + 1u; /* and the working memory of an engine */
    if (most > MOST_ACCESSES) return YOLORT_LIMIT;
    s->words = (o->n + 63) / 64;
    s->first = calloc((size_t)o->n + 1, sizeof *s->first);
    s->access = calloc(most + 1, sizeof *s->access);
    s->behind = calloc(o->n * s->words + 1, sizeof *s->behind);
    if (!s->first || !s->access || !s->behind) return YOLORT_OOM_HOST;
    for (uint32_t i = 0; i < o->n; i++) read_step(s, t, i, (uint64_t)batch - 1);
    return YOLORT_OK;
}

static int meet(const struct access *a, const struct access *b)
{
    return (a->written || b->written) && a->space == b->space && a->begin < b->end && b->begin < a->end;
}

static int conflict(const struct sorter *s, uint32_t i, uint32_t j)
{
    for (uint32_t a = s->first[i]; a < s->first[i + 1]; a++)
        for (uint32_t b = s->first[j]; b < s->first[j + 1]; b++)
            if (meet(&s->access[a], &s->access[b])) return 1;
    return 0;
}

static void follow(struct sorter *s, uint32_t i, uint32_t j)
{
    uint64_t *row = s->behind + i * s->words;
    const uint64_t *theirs = s->behind + j * s->words;
    for (size_t w = 0; w < s->words; w++) row[w] |= theirs[w];
    row[j / 64] |= 1ull << (j % 64);
}

/* The nearest first, so that what a nearer one waits for is not taken again. Room is made for two edges a node at least. */
static yolort_status link_node(struct sorter *s, uint32_t i, size_t *room)
{
    struct rt_order *o = s->o;
    uint32_t n = o->first[i];
    const uint64_t *row = s->behind + i * s->words;
    for (uint32_t j = i; j-- > 0;) {
        if (row[j / 64] >> (j % 64) & 1 || !conflict(s, i, j)) continue;
        if (n == *room) {
            uint32_t *more = realloc(o->before, 2 * *room * sizeof *more);
            if (!more) return YOLORT_OOM_HOST;
            o->before = more;
            *room *= 2;
        }
        o->before[n++] = j;
        follow(s, i, j);
    }
    o->first[i + 1] = n;
    return YOLORT_OK;
}

static yolort_status link_nodes(struct sorter *s)
{
    struct rt_order *o = s->o;
    size_t room = 2 * (size_t)o->n + 1;
    o->first = calloc((size_t)o->n + 1, sizeof *o->first);
    o->before = calloc(room, sizeof *o->before);
    if (!o->first || !o->before) return YOLORT_OOM_HOST;
    for (uint32_t i = 0; i < o->n; i++) RT_TRY(link_node(s, i, &room));
    return YOLORT_OK;
}

yolort_status rt_order_new(struct rt_order *o, const struct rt_tables *t, const uint64_t in[2], const uint64_t out[2], int batch)
{
    struct sorter s = {.o = o};
    memset(o, 0, sizeof *o);
    yolort_status r = choose(o, t, in, out);
    if (!r) r = read_steps(&s, t, batch);
    if (!r) r = link_nodes(&s);
    free(s.first);
    free(s.access);
    free(s.behind);
    if (r) rt_order_free(o);
    return r;
}

void rt_order_free(struct rt_order *o)
{
    free(o->step);
    free(o->first);
    free(o->before);
    memset(o, 0, sizeof *o);
}

/* There is room for two edges a node. */
void rt_order_chain(struct rt_order *o)
{
    for (uint32_t i = 1; i <= o->n; i++) {
        o->first[i] = i - 1;
        o->before[i - 1] = i - 1;
    }
}
