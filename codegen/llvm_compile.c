#include "kb_llvm.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Kernels come blocked for registers, with loops in their final form: what is left to do is variables to
 * registers, common parts and constants of addresses, and invariants out of loops. As fast as default<O3> on
 * such kernels, in a third of the time. no-verify-fixpoint: named in a pipeline, instcombine is in a testing
 * mode that aborts. */
static const char passes[] =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),"
    "gvn,instcombine<no-verify-fixpoint>,simplifycfg)";

/* One distinct kernel; filled by one thread. Each has a module (and an object) of its own, so that neither
 * the number of threads nor the other kernels change its bytes. */
struct job {
    const struct cg_kernel *kernel;
    LLVMValueRef *value;      /* working memory of the renderer */
    struct yir_str key;       /* in the store of objects */
    const void *stored;       /* object that the store had, and its size */
    size_t stored_size;
    LLVMMemoryBufferRef code; /* NULL: failed */
    char *text;
    char error[256];
};

struct work {
    struct llvm_api ll;
    const struct cg_target *t;
    bool checked, want_text;
    const struct cg_object_store *store;
    struct job *job;
    uint32_t njob;
    atomic_uint next;
};

static void fail(struct job *j, const char *text)
{
    if (!j->error[0]) snprintf(j->error, sizeof j->error, "%s", text);
}

/* Takes LLVM's message, which may be NULL. */
static void fail_message(const struct llvm_api *ll, struct job *j, char *message)
{
    fail(j, message && *message ? message : "LLVM gave no reason");
    if (message) ll->DisposeMessage(message);
}

struct listener {
    const struct llvm_api *ll;
    struct job *job;
};

/* LLVM's own handler prints, and ends the process on errors. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    struct listener *l = user;
    if (l->ll->GetDiagInfoSeverity(info) != LLVMDSError) return;
    char *text = l->ll->GetDiagInfoDescription(info);
    fail(l->job, text);
    l->ll->DisposeMessage(text);
}

static bool optimise(const struct llvm_api *ll, struct job *j, LLVMModuleRef m, LLVMTargetMachineRef tm)
{
    LLVMPassBuilderOptionsRef o = ll->CreatePassBuilderOptions();
    LLVMErrorRef e = ll->RunPasses(m, passes, tm, o);
    ll->DisposePassBuilderOptions(o);
    if (!e) return true;
    char *text = ll->GetErrorMessage(e);
    fail(j, text);
    ll->DisposeErrorMessage(text);
    return false;
}

static void set_layout(const struct work *w, LLVMModuleRef m, LLVMTargetMachineRef tm)
{
    LLVMTargetDataRef layout = w->ll.CreateTargetDataLayout(tm);
    w->ll.SetTarget(m, w->t->triple);
    w->ll.SetModuleDataLayout(m, layout);
    w->ll.DisposeTargetData(layout);
}

static void build(const struct work *w, struct job *j, LLVMContextRef cx, LLVMModuleRef m,
                  LLVMTargetMachineRef tm)
{
    const struct llvm_api *ll = &w->ll;
    char *message = NULL;
    set_layout(w, m, tm);
    kb_llvm_function(ll, m, cx, j->kernel->prog, w->t, j->kernel->symbol, w->checked, j->value);
    if (w->want_text) j->text = ll->PrintModuleToString(m);
    if (ll->VerifyModule(m, LLVMReturnStatusAction, &message)) {
        fail_message(ll, j, message);
        return;
    }
    ll->DisposeMessage(message);
    if (!optimise(ll, j, m, tm)) return;
    message = NULL;
    if (ll->TargetMachineEmitToMemoryBuffer(tm, m, LLVMObjectFile, &message, &j->code)) {
        j->code = NULL;
        fail_message(ll, j, message);
    }
}

static void run_job(const struct work *w, struct job *j, LLVMTargetMachineRef tm)
{
    struct listener l = {&w->ll, j};
    LLVMContextRef cx = w->ll.ContextCreate();
    w->ll.ContextSetDiagnosticHandler(cx, on_diagnostic, &l);
    LLVMModuleRef m = w->ll.ModuleCreateWithNameInContext(j->kernel->symbol, cx);
    build(w, j, cx, m, tm);
    w->ll.DisposeModule(m);
    w->ll.ContextDispose(cx);
}

/* A target machine is not shared between threads. NULL after failing the job. */
static LLVMTargetMachineRef machine(const struct work *w, struct job *j)
{
    LLVMTargetRef target;
    char *message = NULL;
    if (w->ll.GetTargetFromTriple(w->t->triple, &target, &message)) {
        fail_message(&w->ll, j, message);
        return NULL;
    }
    LLVMTargetMachineRef tm =
        w->ll.CreateTargetMachine(target, w->t->triple, w->t->cpu, w->t->features, LLVMCodeGenLevelDefault,
                                  LLVMRelocPIC, LLVMCodeModelSmall);
    if (!tm) fail(j, "LLVM has no machine for the target");
    return tm;
}

static void *worker(void *arg)
{
    struct work *w = arg;
    LLVMTargetMachineRef tm = NULL;
    for (;;) {
        unsigned i = atomic_fetch_add(&w->next, 1);
        if (i >= w->njob) break;
        if (w->job[i].stored) continue;
        if (!tm) tm = machine(w, &w->job[i]);
        if (tm) run_job(w, &w->job[i], tm);
    }
    if (tm) w->ll.DisposeTargetMachine(tm);
    return NULL;
}

static void list_jobs(struct yir_arena *a, struct work *w, const struct cg_program *p)
{
    w->job = yir_alloc_n(a, p->nkernel, sizeof *w->job);
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_kernel *k = &p->kernel[i];
        if (k->same_as != i) continue;
        struct job *j = &w->job[w->njob++];
        j->kernel = k;
        j->value = yir_alloc_n(a, k->prog->nnode, sizeof *j->value);
    }
}

/* Objects that an earlier compilation made of the same program, for the same target, by the same LLVM and passes. */
static void ask_store(struct yir_arena *a, struct work *w)
{
    for (uint32_t i = 0; i < w->njob; i++) {
        struct job *j = &w->job[i];
        j->key = (struct yir_str){.arena = a};
        yir_str_fmt(&j->key, "LLVM %u.%u.%u, %s, %s, %s, %s, checked %d, %s\n", w->ll.version[0], w->ll.version[1], w->ll.version[2],
                    w->t->triple, w->t->cpu, w->t->features, passes, w->checked, j->kernel->symbol);
        yir_str_put(&j->key, j->kernel->text, j->kernel->text_len);
        j->stored = w->store->get(w->store->user, a, j->key.text, j->key.len, &j->stored_size);
    }
}

/* Copies what the threads made into the arena and gives LLVM's memory back. */
static int collect(struct yir_arena *a, struct yir_diags *d, const struct work *w, struct cg_object *object,
                   struct yir_str *text)
{
    int rc = 0;
    for (uint32_t i = 0; i < w->njob; i++) {
        const struct job *j = &w->job[i];
        if (j->text) {
            yir_str_put(text, j->text, strlen(j->text));
            w->ll.DisposeMessage(j->text);
        }
        if (j->stored) {
            object[i] = (struct cg_object){.data = j->stored, .size = j->stored_size, .symbol = j->kernel->symbol};
            continue;
        }
        if (!j->code || j->error[0])
            rc = yir_diag(d, (struct yir_loc){0}, E_LLVM, "kernel %s (%s): %s", j->kernel->symbol,
                          j->kernel->label, j->error);
        if (!j->code) continue;
        size_t size = w->ll.GetBufferSize(j->code);
        void *data = yir_alloc(a, size);
        memcpy(data, w->ll.GetBufferStart(j->code), size);
        object[i] = (struct cg_object){.data = data, .size = size, .symbol = j->kernel->symbol};
        w->ll.DisposeMemoryBuffer(j->code);
        if (w->store) w->store->put(w->store->user, j->key.text, j->key.len, data, size);
    }
    return rc;
}

static void set_entries(struct yir_arena *a, const struct cg_program *p, struct cg_code *out)
{
    out->entry = yir_alloc_n(a, p->nkernel, sizeof *out->entry);
    for (uint32_t i = 0, n = 0; i < p->nkernel; i++) {
        uint32_t first = p->kernel[i].same_as;
        out->entry[i] = first == i ? out->object[n++].entry : out->entry[first];
    }
}

const char *cg_llvm_version(struct yir_arena *a, struct yir_diags *d, const struct cg_target *t)
{
    struct llvm_api ll;
    if (llvm_load(d, t->arch, &ll)) return NULL;
    return yir_format(a, "LLVM %u.%u.%u", ll.version[0], ll.version[1], ll.version[2]);
}

int cg_llvm_compile(struct yir_arena *a, struct yir_diags *d, const struct cg_program *p,
                    const struct cg_target *t, struct cg_code *out, struct yir_str *llvm_text)
{
    struct work *w = yir_alloc(a, sizeof *w);
    *out = (struct cg_code){0};
    if (llvm_load(d, t->arch, &w->ll)) return -1;
    w->t = t;
    w->checked = p->opts.checked;
    w->want_text = llvm_text != NULL;
    list_jobs(a, w, p);
    w->store = llvm_text ? NULL : p->opts.objects;
    if (w->store) ask_store(a, w);
    cg_threads(worker, w, w->njob);
    struct cg_object *object = yir_alloc_n(a, w->njob, sizeof *object);
    if (collect(a, d, w, object, llvm_text)) return -1;
    void *blob;
    if (cg_flatten(a, d, object, w->njob, &blob, &out->size)) return -1;
    out->blob = blob;
    out->object = object;
    out->nobject = w->njob;
    out->compiler = yir_format(a, "LLVM %u.%u.%u", w->ll.version[0], w->ll.version[1], w->ll.version[2]);
    set_entries(a, p, out);
    return 0;
}
