/* Passes: IR function in, IR function out; the manager runs the table. */
#ifndef PASS_H
#define PASS_H

#include "ir/ir.h"
#include "ir/limits.h"

struct pass_layer { /* a line of --precision-file */
    const char *pattern; /* as pass_layer_matches takes it */
    enum yir_dtype dtype; /* F32, F16, BF16 */
};

struct pass_opts {
    int max_batch;          /* buffers are planned for this many images; >= 1 */
    bool fuse;              /* false: every op its own kernel (debugging, verify) */
    bool reuse;             /* false: every buffer its own memory (verify, guard tests) */
    bool apart;             /* memory is shared only where no kernel then waits for one more: kernels run side by side */
    bool whole_attention;   /* kernels do attention as a whole, so that its scores are never in memory */
    bool strict;            /* a batch normalisation that makes NaN or infinities is an error */
    bool verify_each;       /* after each pass, whatever the build */
    enum yir_dtype precision; /* of values and weights inside the network: F32, F16, BF16 */
    const struct pass_layer *layer; /* other precisions of layers; the last that matches counts */
    size_t nlayer;
    int limit;              /* run only the first n passes that may be left out; -1: all (bisection) */
    const char *skip;       /* comma-joined names to leave out, or NULL */
    const char *stop_after; /* name, or NULL */
    const char *dump_after; /* comma-joined names, or "all", or NULL */
    /* IR text after a pass, or "(unchanged)\n"; and its time. Each may be NULL. */
    void (*dump)(void *user, const char *pass, const char *text, double ms);
    void (*timing)(void *user, const char *pass, double ms);
    void *user;
};
void pass_opts_init(struct pass_opts *o);

struct pass { /* what a pass function gets */
    struct yir_func *in;
    struct yir_func *out;     /* set by the pass when it changed anything; otherwise left NULL */
    struct yir_arena *arena;
    struct yir_diags *diags;
    const struct pass_opts *opts;
};

/* 0 unchanged, 1 changed (p->out set), -1 after reporting. */
typedef int (*pass_fn)(struct pass *p);

struct pass_info {
    char flag;
    const char *name, *text;
    bool optional;
    unsigned needs, gives;
    pass_fn run;
};
size_t pass_count(void);
const struct pass_info *pass_at(size_t i);
const struct pass_info *pass_by_name(const char *name);

/* Runs the pipeline on f. NULL after reporting. */
struct yir_func *pass_run_all(struct yir_func *f, struct yir_diags *d, const struct pass_opts *o);
/* Runs the named passes (comma-joined) in the order given, checking what each needs: `yoloc opt`. */
struct yir_func *pass_run_named(struct yir_func *f, struct yir_diags *d, const char *names,
                                const struct pass_opts *o);

/* `*` stands for any characters; the pattern may also name what the layer is a part of: "model.2" is all of model.2.cv1 too. */
bool pass_layer_matches(const char *pattern, const char *name); /* precision.c */

/* A fused function with all half precision in it, weights too, in F32 as it was before the pass: same ops in the same kernels, not
 * placed. NULL after reporting. */
struct yir_func *pass_widened(const struct yir_func *f); /* widen.c */

#define PASS(flag, name, opt, needs, gives, text) int pass_##name(struct pass *p);
#include "passes.def"
#undef PASS

#endif
