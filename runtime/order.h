/* Which steps of a run have to wait for which: what each reads and writes decides, so that independent steps may lie side by
 * side. */
#ifndef RT_ORDER_H
#define RT_ORDER_H

#include "tables.h"

/* Nodes are the steps that run, by their place among them; before[first[i]] .. before[first[i + 1] - 1] are those that node i
 * waits for, each less than i, and none that another of them waits for already. */
struct rt_order {
    uint32_t n;
    uint32_t *step;   /* number of each node's step */
    uint32_t *first;  /* n + 1 */
    uint32_t *before;
};

/* The steps that run with these inputs and outputs bound, for a batch. LIMIT, without a text, for more than it is made for: the
 * steps then run one after another. */
yolort_status rt_order_new(struct rt_order *o, const struct rt_tables *t, const uint64_t in[2], const uint64_t out[2], int batch);
void rt_order_free(struct rt_order *o);

/* Each node then waits for the one before it. */
void rt_order_chain(struct rt_order *o);

/* Whether a step runs. */
int rt_step_wanted(const struct ym_step *p, const uint64_t in[2], const uint64_t out[2]);

#endif
