#include "tune_group.h"

#include <stdlib.h>

#define MARGIN 0.97 /* of the predicted configuration's time, that a challenger must stay under */

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

double tune_median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n ? v[n / 2] : 0;
}

/* The fastest of variants [from, to) that is faster than `best`, and by the margin than `than`. */
static int faster(const struct group *g, int from, int to, int best, int than)
{
    for (int v = from; v < to; v++)
        if (g->samples[v] && g->median[v] < g->median[best] && g->median[v] < MARGIN * g->median[than]) best = v;
    return best;
}

void tune_pick(struct group *g, int nvariant)
{
    int all = g->ncandidate + g->nengine, n = all < nvariant ? all : nvariant, configs = n < g->ncandidate ? n : g->ncandidate;
    for (int v = 0; v < n; v++) g->median[v] = tune_median(g->ms[v], g->samples[v]);
    g->best_config = faster(g, 1, configs, 0, 0);
    g->best = faster(g, configs, n, g->best_config, g->best_config);
}

const struct cg_engine *tune_engine_of(const struct group *g, int variant)
{
    return variant >= g->ncandidate ? &g->engine[variant - g->ncandidate] : NULL;
}

const char *tune_variant_text(struct yir_arena *a, const struct group *g, int config, const struct cg_engine *by)
{
    const char *text = cg_config_text(a, &g->candidate[config]);
    return by ? yir_format(a, "%s" TUNE_AND_ENGINE "%s", text, cg_engine_text(a, by)) : text;
}

void tune_read_engines(struct group *g, const char *text, int version)
{
    while (*text && g->nengine < TUNE_ENGINES && cg_engine_read(text, &text, &g->engine[g->nengine])) {
        g->engine[g->nengine++].version = (uint32_t)version;
        text += *text == '\n';
    }
}
