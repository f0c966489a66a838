#include "zip.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "check.h"

enum {
    LOCAL_SIZE = 30,
    CENTRAL_SIZE = 46,
    EOCD_SIZE = 22,
    EOCD64_SIZE = 56,
    LOCATOR_SIZE = 20,
    FLAG_ENCRYPTED = 0x0001,
    FLAG_DESCRIPTOR = 0x0008, /* CRC and sizes follow the data */
    FLAG_STRONG = 0x2040,
    EXTRA_ZIP64 = 0x0001
};

#define SIG_LOCAL      0x04034b50u
#define SIG_CENTRAL    0x02014b50u
#define SIG_EOCD       0x06054b50u
#define SIG_EOCD64     0x06064b50u
#define SIG_LOCATOR    0x07064b50u
#define SIG_DESCRIPTOR 0x08074b50u
#define NONE32         0xffffffffu /* the field is in the zip64 extra */

struct reader {
    struct yir_arena *a;
    struct yir_diags *d;
    uint32_t file;
    const uint8_t *p;
    uint64_t len;
    uint64_t central, central_end; /* place of the central directory */
    uint32_t table[8][256];        /* of the CRC: table[k][b] is that of byte b and k zero bytes after it */
};

/* One entry while it is checked: fields of the central directory, compared with the local header. */
struct draft {
    uint32_t flags, method, crc;
    uint64_t size, packed;
};

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

#define BAD(r, at, ...) yir_diag_bin((r)->d, (r)->file, (at), E_ZIP, __VA_ARGS__)

/* true when n bytes can be read at offset at, below end. */
static bool within(uint64_t at, uint64_t n, uint64_t end)
{
    return at <= end && n <= end - at;
}

static void fill_table(uint32_t t[8][256])
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
        t[0][b] = c;
    }
    for (int k = 1; k < 8; k++) {
        for (int b = 0; b < 256; b++)
            t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 255];
    }
}

/* CRC-32, eight bytes a step. */
static uint32_t crc32_of(uint32_t t[8][256], const uint8_t *p, uint64_t n)
{
    uint32_t c = NONE32;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t x = c ^ get32(p), y = get32(p + 4);
        c = t[7][x & 255] ^ t[6][x >> 8 & 255] ^ t[5][x >> 16 & 255] ^ t[4][x >> 24];
        c ^= t[3][y & 255] ^ t[2][y >> 8 & 255] ^ t[1][y >> 16 & 255] ^ t[0][y >> 24];
    }
    for (; n > 0; n--, p++)
        c = c >> 8 ^ t[0][(c ^ *p) & 255];
    return ~c;
}

/* End records. */

/* Why there is no end record at the very end of the file. */
static int no_end(struct reader *r)
{
    uint64_t from = r->len > 65535 + EOCD_SIZE ? r->len - 65535 - EOCD_SIZE : 0;
    for (uint64_t at = from; within(at, 4, r->len); at++) {
        if (get32(r->p + at) == SIG_EOCD) {
            return BAD(r, at,
                       "the zip archive is followed by a comment or other bytes, which PyTorch never writes");
        }
    }
    return BAD(r, r->len, "the zip archive is cut off: its end is missing (an incomplete download or copy?)");
}

/* The zip64 end record and its locator, which stand right before the end record at eocd. */
static int read_end64(struct reader *r, uint64_t eocd, uint64_t *n, uint64_t *size, uint64_t *start)
{
    uint64_t locator = eocd - LOCATOR_SIZE;
    uint64_t at = get64(r->p + locator + 8);
    if (FE_BREAKS(ZIP_LOCATOR_DISKS, get32(r->p + locator + 4) != 0 || get32(r->p + locator + 16) > 1)) {
        return BAD(r, locator, "the archive claims to span several disks");
    }
    if (FE_BREAKS(ZIP_LOCATOR, !within(at, EOCD64_SIZE, locator) || at + EOCD64_SIZE != locator ||
                                   get32(r->p + at) != SIG_EOCD64)) {
        return BAD(r, locator, "the zip64 locator does not point at the zip64 end record");
    }
    const uint8_t *p = r->p + at;
    if (FE_BREAKS(ZIP_END64_SIZE, get64(p + 4) != EOCD64_SIZE - 12))
        return BAD(r, at, "the zip64 end record has a wrong size");
    if (FE_BREAKS(ZIP_END64_DISKS,
                  get32(p + 16) != 0 || get32(p + 20) != 0 || get64(p + 24) != get64(p + 32))) {
        return BAD(r, at, "the archive claims to span several disks");
    }
    if (FE_BREAKS(ZIP_ENDS_AGREE, (*n != 0xffff && *n != get64(p + 32)) ||
                                      (*size != NONE32 && *size != get64(p + 40)) ||
                                      (*start != NONE32 && *start != get64(p + 48)))) {
        return BAD(r, at, "the two end records of the archive disagree");
    }
    *n = get64(p + 32);
    *size = get64(p + 40);
    *start = get64(p + 48);
    r->central_end = at;
    return 0;
}

static int read_end(struct reader *r, uint64_t *n)
{
    if (FE_BREAKS(ZIP_END, r->len < EOCD_SIZE || get32(r->p + r->len - EOCD_SIZE) != SIG_EOCD))
        return no_end(r);
    uint64_t eocd = r->len - EOCD_SIZE;
    const uint8_t *p = r->p + eocd;
    if (FE_BREAKS(ZIP_COMMENT, get16(p + 20) != 0))
        return BAD(r, eocd, "the archive's comment runs past the end of the file");
    if (FE_BREAKS(ZIP_DISKS, get16(p + 4) != 0 || get16(p + 6) != 0 || get16(p + 8) != get16(p + 10))) {
        return BAD(r, eocd, "the archive claims to span several disks");
    }
    uint64_t size = get32(p + 12);
    *n = get16(p + 10);
    r->central = get32(p + 16);
    r->central_end = eocd;
    if (eocd >= LOCATOR_SIZE && get32(r->p + eocd - LOCATOR_SIZE) == SIG_LOCATOR &&
        read_end64(r, eocd, n, &size, &r->central) != 0)
        return -1;
    if (FE_BREAKS(ZIP_CENTRAL_PLACE,
                  !within(r->central, size, r->central_end) || r->central + size != r->central_end)) {
        return BAD(r, eocd, "the central directory is not where the end record says");
    }
    uint64_t most = yir_limits_of(r->d)->max_zip_entries;
    if (FE_BREAKS(ZIP_ENTRIES, *n > most)) {
        return yir_diag_bin(r->d, r->file, eocd, E_LIMIT, "the archive has more than %llu entries%s",
                            (unsigned long long)most, YIR_RAISE(max_zip_entries));
    }
    if (FE_BREAKS(ZIP_EMPTY, *n == 0)) return BAD(r, eocd, "the archive is empty");
    return 0;
}

/* Entries. */

/* Fills those of the n fields that are NONE32 from the zip64 extra, in order. false: malformed, or not
 * there. */
static bool read_extra64(const uint8_t *extra, uint64_t len, uint64_t *const *field, int n)
{
    bool wanted = false;
    for (int i = 0; i < n; i++)
        wanted |= *field[i] == NONE32;
    if (!wanted) return true;
    for (uint64_t at = 0; within(at, 4, len);) {
        uint64_t id = get16(extra + at), size = get16(extra + at + 2);
        at += 4;
        if (FE_BREAKS(ZIP_EXTRA_ROOM, !within(at, size, len))) return false;
        if (id != EXTRA_ZIP64) {
            at += size;
            continue;
        }
        for (int i = 0; i < n; i++) {
            if (*field[i] != NONE32) continue;
            if (FE_BREAKS(ZIP_EXTRA_FIELD, size < 8)) return false;
            *field[i] = get64(extra + at);
            at += 8;
            size -= 8;
        }
        return true;
    }
    return FE_HOLDS(ZIP_EXTRA_THERE, false);
}

/* A path that could be unpacked anywhere, or read in two ways, has no place in a weights file. */
static bool name_ok(const char *s, size_t n)
{
    if (FE_BREAKS(ZIP_NAME_EMPTY, n == 0) || FE_BREAKS(ZIP_NAME_ROOT, s[0] == '/')) return false;
    if (FE_BREAKS(ZIP_NAME_ZERO, memchr(s, 0, n)) || FE_BREAKS(ZIP_NAME_BACKSLASH, memchr(s, '\\', n)))
        return false;
    for (size_t at = 0; at < n;) {
        const char *slash = memchr(s + at, '/', n - at);
        size_t part = slash ? (size_t)(slash - s) - at : n - at;
        if (FE_BREAKS(ZIP_NAME_UP, part == 2 && s[at] == '.' && s[at + 1] == '.')) return false;
        at += part + 1;
    }
    return true;
}

static int central_entry(struct reader *r, uint64_t *at, struct fe_zip_entry *e, struct draft *c)
{
    const uint8_t *p = r->p + *at;
    if (FE_BREAKS(ZIP_CENTRAL, !within(*at, CENTRAL_SIZE, r->central_end) || get32(p) != SIG_CENTRAL)) {
        return BAD(r, *at, "the central directory is damaged");
    }
    uint64_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32);
    if (FE_BREAKS(ZIP_CENTRAL_ROOM, !within(*at + CENTRAL_SIZE, name + extra + comment, r->central_end))) {
        return BAD(r, *at, "an entry of the central directory runs past its end");
    }
    if (FE_BREAKS(ZIP_NAME_LENGTH, name > yir_limits_of(r->d)->max_zip_name)) {
        return yir_diag_bin(r->d, r->file, *at, E_LIMIT, "an entry's name has %llu bytes%s",
                            (unsigned long long)name, YIR_RAISE(max_zip_name));
    }
    if (!name_ok((const char *)p + CENTRAL_SIZE, name)) {
        return BAD(r, *at,
                   "the name of an archive entry is not allowed (empty, too long, absolute, or with '..')");
    }
    e->name = yir_strndup(r->a, (const char *)p + CENTRAL_SIZE, name);
    *c = (struct draft){get16(p + 8), get16(p + 10), get32(p + 16), get32(p + 24), get32(p + 20)};
    e->start = get32(p + 42);
    if (!read_extra64(p + CENTRAL_SIZE + name, extra, (uint64_t *[]){&c->size, &c->packed, &e->start}, 3)) {
        return BAD(r, *at, "entry '%s' has no valid zip64 sizes", e->name);
    }
    if (FE_BREAKS(ZIP_ENTRY_DISK, get16(p + 34) != 0))
        return BAD(r, *at, "the archive claims to span several disks");
    if (FE_BREAKS(ZIP_ENCRYPTED, c->flags & (FLAG_ENCRYPTED | FLAG_STRONG)))
        return BAD(r, *at, "entry '%s' is encrypted", e->name);
    if (FE_BREAKS(ZIP_METHOD, c->method != 0)) {
        return BAD(
            r, *at,
            "entry '%s' is compressed (method %u); PyTorch only stores: a zip made by another program?",
            e->name, c->method);
    }
    if (FE_BREAKS(ZIP_TWO_SIZES, c->size != c->packed))
        return BAD(r, *at, "entry '%s' is stored, but has two sizes", e->name);
    e->size = c->size;
    e->crc = c->crc;
    *at += CENTRAL_SIZE + name + extra + comment;
    return 0;
}

/* The data descriptor fills exactly the gap between the data and the next header, with 32- or 64-bit
 * sizes. */
static bool descriptor_ok(const struct reader *r, const struct fe_zip_entry *e, uint64_t next)
{
    const uint8_t *p = r->p + e->at + e->size;
    uint64_t gap = next - (e->at + e->size);
    if (FE_BREAKS(ZIP_DESCRIPTOR_GAP, gap != 16 && gap != 24)) return false;
    if (FE_BREAKS(ZIP_DESCRIPTOR, get32(p) != SIG_DESCRIPTOR)) return false;
    if (FE_BREAKS(ZIP_DESCRIPTOR_CRC, get32(p + 4) != e->crc)) return false;
    if (gap == 16) return FE_HOLDS(ZIP_DESCRIPTOR_SIZES, get32(p + 8) == e->size && get32(p + 12) == e->size);
    return FE_HOLDS(ZIP_DESCRIPTOR_SIZES64, get64(p + 8) == e->size && get64(p + 16) == e->size);
}

/* The local header of an entry that must end at `next`. */
static int local_entry(struct reader *r, struct fe_zip_entry *e, const struct draft *c, uint64_t next)
{
    const uint8_t *p = r->p + e->start; /* in bounds: check_places */
    if (FE_BREAKS(ZIP_LOCAL, !within(e->start, LOCAL_SIZE, next) || get32(p) != SIG_LOCAL)) {
        return BAD(r, e->start, "entry '%s' has no local header here, or overlaps another entry", e->name);
    }
    uint64_t name = get16(p + 26), extra = get16(p + 28), head = LOCAL_SIZE + name + extra;
    if (FE_BREAKS(ZIP_LOCAL_ROOM, !within(e->start, head, next) || e->size > next - e->start - head)) {
        return BAD(r, e->start, "entry '%s' runs into what follows it", e->name);
    }
    e->at = e->start + head;
    e->data = r->p + e->at;
    if (FE_BREAKS(ZIP_LOCAL_NAME, name != strlen(e->name) || memcmp(p + LOCAL_SIZE, e->name, name) != 0)) {
        return BAD(r, e->start, "entry '%s' has another name in its local header", e->name);
    }
    if (FE_BREAKS(ZIP_LOCAL_FLAGS, get16(p + 6) != c->flags))
        return BAD(r, e->start, "entry '%s': the flags of the two headers differ", e->name);
    if (FE_BREAKS(ZIP_LOCAL_METHOD, get16(p + 8) != c->method))
        return BAD(r, e->start, "entry '%s': the methods of the two headers differ", e->name);
    bool described = c->flags & FLAG_DESCRIPTOR;
    uint64_t size = get32(p + 22), packed = get32(p + 18);
    if (!read_extra64(p + LOCAL_SIZE + name, extra, (uint64_t *[]){&size, &packed}, 2)) {
        return BAD(r, e->start, "entry '%s' has no valid zip64 sizes", e->name);
    }
    bool blank = described && size == 0 && packed == 0;
    if (FE_BREAKS(ZIP_LOCAL_SIZES, !blank && (size != e->size || packed != e->size))) {
        return BAD(r, e->start, "entry '%s': the sizes of the two headers differ", e->name);
    }
    if (FE_BREAKS(ZIP_LOCAL_CRC, get32(p + 14) != e->crc && !(described && get32(p + 14) == 0))) {
        return BAD(r, e->start, "entry '%s': the checksums of the two headers differ", e->name);
    }
    if (described ? !descriptor_ok(r, e, next) : FE_BREAKS(ZIP_FOLLOWED, e->at + e->size != next)) {
        return BAD(r, e->at + e->size, "entry '%s' is not followed by the next one, or by its own sizes",
                   e->name);
    }
    return 0;
}

static int by_start(const void *x, const void *y)
{
    uint64_t a = (*(struct fe_zip_entry *const *)x)->start, b = (*(struct fe_zip_entry *const *)y)->start;
    return a < b ? -1 : a > b;
}

static int by_name(const void *x, const void *y)
{
    return strcasecmp((*(struct fe_zip_entry *const *)x)->name, (*(struct fe_zip_entry *const *)y)->name);
}

/* Entries lie one after another from byte 0 to the central directory, without gap or overlap. */
static int check_places(struct reader *r, struct fe_zip_entry *e, const struct draft *c,
                        struct fe_zip_entry **order, size_t n)
{
    qsort(order, n, sizeof(struct fe_zip_entry *), by_start);
    if (FE_BREAKS(ZIP_OUTSIDE, order[n - 1]->start > r->central)) {
        return BAD(r, r->central, "entry '%s' lies outside the archive", order[n - 1]->name);
    }
    if (FE_BREAKS(ZIP_FIRST, order[0]->start != 0))
        return BAD(r, 0, "the archive does not begin with its first entry");
    for (size_t i = 0; i < n; i++) {
        uint64_t next = i + 1 < n ? order[i + 1]->start : r->central;
        if (local_entry(r, order[i], &c[order[i] - e], next) != 0) return -1;
    }
    return 0;
}

static int check_names(struct reader *r, struct fe_zip_entry **order, size_t n)
{
    qsort(order, n, sizeof(struct fe_zip_entry *), by_name);
    for (size_t i = 1; i < n; i++) {
        if (FE_HOLDS(ZIP_NAME_TWICE, by_name(&order[i - 1], &order[i]) != 0)) continue;
        return BAD(r, order[i]->start, "the archive has two entries named '%s'", order[i]->name);
    }
    return 0;
}

static int check_crcs(struct reader *r, const struct fe_zip_entry *e, size_t n)
{
    fill_table(r->table);
    for (size_t i = 0; i < n; i++) {
        if (FE_HOLDS(ZIP_CRC, crc32_of(r->table, e[i].data, e[i].size) == e[i].crc)) continue;
        return yir_diag_bin(r->d, r->file, e[i].at, E_CRC,
                            "the checksum of '%s' is wrong: the file is damaged", e[i].name);
    }
    return 0;
}

const struct fe_zip *fe_zip_open(struct yir_arena *a, struct yir_diags *d, uint32_t file,
                                 const uint8_t *bytes, size_t len, bool allow_bad_crc)
{
    struct reader r = {.a = a, .d = d, .file = file, .p = bytes, .len = len};
    uint64_t n = 0;
    if (read_end(&r, &n) != 0) return NULL;
    if (FE_BREAKS(ZIP_CENTRAL_COUNT, n > (r.central_end - r.central) / CENTRAL_SIZE)) {
        BAD(&r, r.central, "the central directory is too small for its %llu entries", (unsigned long long)n);
        return NULL;
    }
    struct fe_zip_entry *e = yir_alloc_n(a, n, sizeof *e);
    struct fe_zip_entry **order = yir_alloc_n(a, n, sizeof *order);
    struct draft *c = yir_alloc_n(a, n, sizeof *c);
    uint64_t at = r.central;
    for (size_t i = 0; i < n; i++) {
        if (central_entry(&r, &at, &e[i], &c[i]) != 0) return NULL;
        order[i] = &e[i];
    }
    if (FE_BREAKS(ZIP_CENTRAL_END, at != r.central_end)) {
        BAD(&r, at, "there are bytes after the last entry of the central directory");
        return NULL;
    }
    if (check_places(&r, e, c, order, n) != 0 || check_names(&r, order, n) != 0) return NULL;
    if (!allow_bad_crc && check_crcs(&r, e, n) != 0) return NULL;
    struct fe_zip *z = yir_alloc(a, sizeof *z);
    *z = (struct fe_zip){.entry = e, .n = n};
    fe_strmap_init(&z->names, a, n);
    for (size_t i = 0; i < n; i++)
        fe_strmap_add(&z->names, e[i].name, strlen(e[i].name), &(size_t){i});
    return z;
}

const struct fe_zip_entry *fe_zip_find(const struct fe_zip *z, const char *name)
{
    size_t i;
    return fe_strmap_find(&z->names, name, strlen(name), &i) ? &z->entry[i] : NULL;
}
