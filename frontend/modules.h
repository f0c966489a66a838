/* The table of modules, and a row of the description as its lowering sees it. */
#ifndef FE_MODULES_H
#define FE_MODULES_H

#include "lower.h"

enum { FE_M_SCALED = 1, FE_M_REPEATS = 2, FE_M_HEAD = 4, FE_M_JOINS = 8 }; /* columns of modules.def */
enum { FE_MAX_ARGS = 12 };

struct fe_arg { /* an argument of a row, checked and typed as the module's schema says */
    const char *name; /* not terminated: `len` bytes of the schema */
    size_t len;
    char kind;
    bool given;       /* written in the row; else the default */
    bool none;        /* None */
    int64_t i[2];
    double f;
    const int64_t *list;
    size_t nlist;
    struct fe_act act;
    const struct fe_value *v; /* as written, names resolved; NULL for defaults */
};

struct fe_site { /* a row of the description */
    const struct fe_module *module;
    const yir_ref *in; /* its inputs */
    int nin;
    int64_t c1;        /* channels of the first input */
    int64_t n;         /* repeats, when they are an argument; else 1 */
    struct fe_arg arg[FE_MAX_ARGS];
    int narg;
    size_t written;    /* arguments written in the row */
};

/* Adds the ops of one module; the value it gives, NIL after an error and for heads, which add outputs. */
typedef yir_ref (*fe_lowering)(struct fe_lower *l, const struct fe_site *s);

struct fe_module {
    const char *name;
    const char *alias;  /* another name, or "" */
    unsigned dialects;  /* FE_UL | FE_Y5 | FE_X */
    unsigned flags;
    fe_lowering lower;
    const char *schema; /* see modules.def */
};

/* By name or alias, for a dialect. NULL after reporting E_MODULE. */
const struct fe_module *fe_module_find(struct fe_lower *l, struct yir_loc loc, const char *name);

/* Types the arguments of a row (a FE_LIST) as the schema of s->module says, names as nc resolved. -1 after
 * reporting. */
int fe_args_bind(struct fe_lower *l, struct fe_site *s, const struct fe_value *args);

/* Arguments by name; asking for one that the schema lacks is a bug. */
const struct fe_arg *fe_arg(const struct fe_site *s, const char *name);
int64_t fe_arg_int(const struct fe_site *s, const char *name);

#define MODULE(name, alias, dialects, flags, lowering, schema) \
    yir_ref fe_low_##lowering(struct fe_lower *l, const struct fe_site *s);
#include "modules.def"
#undef MODULE

#endif
