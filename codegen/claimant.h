/* Who holds a claim: a process, told apart from a later one with the same number and from those of other boots. */
#ifndef CG_CLAIMANT_H
#define CG_CLAIMANT_H

#include "ir/base.h"

enum { CG_CLAIMANT_BOOT = 96 };

struct cg_claimant {
    int64_t pid;
    int64_t started;              /* clock ticks since boot; 0: not known */
    int64_t token;                /* of the handle, as a process may have several */
    int64_t since_ms;             /* since boot, sleep counted: unlike the time of day it never jumps */
    char boot[CG_CLAIMANT_BOOT];  /* the boot's id, then the name space of pid */
};

/* This process, now. token differs in each call. */
struct cg_claimant cg_claimant_self(void);

/* false: the process of c has ended, or has held its claim for longer than any measurement takes. */
bool cg_claimant_alive(const struct cg_claimant *c, const struct cg_claimant *self);

/* Of this boot of the machine; "" when the system does not tell. */
void cg_boot_id(char id[40]);

#endif
