/* Variants of one network, loaded side by side and run on the same inputs, every kernel timed; in this process, or, for devices that
 * a faulting kernel makes useless to its process, in a child. All variants have the same inputs and outputs. */
#ifndef CG_TRIAL_H
#define CG_TRIAL_H

#include "codegen.h"

enum { CG_MOST_TRIALS = 20, CG_TRIAL_ERROR = 256 };

struct cg_trials;

struct cg_trial {
    double ms;             /* of the whole run, as the caller sees it */
    double apart;          /* largest difference of an output's elements from those of variant 0, by the mean size of them */
    const double *step_ms; /* [nstep], 0: the step did not run, below 0: its kernel did it, not the engine that it names; until the next call */
    uint32_t nstep;
    char error[CG_TRIAL_ERROR]; /* of a call that failed */
};

/* threads: that CPU modules run on. apart: in a child, which must answer each call within patience_s or is killed; before NVRTC is
 * used, which begins with the driver too. Everything is freed with the arena. */
struct cg_trials *cg_trials_new(struct yir_arena *a, int threads, bool apart, double patience_s);
void cg_trials_free(struct cg_trials *t); /* the variants; more may be loaded afterwards */

/* Takes malloc's bytes, on failure too. Variant 0 comes first. -1 with out->error: it can't be loaded. */
int cg_trials_load(struct cg_trials *t, int v, void *bytes, size_t size, struct cg_trial *out);

/* Ways of giving the picture, of variant 0: 1 or 2. */
int cg_trials_forms(const struct cg_trials *t);

/* Runs variant v on one form of the picture, profiled. compare: out->apart is worked out; of variant 0 it is 0 and what the others
 * are compared with. -1 with out->error: it failed, or its process did; the other variants can still be run. */
int cg_trials_run(struct cg_trials *t, int v, int form, bool compare, struct cg_trial *out);

/* Engines that cuDNN proposes for a struct ym_conv on the device that measures, as yolort_cudnn_engines gives them: out->error has the
 * lines. -1: none can be had. */
struct ym_conv;
int cg_trials_engines(struct cg_trials *t, const struct ym_conv *c, bool deterministic, uint64_t most_space, struct cg_trial *out);

/* What measures, for tuning records: the CPU, or, apart, the first GPU with its multiprocessors and driver; "no GPU" without one. */
const char *cg_trials_device(const struct cg_trials *t);

#endif
