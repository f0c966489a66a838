#include "shapes.h"

#include "compiler.h"
#include "fileio.h"

#include <stdlib.h>
#include <string.h>

#define BYTE_ALIGN 64u /* of sections in a module */

int cli_shapes_open(struct cli_shapes *s, yolort_module *m, struct cli_modfile *file, const char *path,
                    const struct cli_limits *limits, const yolort_context_opts *context, size_t capacity,
                    const struct cli_beside *beside, struct cli_error *e)
{
    *s = (struct cli_shapes){
        .path = path, .limits = limits, .context = *context, .capacity = capacity, .beside = *beside, .file = *file};
    *file = (struct cli_modfile){.bytes = NULL};
    return cli_engine_open(&s->engines[0], m, NULL, path, context, capacity, beside, e);
}

void cli_shapes_close(struct cli_shapes *s)
{
    for (int i = 0; i < CLI_MAX_OPEN_SHAPES; i++)
        cli_engine_close(&s->engines[i]);
    cli_cache_close(&s->cache);
    cli_modfile_free(&s->file);
    *s = (struct cli_shapes){.path = NULL};
}

static int compile(struct cli_shapes *s, int height, int width, yoloc_result *out, struct cli_error *e)
{
    struct cli_compiler c;
    struct cli_build build = {.target = s->engines[0].info->target, .size = {height, width}, .batch = 1,
                              .pass_limit = -1, .module = s->path, .limits = s->limits};
    int rc = cli_compiler_open(&c, &build, e);
    if (rc == 0)
        rc = cli_compiler_check(&c, yoloc_recompile(c.handle, s->file.bytes, s->file.size, out), e);
    cli_compiler_close(&c);
    return rc;
}

static int open_compiled(struct cli_shapes *s, const yoloc_result *r, struct cli_engine *g,
                         struct cli_error *e)
{
    size_t room = (r->size + BYTE_ALIGN - 1) / BYTE_ALIGN * BYTE_ALIGN;
    struct cli_modfile file = {.bytes = aligned_alloc(BYTE_ALIGN, room), .size = r->size};
    if (!file.bytes)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", s->path);
    memcpy(file.bytes, r->bytes, r->size);
    yolort_module *m = NULL;
    if (cli_modfile_load(&m, &file, s->path, s->limits, e) != 0) {
        cli_modfile_free(&file);
        return -1;
    }
    return cli_engine_open(g, m, &file, s->path, &s->context, s->capacity, &s->beside, e);
}

/* An entry that does not load or is of another size is as good as none: it is compiled and written anew. */
static int open_cached(struct cli_shapes *s, const char *key, int height, int width, struct cli_engine *g)
{
    struct cli_error ignored;
    struct cli_modfile file = {.bytes = NULL};
    yolort_module *m = NULL;
    char *path = cli_cache_find(&s->cache, key);
    int rc = path ? cli_modfile_read(&file, path, NULL, s->limits, &ignored) : -1;
    if (rc == 0)
        rc = cli_modfile_load(&m, &file, path, s->limits, &ignored);
    free(path);
    if (rc == 0)
        rc = cli_engine_open(g, m, &file, s->path, &s->context, s->capacity, &s->beside, &ignored);
    else
        cli_modfile_free(&file);
    if (rc == 0 && g->info->height == height && g->info->width == width)
        return 0;
    cli_engine_close(g);
    return -1;
}

static int open_shape(struct cli_shapes *s, int height, int width, struct cli_engine *g, struct cli_error *e)
{
    char key[64];
    if (!s->cache_opened && !s->file.verified)
        cli_cache_open(&s->cache);
    s->cache_opened = 1;
    cli_cache_key(key, s->file.bytes, s->file.size, height, width);
    if (open_cached(s, key, height, width, g) == 0)
        return 0;
    yoloc_result r = {NULL, 0};
    int rc = compile(s, height, width, &r, e);
    if (rc == 0) {
        cli_cache_put(&s->cache, key, r.bytes, r.size);
        rc = open_compiled(s, &r, g, e);
    }
    yoloc_free_result(&r);
    return rc;
}

/* A free slot, else the one whose last use is longest ago; never the module as given. */
static int choose_slot(const struct cli_shapes *s)
{
    int best = 1;
    for (int i = 1; i < CLI_MAX_OPEN_SHAPES; i++) {
        if (!s->engines[i].module)
            return i;
        if (s->used[i] < s->used[best])
            best = i;
    }
    return best;
}

int cli_shapes_get(struct cli_shapes *s, int height, int width, struct cli_engine **out, struct cli_error *e)
{
    int slot = 0;
    while (slot < CLI_MAX_OPEN_SHAPES) {
        const yolort_info *info = s->engines[slot].info;
        if (info && info->height == height && info->width == width)
            break;
        slot++;
    }
    if (slot == CLI_MAX_OPEN_SHAPES) {
        slot = choose_slot(s);
        cli_engine_close(&s->engines[slot]);
        if (open_shape(s, height, width, &s->engines[slot], e) != 0)
            return -1;
    }
    s->used[slot] = ++s->clock;
    *out = &s->engines[slot];
    return 0;
}
