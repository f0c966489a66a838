/* Activations: names in yaml and pickles to ops. */
#ifndef FE_ACTIVATION_H
#define FE_ACTIVATION_H

#include "ir/ir.h"
#include "weights.h"

struct fe_act {
    enum yir_code op; /* YIR_NOP: none */
    float slope;      /* leaky, elu */
};

/* "nn.LeakyReLU(0.1)", "torch.nn.SiLU(inplace=True)", "ReLU". -1 after reporting E_ACTIVATION at loc. */
int fe_act_parse(struct yir_arena *a, struct yir_diags *d, struct yir_loc loc, const char *text,
                 struct fe_act *out);

/* Of torch.nn, by its bare name, which must be known; its parameter as torch has it by default. */
struct fe_act fe_act_named(const char *name);

/* From a pickled module. -1 after reporting. */
int fe_act_node(struct yir_diags *d, struct yir_loc loc, const char *path, const struct fe_node *n,
                struct fe_act *out);

#endif
