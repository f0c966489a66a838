#include "dev.h"

#include "block.h"
#include "cpufeature.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_FEATURE = 32 };

static yolort_status feature_fits(const char *name, const struct rt_error *e)
{
    RT_CHECK(e, INCOMPATIBLE, CPU_KNOWN, rt_cpu_knows(name), "needs %s, which this runtime does not know",
             name);
    RT_CHECK(e, INCOMPATIBLE, CPU_HAS, rt_cpu_has(name), "needs %s, this CPU has not", name);
    if (rt_cpu_enable(name)) return rt_fail(e, YOLORT_INCOMPATIBLE, "needs %s, the system refuses it", name);
    return YOLORT_OK;
}

static yolort_status cpu_fits(const char *arch, const char *features, const struct rt_error *e)
{
    RT_CHECK(e, INCOMPATIBLE, CPU_ARCH, !strcmp(arch, rt_cpu_arch()), "is for %s, this machine is %s", arch,
             rt_cpu_arch());
    while (*features) {
        char name[MAX_FEATURE];
        size_t n = strcspn(features, ",");
        RT_CHECK(e, FORMAT, CPU_LIST, n > 0 && n < sizeof name, "bad list of CPU features");
        memcpy(name, features, n);
        name[n] = 0;
        RT_TRY(feature_fits(name, e));
        features += n + (features[n] == ',');
    }
    return YOLORT_OK;
}

static void cpu_unload(struct rt_code *c)
{
    if (c->base) munmap(c->base, c->size);
    memset(c, 0, sizeof *c);
}

/* Never writable and executable at once: filled as data, then sealed. */
static yolort_status cpu_load(struct rt_code *out, const struct rt_tables *t, const struct rt_error *e)
{
    size_t size = t->code.size;
    size_t map = (size_t)rt_align(size ? size : 1, (uint64_t)sysconf(_SC_PAGESIZE));
    void *p = mmap(NULL, map, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return rt_fail(e, YOLORT_OOM_HOST, "no memory for %zu bytes of code", size);
    out->base = p;
    out->size = map;
    memcpy(p, t->code.data, size);
    if (mprotect(p, map, PROT_READ | PROT_EXEC)) {
        int why = errno;
        cpu_unload(out);
        if (why == ENOMEM) return rt_fail(e, YOLORT_OOM_HOST, "no memory to make %zu bytes of code executable", size);
        return rt_fail(e, YOLORT_UNSUPPORTED, "the system forbids to execute loaded code: %s", strerror(why));
    }
    __builtin___clear_cache((char *)p, (char *)p + map);
    return YOLORT_OK;
}

struct job {
    const struct rt_launch *l;
    ym_cpu_fn fn;
    _Atomic int32_t failure;
};

static void run_units(void *ctx, int worker, int64_t begin, int64_t end)
{
    struct job *j = ctx;
    const struct rt_launch *l = j->l;
    struct ym_cpu_call call = {l->arg, l->scratch + (size_t)worker * l->scratch_stride, begin, end};
    if (atomic_load_explicit(&j->failure, memory_order_relaxed)) return;
    int32_t none = 0, r = j->fn(&call);
    if (r) atomic_compare_exchange_strong(&j->failure, &none, r);
}

static yolort_status cpu_launch(const struct rt_launch *l, int32_t *stray, const struct rt_error *e)
{
    (void)e;
    struct job j = {.l = l, .fn = (ym_cpu_fn)(uintptr_t)(l->code->base + l->entry)};
    rt_pool_run(l->pool, run_units, &j, l->total, l->grain);
    *stray = atomic_load_explicit(&j.failure, memory_order_relaxed);
    return YOLORT_OK;
}

const struct rt_dev rt_dev_cpu = {
    .name = "cpu",
    .kind = YM_CPU,
    .fits = cpu_fits,
    .load = cpu_load,
    .unload = cpu_unload,
    .launch = cpu_launch,
};
