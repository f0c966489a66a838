#include "constants.h"
#include "file.h"
#include "object.h"
#include "opts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rt_module_keep(yolort_module *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
}

void rt_module_drop(yolort_module *m)
{
    if (atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    if (m->dev) m->dev->unload(&m->code);
    rt_block_free(&m->file);
    rt_block_free(&m->constants);
    free(m->names);
    free(m->io);
    m->kind = 0;
    free(m);
}

static yolort_status check_programs(yolort_module *m, const struct rt_error *e)
{
    for (uint32_t i = 0; i < m->t.file.header->ntarget; i++) RT_TRY(rt_tables_target(&m->t, i, e));
    return YOLORT_OK;
}

/* Takes the first program that runs here. When none does: the reason, of the only program or of each; NO_DEVICE when a device is
 * all that each of them lacks. */
static yolort_status choose_program(yolort_module *m, const struct rt_error *e)
{
    char why[192], all[512] = "";
    struct rt_error reason = {why, sizeof why};
    size_t used = 0;
    yolort_status lacks = YOLORT_NO_DEVICE;
    uint32_t n = m->t.file.header->ntarget;
    for (uint32_t i = 0; i < n; i++) {
        RT_TRY(rt_tables_target(&m->t, i, e));
        const struct ym_target *r = m->t.target;
        const char *str = m->t.strings;
        m->dev = rt_dev_find(r->kind);
        yolort_status s = m->dev
                              ? m->dev->fits(str + r->arch, str + r->features, &reason)
                              : rt_fail(&reason, YOLORT_INCOMPATIBLE, "needs a device this runtime has not");
        if (!s) return YOLORT_OK;
        m->dev = NULL;
        if (s != YOLORT_INCOMPATIBLE && s != YOLORT_NO_DEVICE) return rt_fail(e, s, "TARGET %u: %s", i, why);
        if (s == YOLORT_INCOMPATIBLE) lacks = s;
        int more =
            snprintf(all + used, sizeof all - used, "%s%.64s %s", used ? "; " : "", str + r->name, why);
        if (more > 0) used = used + (size_t)more < sizeof all ? used + (size_t)more : sizeof all - 1;
    }
    return rt_fail(e, lacks, "%s", all);
}

/* To look at: what runs here, else the first; the module then keeps no device. */
static yolort_status choose_any(yolort_module *m, const struct rt_error *e)
{
    if (choose_program(m, NULL)) RT_TRY(rt_tables_target(&m->t, 0, e));
    m->dev = NULL;
    return YOLORT_OK;
}

static void describe_io(yolort_io *to, const struct ym_io *from, const char *strings)
{
    to->name = strings + from->name;
    to->dtype = (yolort_dtype)from->dtype;
    to->is_output = from->flags & YM_IO_OUTPUT;
    to->rank = from->rank;
    memcpy(to->dim, from->dim, sizeof to->dim);
    to->bytes_per_image = (size_t)rt_io_bytes(from);
}

static void describe(yolort_module *m)
{
    const struct rt_tables *t = &m->t;
    const struct ym_meta *a = t->meta;
    const struct ym_target *r = t->target;
    uint32_t v = t->file.header->producer;
    snprintf(m->producer, sizeof m->producer, "yoloc %u.%u.%u", v >> 16 & 255, v >> 8 & 255, v & 255);
    m->info = (yolort_info){
        .model = t->strings + a->model,
        .task = t->strings + a->task,
        .target = t->strings + r->name,
        .precision = t->strings + r->precision,
        .producer = m->producer,
        .head = (yolort_head)a->head,
        .letterbox = (yolort_letterbox_mode)a->letterbox,
        .nc = a->nc,
        .height = r->height,
        .width = r->width,
        .max_batch = r->max_batch,
        .stride = a->stride,
        .max_det = a->max_det,
        .conf = a->conf,
        .iou = a->iou,
        .coefficients = a->coefficients,
        .points = a->points,
        .point_dims = a->point_dims,
        .angles = a->angles,
        .names = m->names,
        .arena_bytes = (size_t)r->arena_size,
        .constant_bytes = t->constants.size,
        .code_bytes = t->code.size,
    };
    for (int i = 0; i < a->nc; i++)
        m->names[i] = t->strings + t->names[i];
    for (uint32_t i = 0; i < t->nio; i++)
        describe_io(&m->io[i], &t->io[i], t->strings);
}

static yolort_status fill(yolort_module *m, const uint8_t *bytes, size_t size, const struct rt_error *e)
{
    int look = m->t.file.limits->look;
    RT_TRY(rt_sections_open(&m->t.file, bytes, size, e));
    RT_TRY(rt_tables_shared(&m->t, e));
    RT_TRY(check_programs(m, e));
    RT_TRY(look ? choose_any(m, e) : choose_program(m, e));
    RT_TRY(rt_tables_program(&m->t, e));
    m->names = calloc((size_t)m->t.meta->nc + 1, sizeof *m->names);
    m->io = calloc(m->t.nio, sizeof *m->io);
    if (!m->names || !m->io) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    if (!look) RT_TRY(rt_constants_make(&m->constants, &m->t, e));
    if (!look) RT_TRY(m->dev->load(&m->code, &m->t, e));
    describe(m);
    return YOLORT_OK;
}

/* Takes over `file`, which may be dead: then the bytes are the caller's. digest: of them, or NULL. */
static yolort_status build(yolort_module **out, struct rt_block file, const uint8_t *bytes, size_t size,
                           const uint8_t *digest, const yolort_load_opts *limits, const struct rt_error *e)
{
    yolort_module *m = calloc(1, sizeof *m);
    if (!m) {
        rt_block_free(&file);
        return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    }
    m->kind = RT_MODULE_KIND;
    atomic_init(&m->refs, 1);
    m->file = file;
    m->t.file.limits = limits;
    m->t.file.digest = digest;
    yolort_status s = fill(m, bytes, size, e);
    if (s) {
        rt_module_drop(m);
        return s;
    }
    m->t.file.limits = NULL;
    m->t.file.digest = NULL;
    rt_block_seal(&m->file);
    rt_block_seal(&m->constants);
    *out = m;
    return YOLORT_OK;
}

static const yolort_load_opts defaults = {sizeof defaults, YM_MAX_FILE, YM_MAX_MANIFEST, YM_MAX_SECTIONS, 0, 0};

void yolort_load_opts_init(yolort_load_opts *o, size_t size)
{
    rt_opts_init(o, size, &defaults, sizeof defaults);
}

yolort_status yolort_load(yolort_module **out, const void *bytes, size_t size, char *error, size_t error_size)
{
    return yolort_load_within(out, bytes, size, NULL, error, error_size);
}

yolort_status yolort_load_within(yolort_module **out, const void *bytes, size_t size, const yolort_load_opts *opts,
                                 char *error, size_t error_size)
{
    struct rt_error e = {error, error_size};
    struct rt_block copy = {0};
    yolort_load_opts own = defaults;
    RT_CHECK(&e, ARG, LOAD_NULL, out && bytes, "NULL argument");
    if (opts && rt_opts_read(&own, sizeof own, opts)) return rt_fail(&e, YOLORT_ARG, "options of another version");
    RT_CHECK(&e, ARG, LOAD_THREADS, own.threads >= 0 && own.threads <= 1024, "%d threads", own.threads);
    RT_CHECK(&e, ARG, LOAD_LOOK, own.look == 0 || own.look == 1, "look %d", own.look);
    if ((uintptr_t)bytes % RT_LINE == 0) return build(out, copy, bytes, size, NULL, &own, &e);
    RT_CHECK(&e, LIMIT, LOAD_LIMIT, size <= own.max_bytes, "%zu bytes; at most %" PRIu64 " are allowed", size,
             own.max_bytes);
    if (rt_block_new(&copy, size, 0)) return rt_fail(&e, YOLORT_OOM_HOST, "no memory for %zu bytes", size);
    memcpy(copy.data, bytes, size);
    return build(out, copy, copy.data, size, NULL, &own, &e);
}

yolort_status yolort_load_file(yolort_module **out, const char *path, char *error, size_t error_size)
{
    char text[768];
    struct rt_error e = {error, error_size}, inner = {text, sizeof text};
    struct rt_block file;
    struct rt_taken_digest digest;
    RT_CHECK(&e, ARG, LOAD_FILE_NULL, out && path, "NULL argument");
    yolort_status s = rt_file_read(&file, &digest, path, YM_MAX_FILE, &inner);
    if (!s) s = build(out, file, file.data, file.size, digest.taken ? digest.bytes : NULL, &defaults, &inner);
    return s ? rt_fail(&e, s, "%s: %s", path, text) : s;
}

static int is_module(const yolort_module *m)
{
    return RT_HOLDS(HANDLE_MODULE, m && m->kind == RT_MODULE_KIND);
}

void yolort_module_free(yolort_module *m)
{
    if (is_module(m)) rt_module_drop(m);
}

const yolort_info *yolort_module_info(const yolort_module *m)
{
    return is_module(m) ? &m->info : NULL;
}

size_t yolort_io_count(const yolort_module *m)
{
    return is_module(m) ? m->t.nio : 0;
}

const yolort_io *yolort_io_at(const yolort_module *m, size_t i)
{
    return RT_HOLDS(IO_AT, i < yolort_io_count(m)) ? &m->io[i] : NULL;
}

int yolort_io_find(const yolort_module *m, const char *name)
{
    for (size_t i = 0; name && i < yolort_io_count(m); i++)
        if (!strcmp(m->io[i].name, name)) return (int)i;
    return -1;
}

size_t yolort_step_count(const yolort_module *m)
{
    return is_module(m) ? m->t.nstep : 0;
}

yolort_status yolort_module_step(const yolort_module *m, size_t i, yolort_step *out)
{
    if (!RT_HOLDS(MODULE_STEP, out && i < yolort_step_count(m))) return YOLORT_ARG;
    const struct ym_step *s = &m->t.step[i];
    *out = (yolort_step){
        .kernel = m->t.strings + m->t.kernel[s->kernel].name,
        .label = m->t.strings + s->label,
        .line = s->line,
        .flops = s->flops,
        .bytes = s->bytes,
    };
    return YOLORT_OK;
}

yolort_status yolort_module_engine(const yolort_module *m, size_t step, yolort_engine *out)
{
    if (!RT_HOLDS(MODULE_ENGINE, out && step < yolort_step_count(m))) return YOLORT_ARG;
    const struct ym_engine *g = rt_engine_of(&m->t, (uint32_t)step);
    if (!g) return YOLORT_ARG;
    *out = (yolort_engine){m->t.strings + g->name, g->version, g->number, g->space_bytes};
    return YOLORT_OK;
}
