#include "compiler.h"

#include <stdio.h>
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

static void apply(yoloc_opts *o, const struct cli_build *b)
{
    o->target = b->target;
    o->scale = b->scale;
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
    o->verify_each = b->verify_each;
    o->pass_limit = b->pass_limit;
    o->skip_passes = b->skip;
    o->dump_after = b->dump_after;
    o->time_passes = b->time_passes;
    o->keep_dir = b->keep;
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
        o.limits = build->limits ? build->limits->text : limits.text;
    }
    o.diag = on_diag;
    o.dump = on_dump;
    o.progress = on_progress;
    o.user = c;
    return cli_compiler_check(c, yoloc_open(&c->handle, &o), e);
}

void cli_compiler_close(struct cli_compiler *c)
{
    cli_progress_clear(&c->progress);
    yoloc_close(c->handle);
    c->handle = NULL;
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
