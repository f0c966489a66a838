/* How many cores may be used. */
#include <criterion/criterion.h>

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cpucount.h"

Test(rt_cpucount, quota)
{
    static const struct {
        const char *text;
        int cores;
    } rows[] = {
        {"200000 100000\n", 2}, {"50000 100000\n", 1}, {"150000 100000", 2}, {"100000 100000", 1}, {"max 100000\n", 0},
        {"-1 100000\n", 0},     {"", 0},               {"100000", 0},        {"0 100000", 0},      {"100000 0", 0},
        {"nonsense", 0},        {"1 -1", 0},           {"9223372036854775807 1", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(rt_cpu_quota(rows[i].text), rows[i].cores, "%s", rows[i].text);
}

Test(rt_cpucount, affinity)
{
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    int n = rt_cpu_count(), status;
    cr_expect(n >= 1 && n <= CPU_COUNT(&all));
    pid_t child = fork();
    if (!child) {
        int first = 0;
        while (!CPU_ISSET(first, &all)) first++;
        CPU_ZERO(&one);
        CPU_SET(first, &one);
        _exit(sched_setaffinity(0, sizeof one, &one) || rt_cpu_count() != 1);
    }
    cr_assert(waitpid(child, &status, 0) == child);
    cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
}
