/* What the CPU and the system under it can execute, by LLVM's names (rows of cpu_features.def). */
#ifndef RT_CPUFEATURE_H
#define RT_CPUFEATURE_H

#include <stddef.h>

/* "x86_64", "aarch64", as modules name it; "unknown" elsewhere. */
const char *rt_cpu_arch(void);

/* 1: the code may use it. 0: it may not, or there is no such row for this architecture. */
int rt_cpu_has(const char *feature);
int rt_cpu_knows(const char *feature);

/* The features of this host, comma-joined in table order; cut at a whole name when size is too small. Gives
 * the length of the whole list. */
size_t rt_cpu_list(char *out, size_t size);

/* Some state (x86 AMX tiles) has to be asked for before its instructions may run; harmless when done twice.
 * 0, or -1 when the system refuses. */
int rt_cpu_enable(const char *feature);

#endif
