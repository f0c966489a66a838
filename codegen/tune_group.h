/* Kernels that compute the same, as the tuner sees them: their candidates, what these took, and which of them won. For tune.c. */
#ifndef CG_TUNE_GROUP_H
#define CG_TUNE_GROUP_H

#include "engine.h"
#include "tune.h"

enum {
    TUNE_VARIANTS = CG_MOST_TRIALS - 1, /* the last trial is the network of all winners */
    TUNE_ENGINES = 3,
    TUNE_CONFIGS = TUNE_VARIANTS - TUNE_ENGINES,
    TUNE_ROUNDS = 40
};
#define TUNE_AND_ENGINE "; " /* between a configuration and an engine, in records */

enum state {
    DECIDED, /* by a record, by measuring, or for want of another candidate */
    OPEN,    /* to be measured */
    BUSY     /* another process measures it */
};

struct group {
    const char *text;                    /* op_text */
    const char *label;                   /* of its first kernel */
    size_t len;
    const char *space[CG_TUNE_FULL + 1]; /* text of each mode's candidates */
    struct cg_config candidate[TUNE_CONFIGS];
    struct cg_engine engine[TUNE_ENGINES]; /* variant ncandidate + i has engine i */
    int ncandidate, nengine, kernels;
    bool fits;                           /* cuDNN may do it */
    struct ym_conv conv;                 /* where it does */
    enum state state;
    bool known, measured, claimed;       /* found in the records; decided by measuring; claimed by this process */
    struct cg_config chosen;
    const struct cg_engine *chosen_engine; /* NULL: none */
    double *ms[TUNE_VARIANTS];           /* [samples]: mean over the group's kernels */
    int samples[TUNE_VARIANTS], last[TUNE_VARIANTS]; /* last: round, from 1, of the last sample */
    double median[TUNE_VARIANTS];
    int best, best_config;               /* variants, by median; best_config: of the configurations */
};

/* Puts them in order; 0 when there are none. */
double tune_median(double *v, int n);

/* Medians of the first nvariant variants, and the best of them. */
void tune_pick(struct group *g, int nvariant);

/* That of a variant; NULL: it has none. */
const struct cg_engine *tune_engine_of(const struct group *g, int variant);

/* A configuration and an engine (NULL: none) as records have them. */
const char *tune_variant_text(struct yir_arena *a, const struct group *g, int config, const struct cg_engine *by);

/* Takes as many as there is room for from lines as yolort_cudnn_engines gives them. */
void tune_read_engines(struct group *g, const char *text, int version);

#endif
