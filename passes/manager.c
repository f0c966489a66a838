#include "pass.h"

#include <string.h>
#include <time.h>

static const struct pass_info table[] = {
#define PASS(flag, name, opt, needs, gives, text) {flag, #name, text, opt, needs, gives, pass_##name},
#include "passes.def"
#undef PASS
};

size_t pass_count(void)
{
    return YIR_COUNT(table);
}

const struct pass_info *pass_at(size_t i)
{
    return i < YIR_COUNT(table) ? &table[i] : NULL;
}

static const struct pass_info *find(const char *name, size_t len)
{
    for (size_t i = 0; i < YIR_COUNT(table); i++)
        if (strlen(table[i].name) == len && !memcmp(table[i].name, name, len)) return &table[i];
    return NULL;
}

const struct pass_info *pass_by_name(const char *name)
{
    return find(name, strlen(name));
}

void pass_opts_init(struct pass_opts *o)
{
    *o = (struct pass_opts){.max_batch = 1, .fuse = true, .reuse = true, .limit = -1};
#ifndef NDEBUG
    o->verify_each = true;
#endif
}

/* --- lists of names ------------------------------------------------------------------------------------- */

/* The next name of a comma-joined list, its length in *len; NULL at the end. */
static const char *next_name(const char **list, size_t *len)
{
    const char *name = *list;
    if (!name || !*name) return NULL;
    *len = strcspn(name, ",");
    *list = name[*len] ? name + *len + 1 : name + *len;
    return name;
}

static bool listed(const char *list, const char *name)
{
    size_t len;
    for (const char *s = next_name(&list, &len); s; s = next_name(&list, &len))
        if (strlen(name) == len && !memcmp(s, name, len)) return true;
    return false;
}

static int report_unknown(struct yir_arena *a, struct yir_diags *d, const char *name, size_t len)
{
    const char *names[YIR_COUNT(table)], *text = yir_strndup(a, name, len);
    for (size_t i = 0; i < YIR_COUNT(table); i++) names[i] = table[i].name;
    const char *near = yir_nearest(text, names, YIR_COUNT(table));
    if (near)
        return yir_diag(d, (struct yir_loc){0}, E_PASS, "no pass is called '%s'; did you mean '%s'?", text,
                        near);
    return yir_diag(d, (struct yir_loc){0}, E_PASS, "no pass is called '%s'", text);
}

static int check_names(struct yir_arena *a, struct yir_diags *d, const char *list, bool optional)
{
    size_t len;
    for (const char *s = next_name(&list, &len); s; s = next_name(&list, &len)) {
        const struct pass_info *info = find(s, len);
        if (!info) return report_unknown(a, d, s, len);
        if (optional && !info->optional)
            return yir_diag(d, (struct yir_loc){0}, E_PASS, "%s can't be left out: later passes need it",
                            info->name);
    }
    return 0;
}

/* --- stages --------------------------------------------------------------------------------------------- */

static const unsigned stage_bits[] = {YIR_S_NOBN, YIR_S_LAYOUT, YIR_S_KERNELS, YIR_S_PLACES};

/* Stages a function has reached: those whose rules it keeps. */
static unsigned stages_of(const struct yir_func *f)
{
    unsigned stages = 0;
    for (size_t i = 0; i < YIR_COUNT(stage_bits); i++) {
        struct yir_func probe = *f;
        probe.diags = yir_diags_new(f->arena, NULL, NULL);
        if (!yir_verify(&probe, stage_bits[i])) stages |= stage_bits[i];
    }
    return stages;
}

static const char *giver(unsigned stages)
{
    for (size_t i = 0; i < YIR_COUNT(table); i++)
        if (table[i].gives & stages) return table[i].name;
    YIR_BUG("no pass gives stage %u", stages);
}

/* A pass that changes a function keeps what it needs, and nothing else; no pass makes a batchnorm. */
static unsigned stages_after(const struct pass_info *info, unsigned stages)
{
    return (stages & (info->needs | YIR_S_NOBN)) | info->gives;
}

/* --- running -------------------------------------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static const char *text_of(const struct yir_func *f)
{
    struct yir_str s = {.arena = f->arena};
    yir_print(&s, f, 0);
    return s.text ? s.text : "";
}

/* A pass broke its promise: our mistake, whatever the input was. */
static void check(const struct yir_func *f, const struct pass_info *info, unsigned stages)
{
    struct yir_func probe = *f;
    probe.diags = yir_diags_new(f->arena, NULL, NULL);
    if (!yir_verify(&probe, stages)) return;
    YIR_BUG("pass %s broke the function: %s\n%s", info->name, yir_diag_at(probe.diags, 0)->text, text_of(f));
}

static struct yir_func *run_one(const struct pass_info *info, struct yir_func *f, struct yir_diags *d,
                                const struct pass_opts *o, unsigned *stages)
{
    struct pass p = {.in = f, .arena = f->arena, .diags = d, .opts = o};
    double start = now_ms();
    int rc = info->run(&p);
    double ms = now_ms() - start;
    if (rc < 0) return NULL;
    YIR_ASSERT((rc == 1) == (p.out != NULL));
    if (rc) *stages = stages_after(info, *stages);
    else *stages |= info->gives;
    if (rc) f = p.out;
    if (o->verify_each) check(f, info, *stages);
    if (o->timing) o->timing(o->user, info->name, ms);
    if (o->dump && o->dump_after && (!strcmp(o->dump_after, "all") || listed(o->dump_after, info->name)))
        o->dump(o->user, info->name, rc ? text_of(f) : "(unchanged)\n", ms);
    return f;
}

static int check_opts(struct yir_arena *a, struct yir_diags *d, const struct pass_opts *o)
{
    YIR_ASSERT(o->max_batch >= 1);
    if (check_names(a, d, o->skip, true)) return -1;
    if (check_names(a, d, o->stop_after, false)) return -1;
    if (o->dump_after && !strcmp(o->dump_after, "all")) return 0;
    return check_names(a, d, o->dump_after, false);
}

struct yir_func *pass_run_all(struct yir_func *f, struct yir_diags *d, const struct pass_opts *o)
{
    unsigned stages = 0;
    int optional = 0;
    if (check_opts(f->arena, d, o)) return NULL;
    if (o->verify_each && yir_verify(f, 0)) return NULL;
    for (size_t i = 0; i < YIR_COUNT(table); i++) {
        const struct pass_info *info = &table[i];
        bool skip =
            info->optional && (listed(o->skip, info->name) || (o->limit >= 0 && optional >= o->limit));
        optional += info->optional;
        if (skip) continue;
        YIR_ASSERT((info->needs & ~stages) == 0);
        f = run_one(info, f, d, o, &stages);
        if (!f) return NULL;
        if (o->stop_after && !strcmp(o->stop_after, info->name)) break;
    }
    return f;
}

struct yir_func *pass_run_named(struct yir_func *f, struct yir_diags *d, const char *names,
                                const struct pass_opts *o)
{
    size_t len;
    if (check_opts(f->arena, d, o) || check_names(f->arena, d, names, false)) return NULL;
    if (yir_verify(f, 0)) return NULL;
    for (const char *s = next_name(&names, &len); s; s = next_name(&names, &len)) {
        const struct pass_info *info = find(s, len);
        unsigned stages = stages_of(f), missing = info->needs & ~stages;
        if (missing) {
            yir_diag(d, (struct yir_loc){0}, E_PASS, "%s can't run here: it needs what %s does", info->name,
                     giver(missing));
            return NULL;
        }
        f = run_one(info, f, d, o, &stages);
        if (!f) return NULL;
    }
    return f;
}
