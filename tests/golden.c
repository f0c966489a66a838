/*
 * Golden tests: test_golden [--update] FOLDER_OR_FILE...
 *
 * A case is a file NAME.yt of sections, each begun by a line `== section`:
 *   == args              words: what is done with the input, in this order
 *        scale=s nc=N imgsz=H,W rule layers      (a model description alone) options of the build
 *        passes=a,b       these passes, each verified afterwards (or `passes=all`: the pipeline)
 *        batch=N no-fuse no-reuse whole-attention  options of the passes
 *        precision=TYPE layer=PATTERN:TYPE       (the second at most once)
 *        verify[=stage,stage]                    the verifier; stages are nobn, layout, kernels, places
 *        locs                                    print positions and module names
 *        quiet                                   print nothing: only the diagnostics count
 *   == in [FILE]         the input, under that name in diagnostics (default in.yir). NAME.yaml: a model description,
 *                        else IR text
 *   == out               the IR text that must come out, whole; absent when nothing may come out
 *   == err               all diagnostics that must come, whole; absent when there may be none
 * Lines before the first section are a comment. Whatever comes out is also parsed and printed again, which must give
 * the same text. --update writes what comes into the out and err sections; review its diff.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/model.h"
#include "ir/ir.h"
#include "passes/pass.h"

enum section { COMMENT, ARGS, IN, OUT, ERR, NSECTION };
static const char *const section_name[NSECTION] = {"", "args", "in", "out", "err"};

struct test {
    struct yir_arena *arena;
    const char *path;
    struct yir_str text[NSECTION];
    bool has[NSECTION];
    const char *in_name;
};

struct options {
    struct fe_model_opts model;
    struct pass_opts pass;
    struct pass_layer layer;
    const char *passes;
    unsigned print_flags, stages;
    bool verify, quiet;
};

static bool update;

static int complain(const struct test *t, const char *what, const char *detail)
{
    printf("%s: %s%s\n", t->path, what, detail);
    return -1;
}

static char *read_file(struct yir_arena *a, const char *path, size_t *len)
{
    FILE *in = fopen(path, "rb");
    if (!in) return NULL;
    struct yir_str s = {.arena = a};
    char buf[4096];
    for (size_t n; (n = fread(buf, 1, sizeof buf, in)) > 0;) yir_str_put(&s, buf, n);
    yir_str_put(&s, "", 0);
    fclose(in);
    *len = s.len;
    return s.text;
}

/* --- sections ----------------------------------------------------------------------------------------------- */

static int open_section(struct test *t, const char *line, size_t n, enum section *now)
{
    char name[16] = "", file[128] = "";
    char *head = yir_strndup(t->arena, line, n);
    sscanf(head, "== %15s %127s", name, file);
    for (int s = ARGS; s < NSECTION; s++) {
        if (strcmp(name, section_name[s])) continue;
        if (t->has[s]) return complain(t, "section twice: ", name);
        t->has[s] = true;
        *now = (enum section)s;
        if (s == IN && file[0]) t->in_name = yir_strdup(t->arena, file);
        return 0;
    }
    return complain(t, "unknown section: ", head);
}

static int read_case(struct test *t)
{
    size_t len;
    const char *p = read_file(t->arena, t->path, &len);
    if (!p) return complain(t, "cannot be read", "");
    enum section now = COMMENT;
    for (int s = 0; s < NSECTION; s++) {
        t->text[s].arena = t->arena;
        yir_str_put(&t->text[s], "", 0);
    }
    for (const char *end = p + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) + 1 : (size_t)(end - p);
        if (n > 3 && !memcmp(p, "== ", 3)) {
            if (open_section(t, p, n - (nl != NULL), &now)) return -1;
        } else {
            yir_str_put(&t->text[now], p, n);
        }
        p += n;
    }
    return t->has[IN] ? 0 : complain(t, "no section: ", "in");
}

static int write_case(struct test *t)
{
    FILE *out = fopen(t->path, "wb");
    if (!out) return complain(t, "cannot be written", "");
    fwrite(t->text[COMMENT].text, 1, t->text[COMMENT].len, out);
    for (int s = ARGS; s < NSECTION; s++) {
        if (!t->has[s]) continue;
        bool named = s == IN && strcmp(t->in_name, "in.yir");
        fprintf(out, "== %s%s%s\n", section_name[s], named ? " " : "", named ? t->in_name : "");
        fwrite(t->text[s].text, 1, t->text[s].len, out);
    }
    return fclose(out) ? complain(t, "cannot be written", "") : 0;
}

/* --- what a case does --------------------------------------------------------------------------------------- */

static int stages_of(const struct test *t, char *words, unsigned *out)
{
    static const struct {
        const char *name;
        unsigned bit;
    } stage[] = {
        {"nobn", YIR_S_NOBN}, {"layout", YIR_S_LAYOUT}, {"kernels", YIR_S_KERNELS}, {"places", YIR_S_PLACES}};
    char *save = NULL;
    for (char *w = strtok_r(words, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        size_t i = 0;
        while (i < YIR_COUNT(stage) && strcmp(stage[i].name, w)) i++;
        if (i == YIR_COUNT(stage)) return complain(t, "unknown stage: ", w);
        *out |= stage[i].bit;
    }
    return 0;
}

static int take_layer(struct options *o, char *text)
{
    char *colon = strchr(text, ':');
    if (!colon) return -1;
    *colon++ = 0;
    o->layer.pattern = text;
    o->pass.layer = &o->layer;
    o->pass.nlayer = 1;
    return yir_dtype_by_name(colon, strlen(colon), &o->layer.dtype) ? 0 : -1;
}

static int take_arg(const struct test *t, char *word, struct options *o)
{
    char *value = strchr(word, '=');
    if (value) *value++ = 0;
    if (!strcmp(word, "locs")) return o->print_flags |= YIR_PRINT_LOCS, 0;
    if (!strcmp(word, "quiet")) return o->quiet = true, 0;
    if (!strcmp(word, "verify")) return o->verify = true, value ? stages_of(t, value, &o->stages) : 0;
    if (!strcmp(word, "no-fuse")) return o->pass.fuse = false, 0;
    if (!strcmp(word, "no-reuse")) return o->pass.reuse = false, 0;
    if (!strcmp(word, "whole-attention")) return o->pass.whole_attention = true, 0;
    if (!strcmp(word, "rule")) return o->model.rule = true, 0;
    if (!strcmp(word, "layers")) return o->model.layers = true, 0;
    if (!value) return complain(t, "unknown argument: ", word);
    if (!strcmp(word, "passes")) return o->passes = value, 0;
    if (!strcmp(word, "batch")) return o->model.batch = o->pass.max_batch = atoi(value), 0;
    if (!strcmp(word, "scale")) return o->model.scale = value, 0;
    if (!strcmp(word, "nc")) return o->model.nc = atoi(value), 0;
    if (!strcmp(word, "precision")) return yir_dtype_by_name(value, strlen(value), &o->pass.precision) ? 0 : -1;
    if (!strcmp(word, "layer")) return take_layer(o, value);
    if (!strcmp(word, "imgsz")) return sscanf(value, "%d,%d", &o->model.height, &o->model.width) == 2 ? 0 : -1;
    return complain(t, "unknown argument: ", word);
}

static int take_args(const struct test *t, struct options *o)
{
    pass_opts_init(&o->pass);
    o->pass.verify_each = true;
    o->model.path = t->in_name;
    o->model.batch = 1;
    char *words = yir_strdup(t->arena, t->text[ARGS].text), *save = NULL;
    for (char *w = strtok_r(words, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
        if (take_arg(t, w, o)) return -1;
    return 0;
}

static struct yir_func *read_input(const struct test *t, struct yir_types *types, struct yir_diags *d,
                                   const struct options *o)
{
    const struct yir_str *in = &t->text[IN];
    const char *dot = strrchr(t->in_name, '.');
    if (!dot || strcmp(dot, ".yaml")) return yir_parse(t->arena, types, d, t->in_name, in->text, in->len);
    const struct fe_value *root = fe_yaml_parse(t->arena, d, t->in_name, in->text, in->len);
    const struct fe_model *m = root ? fe_model_build(t->arena, types, d, root, &o->model) : NULL;
    return m ? m->func : NULL;
}

static struct yir_func *transform(struct yir_func *f, struct yir_diags *d, const struct options *o)
{
    if (f && o->passes && !strcmp(o->passes, "all"))
        f = pass_run_all(f, d, &o->pass);
    else if (f && o->passes)
        f = pass_run_named(f, d, o->passes, &o->pass);
    return f && o->verify && yir_verify(f, o->stages) ? NULL : f;
}

static struct yir_str print(struct yir_arena *a, const struct yir_func *f, unsigned flags)
{
    struct yir_str s = {.arena = a};
    yir_print(&s, f, flags);
    return s;
}

/* What is printed is what is parsed. */
static int check_round_trip(const struct test *t, struct yir_types *types, const struct yir_str *text,
                            unsigned flags)
{
    struct yir_diags *d = yir_diags_new(t->arena, NULL, NULL);
    const struct yir_func *f = yir_parse(t->arena, types, d, "printed", text->text, text->len);
    if (!f) return complain(t, "the result does not parse: ", yir_diag_at(d, 0)->rendered);
    struct yir_str again = print(t->arena, f, flags);
    if (!strcmp(again.text, text->text)) return 0;
    return complain(t, "the result prints differently when parsed again:\n", again.text);
}

static int run_case(struct test *t, struct yir_str *out, bool *has_out, struct yir_str *err)
{
    struct options o = {0};
    if (take_args(t, &o)) return -1;
    struct yir_types *types = yir_types_new(t->arena);
    struct yir_diags *d = yir_diags_new(t->arena, NULL, NULL);
    struct yir_func *f = transform(read_input(t, types, d, &o), d, &o);
    *err = (struct yir_str){.arena = t->arena};
    yir_str_put(err, "", 0);
    for (size_t i = 0; i < yir_diag_count(d); i++) yir_str_fmt(err, "%s\n", yir_diag_at(d, i)->rendered);
    *has_out = f && !o.quiet;
    if (!f) return yir_diag_errors(d) ? 0 : complain(t, "failed without a diagnostic", "");
    if (o.quiet) return err->len ? 0 : complain(t, "quiet, and no diagnostics either", "");
    *out = print(t->arena, f, o.print_flags);
    return check_round_trip(t, types, out, o.print_flags);
}

/* --- comparing ---------------------------------------------------------------------------------------------- */

static void show_difference(const struct test *t, enum section s, const char *want, const char *got)
{
    int line = 1;
    const char *w = want, *g = got;
    for (; *w && *w == *g; w++, g++)
        if (*w == '\n') line++, want = w + 1, got = g + 1;
    printf("%s: section %s differs at its line %d\n- %.*s\n+ %.*s\n", t->path, section_name[s], line,
           (int)strcspn(want, "\n"), want, (int)strcspn(got, "\n"), got);
}

static int compare(struct test *t, enum section s, bool has, const struct yir_str *got)
{
    if (has == t->has[s] && (!has || !strcmp(t->text[s].text, got->text))) return 0;
    if (update) {
        t->has[s] = has;
        t->text[s] = *got;
        return 1;
    }
    show_difference(t, s, t->has[s] ? t->text[s].text : "", has ? got->text : "");
    return -1;
}

static int test_file(const char *path)
{
    struct test t = {.arena = yir_arena_new(NULL, NULL), .path = path, .in_name = "in.yir"};
    struct yir_str out = {0}, err = {0};
    bool has_out = false;
    int bad = read_case(&t) || run_case(&t, &out, &has_out, &err);
    if (!bad) {
        int a = compare(&t, OUT, has_out, &out);
        int b = compare(&t, ERR, err.len > 0, &err);
        bad = a < 0 || b < 0 || ((a > 0 || b > 0) && write_case(&t));
    }
    yir_arena_free(t.arena);
    return bad ? 1 : 0;
}

static int is_case(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 3 && !strcmp(e->d_name + n - 3, ".yt");
}

static int test_folder(const char *folder, int *count)
{
    struct dirent **entry;
    int n = scandir(folder, &entry, is_case, alphasort), bad = 0;
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        bad += test_file(path);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    *count += n > 0 ? n : 0;
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0, count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (!strcmp(argv[i], "--update")) {
            update = true;
        } else if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            bad += test_folder(argv[i], &count);
        } else {
            bad += test_file(argv[i]);
            count++;
        }
    }
    printf("%d of %d cases failed\n", bad, count);
    return bad || !count;
}
