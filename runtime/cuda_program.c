#include "cuda_program.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
    MULTIPROCESSORS = 16,      /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    DYNAMIC_SHARED = 8,        /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    SHARED_UNASKED = 48 << 10, /* bytes that any kernel may have */
};

static yolort_status check(const struct cuda_placed *at, int error, const char *what, const struct rt_error *e)
{
    return rt_cuda_device_check(at->device, error, what, e);
}

/* Failures of asking become what makes the loader try the next program. */
static yolort_status no_use(yolort_status s)
{
    return s == YOLORT_NO_DEVICE ? s : YOLORT_INCOMPATIBLE;
}

/* Whether some device runs the code; the text tells of the last one that does not. */
yolort_status rt_cuda_fits(const char *arch, const char *features, const struct rt_error *e)
{
    struct cuda_api api;
    int n = 0;
    (void)features;
    yolort_status s = rt_cuda_load(&api, e);
    if (!s) s = rt_cuda_status(&api, api.device_count(&n), "devices", e);
    if (s) return no_use(s);
    for (int i = 0; i < n; i++) {
        int device, capability;
        s = rt_cuda_status(&api, api.device_get(&device, i), "device", e);
        if (!s) s = rt_cuda_capability(&api, device, &capability, e);
        if (s) return no_use(s);
        if (rt_cuda_arch_fits(arch, capability)) return YOLORT_OK;
        rt_fail(e, YOLORT_INCOMPATIBLE, "needs another GPU than one of compute capability %d.%d", capability / 10, capability % 10);
    }
    return n ? YOLORT_INCOMPATIBLE : rt_fail(e, YOLORT_NO_DEVICE, "needs a GPU, there is none");
}

static int extent_inside(uint64_t at, uint64_t size, uint64_t room)
{
    return at <= room && size <= room - at;
}

/* The driver is given no size: what the file's tables name has to lie in the room it has. */
static int is_cubin(const uint8_t *code, uint64_t room)
{
    Elf64_Ehdr h;
    if (room < sizeof h) return 0;
    memcpy(&h, code, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != EM_CUDA) return 0;
    if (h.e_shentsize != sizeof(Elf64_Shdr) || !extent_inside(h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr), room)) return 0;
    if (h.e_phnum && h.e_phentsize != sizeof(Elf64_Phdr)) return 0;
    if (!extent_inside(h.e_phoff, (uint64_t)h.e_phnum * sizeof(Elf64_Phdr), room)) return 0;
    for (uint32_t i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr s;
        memcpy(&s, code + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_NOBITS && !extent_inside(s.sh_offset, s.sh_size, room)) return 0;
    }
    for (uint32_t i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr s;
        memcpy(&s, code + h.e_phoff + i * sizeof s, sizeof s);
        if (!extent_inside(s.p_offset, s.p_filesz, room)) return 0;
    }
    return 1;
}

static yolort_status load_kernels(const struct cuda_program *p, struct cuda_placed *at, const struct rt_error *e)
{
    const struct rt_tables *t = p->t;
    for (uint32_t i = 0; i < t->nkernel; i++) {
        const char *name = t->strings + t->kernel[i].name;
        const uint8_t *code = t->code.data + t->kernel[i].offset;
        RT_TRY(check(at, p->api.module_load(&at->module[i], code), name, e));
        at->nmodule = i + 1;
        RT_TRY(check(at, p->api.module_function(&at->function[i], at->module[i], name), name, e));
        if (t->kernel[i].shared <= SHARED_UNASKED) continue;
        RT_TRY(check(at, p->api.function_set(at->function[i], DYNAMIC_SHARED, (int)t->kernel[i].shared), name, e));
    }
    return YOLORT_OK;
}

static yolort_status load_service(const struct cuda_program *p, struct cuda_placed *at, const struct rt_error *e)
{
    static const char *const name[] = {
#define X(number, function, threads) #function,
        YM_SERVICES(X)
#undef X
    };
    const struct rt_tables *t = p->t;
    if (!t->service) return YOLORT_OK;
    RT_TRY(check(at, p->api.module_load(&at->service_module, t->code.data + t->service->offset), "service", e));
    for (int i = 0; i < YM_NSERVICE; i++)
        RT_TRY(check(at, p->api.module_function(&at->service[i], at->service_module, name[i]), name[i], e));
    return YOLORT_OK;
}

static yolort_status load_constants(const struct cuda_program *p, struct cuda_placed *at, const struct rt_error *e)
{
    const struct rt_span *from = &p->t->constants;
    if (!from->size) return YOLORT_OK;
    RT_TRY(rt_cuda_pool_alloc(at->device, &at->constants, from->size, "memory for weights", e));
    RT_TRY(check(at, p->api.copy_in(at->constants, from->data, from->size, NULL), "weights", e));
    return check(at, p->api.stream_sync(NULL), "weights", e);
}

static void unplace(const struct cuda_program *p, struct cuda_placed *at)
{
    void *old;
    if (at->device && !p->api.push(at->device->context)) {
        for (uint32_t i = 0; i < at->nmodule; i++) p->api.module_unload(at->module[i]);
        if (at->service_module) p->api.module_unload(at->service_module);
        p->api.pop(&old);
    }
    if (at->device) rt_cuda_pool_free(at->device, at->constants);
    rt_cuda_device_drop(at->device);
    free(at->module);
    free(at->function);
    free(at);
}

static yolort_status check_device(const struct cuda_program *p, struct cuda_placed *at, const struct rt_error *e)
{
    const char *arch = p->t->strings + p->t->target->arch;
    int device, capability;
    RT_TRY(rt_cuda_status(&p->api, p->api.device_get(&device, at->ordinal), "device", e));
    RT_TRY(rt_cuda_capability(&p->api, device, &capability, e));
    if (!rt_cuda_arch_fits(arch, capability))
        return rt_fail(e, YOLORT_INCOMPATIBLE, "device %d has compute capability %d.%d, the code is for %s", at->ordinal,
                       capability / 10, capability % 10, arch);
    return rt_cuda_status(&p->api, p->api.device_attribute(&at->multiprocessors, MULTIPROCESSORS, device), "device", e);
}

static yolort_status fill_placed(const struct cuda_program *p, struct cuda_placed *at, const struct rt_error *e)
{
    const struct rt_tables *t = p->t;
    void *old;
    RT_TRY(check_device(p, at, e));
    at->module = calloc((size_t)t->nkernel + 1, sizeof *at->module);
    at->function = calloc((size_t)t->nkernel + 1, sizeof *at->function);
    if (!at->module || !at->function) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    RT_TRY(rt_cuda_device_get(&at->device, &p->api, at->ordinal, e));
    RT_TRY(check(at, p->api.push(at->device->context), "context", e));
    yolort_status s = load_kernels(p, at, e);
    if (!s) s = load_service(p, at, e);
    if (!s) s = load_constants(p, at, e);
    p->api.pop(&old);
    return s;
}

/* The lock is held. */
static yolort_status place(struct cuda_program *p, int ordinal, struct cuda_placed **out, const struct rt_error *e)
{
    for (*out = p->first; *out; *out = (*out)->next)
        if ((*out)->ordinal == ordinal && !atomic_load(&(*out)->device->lost)) return YOLORT_OK;
    struct cuda_placed *at = calloc(1, sizeof *at);
    if (!at) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    at->ordinal = ordinal;
    yolort_status s = fill_placed(p, at, e);
    if (s) {
        unplace(p, at);
        return s;
    }
    at->next = p->first;
    p->first = at;
    *out = at;
    return YOLORT_OK;
}

yolort_status rt_cuda_enter_placed(struct cuda_program *p, int ordinal, struct cuda_placed **out, const struct rt_error *e)
{
    pthread_mutex_lock(&p->lock);
    yolort_status s = place(p, ordinal, out, e);
    if (!s) (*out)->sessions++;
    pthread_mutex_unlock(&p->lock);
    return s;
}

/* A lost device goes when no one uses it any more: the driver makes a new context once all have given it back. */
void rt_cuda_leave_placed(struct cuda_program *p, struct cuda_placed *at)
{
    pthread_mutex_lock(&p->lock);
    at->sessions--;
    if (!at->sessions && atomic_load(&at->device->lost)) {
        struct cuda_placed **from = &p->first;
        while (*from != at) from = &(*from)->next;
        *from = at->next;
        unplace(p, at);
    }
    pthread_mutex_unlock(&p->lock);
}

void rt_cuda_program_unload(struct rt_code *c)
{
    struct cuda_program *p = c->own;
    if (!p) return;
    for (struct cuda_placed *at = p->first, *next; at; at = next) {
        next = at->next;
        unplace(p, at);
    }
    pthread_mutex_destroy(&p->lock);
    free(p);
    memset(c, 0, sizeof *c);
}

/* Code goes to a device with its first context there. */
yolort_status rt_cuda_program_load(struct rt_code *out, const struct rt_tables *t, const struct rt_error *e)
{
    for (uint32_t i = 0; i < t->nkernel; i++) {
        uint64_t at = t->kernel[i].offset;
        RT_CHECK(e, FORMAT, CUDA_CUBIN, is_cubin(t->code.data + at, t->code.size - at), "KERNEL %u (%s): is no code for GPUs", i,
                 t->strings + t->kernel[i].name);
    }
    if (t->service)
        RT_CHECK(e, FORMAT, CUDA_SERVICE, is_cubin(t->code.data + t->service->offset, t->code.size - t->service->offset),
                 "SERVICE: is no code for GPUs");
    struct cuda_program *p = calloc(1, sizeof *p);
    if (!p) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    p->t = t;
    yolort_status s = rt_cuda_load(&p->api, e);
    if (s) {
        free(p);
        return s;
    }
    pthread_mutex_init(&p->lock, NULL);
    out->own = p;
    return YOLORT_OK;
}
