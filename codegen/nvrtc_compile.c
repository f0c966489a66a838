/* CUDA C of kernels to cubins, without a GPU. */
#include <ctype.h>
#include <pthread.h>
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
    char *cubin;            /* malloc'ed, freed with the arena; NULL: failed */
    size_t size;
    char error[512];
};

struct work {
    struct nvrtc_api nv;
    char arch[32];          /* option */
    const struct cg_object_store *store;
    struct job *job;
    uint32_t njob;
    struct job **turn; /* [nturn] that are to be made, in the order in which threads take them */
    uint32_t nturn;
    atomic_uint next;
    struct cg_team team;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct job **done; /* [ndone], as they end; under the lock */
    uint32_t ndone;
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
        if (i >= w->nturn) return NULL;
        compile(w, w->turn[i]);
        pthread_mutex_lock(&w->lock);
        w->done[w->ndone++] = w->turn[i];
        pthread_cond_signal(&w->ended);
        pthread_mutex_unlock(&w->lock);
    }
}

/* Waits for the i-th job that ends. */
static struct job *next_done(struct work *w, uint32_t i)
{
    pthread_mutex_lock(&w->lock);
    while (w->ndone <= i) pthread_cond_wait(&w->ended, &w->lock);
    struct job *j = w->done[i];
    pthread_mutex_unlock(&w->lock);
    return j;
}

static void free_work(void *work)
{
    struct work *w = work;
    atomic_store(&w->next, w->nturn); /* where memory ran out meanwhile, what is not begun is not wanted any more */
    cg_team_end(&w->team);
    for (uint32_t i = 0; i < w->njob; i++) free(w->job[i].cubin);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
}

/* Makes what is to be made. The store waits for the disk with each object: while others are compiled, that takes no time. */
static void make_all(struct yir_arena *a, struct work *w)
{
    w->done = yir_alloc_n(a, w->nturn, sizeof *w->done);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->ended, NULL);
    yir_arena_defer(a, free_work, w);
    cg_team_begin(&w->team, worker, w, w->nturn);
    for (uint32_t i = 0; i < w->nturn; i++) {
        const struct job *j = next_done(w, i);
        if (w->store && !j->error[0]) w->store->put(w->store->user, j->key.text, j->key.len, j->cubin, j->size);
    }
    cg_team_end(&w->team);
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

static int longer_first(const void *x, const void *y)
{
    const struct job *a = *(struct job *const *)x, *b = *(struct job *const *)y;
    if (a->text.len != b->text.len) return a->text.len > b->text.len ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* A long text takes long: begun last, it would keep one thread busy when the others have ended. */
static void order_jobs(struct yir_arena *a, struct work *w)
{
    w->turn = yir_alloc_n(a, w->njob, sizeof *w->turn);
    for (uint32_t i = 0; i < w->njob; i++)
        if (!w->job[i].stored) w->turn[w->nturn++] = &w->job[i];
    qsort(w->turn, w->nturn, sizeof *w->turn, longer_first);
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

static int collect(struct yir_diags *d, const struct work *w, struct cg_object *object)
{
    int rc = 0;
    for (uint32_t i = 0; i < w->njob; i++) {
        const struct job *j = &w->job[i];
        bool made = !j->stored;
        object[i] = (struct cg_object){.data = made ? j->cubin : j->stored, .size = made ? j->size : j->stored_size, .symbol = j->symbol};
        if (j->error[0]) rc = yir_diag(d, (struct yir_loc){0}, E_NVRTC, "kernel %s (%s): %s", j->symbol, j->label, j->error);
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
    order_jobs(a, w);
    make_all(a, w);
    struct cg_object *object = yir_alloc_n(a, w->njob, sizeof *object);
    if (collect(d, w, object)) return -1;
    lay_out(a, p, object, w->njob, out);
    out->compiler = yir_format(a, "NVRTC %d.%d", w->nv.version[0], w->nv.version[1]);
    return 0;
}
