/* Trials in a process of their own, asked over a socket. */
#ifndef CG_TRIAL_CHILD_H
#define CG_TRIAL_CHILD_H

#include "trial.h"

struct trial_child;

struct trial_child *trial_child_new(struct yir_arena *a, int threads, double patience_s);
void trial_child_stop(struct trial_child *c); /* with all variants; the next call starts another */

/* As those of trial.h. When the process is lost, another takes its place with all variants but the one at fault. */
int trial_child_load(struct trial_child *c, int v, void *bytes, size_t size, struct cg_trial *out);
int trial_child_forms(const struct trial_child *c);
int trial_child_run(struct trial_child *c, int v, int form, bool compare, struct cg_trial *out);

/* The first GPU, asked for in a process of its own: a driver once used does not live on in a child. */
const char *trial_child_gpu(struct yir_arena *a);

#endif
