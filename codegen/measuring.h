/* Whose turn it is to measure: times taken while another process of this machine measures too mean nothing. A lock on a
 * file in the folder of the caches; without a folder, or on one whose locks can't be relied on, everybody may. */
#ifndef CG_MEASURING_H
#define CG_MEASURING_H

#include "cachedir.h"

/* Waits for this process's turn, most_s at most, and less when the one whose turn it is has been stopped. wait (may be NULL)
 * is called now and then meanwhile, and ends that by false. The turn lasts until cg_measuring_end or the end of the arena or process. false: there is
 * no turn to be had, and whoever measures nonetheless may be disturbed. */
struct cg_measuring;
bool cg_measuring_begin(struct cg_measuring **out, struct yir_arena *a, struct cg_cachedir *c, double most_s,
                        bool (*wait)(void *user), void *user);
void cg_measuring_end(struct cg_measuring *m); /* NULL is allowed */

enum { CG_MEASURING_STOPPED_MS = 2000 }; /* after which a stopped process counts as stuck */

#endif
