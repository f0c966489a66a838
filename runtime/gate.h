/* A number that threads wait for to change: awake for a short while, then asleep. */
#ifndef RT_GATE_H
#define RT_GATE_H

#include <stdatomic.h>
#include <stdint.h>

struct rt_gate {
    _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
};

/* Returns the first value seen that is not `old`; what was written before it was set is visible then. spin_ns: how long
 * to look for it awake. */
uint32_t rt_gate_await(struct rt_gate *g, uint32_t old, int64_t spin_ns);

/* After a change: wakes at most n of those that sleep. */
void rt_gate_wake(struct rt_gate *g, int n);

#endif
