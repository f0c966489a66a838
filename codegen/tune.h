/* The tuner: which configuration of each kernel is fastest here, by measuring whole networks.
 *
 * Kernels that compute the same (equal op_text) are a group and share what is found. Variant v of the network gives each group its
 * v-th best predicted configuration; the variants run in turn, every kernel timed in its place between the others, so caches and
 * threads are as they will be. A challenger must beat the predicted configuration by a margin, and the network of all winners must
 * beat the untuned one, or nothing changes.
 *
 * Of the processes that share a folder of caches one measures at a time (measuring.h), and each group is claimed (tunedb.h): what
 * one has found, the others take. Candidates for CPUs run in this process: they are made by the same code from the same checked programs
 * as every other kernel, and each variant's outputs must equal the first one's. Those for GPUs run in a child (trial.h): one that hangs
 * or faults costs seconds and is left out. There cuDNN's engines (engine.h) follow the configurations: each is tried with the best
 * predicted one as the kernel for where cuDNN is not, must beat the best measured one by the margin, and is then kept with that. The calling process must not have used the CUDA driver before, as a child cannot then. */
#ifndef CG_TUNE_H
#define CG_TUNE_H

#include "codegen.h"
#include "trial.h"
#include "tunedb.h"

enum cg_tune_mode { CG_TUNE_OFF, CG_TUNE_FAST, CG_TUNE_FULL };

struct cg_tune_opts {
    enum cg_tune_mode mode;
    double budget_s;       /* nothing is begun that would end after it; waiting for others does not count; 0: the mode's own */
    int threads;           /* that the network will run on */
    struct cg_trials *trials; /* to measure with: of as many threads; apart for GPUs */
    const char *versions;  /* of whatever makes code */
    struct cg_tune_cudnn { /* whose engines compete in the full mode, and are known to the fast one */
        int version;       /* 91900; 0: none does */
        bool deterministic;
        uint64_t most_space; /* bytes of working memory */
    } cudnn;
    struct cg_tunedb *db;  /* NULL: nothing is remembered */
    struct cg_cachedir *folder; /* of db, for turns at measuring; NULL: whenever it likes */
    /* Compiles f under these options to a module, in malloc's memory. -1 after reporting. */
    int (*make)(void *user, const struct cg_opts *o, void **bytes, size_t *size);
    /* Compiles kernels of several networks at once, so that `make` finds them (cg_opts.objects). NULL: `make` does it all. */
    int (*ahead)(void *user, const struct cg_program *all);
    void (*progress)(void *user, const char *what, int done, int total, double seconds_left); /* may be NULL */
    /* Each candidate measured, with the label of its first kernel and the predicted cycles; may be NULL. */
    void (*report)(void *user, const char *label, const char *config, double cycles, double ms);
    bool (*stop)(void *user); /* true ends tuning with E_INTERRUPTED; may be NULL */
    void *user;
};

struct cg_tuned {
    /* For cg_opts: gives each kernel its configuration. */
    size_t (*choose)(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n);
    const struct cg_engine *(*engine)(void *user, const struct cg_kernel *k);
    void *choose_user;
    struct cg_choices *choices;
    int groups, known, measured; /* groups; found in the records; decided by measuring now */
    int left, changed;           /* for which the budget did not suffice; with another configuration than the predicted one */
    double before_ms, after_ms;  /* medians of the untuned and tuned network, measured in turn; 0: no kernel changed now */
};

/* f: as for cg_kernels; base: its options without a choice. Targets of this machine only. */
int cg_tune(struct yir_arena *a, struct yir_diags *d, const struct yir_func *f, const struct cg_target *t,
            const struct cg_opts *base, const struct cg_tune_opts *o, struct cg_tuned *out);

#endif
