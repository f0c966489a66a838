#include "gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 64 }; /* between two readings of the clock */

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* some tens of cycles, as pause; yield is a no-op on most cores */
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The value seen last. */
static uint32_t look(struct rt_gate *g, uint32_t old, int64_t spin_ns)
{
    uint32_t v = atomic_load_explicit(&g->value, memory_order_acquire);
    if (v != old || !spin_ns) return v;
    int64_t end = now_ns() + spin_ns;
    do {
        for (int i = 0; i < LOOKS; i++) {
            v = atomic_load_explicit(&g->value, memory_order_acquire);
            if (v != old) return v;
            relax();
        }
    } while (now_ns() < end);
    return v;
}

/* Sequentially consistent, as rt_gate_wake: either it sees the sleeper, or the sleeper (or the system, which compares
 * once more) the new value. */
static uint32_t sleep_for(struct rt_gate *g, uint32_t old)
{
    uint32_t v;
    atomic_fetch_add(&g->sleepers, 1);
    while ((v = atomic_load(&g->value)) == old)
        syscall(SYS_futex, &g->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
    return v;
}

uint32_t rt_gate_await(struct rt_gate *g, uint32_t old, int64_t spin_ns)
{
    uint32_t v = look(g, old, spin_ns);
    return v != old ? v : sleep_for(g, old);
}

void rt_gate_wake(struct rt_gate *g, int n)
{
    if (n > 0 && atomic_load(&g->sleepers)) syscall(SYS_futex, &g->value, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}
