#include "safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "json.h"
#include "outfile.h"
#include "ptree.h"
#include "value.h"

#define MAX_INT ((uint64_t)1 << 53)

struct reader {
    struct yir_arena *a;
    struct yir_diags *d;
    uint32_t file;
    const struct yir_limits *limits;
    const uint8_t *bytes;
    uint64_t len, header; /* header: bytes of JSON after the count */
    json_t *json;         /* released with the arena, if not before */
    struct fe_strmap names;
    struct range *range;
};

/* Bytes of a tensor in the data part. */
struct range {
    uint64_t begin, end;
    const char *name;
};

#define BAD(r, ...)        yir_diag((r)->d, (struct yir_loc){.file = (r)->file}, E_SAFETENSORS, __VA_ARGS__)
#define BAD_AT(r, at, ...) yir_diag_bin((r)->d, (r)->file, (at), E_SAFETENSORS, __VA_ARGS__)

static void release(void *p)
{
    struct reader *r = p;
    json_decref(r->json);
    r->json = NULL;
}

/* Header text: what the JSON library would let pass, and what would cost it too much. */

struct scan {
    const uint8_t *p;
    uint64_t at, end;
    int depth;
    uint64_t objects;
};

/* From an opening quote to behind the closing one. */
static bool skip_string(struct scan *s)
{
    for (s->at++; s->at < s->end; s->at++) {
        if (s->p[s->at] == '\\')
            s->at++;
        else if (s->p[s->at] == '"') {
            s->at++;
            return true;
        }
    }
    return false;
}

/* An integer without sign, leading zero, fraction or exponent, up to 2^53. */
static bool skip_number(struct scan *s)
{
    uint64_t v = 0, from = s->at;
    for (; s->at < s->end && s->p[s->at] >= '0' && s->p[s->at] <= '9'; s->at++) {
        v = v * 10 + (uint64_t)(s->p[s->at] - '0');
        if (FE_BREAKS(ST_NUMBER_LARGE, v > MAX_INT)) return false;
    }
    if (FE_BREAKS(ST_NUMBER_ZERO, s->p[from] == '0' && s->at - from > 1)) return false;
    return FE_HOLDS(ST_NUMBER_INTEGER, s->at > from && (s->at == s->end || !strchr(".eE+-", s->p[s->at])));
}

static bool skip_token(struct scan *s)
{
    uint8_t c = s->p[s->at];
    if (c == '"') return skip_string(s);
    if (c == '-' || (c >= '0' && c <= '9')) return skip_number(s);
    if (c == '{' || c == '[') s->depth++;
    if (c == '{') s->objects++;
    if (c == '}' || c == ']') s->depth--;
    s->at++;
    return true;
}

static int check_text(struct reader *r)
{
    struct scan s = {.p = r->bytes, .at = 8, .end = 8 + r->header};
    if (FE_BREAKS(ST_BRACE, r->bytes[8] != '{')) return BAD_AT(r, 8, "the header does not begin with '{'");
    do {
        if (!skip_token(&s))
            return BAD_AT(r, s.at, "the header has a number that is no count, or an open end");
        if (FE_BREAKS(ST_DEPTH, (uint64_t)s.depth > r->limits->max_json_depth)) {
            return yir_diag_bin(r->d, r->file, s.at, E_LIMIT, "the header nests more than %d deep%s",
                                s.depth - 1, YIR_RAISE(max_json_depth));
        }
        if (FE_BREAKS(ST_OBJECTS, s.objects > r->limits->max_tensors + 2)) {
            return yir_diag_bin(r->d, r->file, s.at, E_LIMIT, "more than %llu tensors%s",
                                (unsigned long long)r->limits->max_tensors, YIR_RAISE(max_tensors));
        }
    } while (s.depth > 0 && s.at < s.end);
    if (FE_BREAKS(ST_OPEN, s.depth > 0)) return BAD_AT(r, s.at, "the header ends inside an object");
    for (; s.at < s.end; s.at++) {
        if (FE_BREAKS(ST_PADDING, s.p[s.at] != ' '))
            return BAD_AT(r, s.at, "the header is filled up with something else than blanks");
    }
    return 0;
}

static int parse(struct reader *r)
{
    if (FE_BREAKS(ST_SHORT, r->len < 9)) return BAD(r, "the file is too short for a safetensors header");
    for (int i = 7; i >= 0; i--)
        r->header = r->header << 8 | r->bytes[i];
    if (FE_BREAKS(ST_HEADER_ROOM, r->header > r->len - 8))
        return BAD_AT(r, 0, "the header is longer than the file: it is cut off, or no safetensors file");
    if (FE_BREAKS(ST_HEADER_SIZE, r->header > r->limits->max_header)) {
        return yir_diag_bin(
            r->d, r->file, 0, E_LIMIT, "a header of %llu bytes, more than the limit of %llu%s",
            (unsigned long long)r->header, (unsigned long long)r->limits->max_header, YIR_RAISE(max_header));
    }
    if (FE_BREAKS(ST_HEADER_EMPTY, r->header < 2))
        return BAD_AT(r, 0, "a header of %u bytes", (unsigned)r->header);
    if (check_text(r) != 0) return -1;
    json_error_t err;
    size_t flags = FE_HOLDS(ST_KEY_TWICE, false) ? 0 : JSON_REJECT_DUPLICATES;
    r->json = json_loadb((const char *)r->bytes + 8, r->header, flags, &err);
    if (r->json) return 0;
    if (json_error_code(&err) == json_error_out_of_memory) {
        return yir_diag(r->d, (struct yir_loc){.file = r->file}, E_MEMORY, "no memory for the header");
    }
    return BAD_AT(r, 8 + (uint64_t)(err.position > 0 ? err.position : 0), "the header is no valid JSON: %s",
                  err.text);
}

/* Tensors. */

/* Names of element types. YIR_NDTYPE: part of the format, not read. */
static const struct {
    const char *name;
    enum yir_dtype type;
} types[] = {
    {"F32", YIR_F32}, {"F16", YIR_F16}, {"BF16", YIR_BF16}, {"F64", YIR_F64},   {"U8", YIR_U8},
    {"I8", YIR_I8},   {"I32", YIR_I32}, {"I64", YIR_I64},   {"BOOL", YIR_BOOL},
};

static int read_type(struct reader *r, const char *name, const json_t *j, enum yir_dtype *out)
{
    const char *text = json_string_value(j);
    for (size_t i = 0; text && i < YIR_COUNT(types); i++) {
        if (strcmp(types[i].name, text) != 0) continue;
        *out = types[i].type;
        return 0;
    }
    if (FE_HOLDS(ST_TYPE, false)) return 0;
    return BAD(r, "tensor '%s' has element type %s, which is not read", name,
               text ? text : "of the wrong kind");
}

/* Rank, sizes and dense strides. */
static int read_shape(struct reader *r, const json_t *j, struct fe_tensor *t)
{
    size_t n = json_array_size(j);
    if (FE_BREAKS(ST_SHAPE_KIND, !json_is_array(j)) || FE_BREAKS(ST_RANK, n > FE_MAX_RANK)) {
        return BAD(r, "the shape of tensor '%s' is no list of at most %d sizes", t->name, FE_MAX_RANK);
    }
    uint64_t numel = 1;
    t->rank = (int)n;
    for (size_t i = n; i-- > 0;) {
        const json_t *dim = json_array_get(j, i);
        int64_t v = json_integer_value(dim);
        if (FE_BREAKS(ST_DIM_KIND, !json_is_integer(dim)) || FE_BREAKS(ST_DIM, v < 0 || v > INT32_MAX)) {
            return BAD(r, "the shape of tensor '%s' holds something else than sizes", t->name);
        }
        t->dim[i] = v;
        t->stride[i] = (int64_t)numel;
        if (FE_BREAKS(ST_NUMEL, !yir_mul_u64(numel, (uint64_t)v, &numel) || numel > MAX_INT)) {
            return BAD(r, "tensor '%s' has too many elements", t->name);
        }
    }
    t->numel = (int64_t)numel;
    return 0;
}

static int read_range(struct reader *r, const json_t *j, struct fe_tensor *t, struct range *range)
{
    const json_t *begin = json_array_get(j, 0), *end = json_array_get(j, 1);
    if (FE_BREAKS(ST_OFFSETS_TWO, json_array_size(j) != 2) ||
        FE_BREAKS(ST_OFFSETS_KIND, !json_is_integer(begin) || !json_is_integer(end))) {
        return BAD(r, "the data_offsets of tensor '%s' are not two counts", t->name);
    }
    range->begin = (uint64_t)json_integer_value(begin);
    range->end = (uint64_t)json_integer_value(end);
    range->name = t->name;
    uint64_t data = 8 + r->header;
    if (FE_BREAKS(ST_RANGE_INSIDE, range->begin > range->end || range->end > r->len - data)) {
        return BAD(r, "the data of tensor '%s' lie outside the file: it is cut off or damaged", t->name);
    }
    if (FE_BREAKS(ST_RANGE_SIZE,
                  range->end - range->begin != (uint64_t)t->numel * yir_dtype_size(t->dtype))) {
        return BAD(r, "the data of tensor '%s' do not have the size of its shape", t->name);
    }
    t->data = r->bytes + data + range->begin;
    return 0;
}

static int read_tensor(struct reader *r, const char *key, const json_t *j, struct fe_tensor *t,
                       struct range *range)
{
    if (FE_BREAKS(ST_NAME_EMPTY, *key == 0)) return BAD(r, "a tensor's name is empty");
    if (FE_BREAKS(ST_NAME_LENGTH, strlen(key) > r->limits->max_name))
        return yir_diag_bin(r->d, r->file, 0, E_LIMIT, "a tensor's name is longer than %llu bytes%s",
                            (unsigned long long)r->limits->max_name, YIR_RAISE(max_name));
    t->name = yir_strdup(r->a, fe_bare_name(key));
    const json_t *type = json_object_get(j, "dtype"), *shape = json_object_get(j, "shape");
    const json_t *offsets = json_object_get(j, "data_offsets");
    if (FE_BREAKS(ST_FIELDS, !type || !shape || !offsets) ||
        FE_BREAKS(ST_FIELDS_ONLY, json_object_size(j) != 3)) {
        return BAD(r, "tensor '%s' does not have dtype, shape and data_offsets, and only these", key);
    }
    if (read_type(r, t->name, type, &t->dtype) != 0 || read_shape(r, shape, t) != 0) return -1;
    if (read_range(r, offsets, t, range) != 0) return -1;
    size_t at = 0;
    if (FE_HOLDS(ST_NAME_TWICE, fe_strmap_add(&r->names, t->name, strlen(t->name), &at))) return 0;
    return BAD(r, "two tensors are named '%s'", t->name);
}

static int by_begin(const void *x, const void *y)
{
    const struct range *a = x, *b = y;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* The data of all tensors follow each other without gap or overlap and fill the file. */
static int check_ranges(struct reader *r, struct range *range, size_t n)
{
    uint64_t at = 0, size = r->len - 8 - r->header;
    qsort(range, n, sizeof *range, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (FE_BREAKS(ST_RANGES, range[i].begin != at))
            return BAD(r, "the data of tensor '%s' do not follow those before it", range[i].name);
        at = range[i].end;
    }
    if (FE_BREAKS(ST_FILLED, at != size))
        return BAD(r, "%llu bytes of the file belong to no tensor", (unsigned long long)(size - at));
    return 0;
}

/* Metadata. */

static struct fe_value *string_value(struct yir_arena *a, const char *s, size_t n)
{
    struct fe_value *v = yir_alloc(a, sizeof *v);
    v->kind = FE_STR;
    v->s = yir_strndup(a, s, n);
    return v;
}

static const struct fe_value *read_metadata(struct reader *r, json_t *j)
{
    struct fe_value *v = yir_alloc(r->a, sizeof *v);
    v->kind = FE_DICT;
    if (FE_BREAKS(ST_META, j && !json_is_object(j))) return BAD(r, "__metadata__ is no object"), NULL;
    size_t n = json_object_size(j);
    v->key = yir_alloc_n(r->a, n, sizeof(struct fe_value *));
    v->item = yir_alloc_n(r->a, n, sizeof(struct fe_value *));
    const char *key;
    json_t *item;
    json_object_foreach(j, key, item)
    {
        if (FE_BREAKS(ST_META_TEXT, !json_is_string(item)))
            return BAD(r, "__metadata__ holds something else than strings"), NULL;
        v->key[v->n] = string_value(r->a, key, strlen(key));
        v->item[v->n++] = string_value(r->a, json_string_value(item), json_string_length(item));
    }
    return v;
}

/* Names between commas: not more than a model may have classes. */
static const struct fe_value *split_names(struct reader *r, const char *text)
{
    struct fe_value *v = yir_alloc(r->a, sizeof *v);
    uint64_t n = 1;
    for (const char *p = text; (p = strchr(p, ',')); p++)
        n++;
    if (FE_BREAKS(ST_NAMES, n > r->limits->max_classes)) {
        yir_diag(r->d, (struct yir_loc){.file = r->file}, E_LIMIT, "%llu names of classes%s",
                 (unsigned long long)n, YIR_RAISE(max_classes));
        return NULL;
    }
    v->kind = FE_LIST;
    v->item = yir_alloc_n(r->a, n, sizeof(struct fe_value *));
    for (const char *p = text; v->n < n; p++) {
        size_t len = strcspn(p, ",");
        v->item[v->n++] = string_value(r->a, p, len);
        p += len;
    }
    return v;
}

/* Class names in the metadata: a literal list or dict, or names between commas. -1 after reporting. */
static int read_names(struct reader *r, const struct fe_value *text, const struct fe_value **names)
{
    if (!text || text->kind != FE_STR || !*text->s) return 0;
    const struct fe_value *v = fe_literal(r->a, text->s, text->loc);
    *names = v && (v->kind == FE_DICT || v->kind == FE_LIST) ? v : split_names(r, text->s);
    return *names ? 0 : -1;
}

static int read_all(struct reader *r, struct fe_weights *w)
{
    json_t *meta = json_object_get(r->json, "__metadata__");
    size_t n = json_object_size(r->json) - (meta ? 1 : 0), i = 0;
    if (FE_BREAKS(ST_TENSORS, n > r->limits->max_tensors))
        return yir_diag(r->d, (struct yir_loc){.file = r->file}, E_LIMIT, "%zu tensors%s", n,
                        YIR_RAISE(max_tensors));
    w->top = read_metadata(r, meta);
    if (!w->top) return -1;
    if (read_names(r, fe_get(w->top, "names"), &w->names) != 0) return -1;
    struct fe_tensor *t = yir_alloc_n(r->a, n, sizeof *t);
    struct range *range = yir_alloc_n(r->a, n, sizeof *range);
    fe_strmap_init(&r->names, r->a, n);
    const char *key;
    json_t *item;
    json_object_foreach(r->json, key, item)
    {
        if (item == meta) continue;
        if (read_tensor(r, key, item, &t[i], &range[i]) != 0) return -1;
        i++;
    }
    w->tensor = t;
    w->ntensor = n;
    return check_ranges(r, range, n);
}

int fe_safetensors_read(struct yir_arena *a, struct yir_diags *d, const uint8_t *bytes, size_t len,
                        const struct yir_limits *limits, struct fe_weights *w)
{
    struct reader *r = yir_alloc(a, sizeof *r);
    *r = (struct reader){.a = a, .d = d, .file = w->file, .limits = limits, .bytes = bytes, .len = len};
    yir_arena_defer(a, release, r);
    int rc = parse(r) == 0 ? read_all(r, w) : -1;
    release(r);
    return rc;
}

/* Writing. */

static const char *type_name(enum yir_dtype t)
{
    for (size_t i = 0; i < YIR_COUNT(types); i++) {
        if (types[i].type == t) return types[i].name;
    }
    YIR_BUG("element type %d", (int)t);
}

static uint64_t bytes_of(const struct fe_out_tensor *t)
{
    uint64_t n = yir_dtype_size(t->dtype);
    for (int i = 0; i < t->rank; i++)
        YIR_ASSERT(t->dim[i] >= 0 && yir_mul_u64(n, (uint64_t)t->dim[i], &n));
    return n;
}

/* NULL without memory. Each json_*_new function takes over what it is given, also when it fails. */
static json_t *shape_of(const struct fe_out_tensor *t)
{
    json_t *shape = json_array();
    for (int k = 0; k < t->rank; k++) {
        if (json_array_append_new(shape, json_integer(t->dim[k])) == 0) continue;
        json_decref(shape);
        return NULL;
    }
    return shape;
}

/* The header as JSON; NULL without memory, or when a name is not UTF-8. */
static json_t *header_of(const struct fe_out_tensor *t, size_t n)
{
    json_t *all = json_object();
    uint64_t at = 0;
    for (size_t i = 0; all && i < n; i++) {
        uint64_t end = at + bytes_of(&t[i]);
        json_t *one = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(t[i].dtype), "shape",
                                shape_of(&t[i]), "data_offsets", (json_int_t)at, (json_int_t)end);
        at = end;
        if (json_object_set_new(all, t[i].name, one) == 0) continue;
        json_decref(all);
        return NULL;
    }
    return all;
}

static int put_all(struct fe_outfile *o, struct yir_diags *d, const char *text, const struct fe_out_tensor *t,
                   size_t n)
{
    /* The data start at a multiple of 8. */
    static const char blanks[8] = "        ";
    size_t len = strlen(text), pad = (8 - len % 8) % 8;
    uint8_t count[8];
    for (int i = 0; i < 8; i++)
        count[i] = (uint8_t)((uint64_t)(len + pad) >> (8 * i));
    if (fe_outfile_write(o, d, count, 8) != 0 || fe_outfile_write(o, d, text, len) != 0 ||
        fe_outfile_write(o, d, blanks, pad) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (fe_outfile_write(o, d, t[i].data, bytes_of(&t[i])) != 0) return -1;
    }
    return fe_outfile_commit(o, d);
}

int fe_safetensors_write(struct yir_arena *a, struct yir_diags *d, const char *path,
                         const struct fe_out_tensor *t, size_t n)
{
    struct fe_outfile o;
    void **text = yir_arena_slot(a);
    json_t *header = header_of(t, n);
    bool made = header != NULL;
    *text = fe_json_text(header);
    json_decref(header);
    if (!*text) {
        struct yir_loc loc = {.file = yir_diag_file(d, path, NULL, 0)};
        if (made) return yir_diag(d, loc, E_MEMORY, "no memory for the header");
        return yir_diag(d, loc, E_WRITE,
                        "the header could not be made: no memory, or a tensor's name is not UTF-8");
    }
    return fe_outfile_open(&o, d, path) == 0 ? put_all(&o, d, *text, t, n) : -1;
}
