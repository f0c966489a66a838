/* Listings: what yoloc.h gives as text. */
#include "driver.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "numbers.h"
#include "outfile.h"

struct text_arg {
    struct source s;
    const char *what, *file, *text;
    size_t len;
    int flag;
    const void *module;
    size_t size;
    yoloc_result *out;
};

/* --- lists -------------------------------------------------------------------------------------------------- */

static void list_ops(struct yir_str *s)
{
    static const char *const cls[] = {"point-wise", "move", "window", "contract", "head", "edge"};
    for (int c = 1; c < YIR_NCODE; c++) {
        const struct yir_opinfo *i = yir_opinfo((enum yir_code)c);
        yir_str_fmt(s, "%-12s %-10s %s", i->name, cls[i->cls], i->text);
        for (int k = 0; k < i->nattr; k++) yir_str_fmt(s, "%s%s", k ? " " : " {", i->attr[k].name);
        yir_str_fmt(s, "%s\n", i->nattr ? "}" : "");
    }
}

static void list_passes(struct yir_str *s)
{
    for (size_t i = 0; i < pass_count(); i++) {
        const struct pass_info *p = pass_at(i);
        yir_str_fmt(s, "%c  %-10s %s%s\n", p->flag, p->name, p->text, p->optional ? "" : " (always)");
    }
}

static void list_families(struct yir_str *s)
{
    for (size_t i = 0; i < cg_fast_count(); i++) yir_str_fmt(s, "%-12s %s\n", cg_fast_at(i)->name, cg_fast_at(i)->text);
    yir_str_fmt(s, "%-12s anything: loops over the elements\n", "generic");
}

static const struct {
    const char *name;
    void (*list)(struct yir_str *);
} lists[] = {{"ops", list_ops}, {"modules", fe_modules_list}, {"passes", list_passes}, {"families", list_families},
             {"targets", cg_targets_list}, {"limits", yir_limits_list}};

static int list_body(struct call *k, void *p)
{
    struct text_arg *a = p;
    struct yir_str s = {.arena = k->arena};
    for (size_t i = 0; i < YIR_COUNT(lists); i++) {
        if (strcmp(lists[i].name, a->what)) continue;
        lists[i].list(&s);
        return call_result(k, s.text, s.len, a->out);
    }
    return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, "there is no list of '%s'", a->what);
}

yoloc_status yoloc_list_text(yoloc *c, const char *what, yoloc_result *text)
{
    if (!what || !text) return YOLOC_USAGE;
    struct text_arg a = {.what = what, .out = text};
    return call_run(c, list_body, &a);
}

const char *yoloc_explain(unsigned number)
{
    return yir_diag_explain(number);
}

/* --- weights ------------------------------------------------------------------------------------------------ */

static void put_shape(struct yir_str *s, const int64_t *dim, int rank)
{
    if (!rank) yir_str_put(s, "-", 1);
    for (int i = 0; i < rank; i++) yir_str_fmt(s, i ? ",%lld" : "%lld", (long long)dim[i]);
}

static void put_dict(struct yir_str *s, const struct fe_value *d)
{
    for (size_t i = 0; d && d->kind == FE_DICT && i < d->n; i++) {
        if (d->item[i]->kind == FE_NONE || d->item[i]->kind == FE_OPAQUE) continue;
        yir_str_fmt(s, "%s: ", d->key[i]->kind == FE_STR ? yir_printable(s->arena, d->key[i]->s) : "?");
        fe_print(s, d->item[i]);
        yir_str_put(s, "\n", 1);
    }
}

static void weights_listing(struct yir_str *s, const struct fe_weights *w)
{
    int64_t total = 0;
    for (size_t i = 0; i < w->ntensor; i++) total += w->tensor[i].numel;
    yir_str_fmt(s, "file: %s (%s, %llu bytes)\n", yir_printable(s->arena, w->path),
                w->kind == FE_WEIGHTS_PT ? "PyTorch" : "safetensors", (unsigned long long)w->file_size);
    if (*w->stored_in) yir_str_fmt(s, "stored in: %s\n", yir_printable(s->arena, w->stored_in));
    if (w->root) yir_str_fmt(s, "class: %s\n", yir_printable(s->arena, w->root->class_path));
    put_dict(s, w->top);
    if (w->names) {
        yir_str_fmt(s, "names: ");
        fe_print(s, w->names);
        yir_str_fmt(s, "\nnc: %zu\n", w->names->n);
    }
    if (w->yaml) {
        yir_str_fmt(s, "yaml: ");
        fe_print(s, w->yaml);
        yir_str_put(s, "\n", 1);
    }
    yir_str_fmt(s, "tensors: %zu, elements: %lld\n", w->ntensor, (long long)total);
    for (size_t i = 0; i < w->ntensor; i++) {
        const struct fe_tensor *t = &w->tensor[i];
        yir_str_fmt(s, "  %s %s ", yir_printable(s->arena, t->name), yir_dtype_name(t->dtype));
        put_shape(s, t->dim, t->rank);
        yir_str_put(s, "\n", 1);
    }
}

static int weights_body(struct call *k, void *p)
{
    struct text_arg *a = p;
    struct yir_str s = {.arena = k->arena};
    const struct fe_weights *w = fe_weights_open(k->arena, k->diags, a->file, NULL);
    if (!w || fe_numbers_of_file(k->arena, k->diags, w, k->o->strict != 0)) return -1;
    if (a->flag) {
        if (fe_weights_json(&s, w)) return yir_diag(k->diags, (struct yir_loc){0}, E_MEMORY, "no memory for JSON");
    } else {
        weights_listing(&s, w);
    }
    return call_result(k, s.text, s.len, a->out);
}

yoloc_status yoloc_weights_text(yoloc *c, const char *weights, int json, yoloc_result *text)
{
    if (!weights || !text) return YOLOC_USAGE;
    struct text_arg a = {.file = weights, .flag = json, .out = text};
    return call_run(c, weights_body, &a);
}

static void put_params(struct yir_str *s, const struct fe_model *m)
{
    int64_t total = 0;
    for (int i = 0; i < m->nlayer; i++) total += m->layer[i].params;
    yir_str_fmt(s, "total %lld\n", (long long)total);
    for (int i = 0; i < m->nlayer; i++)
        yir_str_fmt(s, "%d %s %lld\n", m->layer[i].index, m->layer[i].type, (long long)m->layer[i].params);
}

static int wanted_body(struct call *k, void *p)
{
    struct text_arg *a = p;
    struct yir_str s = {.arena = k->arena};
    if (call_model(k, &a->s)) return -1;
    const struct fe_model *m = a->s.fe;
    if (a->flag) put_params(&s, m);
    for (size_t i = 0; i < m->nwant && !a->flag; i++) {
        yir_str_fmt(&s, "%s ", m->want[i].name);
        put_shape(&s, m->want[i].dim, m->want[i].rank);
        yir_str_put(&s, "\n", 1);
    }
    return call_result(k, s.text, s.len, a->out);
}

yoloc_status yoloc_wanted_text(yoloc *c, const char *model, int params, yoloc_result *text)
{
    if (!model || !text) return YOLOC_USAGE;
    struct text_arg a = {.s = {.model = model}, .flag = params, .out = text};
    return call_run(c, wanted_body, &a);
}

/* --- IR ----------------------------------------------------------------------------------------------------- */

static int ir_body(struct call *k, void *p)
{
    struct text_arg *a = p;
    struct yir_str s = {.arena = k->arena};
    if (call_model(k, &a->s)) return -1;
    yir_print(&s, a->s.fe->func, YIR_PRINT_LOCS);
    return call_result(k, s.text, s.len, a->out);
}

yoloc_status yoloc_ir_text(yoloc *c, const char *model, const char *weights, yoloc_result *text)
{
    if (!model || !text) return YOLOC_USAGE;
    struct text_arg a = {.s = {.model = model, .weights = weights}, .out = text};
    return call_run(c, ir_body, &a);
}

/* NULL after reporting. */
static struct yir_func *run_passes(struct call *k, struct yir_func *f, const char *passes)
{
    struct precision precision;
    if (call_precision(k, f, NULL, &precision)) return NULL;
    struct pass_opts po = call_pass_opts(k, &precision, k->o->batch, true);
    po.verify_each = true;
    po.whole_attention = strcmp(passes, "all") != 0; /* who names the pass wants it */
    if (!strcmp(passes, "all")) return pass_run_all(f, k->diags, &po);
    return *passes ? pass_run_named(f, k->diags, passes, &po) : f;
}

static int opt_body(struct call *k, void *p)
{
    struct text_arg *a = p;
    struct yir_str s = {.arena = k->arena};
    struct yir_func *f = yir_parse(k->arena, k->types, k->diags, a->file, a->text, a->len);
    if (f) f = run_passes(k, f, a->what);
    if (!f) return -1;
    yir_print(&s, f, a->flag ? YIR_PRINT_LOCS : 0);
    return call_result(k, s.text, s.len, a->out);
}

yoloc_status yoloc_opt_text(yoloc *c, const char *file, const char *text, size_t len, const char *passes, int locs,
                            yoloc_result *out)
{
    if (!file || !text || !passes || !out) return YOLOC_USAGE;
    struct text_arg a = {.file = file, .text = text, .len = len, .what = passes, .flag = locs, .out = out};
    return call_run(c, opt_body, &a);
}

static int ir_weights_body(struct call *k, void *p)
{
    struct text_arg *a = p;
    if (call_model(k, &a->s)) return -1;
    const struct yir_func *f = run_passes(k, a->s.fe->func, a->what);
    if (!f) return -1;
    struct fe_out_tensor *t = yir_alloc_n(k->arena, f->nweight, sizeof *t);
    for (uint32_t i = 0; i < f->nweight; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->weight[i].type);
        t[i] = (struct fe_out_tensor){
            .name = f->weight[i].name, .dtype = d->dtype, .rank = d->rank, .data = f->weight[i].data};
        memcpy(t[i].dim, d->dim, (size_t)d->rank * sizeof d->dim[0]);
    }
    return fe_safetensors_write(k->arena, k->diags, a->file, t, f->nweight);
}

yoloc_status yoloc_ir_weights(yoloc *c, const char *model, const char *weights, const char *passes, const char *path)
{
    if (!model || !passes || !path) return YOLOC_USAGE;
    struct text_arg a = {
        .s = {.model = model, .weights = weights, .wants_weights = true}, .what = passes, .file = path};
    return call_run(c, ir_weights_body, &a);
}

/* --- modules ------------------------------------------------------------------------------------------------ */

/* A string of the module, for a line. */
static const char *line_of(const struct yir_str *s, const struct cg_modview *v, uint32_t string)
{
    return yir_printable(s->arena, cg_module_string(v, string));
}

static void put_io(struct yir_str *s, const struct cg_modview *v)
{
    size_t size;
    const char *p = cg_module_section(v, YM_IO, 0, &size);
    for (size_t i = 0; i + sizeof(struct ym_io) <= size; i += sizeof(struct ym_io)) {
        struct ym_io io;
        memcpy(&io, p + i, sizeof io);
        if (io.dtype >= YIR_NDTYPE || io.rank > YM_MAX_RANK) continue;
        yir_str_fmt(s, "%-8s %s %s[", io.flags & YM_IO_OUTPUT ? "output" : "input", line_of(s, v, io.name),
                    yir_dtype_name((enum yir_dtype)io.dtype));
        for (int k = 0; k < io.rank; k++) yir_str_fmt(s, k ? ",%lld" : "%lld", (long long)io.dim[k]);
        yir_str_fmt(s, "]\n");
    }
}

static void put_sizes(struct yir_str *s, const struct cg_modview *v)
{
    static const struct {
        uint32_t kind;
        const char *name;
    } parts[] = {{YM_CODE, "code"}, {YM_CONSTANTS, "packed weights"}, {YM_WEIGHTS, "canonical weights"}, {YM_IR, "IR text"}};
    for (size_t i = 0; i < YIR_COUNT(parts); i++) {
        size_t size;
        cg_module_section(v, parts[i].kind, 0, &size);
        yir_str_fmt(s, "%-18s %zu bytes\n", parts[i].name, size);
    }
}

/* A program's; zeros where there is none. */
static struct ym_target target_at(const struct cg_modview *v, uint32_t i)
{
    size_t size;
    struct ym_target t = {0};
    const void *p = cg_module_section(v, YM_TARGET, i, &size);
    if (p && size == sizeof t) memcpy(&t, p, sizeof t);
    return t;
}

static struct ym_target target_of(const struct cg_modview *v)
{
    return target_at(v, 0);
}

/* What else is in it, in the order in which the loader tries them. */
static void put_other_targets(struct yir_str *s, const struct cg_modview *v)
{
    for (uint32_t i = 1; i < YM_MAX_TARGETS; i++) {
        const struct ym_target t = target_at(v, i);
        if (!t.kind) return;
        yir_str_fmt(s, "also for %s, %s, with %s\n", line_of(s, v, t.name), line_of(s, v, t.precision),
                    line_of(s, v, t.compiler));
    }
}

static void put_engines(struct yir_str *s, const struct cg_modview *v)
{
    size_t size, steps;
    const void *rows = cg_module_section(v, YM_ENGINE, 0, &size);
    if (!rows) return;
    cg_module_section(v, YM_STEP, 0, &steps);
    yir_str_fmt(s, "cuDNN    may do %zu of the %zu steps, which have kernels too for where it is not (--kernels lists them)\n",
                size / sizeof(struct ym_engine), steps / sizeof(struct ym_step));
}

static int inspect_summary(struct call *k, const struct cg_modview *v, struct yir_str *s)
{
    const struct cg_meta *m = &v->meta;
    const struct ym_target t = target_of(v);
    yir_str_fmt(s, "model    %s\ntask     %s\nimage    %dx%d (height x width), stride %d\nbatch    %d\nclasses  %d\n",
                yir_printable(s->arena, m->model), yir_printable(s->arena, m->task),
                m->height, m->width, m->stride, m->max_batch, m->nc);
    yir_str_fmt(s, "defaults conf %g, iou %g, at most %d detections, %s letterbox\n", (double)m->conf, (double)m->iou, m->max_det,
                m->letterbox == 2 ? "top-left" : "square");
    yir_str_fmt(s, "weights  %s (digest %016llx%016llx)\n", yir_printable(s->arena, m->weights_from),
                (unsigned long long)m->weights_digest[1],
                (unsigned long long)m->weights_digest[0]);
    yir_str_fmt(s, "target   %s, %s, made by yoloc %u.%u.%u with %s\n", line_of(s, v, t.name), line_of(s, v, t.precision),
                v->producer >> 16, v->producer >> 8 & 0xff, v->producer & 0xff, line_of(s, v, t.compiler));
    yir_str_fmt(s, "needs    %s\n", line_of(s, v, t.features));
    put_other_targets(s, v);
    put_engines(s, v);
    put_io(s, v);
    put_sizes(s, v);
    yir_str_fmt(s, "%-18s %llu bytes\n%-18s %llu bytes a thread\n", "arena", (unsigned long long)t.arena_size, "scratch",
                (unsigned long long)t.scratch_size);
    for (int i = 0; i < m->nc; i++) yir_str_fmt(s, "class %d %s\n", i, yir_printable(s->arena, m->names[i]));
    (void)k;
    return 0;
}

/* The engine that a step of the first program may have, whose rows are in the order of the steps; *i: of those before it. */
static bool engine_of(const struct cg_modview *v, size_t step, size_t *i, struct ym_engine *out)
{
    size_t size;
    const char *rows = cg_module_section(v, YM_ENGINE, 0, &size);
    if (*i >= size / sizeof *out) return false;
    memcpy(out, rows + *i * sizeof *out, sizeof *out);
    *i += out->step == step;
    return out->step == step;
}

static void put_engine(struct yir_str *s, const struct ym_engine *e)
{
    yir_str_fmt(s, "     or cuDNN %u.%u.%u: engine %u", e->version / 10000, e->version / 100 % 100, e->version % 100, e->number);
    for (uint32_t i = 0; i < e->nknob && i < YM_MAX_KNOBS; i++)
        yir_str_fmt(s, "%s %u=%d", i ? "," : " with", e->knob[i].type, e->knob[i].value);
    yir_str_fmt(s, ", %llu bytes of working memory\n", (unsigned long long)e->space_bytes);
}

static int inspect_kernels(struct call *k, const struct cg_modview *v, struct yir_str *s)
{
    size_t nsteps, nkernels, seen = 0;
    const char *steps = cg_module_section(v, YM_STEP, 0, &nsteps), *kernels = cg_module_section(v, YM_KERNEL, 0, &nkernels);
    yir_str_fmt(s, "step family       units     MFLOP       KiB  kernel  (label, line of the description)\n");
    for (size_t i = 0; i + sizeof(struct ym_step) <= nsteps; i += sizeof(struct ym_step)) {
        struct ym_step t;
        struct ym_kernel n = {0};
        memcpy(&t, steps + i, sizeof t);
        if (t.kernel < nkernels / sizeof n) memcpy(&n, kernels + t.kernel * sizeof n, sizeof n);
        struct ym_engine e;
        yir_str_fmt(s, "%4zu %-12s %5lld %9.3f %9.1f  %s  (%s", i / sizeof t, line_of(s, v, n.family), (long long)n.units,
                    t.flops / 1e6, t.bytes / 1024, line_of(s, v, n.name), line_of(s, v, t.label));
        if (t.line) yir_str_fmt(s, ", line %d", t.line);
        yir_str_put(s, ")\n", 2);
        if (engine_of(v, i / sizeof t, &seen, &e)) put_engine(s, &e);
    }
    (void)k;
    return 0;
}

static int inspect_ir(struct call *k, const struct cg_modview *v, struct yir_str *s)
{
    size_t n;
    const char *text = cg_module_section(v, YM_IR, 0, &n);
    if (!text) return yir_diag_bin(k->diags, v->file, 0, E_MODULE_FILE, "the module holds no IR");
    for (const char *end = text + n; text < end;) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        const char *line = yir_strndup(s->arena, text, (size_t)((nl ? nl : end) - text));
        yir_str_fmt(s, "%s\n", yir_printable(s->arena, line));
        text += strlen(line) + 1; /* a NUL ends a line too */
    }
    return 0;
}

/* What follows from the module's IR: made again with the options that the module was made with, without weights. */
static int rebuild(struct call *k, const struct cg_modview *v, struct build *b, bool kernels)
{
    b->front = cg_module_front(k->arena, k->types, k->diags, v, false);
    b->no_fuse = strstr(v->meta.options, "no-fuse") != NULL;
    b->no_reuse = strstr(v->meta.options, "no-reuse") != NULL;
    b->whole_attention = true;
    for (uint32_t i = 0; i < YM_MAX_TARGETS; i++) {
        uint32_t kind = (uint32_t)target_at(v, i).kind;
        b->apart = b->apart || kind == YM_CUDA;
        b->whole_attention = b->whole_attention && kind != YM_CPU;
    }
    if (!b->front || call_precision(k, b->front, v->meta.precision, &b->precision)) return -1;
    if (call_passes(k, b, v->meta.max_batch)) return -1;
    if (!kernels) return 0;
    const struct ym_target t = target_of(v);
    if (call_target(k, cg_module_string(v, t.name), &b->target) || call_precision_target(k, &b->precision, &b->target)) return -1;
    const struct cg_opts co = {.no_fast = strstr(v->meta.options, "no-fast") != NULL,
                               .checked = t.checked != 0,
                               .max_batch = v->meta.max_batch};
    b->program = cg_kernels(k->arena, b->fused, &b->target, &co);
    return 0;
}

static int inspect_memory(struct call *k, const struct cg_modview *v, struct yir_str *s)
{
    struct build b = {0};
    if (rebuild(k, v, &b, false)) return -1;
    yir_print(s, b.fused, YIR_PRINT_LOCS);
    return 0;
}

static void put_programs(struct yir_str *s, const struct cg_program *p)
{
    for (uint32_t i = 0; i < p->nkernel; i++) {
        if (p->kernel[i].same_as != i) continue;
        yir_str_fmt(s, "# %s: %s, %s\n", p->kernel[i].symbol, p->kernel[i].family, p->kernel[i].label);
        yir_str_put(s, p->kernel[i].text, p->kernel[i].text_len);
        yir_str_put(s, "\n", 1);
    }
}

static int inspect_program(struct call *k, const struct cg_modview *v, struct yir_str *s)
{
    struct build b = {0};
    if (rebuild(k, v, &b, true)) return -1;
    put_programs(s, b.program);
    return 0;
}

static int inspect_code(struct call *k, const struct cg_modview *v, struct yir_str *s)
{
    struct build b = {0};
    if (rebuild(k, v, &b, true)) return -1;
    if (b.target.backend == CG_CUDA) {
        cg_cuda_text(s, b.program);
        return 0;
    }
#ifdef YOLOC_LLVM
    return cg_llvm_compile(k->arena, k->diags, b.program, &b.target, &b.code, s);
#else
    return yir_diag(k->diags, (struct yir_loc){0}, E_LLVM, "this build has no LLVM (YOLOC_LLVM=OFF)");
#endif
}

static const struct {
    const char *name;
    int (*put)(struct call *, const struct cg_modview *, struct yir_str *);
} views[] = {{"summary", inspect_summary}, {"kernels", inspect_kernels}, {"memory", inspect_memory},
             {"ir", inspect_ir},           {"program", inspect_program}, {"code", inspect_code}};

static int inspect_body(struct call *k, void *p)
{
    struct text_arg *a = p;
    struct cg_modview v;
    struct yir_str s = {.arena = k->arena};
    if (cg_module_open(k->arena, k->diags, k->o->module_name, a->module, a->size, &v)) return -1;
    for (size_t i = 0; i < YIR_COUNT(views); i++) {
        if (strcmp(views[i].name, a->what)) continue;
        if (views[i].put(k, &v, &s)) return -1;
        return call_result(k, s.text, s.len, a->out);
    }
    return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, "a module can't be inspected for '%s'", a->what);
}

yoloc_status yoloc_inspect_text(yoloc *c, const void *module, size_t size, const char *what, yoloc_result *text)
{
    if (!module || !what || !text) return YOLOC_USAGE;
    struct text_arg a = {.module = module, .size = size, .what = what, .out = text};
    return call_run(c, inspect_body, &a);
}

/* --- keeping kernels ---------------------------------------------------------------------------------------- */

static int keep_file(struct call *k, const char *name, const void *bytes, size_t n)
{
    return fe_outfile_put(k->diags, yir_format(k->arena, "%s/%s", k->o->keep_dir, name), bytes, n);
}

int call_keep(struct call *k, const struct build *b)
{
    if (mkdir(k->o->keep_dir, 0777) && errno != EEXIST)
        return yir_diag(k->diags, (struct yir_loc){0}, E_WRITE, "%s: %s", k->o->keep_dir, strerror(errno));
    struct yir_str ir = {.arena = k->arena}, programs = {.arena = k->arena};
    yir_print(&ir, b->fused, YIR_PRINT_LOCS);
    put_programs(&programs, b->program);
    if (keep_file(k, "fused.yir", ir.text, ir.len) || keep_file(k, "programs.kb", programs.text, programs.len)) return -1;
    if (b->target.backend == CG_CUDA) {
        struct yir_str cuda = {.arena = k->arena};
        cg_cuda_text(&cuda, b->program);
        if (keep_file(k, "kernels.cu", cuda.text, cuda.len)) return -1;
    }
    if (b->llvm_text && b->llvm_text->len && keep_file(k, "kernels.ll", b->llvm_text->text, b->llvm_text->len)) return -1;
    return keep_file(k, "code.bin", b->code.blob, b->code.size);
}
