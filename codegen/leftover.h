/* Files in the folder of the caches that belong to neither cache any more, or to the command alone. */
#ifndef CG_LEFTOVER_H
#define CG_LEFTOVER_H

#include "cachedir.h"

/* Removes damaged data bases that were moved aside, and the modules of `detect --imgsz` (KEY.yoloc) that were not used for max_age_s
 * (below 0: none for that), or all of these. The number of files removed. */
uint64_t cg_leftovers_prune(struct cg_cachedir *c, double max_age_s, bool all);

#endif
