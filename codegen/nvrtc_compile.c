/* CUDA C of kernels to cubins, without a GPU. */
#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kb_cuda.h"
#include "nvrtc_api.h"
#include "runtime/module.h"
#include "service.h"
#include "threads.h"

/* Products and sums are fused where the program says so and nowhere else. */
static const char *const options[] = {"--std=c++17", "--fmad=false"};

enum { NOPTION = sizeof options / sizeof *options };

/* One distinct kernel; filled by one thread. */
struct job {
    const char *symbol, *label; /* of the kernel */
    struct yir_str text;
    struct yir_str key;     /* in the store of objects */
    const void *stored;     /* cubin that the store had, and its size */
    size_t stored_size;
    char *cubin;            /* malloc'ed; NULL: failed */
    size_t size;
    char error[512];
};

struct work {
    struct nvrtc_api nv;
    char arch[32];          /* option */
    const struct cg_object_store *store;
    struct job *job;
    uint32_t njob;
    atomic_uint next;
};

/* First line of the compiler's log that tells of an error, else the number's meaning. */
static void fail(const struct work *w, struct job *j, nvrtc_program p, int error)
{
    size_t size = 0;
    char *log = NULL;
    snprintf(j->error, sizeof j->error, "%s", w->nv.error_string(error));
    if (!p || w->nv.GetProgramLogSize(p, &size) || size < 2 || !(log = calloc(1, size + 1))) return;
    if (!w->nv.GetProgramLog(p, log)) {
        char *at = strstr(log, "error");
        while (at && at > log && at[-1] != '\n') at--;
        if (at) snprintf(j->error, sizeof j->error, "%.*s", (int)strcspn(at, "\n"), at);
    }
    free(log);
}

static void take_cubin(const struct work *w, struct job *j, nvrtc_program p)
{
    int error = w->nv.GetCUBINSize(p, &j->size);
    j->cubin = error ? NULL : malloc(j->size ? j->size : 1);
    if (!error && !j->cubin) {
        snprintf(j->error, sizeof j->error, "no memory for %zu bytes of code", j->size);
        return;
    }
    if (!error) error = w->nv.GetCUBIN(p, j->cubin);
    if (error) fail(w, j, p, error);
}

static void compile(const struct work *w, struct job *j)
{
    nvrtc_program p = NULL;
    const char *given[NOPTION + 1];
    memcpy(given, options, sizeof options);
    given[NOPTION] = w->arch;
    int error = w->nv.CreateProgram(&p, j->text.text, "kernel.cu", 0, NULL, NULL);
    if (error) {
        fail(w, j, NULL, error);
        return;
    }
    error = w->nv.CompileProgram(p, NOPTION + 1, given);
    if (error)
        fail(w, j, p, error);
    else
        take_cubin(w, j, p);
    w->nv.DestroyProgram(&p);
}

static void *worker(void *arg)
{
    struct work *w = arg;
    for (;;) {
        unsigned i = atomic_fetch_add(&w->next, 1);
        if (i >= w->njob) return NULL;
        if (!w->job[i].stored) compile(w, &w->job[i]);
    }
}

/* The last one. */
static void add_service(struct yir_arena *a, struct work *w)
{
    struct job *j = &w->job[w->njob++];
    size_t size;
    const char *text = cg_service_text(&size);
    *j = (struct job){.symbol = "service", .label = "before and after the network", .text = {.arena = a}};
    yir_str_put(&j->text, text, size);
}

static void list_jobs(struct yir_arena *a, struct work *w, const struct cg_program *p)
{
    w->job = yir_alloc_n(a, p->nkernel + 1u, sizeof *w->job);
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_kernel *k = &p->kernel[i];
        if (k->same_as != i) continue;
        struct job *j = &w->job[w->njob++];
        j->symbol = k->symbol;
        j->label = k->label;
        j->text = (struct yir_str){.arena = a};
        kb_cuda_text(&j->text, k, p->opts.max_batch > 0 ? p->opts.max_batch : 1);
    }
    if (cg_takes_pictures(p->f)) add_service(a, w);
}

static void ask_store(struct yir_arena *a, struct work *w)
{
    for (uint32_t i = 0; i < w->njob; i++) {
        struct job *j = &w->job[i];
        j->key = (struct yir_str){.arena = a};
        yir_str_fmt(&j->key, "NVRTC %d.%d, %s\n", w->nv.version[0], w->nv.version[1], w->arch);
        for (size_t k = 0; k < NOPTION; k++) yir_str_fmt(&j->key, "%s\n", options[k]);
        yir_str_put(&j->key, j->text.text, j->text.len);
        j->stored = w->store->get(w->store->user, a, j->key.text, j->key.len, &j->stored_size);
    }
}

static int collect(struct yir_arena *a, struct yir_diags *d, const struct work *w, struct cg_object *object)
{
    int rc = 0;
    for (uint32_t i = 0; i < w->njob; i++) {
        struct job *j = &w->job[i];
        object[i] = (struct cg_object){.data = j->stored, .size = j->stored_size, .symbol = j->symbol};
        if (j->stored) continue;
        if (j->error[0])
            rc = yir_diag(d, (struct yir_loc){0}, E_NVRTC, "kernel %s (%s): %s", j->symbol, j->label, j->error);
        if (!j->cubin) continue;
        void *data = yir_alloc(a, j->size);
        memcpy(data, j->cubin, j->size);
        free(j->cubin);
        object[i].data = data;
        object[i].size = j->size;
        if (w->store && !j->error[0]) w->store->put(w->store->user, j->key.text, j->key.len, data, j->size);
    }
    return rc;
}

/* One cubin after the other, each at a multiple of 64 with room for a seal before it. */
static void lay_out(struct yir_arena *a, const struct cg_program *p, struct cg_object *object, uint32_t n, struct cg_code *out)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        at = (at + sizeof(struct ym_seal) + YM_ALIGN - 1) / YM_ALIGN * YM_ALIGN;
        object[i].entry = at;
        at += object[i].size;
    }
    unsigned char *blob = yir_alloc(a, at);
    for (uint32_t i = 0; i < n; i++) memcpy(blob + object[i].entry, object[i].data, object[i].size);
    out->blob = blob;
    out->size = at;
    out->object = object;
    out->nobject = n;
    out->entry = yir_alloc_n(a, p->nkernel, sizeof *out->entry);
    out->service = cg_takes_pictures(p->f) ? object[n - 1].entry : 0;
    for (uint32_t i = 0, next = 0; i < p->nkernel; i++) {
        uint32_t first = p->kernel[i].same_as;
        out->entry[i] = first == i ? object[next++].entry : out->entry[first];
    }
}

const char *cg_nvrtc_version(struct yir_arena *a, struct yir_diags *d)
{
    struct nvrtc_api nv;
    return nvrtc_load(d, &nv) ? NULL : yir_format(a, "NVRTC %d.%d", nv.version[0], nv.version[1]);
}

/* "sm_90a" is known when NVRTC lists 90. */
static int check_arch(struct yir_arena *a, struct yir_diags *d, const struct nvrtc_api *nv, const char *arch)
{
    int n = 0, number = atoi(arch + strlen("sm_"));
    if (nv->GetNumSupportedArchs(&n) || n < 1 || n > 1000) return yir_diag(d, (struct yir_loc){0}, E_NVRTC, "NVRTC knows no GPU");
    int *list = yir_alloc_n(a, (size_t)n, sizeof *list);
    bool known = false;
    if (nv->GetSupportedArchs(list)) n = 0;
    for (int i = 0; i < n; i++) known |= list[i] == number;
    if (known) return 0;
    return yir_diag(d, (struct yir_loc){0}, E_NVRTC, "NVRTC %d.%d can't compile for %s", nv->version[0], nv->version[1], arch);
}

void cg_cuda_text(struct yir_str *out, const struct cg_program *p)
{
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_kernel *k = &p->kernel[i];
        if (k->same_as != i) continue;
        yir_str_fmt(out, "/* %s */\n", k->label);
        kb_cuda_text(out, k, p->opts.max_batch > 0 ? p->opts.max_batch : 1);
        yir_str_fmt(out, "\n");
    }
}

int cg_nvrtc_compile(struct yir_arena *a, struct yir_diags *d, const struct cg_program *p, const struct cg_target *t,
                     struct cg_code *out)
{
    struct work *w = yir_alloc(a, sizeof *w);
    *out = (struct cg_code){0};
    YIR_ASSERT(t->backend == CG_CUDA && !p->opts.checked);
    if (nvrtc_load(d, &w->nv) || check_arch(a, d, &w->nv, t->arch)) return -1;
    snprintf(w->arch, sizeof w->arch, "--gpu-architecture=%s", t->arch);
    list_jobs(a, w, p);
    w->store = p->opts.objects;
    if (w->store) ask_store(a, w);
    cg_threads(worker, w, w->njob);
    struct cg_object *object = yir_alloc_n(a, w->njob, sizeof *object);
    if (collect(a, d, w, object)) return -1;
    lay_out(a, p, object, w->njob, out);
    out->compiler = yir_format(a, "NVRTC %d.%d", w->nv.version[0], w->nv.version[1]);
    return 0;
}
