/* Cores that this process may use. */
#ifndef RT_CPUCOUNT_H
#define RT_CPUCOUNT_H

/* At least 1: the cores of its affinity mask, or fewer when control groups grant it less time than those have. */
int rt_cpu_count(void);

/* Quota over period of a cgroup, rounded up: the text of cpu.max ("200000 100000"; "max 100000": no limit). 0: no limit,
 * or no such text. */
int rt_cpu_quota(const char *text);

#endif
