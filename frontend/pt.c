#include "pt.h"

#include <string.h>

#include "check.h"
#include "ptree.h"
#include "zip.h"

/* Zip archive. */

struct archive {
    const struct fe_zip *zip;
    const char *prefix; /* "best/" */
};

static const struct fe_zip_entry *record(const struct archive *ar, struct yir_arena *a, const char *name)
{
    return fe_zip_find(ar->zip, yir_format(a, "%s%s", ar->prefix, name));
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

/* What an archive without a checkpoint is. */
static int not_a_checkpoint(struct fe_pickle *p, const struct fe_zip *zip)
{
    struct yir_loc loc = {.file = p->file};
    for (size_t i = 0; i < zip->n; i++) {
        if (ends_with(zip->entry[i].name, ".npy")) {
            return yir_diag(p->d, loc, E_PT_KIND,
                            "looks like a NumPy archive (.npz), not like a PyTorch checkpoint");
        }
    }
    return yir_diag(p->d, loc, E_PT_KIND, "a zip archive, but no PyTorch checkpoint: it has no data.pkl");
}

/* Sets the prefix from the one entry <prefix>/data.pkl. */
static int find_prefix(struct fe_pickle *p, struct archive *ar)
{
    struct yir_loc loc = {.file = p->file};
    for (size_t i = 0; i < ar->zip->n; i++) {
        const char *name = ar->zip->entry[i].name;
        if (!ends_with(name, "/data.pkl")) continue;
        if (FE_BREAKS(PT_TWO, ar->prefix))
            return yir_diag(p->d, loc, E_PT_KIND, "the archive holds two checkpoints: %sdata.pkl and %s",
                            ar->prefix, name);
        ar->prefix = yir_strndup(p->a, name, strlen(name) - strlen("data.pkl"));
    }
    if (FE_BREAKS(PT_DATA, !ar->prefix)) return not_a_checkpoint(p, ar->zip);
    if (FE_BREAKS(PT_SCRIPT, record(ar, p->a, "constants.pkl"))) {
        return yir_diag(p->d, loc, E_PT_KIND,
                        "a TorchScript archive; only checkpoints made by torch.save are read "
                        "(save the model or its state_dict instead of the traced form)");
    }
    return 0;
}

/* The format's version, a small number with a line end, and the byte order. */
static int check_format(struct fe_pickle *p, struct archive *ar)
{
    const struct fe_zip_entry *e = record(ar, p->a, "version");
    if (FE_BREAKS(PT_VERSION_THERE, !e))
        return yir_diag(p->d, (struct yir_loc){.file = p->file}, E_ZIP, "the archive has no version entry");
    unsigned version = 0;
    uint64_t digits = 0;
    while (digits < e->size && digits < 4 && e->data[digits] >= '0' && e->data[digits] <= '9') {
        version = version * 10 + (unsigned)(e->data[digits++] - '0');
    }
    if (FE_BREAKS(PT_VERSION_NUMBER,
                  digits == 0 || (digits < e->size && (e->data[digits] != '\n' || digits + 1 != e->size)))) {
        return yir_diag_bin(p->d, p->file, e->at, E_ZIP, "the version of the archive is no number");
    }
    if (FE_BREAKS(PT_VERSION, version < 1 || version > 10)) {
        return yir_diag_bin(p->d, p->file, e->at, E_ZIP, "version %u of the archive format is not known",
                            version);
    }
    e = record(ar, p->a, "byteorder");
    if (!e || (e->size == 6 && memcmp(e->data, "little", 6) == 0)) return 0;
    if (FE_BREAKS(PT_BIG, e->size == 3 && memcmp(e->data, "big", 3) == 0)) {
        return yir_diag_bin(p->d, p->file, e->at, E_PT_KIND,
                            "the checkpoint was saved on a big-endian machine");
    }
    if (FE_HOLDS(PT_BYTEORDER, false)) return 0;
    return yir_diag_bin(p->d, p->file, e->at, E_ZIP,
                        "the byte order of the archive is neither little nor big");
}

static int find_record(struct fe_pickle *p, struct fe_storage *s)
{
    const struct archive *ar = p->user;
    char name[96];
    YIR_ASSERT(s->key_len < sizeof name - sizeof "data/");
    memcpy(name, "data/", 5);
    memcpy(name + 5, s->key, s->key_len);
    name[5 + s->key_len] = 0;
    const struct fe_zip_entry *e = record(ar, p->a, name);
    if (FE_BREAKS(PT_RECORD, !e))
        return FE_PICKLE_BAD(p, E_TENSOR, "the archive has no entry '%s' for a storage", name);
    uint64_t bytes = 0;
    if (FE_BREAKS(PT_RECORD_SIZE,
                  !yir_mul_u64((uint64_t)s->numel, s->itemsize, &bytes) || bytes != e->size)) {
        return FE_PICKLE_BAD(p, E_TENSOR,
                             "storage '%s' has %llu bytes, but %lld elements of %u bytes are declared", name,
                             (unsigned long long)e->size, (long long)s->numel, s->itemsize);
    }
    s->data = e->data;
    return 0;
}

int fe_pt_read_zip(struct yir_arena *a, struct yir_diags *d, const uint8_t *bytes, size_t len,
                   const struct yir_limits *limits, struct fe_weights *w)
{
    struct archive ar = {.zip = fe_zip_open(a, d, w->file, bytes, len, limits->allow_bad_crc)};
    struct fe_pickle p = {
        .a = a, .d = d, .file = w->file, .limits = limits, .resolve = find_record, .user = &ar};
    if (!ar.zip || find_prefix(&p, &ar) != 0 || check_format(&p, &ar) != 0) return -1;
    const struct fe_zip_entry *e = record(&ar, a, "data.pkl");
    if (FE_BREAKS(PT_PICKLE_SIZE, e->size > limits->max_pickle)) {
        return yir_diag_bin(
            d, w->file, e->at, E_LIMIT, "the pickle has %llu bytes, more than the limit of %llu%s",
            (unsigned long long)e->size, (unsigned long long)limits->max_pickle, YIR_RAISE(max_pickle));
    }
    p.base = e->at;
    uint64_t used;
    struct fe_obj *top = fe_pickle_load(&p, e->data, e->size, &used);
    if (!top) return -1;
    if (FE_BREAKS(PT_PICKLE_END, used != e->size))
        return FE_PICKLE_BAD(&p, E_PICKLE, "there are bytes after the end of the pickle");
    return fe_ptree_read(&p, top, w);
}

/* Legacy. */

/* A legacy file is: magic, protocol 1001, facts of the system, the object, keys of the storages; each a
 * pickle of its own. Then, for each key, a count of elements and the elements. */
struct legacy {
    struct fe_pickle *p;
    const uint8_t *bytes;
    uint64_t len, pos;
};

static struct fe_obj *next_pickle(struct legacy *l)
{
    uint64_t used;
    l->p->base = l->pos;
    struct fe_obj *o = fe_pickle_load(l->p, l->bytes + l->pos, l->len - l->pos, &used);
    if (o) l->pos += used;
    return o;
}

static int check_head(struct legacy *l)
{
    /* The caller knows the magic by its bytes. */
    const struct fe_obj *magic = next_pickle(l);
    const struct fe_obj *version = magic ? next_pickle(l) : NULL;
    if (!version) return -1;
    if (FE_BREAKS(PTL_VERSION, version->kind != FE_O_INT || version->u.i != 1001)) {
        return FE_PICKLE_BAD(l->p, E_PT_KIND, "the version of the checkpoint's old format is not 1001");
    }
    const struct fe_obj *system = next_pickle(l);
    if (!system) return -1;
    const struct fe_obj *little = fe_obj_get(system, "little_endian");
    if (FE_BREAKS(PTL_LITTLE, !little || little->kind != FE_O_BOOL || !little->u.i)) {
        return FE_PICKLE_BAD(l->p, E_PT_KIND, "the checkpoint was not saved on a little-endian machine");
    }
    return 0;
}

static int read_storage(struct legacy *l, const struct fe_obj *key)
{
    struct fe_pickle *p = l->p;
    size_t i;
    if (FE_BREAKS(PTL_KEY_KIND, key->kind != FE_O_STR) ||
        FE_BREAKS(PTL_KEY, !p->keys.slot || !fe_strmap_find(&p->keys, key->u.str.s, key->u.str.n, &i))) {
        return FE_PICKLE_BAD(p, E_TENSOR, "the list of storages names one that is not used");
    }
    struct fe_storage *s = p->storage[i];
    uint64_t bytes = 0, count = 0;
    if (FE_BREAKS(PTL_KEY_TWICE, s->data))
        return yir_diag_bin(p->d, p->file, l->pos, E_TENSOR,
                            "a storage stands twice in the list of storages");
    if (FE_BREAKS(PTL_COUNT_ROOM, l->len - l->pos < 8))
        return yir_diag_bin(p->d, p->file, l->pos, E_TENSOR, "the file ends before a storage: it is cut off");
    for (int k = 7; k >= 0; k--)
        count = count << 8 | l->bytes[l->pos + (uint64_t)k];
    if (FE_BREAKS(PTL_COUNT, count != (uint64_t)s->numel)) {
        return yir_diag_bin(p->d, p->file, l->pos, E_TENSOR,
                            "a storage has %llu elements, but %lld are declared", (unsigned long long)count,
                            (long long)s->numel);
    }
    l->pos += 8;
    if (FE_BREAKS(PTL_ROOM, !yir_mul_u64(count, s->itemsize, &bytes) || bytes > l->len - l->pos)) {
        return yir_diag_bin(p->d, p->file, l->pos, E_TENSOR, "the file ends inside a storage: it is cut off");
    }
    s->data = l->bytes + l->pos;
    l->pos += bytes;
    return 0;
}

static int read_storages(struct legacy *l)
{
    const struct fe_obj *keys = next_pickle(l);
    if (!keys) return -1;
    if (FE_BREAKS(PTL_KEYS_KIND, keys->kind != FE_O_LIST) ||
        FE_BREAKS(PTL_KEYS, keys->u.seq.n != l->p->nstorage)) {
        return FE_PICKLE_BAD(l->p, E_TENSOR, "the list of storages does not fit the checkpoint");
    }
    for (size_t i = 0; i < keys->u.seq.n; i++) {
        if (read_storage(l, keys->u.seq.item[i]) != 0) return -1;
    }
    if (FE_HOLDS(PTL_END, l->pos == l->len)) return 0;
    return yir_diag_bin(l->p->d, l->p->file, l->pos, E_TENSOR, "there are bytes after the last storage");
}

int fe_pt_read_legacy(struct yir_arena *a, struct yir_diags *d, const uint8_t *bytes, size_t len,
                      const struct yir_limits *limits, struct fe_weights *w)
{
    struct fe_pickle p = {.a = a, .d = d, .file = w->file, .limits = limits};
    struct legacy l = {.p = &p, .bytes = bytes, .len = len};
    if (check_head(&l) != 0) return -1;
    uint64_t at = l.pos;
    struct fe_obj *top = next_pickle(&l);
    if (!top || read_storages(&l) != 0) return -1;
    p.base = at;
    return fe_ptree_read(&p, top, w);
}
