/* Configurations of kernels: what is legal, in which order, and as text. */
#include "fast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A stable order, so that equal predictions give the same choice everywhere. */
static int by_cycles(const void *x, const void *y)
{
    const struct cg_config *a = x, *b = y;
    if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
    if (a->family != b->family) return a->family < b->family ? -1 : 1;
    return memcmp(a->knob, b->knob, sizeof a->knob);
}

/* How much longer the busiest of n threads works than an even share of the units. */
static double unevenness(int64_t units, int64_t n)
{
    return (double)((units + n - 1) / n * n) / (double)units;
}

double cg_shared_cycles(double cycles, int64_t units)
{
    return cycles * (0.5 + 0.3 * unevenness(units, 2) + 0.2 * unevenness(units, 4));
}

size_t cg_best_configs(struct cg_config *c, size_t n, size_t keep)
{
    qsort(c, n, sizeof *c, by_cycles);
    return n < keep ? n : keep;
}

static bool is_half(const struct yir_tdesc *d)
{
    return d->dtype == YIR_F16 || d->dtype == YIR_BF16;
}

static bool has_half(const struct yir_func *f, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++) {
        if (is_half(yir_tdesc(f->types, f->op[i].type))) return true;
        for (int k = 0; k < f->op[i].nsrc; k++)
            if (is_half(yir_desc(f, yir_src(f, i, k)))) return true;
    }
    return false;
}

size_t cg_configs(const struct yir_func *f, uint32_t first, uint32_t last, const struct cg_target *t, bool no_fast,
                  struct cg_config *out)
{
    size_t n = 0;
    bool half = t->backend != CG_CUDA && has_half(f, first, last); /* the families for CPUs have no such registers */
    for (size_t i = 0; i < cg_fast_count() && !no_fast && !half; i++) {
        const struct cg_fast *fast = cg_fast_at(i);
        if ((fast->backend == CG_CUDA) != (t->backend == CG_CUDA) || !fast->guard(f, first, last, &t->kb)) continue;
        size_t room = CG_MAX_CONFIGS - 1 - n, added = fast->list(f, first, last, &t->kb, out + n, room);
        YIR_ASSERT(added >= 1 && added <= room);
        for (size_t k = 0; k < added; k++) out[n + k].family = (int)i;
        n += added;
    }
    qsort(out, n, sizeof *out, by_cycles);
    out[n] = (struct cg_config){.family = CG_GENERIC, .cycles = HUGE_VAL};
    return n + 1;
}

const char *cg_config_text(struct yir_arena *a, const struct cg_config *c)
{
    struct yir_str s = {.arena = a};
    if (c->family == CG_GENERIC) return "generic";
    const struct cg_fast *fast = cg_fast_at((size_t)c->family);
    const char *name = fast->knobs;
    yir_str_fmt(&s, "%s", fast->name);
    for (int k = 0; *name; k++) {
        size_t n = strcspn(name, " ");
        YIR_ASSERT(k < CG_KNOBS);
        yir_str_fmt(&s, " %.*s=%d", (int)n, name, (int)c->knob[k]);
        name += n + strspn(name + n, " ");
    }
    return s.text;
}

size_t cg_config_find(struct yir_arena *a, const char *text, const struct cg_config *legal, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(cg_config_text(a, &legal[i]), text)) return i;
    return n;
}
