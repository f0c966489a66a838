/* What the caches of compilation hold, for yoloc.h. */
#include "driver.h"

#include <string.h>
#include <time.h>

#include "codegen/artifact.h"
#include "codegen/leftover.h"
#include "codegen/tunedb.h"
#include "infile.h"
#include "json.h"

struct cache_arg {
    const char *what, *path;
    int json;
    yoloc_prune_opts prune;
    yoloc_result *out;
    struct cg_cachedir *dir;
    struct cg_tunedb *records;
    struct cg_artifacts *artifacts;
};

/* NULL handles after reporting E_CACHE. */
static void open_results(struct call *k, struct cache_arg *a)
{
    a->dir = cg_cachedir_open(k->arena, k->diags, &(struct cg_cachedir_opts){.path = k->o->cache_dir, .required = true});
    a->artifacts = cg_artifacts_open(k->arena, a->dir, k->o->cache_limit);
}

/* -1 after reporting E_CACHE. */
static int open_both(struct call *k, struct cache_arg *a)
{
    open_results(k, a);
    a->records = cg_tunedb_open(k->arena, a->dir);
    return a->records && a->artifacts && !yir_diag_errors(k->diags) ? 0 : -1;
}

/* What went wrong on the way was reported as an error. */
static int finish(struct call *k, struct yir_str *s, struct cache_arg *a)
{
    return yir_diag_errors(k->diags) ? -1 : call_result(k, s->text ? s->text : "", s->len, a->out);
}

/* --- listings ----------------------------------------------------------------------------------------------- */

struct listing {
    struct yir_str s;
    uint64_t n;
};

static void put_member(struct yir_str *s, const char *name, const char *text, size_t n)
{
    yir_str_fmt(s, ",\"%s\":", name);
    fe_json_quote(s, text, n);
}

static bool record_json(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    struct listing *l = user;
    yir_str_fmt(&l->s, "%s\n {\"when\":%lld,\"threads\":%d,\"median_us\":%.4g,\"spread_us\":%.4g", l->n++ ? "," : "",
                (long long)r->when, k->threads, r->median_s * 1e6, r->spread_s * 1e6);
    put_member(&l->s, "config", r->config, strlen(r->config));
    put_member(&l->s, "target", k->target, strlen(k->target));
    put_member(&l->s, "versions", k->versions, strlen(k->versions));
    put_member(&l->s, "op", k->op, k->op_len);
    yir_str_put(&l->s, "}", 1);
    return true;
}

/* The first words of an op's text, for a line of a terminal; more is in the JSON form. */
static void put_words(struct yir_str *s, const char *text, size_t n)
{
    enum { MOST = 72 };
    for (size_t i = 0; i < n && i < MOST; i++) yir_str_fmt(s, "%c", text[i] >= 0x20 && text[i] < 0x7f ? text[i] : ' ');
    yir_str_fmt(s, "%s\n", n > MOST ? "..." : "");
}

static bool record_line(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    struct listing *l = user;
    if (!l->n++) yir_str_fmt(&l->s, "%10s  %-28s %s\n", "us", "configuration", "kernel");
    yir_str_fmt(&l->s, "%10.1f  %-28s ", r->median_s * 1e6, r->config);
    put_words(&l->s, k->op, k->op_len);
    return true;
}

static bool artifact_json(void *user, const struct cg_artifact_info *i)
{
    struct listing *l = user;
    yir_str_fmt(&l->s, "%s\n {\"kind\":\"%s\",\"name\":\"%s\",\"bytes\":%llu,\"used\":%lld}", l->n++ ? "," : "", i->kind, i->name,
                (unsigned long long)i->bytes, (long long)i->used);
    return true;
}

static bool artifact_line(void *user, const struct cg_artifact_info *i)
{
    struct listing *l = user;
    struct tm t;
    char when[32] = "";
    time_t used = (time_t)i->used;
    if (localtime_r(&used, &t)) strftime(when, sizeof when, "%Y-%m-%d %H:%M", &t);
    if (!l->n++) yir_str_fmt(&l->s, "%12s  %-16s %-8s %s\n", "bytes", "used", "kind", "name");
    yir_str_fmt(&l->s, "%12llu  %-16s %-8s %s\n", (unsigned long long)i->bytes, when, i->kind, i->name);
    return true;
}

static void list(struct cache_arg *a, struct listing *l)
{
    if (a->json) yir_str_fmt(&l->s, "{\"version\":1,\"records\":[");
    cg_tunedb_each(a->records, a->json ? record_json : record_line, l);
    if (!a->json && l->n) yir_str_put(&l->s, "\n", 1);
    l->n = 0;
    if (a->json) yir_str_fmt(&l->s, "],\"results\":[");
    cg_artifacts_each(a->artifacts, a->json ? artifact_json : artifact_line, l);
    if (a->json) yir_str_fmt(&l->s, "]}\n");
}

/* --- numbers ------------------------------------------------------------------------------------------------- */

struct counts {
    uint64_t n, bytes, modules, damaged;
};

static bool count_artifact(void *user, const struct cg_artifact_info *i)
{
    struct counts *c = user;
    c->n++;
    c->bytes += i->bytes;
    c->modules += strcmp(i->kind, "module") == 0;
    c->damaged += strcmp(i->kind, "?") == 0;
    return true;
}

static void stats(struct cache_arg *a, struct listing *l)
{
    typedef unsigned long long u;
    struct cg_tune_stats t = cg_tunedb_stats(a->records);
    struct counts c = {0};
    const char *path = cg_cachedir_path(a->dir);
    cg_artifacts_each(a->artifacts, count_artifact, &c);
    if (a->json) {
        yir_str_fmt(&l->s, "{\"version\":1,\"path\":");
        fe_json_quote(&l->s, path, strlen(path));
        yir_str_fmt(&l->s, ",\"records\":{\"count\":%llu,\"damaged\":%llu,\"claims\":%llu,\"bytes\":%llu}", (u)t.records, (u)t.damaged,
                    (u)t.claims, (u)t.bytes);
        yir_str_fmt(&l->s, ",\"results\":{\"count\":%llu,\"damaged\":%llu,\"modules\":%llu,\"bytes\":%llu,\"limit\":%llu}}\n", (u)c.n,
                    (u)c.damaged, (u)c.modules, (u)c.bytes, (u)cg_artifacts_limit(a->artifacts));
        return;
    }
    yir_str_fmt(&l->s, "folder    %s\n", yir_printable(l->s.arena, path));
    yir_str_fmt(&l->s, "records   %llu in %.1f MB", (u)t.records, (double)t.bytes / 1e6);
    if (t.damaged) yir_str_fmt(&l->s, ", %llu damaged", (u)t.damaged);
    if (t.claims) yir_str_fmt(&l->s, ", %llu being measured", (u)t.claims);
    yir_str_fmt(&l->s, "\nresults   %llu modules, %llu kernels", (u)c.modules, (u)(c.n - c.modules - c.damaged));
    if (c.damaged) yir_str_fmt(&l->s, ", %llu damaged", (u)c.damaged);
    yir_str_fmt(&l->s, " in %.1f MB of at most %.1f MB\n", (double)c.bytes / 1e6, (double)cg_artifacts_limit(a->artifacts) / 1e6);
}

static int text_body(struct call *k, void *p)
{
    struct cache_arg *a = p;
    struct listing l = {.s.arena = k->arena};
    bool all = strcmp(a->what, "list") == 0;
    if (!all && strcmp(a->what, "stats")) return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, "there is no text '%s' of the cache", a->what);
    if (open_both(k, a)) return -1;
    if (all) list(a, &l);
    else stats(a, &l);
    return finish(k, &l.s, a);
}

yoloc_status yoloc_cache_text(yoloc *c, const char *what, int json, yoloc_result *text)
{
    if (!what || !text) return YOLOC_USAGE;
    struct cache_arg a = {.what = what, .json = json, .out = text};
    return call_run(c, text_body, &a);
}

/* --- changes -------------------------------------------------------------------------------------------------- */

/* The results go first and whatever state the records are in: that makes room on a full disk. */
static int prune_body(struct call *k, void *p)
{
    struct cache_arg *a = p;
    struct yir_str s = {.arena = k->arena};
    open_results(k, a);
    if (!a->dir) return -1;
    typedef unsigned long long u;
    u results = cg_artifacts_prune(a->artifacts, a->prune.max_age, a->prune.max_bytes);
    u files = cg_leftovers_prune(a->dir, a->prune.max_age, a->prune.max_bytes == 0);
    a->records = cg_tunedb_open(k->arena, a->dir);
    u records = cg_tunedb_prune(a->records, a->prune.max_age, a->prune.max_record_bytes);
    yir_str_fmt(&s, "%llu records, %llu results and %llu other files removed\n", records, results, files);
    if (call_result(k, s.text, s.len, a->out)) return -1;
    return yir_diag_errors(k->diags) ? -1 : 0;
}

yoloc_status yoloc_cache_prune(yoloc *c, const yoloc_prune_opts *o, yoloc_result *text)
{
    struct cache_arg a = {.prune = {.max_age = -1, .max_bytes = -1, .max_record_bytes = -1}, .out = text};
    if (!text || (o && o->size < sizeof o->size)) return YOLOC_USAGE;
    if (o) memcpy(&a.prune, o, o->size < sizeof a.prune ? o->size : sizeof a.prune);
    return call_run(c, prune_body, &a);
}

static int export_body(struct call *k, void *p)
{
    struct cache_arg *a = p;
    size_t size = 0;
    if (open_both(k, a)) return -1;
    const char *bytes = cg_tunedb_export(a->records, k->arena, &size);
    if (!bytes) return yir_diag(k->diags, (struct yir_loc){0}, E_CACHE, "the records can't be exported");
    return call_result(k, bytes, size, a->out);
}

yoloc_status yoloc_cache_export(yoloc *c, yoloc_result *records)
{
    if (!records) return YOLOC_USAGE;
    struct cache_arg a = {.out = records};
    return call_run(c, export_body, &a);
}

static int merge_body(struct call *k, void *p)
{
    struct cache_arg *a = p;
    struct yir_str s = {.arena = k->arena};
    struct cg_tune_merge m;
    const uint8_t *bytes;
    size_t size;
    uint32_t file = yir_diag_file(k->diags, a->path, NULL, 0);
    if (fe_infile_read(k->arena, k->diags, a->path, file, k->c->limits.max_records, YIR_RAISE(max_records), &bytes, &size)) return -1;
    if (open_both(k, a)) return -1;
    const char *why = cg_tunedb_merge(a->records, bytes, size, &m);
    if (why) return yir_diag(k->diags, (struct yir_loc){.file = file}, E_KIND, "no file of tuning records: %s", why);
    yir_str_fmt(&s, "%llu records taken, %llu are here already or older, %llu damaged\n", (unsigned long long)m.taken,
                (unsigned long long)m.older, (unsigned long long)m.damaged);
    return finish(k, &s, a);
}

yoloc_status yoloc_cache_merge(yoloc *c, const char *path, yoloc_result *text)
{
    if (!path || !text) return YOLOC_USAGE;
    struct cache_arg a = {.path = path, .out = text};
    return call_run(c, merge_body, &a);
}
