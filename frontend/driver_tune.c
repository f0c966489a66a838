/* Compilation with memory: tuning, and the caches of kernels and whole modules. */
#include "driver.h"

#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/artifact.h"
#include "codegen/tune.h"
#include "runtime/yolort.h"

struct caches {
    struct cg_cachedir *folder;
    struct cg_artifacts *artifacts;
    struct cg_tunedb *records;
    const char *compiler; /* build id; set whenever artifacts are */
};

/* --- what makes the bytes ----------------------------------------------------------------------------------- */

/* The build id of the program or library that holds this code: another build of the compiler shares no results. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *user)
{
    struct yir_str *out = user;
    uintptr_t here = (uintptr_t)&find_build_id;
    bool mine = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        mine |= info->dlpi_phdr[i].p_type == PT_LOAD && here >= at && here - at < info->dlpi_phdr[i].p_memsz;
    }
    for (int i = 0; mine && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const char *note = (const char *)(info->dlpi_addr + p->p_vaddr), *end = note + p->p_memsz;
        while (p->p_type == PT_NOTE && (size_t)(end - note) >= sizeof(ElfW(Nhdr))) {
            ElfW(Nhdr) h;
            memcpy(&h, note, sizeof h);
            const char *id = note + sizeof h + (h.n_namesz + 3) / 4 * 4;
            if (h.n_type == NT_GNU_BUILD_ID)
                for (size_t k = 0; k < h.n_descsz; k++) yir_str_fmt(out, "%02x", (unsigned char)id[k]);
            note = id + (h.n_descsz + 3) / 4 * 4;
        }
    }
    return mine;
}

/* "" when the build has none: then nothing is cached. */
static const char *build_id(struct call *k)
{
    struct yir_str s = {.arena = k->arena};
    dl_iterate_phdr(find_build_id, &s);
    return s.text ? s.text : "";
}

/* --- the caches --------------------------------------------------------------------------------------------- */

static void open_caches(struct call *k, struct caches *c)
{
    const struct cg_cachedir_opts o = {.path = k->o->cache_dir};
    *c = (struct caches){0};
    if (!k->o->cache) return;
    c->compiler = build_id(k);
    if (!*c->compiler) return;
    c->folder = cg_cachedir_open(k->arena, k->diags, &o);
    if (!c->folder) return;
    c->artifacts = cg_artifacts_open(k->arena, c->folder, k->o->cache_limit);
    if (k->o->tune) c->records = cg_tunedb_open(k->arena, c->folder);
}

/* Objects made in this call, and those of earlier ones. */
struct objects {
    struct call *k;
    const struct caches *caches;
    struct object {
        const void *key, *data;
        size_t len, size;
    } * own;
    size_t n, cap;
};

static const void *object_key(struct objects *s, const void *key, size_t len, size_t *key_len)
{
    struct yir_str text = {.arena = s->k->arena};
    cg_key_text(&text, "compiler", s->caches->compiler);
    cg_key_put(&text, "kernel", key, len);
    *key_len = text.len;
    return text.text;
}

static const void *get_object(void *user, struct yir_arena *a, const void *key, size_t len, size_t *size)
{
    struct objects *s = user;
    for (size_t i = 0; i < s->n; i++)
        if (s->own[i].len == len && !memcmp(s->own[i].key, key, len)) {
            *size = s->own[i].size;
            return s->own[i].data;
        }
    struct cg_artifact_key k = {.kind = "kernel"};
    if (!s->caches->artifacts) return NULL;
    k.bytes = object_key(s, key, len, &k.len);
    return cg_artifact_get(s->caches->artifacts, a, &k, size);
}

static void put_object(void *user, const void *key, size_t len, const void *object, size_t size)
{
    struct objects *s = user;
    s->own = yir_grow(s->k->arena, s->own, &s->cap, s->n + 1, sizeof *s->own);
    void *kept = yir_alloc(s->k->arena, len + size);
    memcpy(kept, key, len);
    memcpy((char *)kept + len, object, size);
    s->own[s->n++] = (struct object){kept, (char *)kept + len, len, size};
    struct cg_artifact_key k = {.kind = "kernel"};
    if (!s->caches->artifacts) return;
    k.bytes = object_key(s, key, len, &k.len);
    cg_artifact_put(s->caches->artifacts, &k, object, size);
}

/* --- tuning ------------------------------------------------------------------------------------------------- */

#define TRIAL_PATIENCE_S 20.0 /* for a GPU to load or run a network, after which it counts as hung */
#define CUDNN_PATIENCE_S 90.0 /* the same where cuDNN compiles kernels of its own meanwhile */
#define CUDNN_SPACE (64ull << 20)

struct making {
    struct call *k;
    struct build *b;
    const struct cg_meta *meta;
    struct yir_arena *own; /* of the candidate being made */
};

/* A candidate network as a module; without the weights as they came, which no one will ask it for. */
static int candidate_in(struct call *k, const struct making *m, const struct cg_opts *o, void **bytes, size_t *size)
{
    struct build b = *m->b;
    if (call_code(k, &b, o)) return -1;
    const struct cg_variant v = {&b.target, b.program, &b.code};
    const struct cg_module out = {.meta = *m->meta, .front = b.front, .strip = true, .variant = &v, .nvariant = 1};
    return cg_module_write(k->arena, k->diags, &out, bytes, size);
}

/* Frees the arena of a candidate that memory ran out for. */
static void free_candidate(void *user)
{
    struct making *m = user;
    yir_arena_free(m->own);
    m->own = NULL;
}

/* A candidate's memory is its own: there are many, each as large as the network. */
static int make_candidate(void *user, const struct cg_opts *o, void **bytes, size_t *size)
{
    struct making *m = user;
    struct call k = *m->k;
    k.arena = m->own = call_arena(m->k);
    int rc = candidate_in(&k, m, o, bytes, size);
    free_candidate(m);
    return rc;
}

static int compile_ahead(void *user, const struct cg_program *all)
{
    const struct making *m = user;
    struct cg_code code;
    return cg_nvrtc_compile(m->k->arena, m->k->diags, all, &m->b->target, &code);
}

static void tune_progress(void *user, const char *what, int done, int total, double left)
{
    struct making *m = user;
    char text[96];
    snprintf(text, sizeof text, "tuning, %.0f s left: %s", ceil(left), what);
    call_progress(m->k, text, done, total);
}

static bool is_stopped(void *user)
{
    const struct call *k = ((struct making *)user)->k;
    return k->o->stop && k->o->stop(k->o->user) != 0;
}

static void tell_candidate(void *user, const char *label, const char *config, double cycles, double ms)
{
    struct call *k = ((struct making *)user)->k;
    if (k->o->dump) k->o->dump(k->o->user, "candidate", yir_format(k->arena, "%9.4f ms, %11.0f cycles predicted: %s, %s", ms, cycles, config, label));
}

static void note_tuned(struct call *k, const struct cg_tuned *t, bool kept)
{
    k->c->tuning = (yoloc_tuning){.size = sizeof k->c->tuning,
                                  .kernels = t->groups,
                                  .known = t->known,
                                  .measured = t->measured,
                                  .left = t->left,
                                  .changed = t->changed,
                                  .before_ms = t->before_ms,
                                  .after_ms = t->after_ms,
                                  .kept = kept};
}

yoloc_status yoloc_last_tuning(const yoloc *c, yoloc_tuning *t)
{
    if (!c || !t || !c->tuning.size) return YOLOC_USAGE;
    size_t size = t->size;
    memcpy(t, &c->tuning, size < sizeof *t ? size : sizeof *t);
    t->size = size;
    return YOLOC_OK;
}

/* What makes the code whose times are kept. NULL after reporting. */
static const char *code_versions(struct call *k, const struct build *b)
{
    const char *compiler = "";
    if (b->target.backend == CG_CUDA)
        compiler = cg_nvrtc_version(k->arena, k->diags);
#ifdef YOLOC_LLVM
    else
        compiler = cg_llvm_version(k->arena, k->diags, &b->target);
#endif
    return compiler ? yir_format(k->arena, "yoloc " YOLOC_VERSION_TEXT ", %s, checked %d%s", compiler, k->o->checked != 0,
                                 b->precision.tf32 ? ", tf32" : "")
                    : NULL;
}

static struct cg_tune_cudnn cudnn_of(struct call *k, bool gpu)
{
    struct cg_tune_cudnn c = {.deterministic = k->o->deterministic != 0, .most_space = k->o->cudnn_workspace ? k->o->cudnn_workspace : CUDNN_SPACE};
    if (gpu && !k->o->no_cudnn) (void)yolort_cudnn(&c.version, NULL, 0);
    return c;
}

static int tune(struct call *k, struct build *b, const struct cg_meta *meta, const struct caches *c, struct cg_opts *co)
{
    struct making *m = yir_alloc(k->arena, sizeof *m);
    *m = (struct making){.k = k, .b = b, .meta = meta};
    yir_arena_defer(k->arena, free_candidate, m);
    struct cg_tuned tuned;
    int threads = k->o->tune_threads > 0 ? k->o->tune_threads : yolort_cpu_threads();
    bool gpu = b->target.backend == CG_CUDA;
    const struct cg_tune_cudnn cudnn = cudnn_of(k, gpu);
    double patience_s = cudnn.version ? CUDNN_PATIENCE_S : TRIAL_PATIENCE_S;
    struct cg_trials *trials = cg_trials_new(k->arena, threads, gpu, patience_s);
    const char *versions = code_versions(k, b);
    if (!versions) return -1;
    struct cg_tune_opts o = {.mode = k->o->tune == 1 ? CG_TUNE_FAST : CG_TUNE_FULL,
                             .budget_s = k->o->tune_budget,
                             .threads = threads,
                             .trials = trials,
                             .versions = versions,
                             .cudnn = cudnn,
                             .db = c->records,
                             .folder = c->folder,
                             .make = make_candidate,
                             .ahead = gpu ? compile_ahead : NULL,
                             .stop = is_stopped,
                             .progress = tune_progress,
                             .report = k->o->tune_report ? tell_candidate : NULL,
                             .user = m};
    if (cg_tune(k->arena, k->diags, b->fused, &b->target, co, &o, &tuned)) return -1;
    co->choose = tuned.choose;
    co->engine = tuned.engine;
    co->choose_user = tuned.choose_user;
    co->choices = tuned.choices;
    note_tuned(k, &tuned, cg_tunedb_keeps(c->records));
    return 0;
}

/* --- whole modules ------------------------------------------------------------------------------------------ */

/* All that decides a module's bytes but how it was tuned. */
static struct yir_str module_text(struct call *k, const char *compiler, const struct build *b, uint32_t n, const struct cg_meta *m)
{
    const yoloc_opts *o = k->o;
    struct yir_str key = {.arena = k->arena}, ir = {.arena = k->arena};
    yir_print(&ir, b->front, YIR_PRINT_LOCS);
    cg_key_text(&key, "compiler", compiler);
    cg_key_text(&key, "ir", ir.text);
    cg_key_text(&key, "meta", yir_format(k->arena, "%s|%s|%d|%d|%d|%d|%d|%d|%d|%d|%a|%a|%s|%s|%s", m->model, m->task, m->head, (int)m->letterbox,
                                         m->nc, m->height, m->width, m->max_batch, m->stride, m->max_det, m->conf, m->iou,
                                         m->weights_from, m->options, m->precision));
    for (int i = 0; i < m->nc; i++) cg_key_text(&key, "name", m->names[i]);
    cg_key_put(&key, "weights", m->weights_digest, sizeof m->weights_digest);
    for (uint32_t i = 0; i < n; i++)
        cg_key_text(&key, "target", yir_format(k->arena, "%s %s", b[i].target.text, b[i].target.features));
    cg_key_text(&key, "options", yir_format(k->arena, "strip %d, skip %s, limit %d", o->strip, o->skip_passes ? o->skip_passes : "",
                                            o->pass_limit));
    return key;
}

static struct cg_artifact_key module_key(struct call *k, const struct yir_str *text, int tune)
{
    struct yir_str key = {.arena = k->arena};
    int threads = k->o->tune_threads > 0 ? k->o->tune_threads : yolort_cpu_threads();
    if (!tune) return (struct cg_artifact_key){"module", text->text, text->len};
    yir_str_put(&key, text->text, text->len);
    const struct cg_tune_cudnn c = cudnn_of(k, strstr(k->o->target, "cuda:") != NULL);
    if (c.version) cg_key_text(&key, "cudnn", yir_format(k->arena, "%d, %llu, %d", c.version, (unsigned long long)c.most_space, c.deterministic));
    cg_key_text(&key, "tuned", yir_format(k->arena, "%d, threads %d, %s, %s", tune, threads, cg_cpu_name(k->arena), cg_gpu_names(k->arena)));
    return (struct cg_artifact_key){"module", key.text, key.len};
}

/* A module that was tuned more thoroughly than is asked for is as good. */
static bool stored_module(struct call *k, struct caches *c, const struct yir_str *text, yoloc_result *out)
{
    for (int tune = k->o->tune ? 2 : 0; tune >= k->o->tune; tune--) {
        struct cg_artifact_key key = module_key(k, text, tune);
        void *bytes = cg_artifact_take(c->artifacts, &key, &out->size);
        if (bytes) {
            out->bytes = bytes;
            return true;
        }
    }
    return false;
}

/* What is tuned in part only is not kept: the next time the rest is measured. */
static void store_module(struct call *k, struct caches *c, const struct yir_str *text, const yoloc_result *out)
{
    struct cg_artifact_key key = module_key(k, text, k->o->tune);
    if (!k->c->tuning.left) cg_artifact_put(c->artifacts, &key, out->bytes, out->size);
}

/* The targets of a list like "cuda:sm_86,cpu:native", each once. NULL after reporting. */
static struct build *find_targets(struct call *k, const struct build *b, uint32_t *n)
{
    struct build *out = yir_alloc_n(k->arena, YM_MAX_TARGETS, sizeof *out);
    const char *p = k->o->target;
    for (*n = 0; *p || !*n; p += *p == ',') {
        size_t len = strcspn(p, ",");
        const char *text = yir_format(k->arena, "%.*s", (int)len, p);
        if (*n == YM_MAX_TARGETS) {
            yir_diag(k->diags, (struct yir_loc){0}, E_LIMIT, "a module holds at most %u targets", YM_MAX_TARGETS);
            return NULL;
        }
        out[*n] = *b;
        if (call_find_target(k, text, &out[*n])) return NULL;
        for (uint32_t i = 0; i < *n; i++)
            if (!strcmp(out[i].target.text, out[*n].target.text)) {
                yir_diag(k->diags, (struct yir_loc){0}, E_TARGET, "the target %s is there twice", out[i].target.text);
                return NULL;
            }
        ++*n;
        p += len;
    }
    if (*n == 1 || (!k->o->tune && !k->o->keep_dir)) return out;
    yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, "tuning and kept kernels are for one target at a time");
    return NULL;
}

int call_build_module(struct call *k, struct build *b, const struct cg_meta *meta, yoloc_result *out)
{
    struct caches c;
    struct objects objects = {.k = k, .caches = &c};
    struct yir_str text = {0}, llvm_text = {.arena = k->arena};
    const struct cg_object_store store = {get_object, put_object, &objects};
    struct cg_opts co = {.no_fast = k->o->no_fast != 0, .checked = k->o->checked != 0, .max_batch = meta->max_batch, .objects = &store};
    uint32_t n;
    k->c->tuning = (yoloc_tuning){0};
    struct build *each = find_targets(k, b, &n);
    if (!each) return -1;
    if (k->o->keep_dir) each->llvm_text = &llvm_text;
    open_caches(k, &c);
    bool whole = c.artifacts && !k->o->keep_dir && !k->o->dump_after && !k->o->time_passes && !k->o->verify_each &&
                 !k->o->tune_report;
    if (whole) text = module_text(k, c.compiler, each, n, meta);
    if (whole && k->o->cache == 1 && stored_module(k, &c, &text, out)) return 0;
    for (uint32_t i = 1; i < n; i++) {
        each->apart = each->apart || each[i].apart;
        each->whole_attention = each->whole_attention && each[i].whole_attention;
    }
    if (call_passes(k, each, meta->max_batch)) return -1;
    if (k->o->tune && tune(k, each, meta, &c, &co)) return -1;
    for (uint32_t i = 0; i < n; i++) {
        each[i].fused = each->fused;
        if (call_code(k, &each[i], &co)) return -1;
    }
    if (k->o->keep_dir && call_keep(k, each)) return -1;
    call_progress(k, "module", 0, 1);
    if (call_module(k, each, n, meta, &out->bytes, &out->size)) return -1;
    if (whole) store_module(k, &c, &text, out);
    return 0;
}
