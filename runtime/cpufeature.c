#include "cpufeature.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

enum { EAX, EBX, ECX, EDX };

struct feature {
    const char *name;
    uint32_t leaf, subleaf; /* leaf: AT_HWCAP word on aarch64 */
    uint8_t reg, bit;
    uint32_t state;
};

static const struct feature features[] = {
#if defined(__x86_64__)
#define X86(name, leaf, subleaf, reg, bit, state) {name, leaf, subleaf, reg, bit, state},
#elif defined(__aarch64__)
#define ARM(name, word, bit) {name, word, 0, 0, bit, 0},
#endif
#include "cpu_features.def"
    {0},
};

const char *rt_cpu_arch(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "unknown";
#endif
}

#if defined(__x86_64__)
/* XCR0: the register state that the system saves; 0 when it uses no XSAVE at all. */
static uint64_t enabled_state(void)
{
    uint32_t r[4], lo, hi;
    if (!__get_cpuid(1, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) || !(r[ECX] >> 27 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static int detect(const struct feature *f)
{
    uint32_t r[4];
    if (!__get_cpuid_count(f->leaf, f->subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX])) return 0;
    /* Leaf 7 says in EAX of subleaf 0 which subleaf is the last; others read as garbage on some CPUs. */
    if (f->subleaf) {
        uint32_t b, c, d, last;
        __cpuid_count(f->leaf, 0, last, b, c, d);
        if (f->subleaf > last) return 0;
    }
    if (!(r[f->reg] >> f->bit & 1)) return 0;
    return !f->state || (enabled_state() & f->state) == f->state;
}
#elif defined(__aarch64__)
static int detect(const struct feature *f)
{
    unsigned long word = getauxval(f->leaf == 1 ? AT_HWCAP : AT_HWCAP2);
    return (int)(word >> f->bit & 1);
}
#else
static int detect(const struct feature *f)
{
    (void)f;
    return 0;
}
#endif

static const struct feature *find(const char *name)
{
    for (const struct feature *f = features; f->name; f++)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}

int rt_cpu_knows(const char *feature)
{
    return find(feature) != NULL;
}

int rt_cpu_has(const char *feature)
{
    const struct feature *f = find(feature);
    return f && detect(f);
}

size_t rt_cpu_list(char *out, size_t size)
{
    size_t length = 0;
    if (size) out[0] = 0;
    for (const struct feature *f = features; f->name; f++) {
        if (!detect(f)) continue;
        size_t comma = length != 0, n = strlen(f->name);
        if (length + comma + n < size) {
            memcpy(out + length, ",", comma);
            memcpy(out + length + comma, f->name, n + 1);
        } else {
            size = 0;
        }
        length += comma + n;
    }
    return length;
}

int rt_cpu_enable(const char *feature)
{
#if defined(__x86_64__) && defined(SYS_arch_prctl)
    enum { REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 }; /* Linux arch/x86/include/uapi/asm/prctl.h */
    if (!strncmp(feature, "amx-", 4)) return syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA) ? -1 : 0;
#endif
    (void)feature;
    return 0;
}
