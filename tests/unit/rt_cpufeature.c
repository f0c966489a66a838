/* CPU features: our reading of CPUID against the compiler's and the kernel's. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "runtime/cpufeature.h"

#if defined(__x86_64__)
#define SAME(name) cr_expect_eq(rt_cpu_has(name), !!__builtin_cpu_supports(name), "%s", name)

Test(rt_cpufeature, as_the_compiler_says)
{
    __builtin_cpu_init();
    SAME("sse2");
    SAME("ssse3");
    SAME("sse4.1");
    SAME("sse4.2");
    SAME("popcnt");
    SAME("avx");
    SAME("avx2");
    SAME("fma");
    SAME("bmi");
    SAME("bmi2");
    SAME("avx512f");
    SAME("avx512bw");
    SAME("avx512cd");
    SAME("avx512dq");
    SAME("avx512vl");
    SAME("avx512vnni");
    SAME("xop");
    SAME("fma4");
    SAME("sse4a");
}

/* Names of /proc/cpuinfo, which lists what the kernel lets programs use. */
static const char *const kernel_names[][2] = {
    {"f16c", "f16c"},
    {"movbe", "movbe"},
    {"lzcnt", "abm"},
    {"avx512bf16", "avx512_bf16"},
    {"avx512fp16", "avx512_fp16"},
    {"avx512vbmi", "avx512vbmi"},
    {"avx512vbmi2", "avx512_vbmi2"},
    {"avx512ifma", "avx512ifma"},
    {"avxvnni", "avx_vnni"},
    {"amx-tile", "amx_tile"},
    {"amx-int8", "amx_int8"},
    {"amx-bf16", "amx_bf16"},
    {"gfni", "gfni"},
    {"aes", "aes"},
    {"xsave", "xsave"},
    {"cx16", "cx16"},
    {"sahf", "lahf_lm"},
    {"prfchw", "3dnowprefetch"},
};

static int read_flags(char *flags, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    int found = 0;
    while (f && !found && fgets(flags, (int)size, f)) found = !strncmp(flags, "flags", 5);
    if (f) fclose(f);
    char *end = strchr(flags, '\n');
    if (found && end) strcpy(end, " ");
    return found;
}

Test(rt_cpufeature, as_the_kernel_says)
{
    char flags[8192], word[64];
    if (!read_flags(flags, sizeof flags - 1)) cr_skip("no flags in cpuinfo");
    for (size_t i = 0; i < sizeof kernel_names / sizeof *kernel_names; i++) {
        snprintf(word, sizeof word, " %s ", kernel_names[i][1]);
        int kernel = strstr(flags, word) != NULL;
        /* An older kernel does not know every name; what it names is there. */
        if (kernel) cr_expect(rt_cpu_has(kernel_names[i][0]), "%s", kernel_names[i][0]);
        else if (i < 3) cr_expect(!rt_cpu_has(kernel_names[i][0]), "%s", kernel_names[i][0]);
    }
}
#endif

Test(rt_cpufeature, unknown_names)
{
    cr_expect(!rt_cpu_knows(""));
    cr_expect(!rt_cpu_has(""));
    cr_expect(!rt_cpu_knows("avx512"));
    cr_expect(!rt_cpu_has("avx512"));
}

/* Every listed name is one this CPU has, and a short buffer ends at a whole name. */
Test(rt_cpufeature, list)
{
    char all[4096], part[4096];
    size_t n = rt_cpu_list(all, sizeof all), names = 0;
    cr_assert(n > 0 && n < sizeof all && n == strlen(all));
    strcpy(part, all);
    for (char *save, *name = strtok_r(part, ",", &save); name; name = strtok_r(NULL, ",", &save), names++)
        cr_expect(rt_cpu_has(name), "%s", name);
    cr_expect_gt(names, 1);
    for (size_t size = 0; size <= n + 1; size++) {
        memset(part, 'z', sizeof part);
        cr_assert_eq(rt_cpu_list(part, size), n);
        cr_assert_eq(part[size], 'z');
        if (!size) continue;
        size_t used = strlen(part);
        cr_assert(used < size && !memcmp(part, all, used) && (all[used] == ',' || !all[used] || !used));
    }
    cr_expect_eq(rt_cpu_list(NULL, 0), n);
}
