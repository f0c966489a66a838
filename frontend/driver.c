/* The compiler behind yoloc.h: ties front end, passes and code generation together. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

uint32_t yoloc_version(void)
{
    return YOLOC_VERSION;
}

void yoloc_opts_init(yoloc_opts *o, size_t size)
{
    yoloc_opts d = {.size = size, .pass_limit = -1};
    if (o) memcpy(o, &d, size < sizeof d ? size : sizeof d);
}

static const char *keep(yoloc *c, const char *s)
{
    return s ? yir_strdup(c->arena, s) : NULL;
}

yoloc_status call_no_memory(const yoloc_opts *o)
{
    const yoloc_diag d = {2, yir_diag_number(E_MEMORY), "error: memory ran out [E004]"};
    if (o->diag) o->diag(o->user, &d);
    return YOLOC_RESOURCE;
}

/* false after telling what is wrong with the options' limits. */
static bool set_limits(yoloc *c)
{
    char why[256], text[320];
    yir_limits_init(&c->limits);
    c->limits.allow_bad_crc = c->opts.allow_bad_crc != 0;
    if (!c->opts.limits || !yir_limits_parse(&c->limits, c->opts.limits, why, sizeof why)) return true;
    snprintf(text, sizeof text, "error: %s [E%03u]", why, yir_diag_number(E_USAGE));
    const yoloc_diag d = {2, yir_diag_number(E_USAGE), text};
    if (c->opts.diag) c->opts.diag(c->opts.user, &d);
    return false;
}

yoloc_status yoloc_limit(const char *limits, const char *name, uint64_t *value, char *error, size_t error_size)
{
    struct yir_limits l;
    char why[256];
    if (!name || !value) return YOLOC_USAGE;
    yir_limits_init(&l);
    const char *wrong = limits ? yir_limits_parse(&l, limits, why, sizeof why) : NULL;
    if (!wrong && yir_limits_get(&l, name, value)) return YOLOC_OK;
    if (error && error_size) snprintf(error, error_size, "%s", wrong ? wrong : "there is no such limit");
    return YOLOC_USAGE;
}

/* Memory for the handle itself ran out while it was being made. */
static void open_oom(void *user)
{
    longjmp(*(jmp_buf *)user, 1);
}

yoloc_status yoloc_open(yoloc **out, const yoloc_opts *o)
{
    if (!out || (o && o->size < offsetof(yoloc_opts, target))) return YOLOC_USAGE;
    jmp_buf oom;
    yoloc_opts opts;
    yoloc_opts_init(&opts, sizeof opts);
    if (o) memcpy(&opts, o, o->size < sizeof opts ? o->size : sizeof opts);
    yoloc *volatile c = calloc(1, sizeof *c);
    if (!c) return call_no_memory(&opts);
    if (setjmp(oom)) {
        yoloc_close(c);
        return call_no_memory(&opts);
    }
    c->opts = opts;
    c->arena = yir_arena_new(open_oom, &oom);
    if (!c->arena) {
        free(c);
        return call_no_memory(&opts);
    }
    c->target_given = c->opts.target != NULL;
    c->opts.target = keep(c, c->opts.target ? c->opts.target : "cpu:native");
    c->opts.scale = keep(c, c->opts.scale);
    c->opts.head = keep(c, c->opts.head);
    c->opts.skip_passes = keep(c, c->opts.skip_passes);
    c->opts.dump_after = keep(c, c->opts.dump_after);
    c->opts.keep_dir = keep(c, c->opts.keep_dir);
    c->opts.limits = keep(c, c->opts.limits);
    c->opts.module_name = keep(c, c->opts.module_name ? c->opts.module_name : "module");
    c->opts.cache_dir = keep(c, c->opts.cache_dir);
    c->opts.precision = keep(c, c->opts.precision);
    c->opts.precision_file = keep(c, c->opts.precision_file);
    if (!set_limits(c)) {
        yoloc_close(c);
        return YOLOC_USAGE;
    }
    *out = c;
    return YOLOC_OK;
}

void yoloc_close(yoloc *c)
{
    if (!c) return;
    yir_arena_free(c->arena);
    free(c);
}

void yoloc_free_result(yoloc_result *r)
{
    if (!r) return;
    free(r->bytes);
    *r = (yoloc_result){0};
}

/* --- one call ----------------------------------------------------------------------------------------------- */

static void tell(void *user, const struct yir_diag *d)
{
    const struct call *k = user;
    const yoloc_diag out = {d->severity == YIR_ERROR ? 2 : d->severity == YIR_WARNING ? 1 : 0, yir_diag_number(d->id),
                            d->rendered};
    if (k->o->diag) k->o->diag(k->o->user, &out);
}

static void call_oom(void *user)
{
    struct call *k = user;
    longjmp(k->oom, 1);
}

static yoloc_status status_of(const struct call *k, int result)
{
    if (!result) return YOLOC_OK;
    switch (yir_diag_class(k->diags)) {
    case YIR_CLASS_USAGE: return YOLOC_USAGE;
    case YIR_CLASS_RESOURCE: return YOLOC_RESOURCE;
    default: return YOLOC_INPUT;
    }
}

yoloc_status call_run(yoloc *c, int (*body)(struct call *, void *arg), void *arg)
{
    if (!c) return YOLOC_USAGE;
    struct call k = {.c = c, .o = &c->opts};
    k.arena = yir_arena_new(call_oom, &k);
    if (!k.arena) return call_no_memory(k.o);
    yoloc_status s;
    if (setjmp(k.oom)) {
        s = call_no_memory(k.o);
    } else {
        k.types = yir_types_new(k.arena);
        k.diags = yir_diags_new(k.arena, tell, &k);
        yir_diags_set_limits(k.diags, &c->limits);
        int result = body(&k, arg);
        s = status_of(&k, result);
    }
    yir_arena_free(k.arena);
    return s;
}

struct yir_arena *call_arena(struct call *k)
{
    struct yir_arena *a = yir_arena_new(call_oom, k);
    if (!a) call_oom(k);
    return a;
}

void call_progress(const struct call *k, const char *what, int done, int total)
{
    if (k->o->progress) k->o->progress(k->o->user, what, done, total);
}

int call_result(struct call *k, const char *text, size_t len, yoloc_result *out)
{
    char *p = malloc(len + 1);
    if (!p) return yir_diag(k->diags, (struct yir_loc){0}, E_MEMORY, "no memory for the result");
    if (len) memcpy(p, text, len);
    p[len] = 0;
    *out = (yoloc_result){p, len};
    return 0;
}

/* --- model and weights -------------------------------------------------------------------------------------- */

static bool has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && !strcmp(s + n - m, suffix);
}

static int open_weights(struct call *k, struct source *s, const char *path)
{
    call_progress(k, "weights", 0, 1);
    s->w = fe_weights_open(k->arena, k->diags, path, NULL);
    return s->w ? 0 : -1;
}

/* The description: a yaml file, or the one inside the weights. */
static const struct fe_value *description(struct call *k, struct source *s)
{
    if (has_suffix(s->model, ".yaml") || has_suffix(s->model, ".yml")) {
        if (s->weights && strcmp(s->weights, "rule") && open_weights(k, s, s->weights)) return NULL;
        return fe_yaml_read(k->arena, k->diags, fe_model_file(k->arena, s->model));
    }
    const struct fe_weights *graph;
    if (open_weights(k, s, s->model)) return NULL;
    graph = s->w;
    if (!graph->yaml) {
        yir_diag(k->diags, (struct yir_loc){.file = graph->file}, E_NO_GRAPH,
                 "no model description inside; give the yaml and pass this file with --weights");
        return NULL;
    }
    if (s->weights && !strcmp(s->weights, "rule")) s->w = NULL;
    if (s->weights && s->w && open_weights(k, s, s->weights)) return NULL;
    return graph->yaml;
}

int call_model(struct call *k, struct source *s)
{
    const yoloc_opts *o = k->o;
    bool rule = s->weights && !strcmp(s->weights, "rule");
    if (o->head && strcmp(o->head, "one2many") && strcmp(o->head, "one2one"))
        return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, "the head must be one2many or one2one, not %s", o->head);
    const struct fe_value *root = description(k, s);
    if (!root) return -1;
    if (s->wants_weights && !s->w && !rule)
        return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE,
                        "a model description alone can't be compiled: give --weights FILE, or --weights rule for made-up ones");
    struct fe_model_opts mo = {.path = s->model,
                               .scale = o->scale,
                               .nc = o->nc,
                               .batch = o->batch ? o->batch : 1,
                               .height = o->height,
                               .width = o->width,
                               .layers = o->layers != 0,
                               .one2one = o->head && !strcmp(o->head, "one2one"),
                               .weights = s->w,
                               .rule = rule,
                               .strict = o->strict != 0};
    s->fe = fe_model_build(k->arena, k->types, k->diags, root, &mo);
    return s->fe && !yir_diag_errors(k->diags) ? 0 : -1;
}

/* --- passes and code ---------------------------------------------------------------------------------------- */

static void pass_dump(void *user, const char *pass, const char *text, double ms)
{
    const struct call *k = user;
    char head[96];
    snprintf(head, sizeof head, "after %s (%.2f ms)", pass, ms);
    if (k->o->dump) k->o->dump(k->o->user, head, text);
}

static void pass_timing(void *user, const char *pass, double ms)
{
    const struct call *k = user;
    char line[64];
    snprintf(line, sizeof line, "%8.2f ms  %s", ms, pass);
    if (k->o->dump) k->o->dump(k->o->user, "time", line);
}

struct pass_opts call_pass_opts(struct call *k, const struct precision *p, int max_batch, bool reuse)
{
    struct pass_opts po;
    pass_opts_init(&po);
    po.precision = p->dtype;
    po.layer = p->layer;
    po.nlayer = p->nlayer;
    if (max_batch) po.max_batch = max_batch;
    po.fuse = !k->o->no_fuse;
    po.reuse = reuse && !k->o->no_reuse;
    po.strict = k->o->strict != 0;
    po.verify_each = k->o->verify_each != 0;
    po.limit = k->o->pass_limit;
    po.skip = k->o->skip_passes;
    po.dump_after = k->o->dump_after;
    po.dump = pass_dump;
    po.timing = k->o->time_passes ? pass_timing : NULL;
    po.user = k;
    return po;
}

int call_passes(struct call *k, struct build *b, int max_batch)
{
    struct pass_opts po = call_pass_opts(k, &b->precision, max_batch, !b->no_reuse);
    po.fuse = po.fuse && !b->no_fuse;
    po.apart = b->apart;
    po.whole_attention = b->whole_attention;
    call_progress(k, "passes", 0, 1);
    b->fused = pass_run_all(b->front, k->diags, &po);
    return b->fused ? 0 : -1;
}

int call_target(struct call *k, const char *text, struct cg_target *out)
{
    return cg_target_find(k->arena, k->diags, text, out);
}

static int native_code(struct call *k, struct build *b)
{
    if (b->target.backend == CG_CUDA) return cg_nvrtc_compile(k->arena, k->diags, b->program, &b->target, &b->code);
#ifdef YOLOC_LLVM
    return cg_llvm_compile(k->arena, k->diags, b->program, &b->target, &b->code, b->llvm_text);
#else
    (void)b;
    return yir_diag(k->diags, (struct yir_loc){0}, E_LLVM, "this build has no LLVM (YOLOC_LLVM=OFF) and can't make code for CPUs");
#endif
}

int call_find_target(struct call *k, const char *text, struct build *b)
{
    if (call_target(k, text, &b->target)) return -1;
    b->apart = b->whole_attention = b->target.backend == CG_CUDA;
    if (b->target.backend == CG_REF)
        return yir_diag(k->diags, (struct yir_loc){0}, E_TARGET, "%s is the evaluator that `yoloc verify` compares kernels with, and makes no code", text);
    if (call_precision_target(k, &b->precision, &b->target)) return -1;
    if (b->target.backend == CG_CUDA && k->o->checked)
        return yir_diag(k->diags, (struct yir_loc){0}, E_TARGET, "%s: kernels for GPUs can't check their bounds", text);
    return 0;
}

int call_code(struct call *k, struct build *b, const struct cg_opts *o)
{
    b->program = cg_kernels(k->arena, b->fused, &b->target, o);
    if (!o->choose) call_progress(k, "kernels", 0, (int)b->program->nkernel);
    return native_code(k, b);
}

int call_compile(struct call *k, struct build *b, const char *target, int max_batch)
{
    const struct cg_opts co = {.no_fast = k->o->no_fast != 0, .checked = k->o->checked != 0, .max_batch = max_batch};
    if (call_find_target(k, target, b) || call_passes(k, b, max_batch)) return -1;
    return call_code(k, b, &co);
}

struct yir_func *call_resize(struct call *k, struct yir_func *front, struct cg_meta *meta, int height, int width, int batch)
{
    int stride = meta->stride;
    if (height) meta->height = (height + stride - 1) / stride * stride;
    if (width) meta->width = (width + stride - 1) / stride * stride;
    if (batch) meta->max_batch = batch;
    yir_type ty[8];
    if (!front->ninput || front->ninput > YIR_COUNT(ty)) {
        yir_diag(k->diags, (struct yir_loc){0}, E_IR_VERIFY, "the network has %u inputs", front->ninput);
        return NULL;
    }
    for (uint32_t i = 0; i < front->ninput; i++) {
        struct yir_tdesc d = *yir_tdesc(front->types, front->input[i].type);
        if (!d.rank) {
            yir_diag(k->diags, (struct yir_loc){0}, E_IR_VERIFY, "the input %s has no batch", front->input[i].name);
            return NULL;
        }
        d.dim[0] = meta->max_batch;
        if (d.rank == 4) { /* a picture; what stands beside it has no size */
            d.dim[2] = meta->height;
            d.dim[3] = meta->width;
        }
        ty[i] = yir_type_of(front->types, &d);
    }
    return yir_retype(front, ty);
}

int call_module(struct call *k, const struct build *b, uint32_t n, const struct cg_meta *meta, void **bytes, size_t *size)
{
    struct cg_variant *v = yir_alloc_n(k->arena, n, sizeof *v);
    for (uint32_t i = 0; i < n; i++) v[i] = (struct cg_variant){&b[i].target, b[i].program, &b[i].code};
    const struct cg_module m = {.meta = *meta, .front = b->front, .strip = k->o->strip != 0, .variant = v, .nvariant = n};
    return cg_module_write(k->arena, k->diags, &m, bytes, size);
}

/* --- compile ------------------------------------------------------------------------------------------------ */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The options that decide what the kernels are, for whoever looks at the module later. */
static const char *option_text(struct call *k)
{
    const yoloc_opts *o = k->o;
    return yir_format(k->arena, "%s%s%s%s%s", o->layers ? "layers " : "", o->no_fast ? "no-fast " : "",
                      o->no_fuse ? "no-fuse " : "", o->no_reuse ? "no-reuse " : "", o->checked ? "checked " : "");
}

static struct cg_meta meta_of(struct call *k, const struct source *s)
{
    const struct fe_model *m = s->fe;
    struct cg_meta out = {.model = m->name,
                          .task = m->task,
                          .weights_from = s->w ? base_name(s->w->path) : "rule",
                          .options = option_text(k),
                          .head = (int)m->head,
                          .letterbox = m->letterbox,
                          .nc = m->nc,
                          .height = m->height,
                          .width = m->width,
                          .max_batch = m->batch,
                          .stride = m->stride_max,
                          .max_det = m->max_det,
                          .conf = m->conf,
                          .iou = m->iou,
                          .coefficients = m->nm,
                          .points = m->kpts,
                          .point_dims = m->kpt_dims,
                          .angles = strcmp(m->task, "obb") == 0,
                          .names = m->names};
    if (s->w) memcpy(out.weights_digest, s->w->digest, sizeof out.weights_digest);
    return out;
}

struct compile_arg {
    struct source s;
    const void *module;
    size_t size;
    yoloc_result *out;
};

static int compile_body(struct call *k, void *p)
{
    struct compile_arg *a = p;
    if (call_model(k, &a->s)) return -1;
    struct build b = {.front = a->s.fe->func};
    struct cg_meta meta = meta_of(k, &a->s);
    if (call_precision(k, b.front, NULL, &b.precision)) return -1;
    meta.precision = b.precision.text;
    return call_build_module(k, &b, &meta, a->out);
}

yoloc_status yoloc_compile(yoloc *c, const char *model, const char *weights, yoloc_result *module)
{
    if (!c || !model || !module) return YOLOC_USAGE;
    struct compile_arg a = {.s = {.model = model, .weights = weights, .wants_weights = true}, .out = module};
    return call_run(c, compile_body, &a);
}

static int recompile_body(struct call *k, void *p)
{
    struct compile_arg *a = p;
    struct cg_modview v;
    if (cg_module_open(k->arena, k->diags, k->o->module_name, a->module, a->size, &v)) return -1;
    struct build b = {.front = cg_module_front(k->arena, k->types, k->diags, &v, true)};
    if (!b.front || fe_numbers_of_func(k->diags, (struct yir_loc){v.file, 0, 0}, b.front, k->o->strict != 0)) return -1;
    if (call_precision(k, b.front, v.meta.precision, &b.precision)) return -1;
    v.meta.precision = b.precision.text;
    b.front = call_resize(k, b.front, &v.meta, k->o->height, k->o->width, k->o->batch);
    v.meta.options = yir_format(k->arena, "%s%s", strstr(v.meta.options, "layers") && !k->o->layers ? "layers " : "", option_text(k));
    return b.front ? call_build_module(k, &b, &v.meta, a->out) : -1;
}

yoloc_status yoloc_recompile(yoloc *c, const void *module, size_t size, yoloc_result *out)
{
    if (!c || !module || !out) return YOLOC_USAGE;
    struct compile_arg a = {.module = module, .size = size, .out = out};
    return call_run(c, recompile_body, &a);
}
