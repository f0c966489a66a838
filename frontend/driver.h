/* What the parts of the driver (yoloc.h) share. */
#ifndef FE_DRIVER_H
#define FE_DRIVER_H

#include <setjmp.h>

#include "codegen/codegen.h"
#include "codegen/modread.h"
#include "frontend/model.h"
#include "frontend/yoloc.h"
#include "ir/limits.h"
#include "passes/pass.h"

struct yoloc {
    yoloc_opts opts;  /* strings are in arena */
    struct yir_limits limits;
    bool target_given;   /* the options name one */
    struct yir_arena *arena;
    yoloc_tuning tuning; /* of the last compile; size 0: it did not tune */
};

/* One call of the API: its memory, types and diagnostics, all released when it returns. */
struct call {
    yoloc *c;
    const yoloc_opts *o;
    struct yir_arena *arena;
    struct yir_types *types;
    struct yir_diags *diags;
    jmp_buf oom;
};

/* Runs body(call, arg) with fresh memory; running out of it comes back here. Status from body's result and the diagnostics. */
yoloc_status call_run(yoloc *c, int (*body)(struct call *, void *arg), void *arg);

/* Tells the options' callback that memory ran out, without needing any. */
yoloc_status call_no_memory(const yoloc_opts *o);

/* A further arena, for a result that outlives the call: the caller frees it. Memory may run out only during the call. */
struct yir_arena *call_arena(struct call *k);

void call_progress(const struct call *k, const char *what, int done, int total);

/* A malloc'ed copy for the caller, NUL-terminated. -1 after reporting. */
int call_result(struct call *k, const char *text, size_t len, yoloc_result *out);

/* A model as given on the command line, lowered. */
struct source {
    const char *model, *weights; /* files; weights: also "rule", or NULL */
    bool wants_weights;          /* the network is to be run: without any weights that is an error */
    const struct fe_weights *w;
    const struct fe_model *fe;
};
int call_model(struct call *k, struct source *s);

/* Which layers are computed in which precision (driver_precision.c). */
struct precision {
    const char *text; /* canonical: "fp16 model.22*=fp32"; what modules keep */
    enum yir_dtype dtype;
    bool tf32;        /* F32, but tensor cores may round what they multiply */
    const struct pass_layer *layer;
    size_t nlayer;
    double kernel_bound, layer_bound; /* `verify`: of a kernel, and of a layer against the network in fp32, relative to the mean */
};
/* That of the handle's options for the network f, or of a module (NULL: none) where they ask for none. -1 after reporting. */
int call_precision(struct call *k, const struct yir_func *f, const char *of_module, struct precision *out);
/* Some of it is no fp32. */
bool call_precision_lower(const struct precision *p);
/* Tells the target; -1 after reporting that it does not have the precision. */
int call_precision_target(struct call *k, const struct precision *p, struct cg_target *t);

/* A function through the pipeline and code generation. */
struct build {
    struct yir_func *front, *fused;
    struct cg_target target;
    struct cg_program *program;
    struct cg_code code;
    struct yir_str *llvm_text;
    struct precision precision;
    bool no_reuse, no_fuse; /* whatever the handle's options say */
    bool apart;             /* some target runs kernels side by side */
    bool whole_attention;   /* all targets have kernels of attention as a whole */
};
int call_target(struct call *k, const char *text, struct cg_target *out);
/* The handle's options for the pass manager; max_batch 0: the manager's default. */
struct pass_opts call_pass_opts(struct call *k, const struct precision *p, int max_batch, bool reuse);
int call_passes(struct call *k, struct build *b, int max_batch);
/* A target that modules are made for. */
int call_find_target(struct call *k, const char *text, struct build *b);
/* Kernels and code of b->fused. */
int call_code(struct call *k, struct build *b, const struct cg_opts *o);
/* Target, passes and code, without tuning and caches. */
int call_compile(struct call *k, struct build *b, const char *target, int max_batch);
/* All of it and the module file, tuned and through the caches as the handle's options say. */
int call_build_module(struct call *k, struct build *b, const struct cg_meta *meta, yoloc_result *out);

/* front at another size (0: as it is), rounded up to a multiple of stride; the new numbers go to meta. NULL after reporting. */
struct yir_func *call_resize(struct call *k, struct yir_func *front, struct cg_meta *meta, int height, int width, int batch);

/* --keep-kernels: programs, LLVM IR and IR text as files in keep_dir. */
int call_keep(struct call *k, const struct build *b);

/* The module file of a function built for n targets. */
int call_module(struct call *k, const struct build *b, uint32_t n, const struct cg_meta *meta, void **bytes, size_t *size);

#endif
