/* libyaml events to a literal tree. Never the whole-document loader: it has no limits. */
#include "model.h"

#include "check.h"
#include "infile.h"
#include "scalar.h"
#include "strmap.h"

#include <string.h>
#include <yaml.h>

/* What a value unfolds to, aliases in it replaced by what they repeat. */
struct extent {
    size_t nodes, bytes; /* itself included; bytes of text */
    int height;          /* levels of lists and dicts; 0: a scalar */
};

struct anchor {
    struct fe_value *v;
    struct extent extent;
    bool open; /* still being read */
};

struct frame { /* a list or dict being filled */
    struct fe_value *v;
    size_t cap_item, cap_key;
    struct fe_value *key;  /* dict: read, its value is next */
    struct fe_strmap seen; /* dict: its keys */
    size_t nodes, bytes;   /* the reader's before it */
    int height;
    size_t anchor;         /* number of its anchor + 1, or 0 */
    bool merges;           /* dict: << is among its keys */
};

struct reader {
    struct yir_arena *arena;
    struct yir_diags *diags;
    uint32_t file;
    const char *text;
    size_t *line; /* offset of each line */
    size_t nline;
    struct { /* last position computed: positions mostly ascend, lines may be long */
        size_t line, column, offset;
    } last;
    const struct yir_limits *limits;
    struct frame *stack;
    size_t cap_stack;
    int depth;
    size_t nodes, bytes; /* of the file, unfolded */
    struct anchor *anchor;
    size_t nanchor, cap_anchor;
    struct fe_strmap anchors; /* by name */
    struct fe_value *root;
};

static void find_lines(struct reader *r, const char *text, size_t len)
{
    size_t cap = 0;
    r->text = text;
    for (size_t i = 0; i <= len; i++) {
        if (i && text[i - 1] != '\n') continue;
        r->line = yir_grow(r->arena, r->line, &cap, r->nline + 1, sizeof *r->line);
        r->line[r->nline++] = i;
    }
}

/* libyaml counts columns in characters, diagnostics in bytes. */
static struct yir_loc loc_of(struct reader *r, yaml_mark_t m)
{
    if (m.line >= r->nline) return (struct yir_loc){r->file, (uint32_t)r->nline, 1};
    size_t start = r->line[m.line];
    if (r->last.line != m.line || r->last.column > m.column || !r->last.offset) {
        r->last.line = m.line;
        r->last.column = 0;
        r->last.offset = start;
    }
    const char *s = r->text + r->last.offset;
    for (; r->last.column < m.column && *s && *s != '\n'; r->last.column++) {
        s++;
        while (((unsigned char)*s & 0xc0) == 0x80)
            s++;
    }
    r->last.offset = (size_t)(s - r->text);
    return (struct yir_loc){r->file, (uint32_t)m.line + 1, (uint32_t)(r->last.offset - start) + 1};
}

/* Key of a dict as the text that must be distinct: 1 and '1' are two keys. */
static const char *key_text(struct reader *r, const struct fe_value *k)
{
    return k->kind == FE_INT ? yir_format(r->arena, "i%lld", (long long)k->i)
                             : yir_format(r->arena, "s%s", k->s);
}

/* Quoted it is a key as others are. */
static bool is_merge(const struct fe_value *key)
{
    return key->kind == FE_STR && !key->quoted && strcmp(key->s, "<<") == 0;
}

static int add_key(struct reader *r, struct frame *f, struct fe_value *k)
{
    if (FE_BREAKS(YAML_KEY_KIND, k->kind != FE_STR && k->kind != FE_INT))
        return yir_diag(r->diags, k->loc, E_YAML_KEY, "a key must be a name or an integer, not %s",
                        fe_describe(r->arena, k));
    f->key = k;
    if (is_merge(k)) return f->merges = true, 0;
    const char *text = key_text(r, k);
    size_t first = f->v->n;
    if (FE_BREAKS(YAML_KEY_TWICE, !fe_strmap_add(&f->seen, text, strlen(text), &first))) {
        yir_diag(r->diags, k->loc, E_YAML_KEY, "the key %s stands twice", text + 1);
        yir_diag_note(r->diags, f->v->key[first]->loc, "here for the first time");
        return -1;
    }
    return 0;
}

static void reach(struct frame *f, int height)
{
    if (f->height <= height) f->height = height + 1;
}

/* Counts a value that is about to be added. */
static int count_value(struct reader *r, struct yir_loc loc, struct extent e)
{
    r->nodes += e.nodes;
    r->bytes += e.bytes;
    if (FE_BREAKS(YAML_VALUES, r->nodes > r->limits->max_yaml_values))
        return yir_diag(r->diags, loc, E_LIMIT, "more than %llu values in one file%s%s",
                        (unsigned long long)r->limits->max_yaml_values,
                        e.nodes > 1 ? ", what aliases repeat included" : "", YIR_RAISE(max_yaml_values));
    if (r->depth) reach(&r->stack[r->depth - 1], e.height);
    return 0;
}

/* Puts a value where the next one belongs. */
static int add_node(struct reader *r, struct fe_value *v)
{
    if (r->depth == 0) {
        r->root = v;
        return 0;
    }
    struct frame *f = &r->stack[r->depth - 1];
    struct fe_value *parent = f->v;
    if (parent->kind == FE_DICT && !f->key) return add_key(r, f, v);
    parent->item = yir_grow(r->arena, parent->item, &f->cap_item, parent->n + 1, sizeof *parent->item);
    parent->item[parent->n] = v;
    if (parent->kind == FE_DICT) {
        parent->key = yir_grow(r->arena, parent->key, &f->cap_key, parent->n + 1, sizeof *parent->key);
        parent->key[parent->n] = f->key;
        f->key = NULL;
    }
    parent->n++;
    return 0;
}

static struct fe_value *new_value(struct reader *r, enum fe_kind kind, yaml_mark_t at)
{
    struct fe_value *v = yir_alloc(r->arena, sizeof *v);
    v->kind = kind;
    v->loc = loc_of(r, at);
    return v;
}

static int refuse_tag(struct reader *r, const yaml_char_t *tag, yaml_mark_t at)
{
    if (FE_HOLDS(YAML_TAG, !tag)) return 0;
    return yir_diag(r->diags, loc_of(r, at), E_YAML_FEATURE, "tags (%s) are not read", (const char *)tag);
}

/* --- anchors, aliases and merge keys: what they repeat is one value, counted each time it stands ------------- */

/* Names v; the number of its anchor + 1, 0 when it has none, -1 after reporting. */
static int name_value(struct reader *r, const yaml_char_t *name, struct fe_value *v, struct extent e, bool open)
{
    if (!name) return 0;
    const char *text = yir_strdup(r->arena, (const char *)name);
    size_t at = r->nanchor;
    if (FE_BREAKS(YAML_ANCHOR, !fe_strmap_add(&r->anchors, text, strlen(text), &at))) {
        yir_diag(r->diags, v->loc, E_YAML_ALIAS, "the anchor &%s stands twice", text);
        yir_diag_note(r->diags, r->anchor[at].v->loc, "here for the first time");
        return -1;
    }
    r->anchor = yir_grow(r->arena, r->anchor, &r->cap_anchor, r->nanchor + 1, sizeof *r->anchor);
    r->anchor[r->nanchor++] = (struct anchor){.v = v, .extent = e, .open = open};
    return (int)r->nanchor;
}

static int take_alias(struct reader *r, const yaml_event_t *e)
{
    const char *name = (const char *)e->data.alias.anchor;
    const struct yir_limits *most = r->limits;
    struct yir_loc loc = loc_of(r, e->start_mark);
    size_t at = 0;
    if (FE_BREAKS(YAML_ALIAS, !fe_strmap_find(&r->anchors, name, strlen(name), &at)))
        return yir_diag(r->diags, loc, E_YAML_ALIAS, "the alias *%s repeats nothing: no &%s stands before it", name, name);
    const struct anchor *a = &r->anchor[at];
    if (FE_BREAKS(YAML_ALIAS_INSIDE, a->open))
        return yir_diag(r->diags, loc, E_YAML_ALIAS, "the alias *%s stands inside of what it repeats", name);
    if (FE_BREAKS(YAML_ALIAS_TEXT, r->bytes + a->extent.bytes > most->max_yaml))
        return yir_diag(r->diags, loc, E_LIMIT, "more than %llu bytes of text, what aliases repeat included%s",
                        (unsigned long long)most->max_yaml, YIR_RAISE(max_yaml));
    if (FE_BREAKS(YAML_ALIAS_DEPTH, (uint64_t)r->depth + (uint64_t)a->extent.height > most->max_yaml_depth))
        return yir_diag(r->diags, loc, E_LIMIT, "nested more than %llu deep, what aliases repeat included%s",
                        (unsigned long long)most->max_yaml_depth, YIR_RAISE(max_yaml_depth));
    if (count_value(r, loc, a->extent)) return -1;
    a->v->repeated = true;
    return add_node(r, a->v);
}

/* Adds a pair, or gives the key another value; an added one never does. */
static void set_pair(struct reader *r, struct frame *to, struct fe_value *key, struct fe_value *item, bool added)
{
    const char *text = key_text(r, key);
    struct fe_value *v = to->v;
    size_t at = v->n;
    if (!fe_strmap_add(&to->seen, text, strlen(text), &at) && added) return;
    if (at == v->n) {
        v->key = yir_grow(r->arena, v->key, &to->cap_key, v->n + 1, sizeof *v->key);
        v->item = yir_grow(r->arena, v->item, &to->cap_item, v->n + 1, sizeof *v->item);
        v->n++;
    }
    v->key[at] = key;
    v->item[at] = item;
}

static int merge_one(struct reader *r, struct frame *to, const struct fe_value *from)
{
    if (FE_BREAKS(YAML_MERGE, from->kind != FE_DICT))
        return yir_diag(r->diags, from->loc, E_YAML_KEY, "<< takes a mapping or a list of mappings, not %s",
                        fe_describe(r->arena, from));
    for (size_t i = 0; i < from->n; i++)
        set_pair(r, to, from->key[i], from->item[i], true);
    return 0;
}

/* Keys that << adds come first, in order, each as it stands first; the dict's own have the last word. */
static int merge_keys(struct reader *r, struct fe_value *v)
{
    struct fe_value all = {.kind = FE_DICT};
    struct frame to = {.v = &all};
    fe_strmap_init(&to.seen, r->arena, v->n);
    for (size_t i = 0; i < v->n; i++) {
        const struct fe_value *from = v->item[i];
        if (!is_merge(v->key[i])) continue;
        bool list = from->kind == FE_LIST;
        for (size_t k = 0; k < (list ? from->n : 1); k++)
            if (merge_one(r, &to, list ? from->item[k] : from)) return -1;
    }
    for (size_t i = 0; i < v->n; i++)
        if (!is_merge(v->key[i])) set_pair(r, &to, v->key[i], v->item[i], false);
    v->key = all.key;
    v->item = all.item;
    v->n = all.n;
    return 0;
}

/* --- events ------------------------------------------------------------------------------------------------- */

static int open_node(struct reader *r, enum fe_kind kind, const yaml_char_t *anchor, const yaml_char_t *tag,
                     yaml_mark_t at)
{
    if (refuse_tag(r, tag, at)) return -1;
    struct fe_value *v = new_value(r, kind, at);
    size_t nodes = r->nodes, bytes = r->bytes;
    int number = name_value(r, anchor, v, (struct extent){0}, true);
    if (number < 0 || count_value(r, v->loc, (struct extent){.nodes = 1}) || add_node(r, v)) return -1;
    if (FE_BREAKS(YAML_DEPTH, (uint64_t)r->depth == r->limits->max_yaml_depth))
        return yir_diag(r->diags, v->loc, E_LIMIT, "nested more than %d deep%s", r->depth,
                        YIR_RAISE(max_yaml_depth));
    r->stack = yir_grow(r->arena, r->stack, &r->cap_stack, (size_t)r->depth + 1, sizeof *r->stack);
    struct frame *f = &r->stack[r->depth++];
    *f = (struct frame){.v = v, .nodes = nodes, .bytes = bytes, .height = 1, .anchor = (size_t)number};
    if (kind == FE_DICT) fe_strmap_init(&f->seen, r->arena, 8);
    return 0;
}

static int close_node(struct reader *r)
{
    const struct frame *f = &r->stack[--r->depth];
    struct extent e = {r->nodes - f->nodes, r->bytes - f->bytes, f->height};
    if (r->depth) reach(&r->stack[r->depth - 1], e.height);
    if (f->anchor) {
        r->anchor[f->anchor - 1].extent = e;
        r->anchor[f->anchor - 1].open = false;
    }
    return f->merges ? merge_keys(r, f->v) : 0;
}

static int add_scalar(struct reader *r, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    if (refuse_tag(r, e->data.scalar.tag, e->start_mark)) return -1;
    struct fe_value *v = new_value(r, FE_STR, e->start_mark);
    if (FE_BREAKS(YAML_ZERO, strlen(text) != e->data.scalar.length))
        return yir_diag(r->diags, v->loc, E_YAML_SYNTAX, "a string holds a zero byte");
    v->s = yir_strndup(r->arena, text, e->data.scalar.length);
    v->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (FE_BREAKS(YAML_INT, !v->quoted && !fe_scalar_plain(v->s, v)))
        return yir_diag(r->diags, v->loc, E_LITERAL, "the integer %s is too large", v->s);
    struct extent extent = {1, e->data.scalar.length, 0};
    if (name_value(r, e->data.scalar.anchor, v, extent, false) < 0 || count_value(r, v->loc, extent)) return -1;
    return add_node(r, v);
}

static int take_document(struct reader *r, const yaml_event_t *e)
{
    if (FE_BREAKS(YAML_DOCUMENTS, r->root))
        return yir_diag(r->diags, loc_of(r, e->start_mark), E_YAML_FEATURE, "a second document starts here");
    if (FE_BREAKS(YAML_TAG_DIRECTIVE,
                  e->data.document_start.tag_directives.start != e->data.document_start.tag_directives.end))
        return yir_diag(r->diags, loc_of(r, e->start_mark), E_YAML_FEATURE, "%%TAG directives are not read");
    return 0;
}

static int take_event(struct reader *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        return take_document(r, e);
    case YAML_SCALAR_EVENT:
        return add_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        return open_node(r, FE_LIST, e->data.sequence_start.anchor, e->data.sequence_start.tag,
                         e->start_mark);
    case YAML_MAPPING_START_EVENT:
        return open_node(r, FE_DICT, e->data.mapping_start.anchor, e->data.mapping_start.tag, e->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_node(r);
    case YAML_ALIAS_EVENT:
        return take_alias(r, e);
    default:
        return 0;
    }
}

static int report_syntax(struct reader *r, const yaml_parser_t *p)
{
    const char *problem = p->problem ? p->problem : "not YAML";
    if (p->error == YAML_MEMORY_ERROR)
        return yir_diag(r->diags, (struct yir_loc){r->file, 0, 0}, E_MEMORY, "out of memory");
    if (p->error == YAML_READER_ERROR)
        return yir_diag_bin(r->diags, r->file, p->problem_offset, E_YAML_SYNTAX, "%s", problem);
    yir_diag(r->diags, loc_of(r, p->problem_mark), E_YAML_SYNTAX, "%s", problem);
    if (p->context && p->context_mark.line != p->problem_mark.line)
        yir_diag_note(r->diags, loc_of(r, p->context_mark), "%s that starts here", p->context);
    return -1;
}

/* The library's memory, all of it: zeroed parsers and events may be deleted too. */
struct library {
    yaml_parser_t parser;
    yaml_event_t event;
};

static void release_library(void *p)
{
    struct library *y = p;
    yaml_event_delete(&y->event);
    yaml_parser_delete(&y->parser);
}

static int read_events(struct reader *r, const char *text, size_t len)
{
    struct library *y = yir_alloc(r->arena, sizeof *y);
    yir_arena_defer(r->arena, release_library, y);
    if (!yaml_parser_initialize(&y->parser))
        return yir_diag(r->diags, (struct yir_loc){r->file, 0, 0}, E_MEMORY, "out of memory");
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)text, len);
    int rc = 0;
    for (bool end = false; !end && rc == 0;) {
        if (!yaml_parser_parse(&y->parser, &y->event)) {
            rc = report_syntax(r, &y->parser);
            break;
        }
        rc = take_event(r, &y->event);
        end = y->event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&y->event);
    }
    release_library(y);
    return rc;
}

/* What a file that is no yaml looks like, or NULL. */
static const char *other_kind(const char *text, size_t len)
{
    static const struct {
        const char *start, *kind;
    } kinds[] = {{"PK\003\004", "a zip archive (a .pt checkpoint?)"},
                 {"\200\002", "a pickle"},
                 {"\x89PNG", "a picture"},
                 {"\xff\xd8", "a picture"},
                 {"<!DOCTYPE", "an HTML page"},
                 {"<!doctype", "an HTML page"},
                 {"<html", "an HTML page"},
                 {"<HTML", "an HTML page"},
                 {"version https://git-lfs", "a Git LFS pointer, not the file itself"}};
    size_t blank = strspn(text, " \t\r\n");
    for (size_t i = 0; i < YIR_COUNT(kinds); i++) {
        size_t n = strlen(kinds[i].start);
        if (len >= blank + n && memcmp(text + blank, kinds[i].start, n) == 0) return kinds[i].kind;
    }
    return memchr(text, 0, len) ? "a binary file" : NULL;
}

static const struct fe_value *parse(struct yir_arena *a, struct yir_diags *d, uint32_t file, const char *text,
                                    size_t len)
{
    struct yir_loc whole = {file, 0, 0};
    const char *kind = other_kind(text, len);
    if (FE_BREAKS(YAML_OTHER_FILE, kind))
        return yir_diag(d, whole, E_KIND, "this is no model description but %s", kind), NULL;
    struct reader *r = yir_alloc(a, sizeof *r);
    r->arena = a;
    r->diags = d;
    r->file = file;
    r->limits = yir_limits_of(d);
    fe_strmap_init(&r->anchors, a, 8);
    find_lines(r, text, len);
    if (read_events(r, text, len)) return NULL;
    if (FE_BREAKS(YAML_EMPTY, !r->root)) return yir_diag(d, whole, E_KIND, "the file is empty"), NULL;
    return r->root;
}

const struct fe_value *fe_yaml_parse(struct yir_arena *a, struct yir_diags *d, const char *name,
                                     const char *text, size_t len)
{
    char *copy = yir_strndup(a, text, len); /* the scanners below rely on a zero at the end */
    uint32_t file = yir_diag_file(d, name, copy, len);
    uint64_t most = yir_limits_of(d)->max_yaml;
    if (FE_BREAKS(YAML_SIZE, len > most))
        return yir_diag(d, (struct yir_loc){file, 0, 0}, E_LIMIT, "more than %llu bytes%s",
                        (unsigned long long)most, YIR_RAISE(max_yaml)),
               NULL;
    return parse(a, d, file, copy, len);
}

const struct fe_value *fe_yaml_read(struct yir_arena *a, struct yir_diags *d, const char *path)
{
    const uint8_t *bytes;
    size_t len;
    if (fe_infile_read(a, d, path, yir_diag_file(d, path, NULL, 0), yir_limits_of(d)->max_yaml,
                       YIR_RAISE(max_yaml), &bytes, &len))
        return NULL;
    uint32_t file = yir_diag_file(d, path, (const char *)bytes, len);
    return parse(a, d, file, (const char *)bytes, len);
}
