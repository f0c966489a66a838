#include "compiler.h"
#include "interrupt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_diag(void *user, const yoloc_diag *d)
{
    struct cli_compiler *c = user;
    cli_progress_clear(&c->progress);
    c->errors += d->severity >= 2;
    fprintf(stderr, "%s\n", d->text);
}

static void on_dump(void *user, const char *what, const char *text)
{
    struct cli_compiler *c = user;
    cli_progress_clear(&c->progress);
    if (strchr(text, '\n'))
        fprintf(stderr, "# %s\n%s", what, text);
    else
        fprintf(stderr, "# %s: %s\n", what, text);
}

static void on_progress(void *user, const char *what, int done, int total)
{
    struct cli_compiler *c = user;
    cli_progress_step(&c->progress, what, done > 0 ? (size_t)done : 0, total > 0 ? (size_t)total : 0, "");
}

static int on_stop(void *user)
{
    (void)user;
    return cli_interrupt_caught();
}

static void apply(yoloc_opts *o, const struct cli_build *b)
{
    o->target = b->target;
    o->scale = b->scale;
    o->head = b->head;
    o->nc = b->nc;
    o->height = b->size.height;
    o->width = b->size.width;
    o->batch = b->batch > 0 ? b->batch : 1;
    o->layers = b->layers;
    o->no_fast = b->no_fast;
    o->checked = b->checked;
    o->no_fuse = b->no_fuse;
    o->no_reuse = b->no_reuse;
    o->strip = b->strip;
    o->allow_bad_crc = b->allow_bad_crc;
    o->strict = b->strict;
    o->module_name = b->module;
    o->verify_each = b->verify_each;
    o->pass_limit = b->pass_limit;
    o->skip_passes = b->skip;
    o->dump_after = b->dump_after;
    o->time_passes = b->time_passes;
    o->keep_dir = b->keep;
    o->precision = b->precision;
    o->precision_file = b->precision_file;
}

/* Seconds of "30s", "500ms", "2m", "20"; below 0: none of these. */
static double read_time(const char *text)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}};
    char *end;
    double v = strtod(text, &end);
    if (end == text || !(v > 0 && v < 1e6))
        return -1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].name) == 0)
            return v * units[i].seconds;
    return -1;
}

int cli_read_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    uint64_t factor = unit ? 1ull << 10 * (unit - units + 1) : 1;
    if (errno || (*end && (!unit || end[1])) || !v || v > UINT64_MAX / factor)
        return -1;
    *bytes = v * factor;
    return 0;
}

static int apply_tuning(yoloc_opts *o, const struct cli_build *b, struct cli_error *e)
{
    static const char *const modes[] = {"off", "fast", "full"};
    o->cache = b->no_cache ? 0 : b->caching;
    o->cache_dir = b->cache_dir;
    o->tune_threads = b->tune_threads;
    o->tune_report = b->tune_report;
    o->no_cudnn = b->no_cudnn;
    o->deterministic = b->deterministic;
    o->cudnn_workspace = (uint64_t)b->cudnn_workspace << 20;
    if (b->no_cache && (b->cache_dir || b->cache_limit))
        return cli_fail(e, CLI_USAGE, "%s has no meaning with --no-cache", b->cache_dir ? "--cache-dir" : "--cache-limit");
    if (b->cache_limit && cli_read_size(b->cache_limit, &o->cache_limit) != 0)
        return cli_fail(e, CLI_USAGE, "--cache-limit %s: expected a size such as 500M or 4G", b->cache_limit);
    while (b->tune && o->tune < 3 && strcmp(b->tune, modes[o->tune]) != 0)
        o->tune++;
    if (o->tune == 3)
        return cli_fail(e, CLI_USAGE, "--tune %s: expected off, fast or full", b->tune);
    if (!o->tune && (b->tune_budget || b->tune_threads || b->tune_report))
        return cli_fail(e, CLI_USAGE, "--tune-budget, --tune-threads and --tune-report have a meaning only with --tune fast or full");
    if (!o->tune && (b->no_cudnn || b->deterministic || b->cudnn_workspace))
        return cli_fail(e, CLI_USAGE, "--no-cudnn, --deterministic and --cudnn-workspace have a meaning only with --tune fast or full");
    if (b->no_cudnn && (b->deterministic || b->cudnn_workspace))
        return cli_fail(e, CLI_USAGE, "--deterministic and --cudnn-workspace have no meaning with --no-cudnn");
    if (o->tune && b->no_fast)
        return cli_fail(e, CLI_USAGE, "--tune %s has no meaning with --no-fast: generic code has one form", b->tune);
    if (b->tune_budget && (o->tune_budget = read_time(b->tune_budget)) <= 0)
        return cli_fail(e, CLI_USAGE, "--tune-budget %s: expected a time such as 30s, 500ms or 2m", b->tune_budget);
    return 0;
}

int cli_compiler_open(struct cli_compiler *c, const struct cli_build *build, struct cli_error *e)
{
    yoloc_opts o;
    struct cli_limits limits;
    *c = (struct cli_compiler){.handle = NULL};
    cli_progress_begin(&c->progress);
    yoloc_opts_init(&o, sizeof o);
    if (build && !build->limits && cli_limits_read(&limits, &build->limit, e) != 0)
        return -1;
    if (build) {
        apply(&o, build);
        if (apply_tuning(&o, build, e) != 0)
            return -1;
        o.limits = build->limits ? build->limits->text : limits.text;
    }
    o.diag = on_diag;
    o.dump = on_dump;
    o.progress = on_progress;
    o.stop = on_stop;
    c->asks = o.tune != 0;
    if (c->asks)
        cli_interrupt_ask();
    o.user = c;
    return cli_compiler_check(c, yoloc_open(&c->handle, &o), e);
}

void cli_compiler_close(struct cli_compiler *c)
{
    cli_progress_clear(&c->progress);
    yoloc_close(c->handle);
    c->handle = NULL;
    if (c->asks)
        cli_interrupt_unask();
}

int cli_compiler_check(struct cli_compiler *c, yoloc_status s, struct cli_error *e)
{
    cli_progress_clear(&c->progress);
    if (s == YOLOC_OK)
        return 0;
    *e = (struct cli_error){.number = CLI_NONE};
    if (!c->errors)
        cli_fail(e, CLI_NONE, "the compiler failed without saying why");
    e->exit_code = s == YOLOC_USAGE ? CLI_BAD_USAGE : s == YOLOC_RESOURCE ? CLI_NO_RESOURCE : CLI_BAD_INPUT;
    return -1;
}

void cli_print_result(yoloc_result *r)
{
    if (r->size)
        fwrite(r->bytes, 1, r->size, stdout);
    yoloc_free_result(r);
}

int cli_tuning_single(const yoloc_tuning *t)
{
    int rest = t->kernels - t->known - t->measured - t->left;
    return rest > 0 ? rest : 0;
}

void cli_print_tuning(const yoloc_tuning *t)
{
    printf("%d different kernels: %d known, %d measured, %d left, %d with one form to choose; %d in another form than the predicted one\n",
           t->kernels, t->known, t->measured, t->left, cli_tuning_single(t), t->changed);
    if (t->before_ms > 0)
        printf("a run takes %.3f ms untuned, %.3f ms tuned\n", t->before_ms, t->after_ms);
    if (t->left > 0)
        printf("the time did not suffice for all; %s--tune-budget gives it more\n", t->kept ? "the same command goes on, and " : "");
}
