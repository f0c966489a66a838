/* Trials in a process of their own, asked over a socket. */
#ifndef CG_TRIAL_CHILD_H
#define CG_TRIAL_CHILD_H

#include "trial.h"

struct trial_child;

/* The processes are made at once: a driver that the caller, or NVRTC in it, has used by the time one is needed works in no child. */
struct trial_child *trial_child_new(struct yir_arena *a, int threads, double patience_s);
void trial_child_drop(struct trial_child *c); /* all variants, and the process that has them */
void trial_child_end(struct trial_child *c);

/* As those of trial.h. When the process is lost, another takes its place with all variants but the one at fault. */
int trial_child_load(struct trial_child *c, int v, void *bytes, size_t size, struct cg_trial *out);
int trial_child_forms(const struct trial_child *c);
int trial_child_run(struct trial_child *c, int v, int form, bool compare, struct cg_trial *out);

int trial_child_engines(struct trial_child *c, const struct ym_conv *conv, bool deterministic, uint64_t most_space, struct cg_trial *out);
const char *trial_child_gpu(struct trial_child *c); /* as cg_trials_device */

#endif
