#include "frontend/zip.h"

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#include "ptwrite.h"

static struct yir_arena *a;
static struct yir_diags *d;
static struct ptwrite w;
static const struct ptwrite_record records[] = {
    {"x/data.pkl", "hello, zip", 10}, {"x/empty", "", 0}, {"x/data/0", "0123456789abcdef!", 17}};

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    d = yir_diags_new(a, NULL, NULL);
    ptwrite_init(&w, a);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(zip, .init = setup, .fini = teardown);

static uint8_t *good(size_t *len)
{
    return ptwrite_archive(&w, records, YIR_COUNT(records), len);
}

/* The archive opens, or the report is `id` and its text has `part` in it. */
static void expect(const uint8_t *bytes, size_t len, enum yir_diag_id id, const char *part)
{
    size_t before = yir_diag_count(d);
    const struct fe_zip *z = fe_zip_open(a, d, yir_diag_file(d, "t.pt", NULL, 0), bytes, len, false);
    if (id == YIR_DIAG_NONE) {
        cr_assert(z, "%s", yir_diag_at(d, before)->text);
        return;
    }
    cr_assert_null(z, "accepted, not: %s", part);
    const struct yir_diag *g = yir_diag_at(d, before);
    cr_assert(g->id == id && strstr(g->text, part), "%s, not: %s", g->text, part);
}

/* Place of the n-th occurrence of a signature PK\x\y. */
static uint8_t *signature(uint8_t *bytes, size_t len, const char *sig, int n)
{
    for (size_t i = 0; i + 4 <= len; i++) {
        if (memcmp(bytes + i, sig, 4) == 0 && n-- == 0) return bytes + i;
    }
    cr_assert_fail("no signature");
    return NULL;
}

Test(zip, opens_what_torch_writes)
{
    for (int form = 0; form < 8; form++) {
        size_t len;
        w.align = form & 1 ? 64 : 0;
        w.zip64 = form & 2;
        w.plain = form & 4;
        const uint8_t *bytes = good(&len);
        const struct fe_zip *z = fe_zip_open(a, d, 0, bytes, len, false);
        cr_assert(z, "form %d", form);
        cr_assert_eq(z->n, 3u);
        const struct fe_zip_entry *e = fe_zip_find(z, "x/data/0");
        cr_assert(e && e->size == 17 && memcmp(e->data, "0123456789abcdef!", 17) == 0);
        cr_assert(!w.align || e->at % 64 == 0);
        cr_assert_null(fe_zip_find(z, "x/data/1"));
    }
}

Test(zip, every_prefix_is_refused)
{
    size_t len;
    const uint8_t *bytes = good(&len);
    for (size_t n = 0; n < len; n++) {
        struct yir_diags *own = yir_diags_new(a, NULL, NULL);
        uint8_t *copy = yir_alloc(a, n);
        memcpy(copy, bytes, n);
        cr_assert_null(fe_zip_open(a, own, 0, copy, n, false), "the first %zu of %zu bytes are accepted", n,
                       len);
        cr_assert_geq(yir_diag_errors(own), 1);
    }
}

/* A changed bit is noticed, or lies where no reader looks: version fields, times, attributes, padding. */
Test(zip, changed_bits)
{
    size_t len;
    uint8_t *bytes = good(&len);
    for (size_t bit = 0; bit < len * 8; bit++) {
        struct yir_diags *own = yir_diags_new(a, NULL, NULL);
        struct yir_arena_mark mark = yir_arena_mark(a);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const struct fe_zip *z = fe_zip_open(a, own, 0, bytes, len, false);
        for (size_t i = 0; z && i < YIR_COUNT(records); i++) {
            const struct fe_zip_entry *e = fe_zip_find(z, records[i].name);
            cr_assert(e && e->size == records[i].len && memcmp(e->data, records[i].bytes, e->size) == 0,
                      "bit %zu", bit);
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        yir_arena_reset(a, mark);
    }
}

/* Offsets of the two headers' fields. */
enum { L_FLAGS = 6, L_METHOD = 8, L_CRC = 14, L_PACKED = 18, L_SIZE = 22, L_NAME = 30 };
enum {
    C_FLAGS = 8,
    C_METHOD = 10,
    C_CRC = 16,
    C_PACKED = 20,
    C_SIZE = 24,
    C_DISK = 34,
    C_START = 42,
    C_NAME = 46
};

struct change { /* one byte of the n-th record with that signature */
    const char *sig;
    int n, at;
    uint8_t xor ;
    enum yir_diag_id id;
    const char *part;
};

static void check_changes(const struct change *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len;
        uint8_t *bytes = good(&len);
        signature(bytes, len, c[i].sig, c[i].n)[c[i].at] ^= c[i].xor ;
        expect(bytes, len, c[i].id, c[i].part);
    }
}

#define LOCAL      "PK\3\4"
#define CENTRAL    "PK\1\2"
#define END        "PK\5\6"
#define END64      "PK\6\6"
#define LOCATOR    "PK\6\7"
#define DESCRIPTOR "PK\7\10"

Test(zip, two_copies_of_a_field_differ)
{
    static const struct change changes[] = {
        {LOCAL, 2, L_NAME, 1, E_ZIP, "another name"},
        {LOCAL, 1, L_FLAGS, 2, E_ZIP, "of the two headers differ"},
        {LOCAL, 1, L_METHOD, 8, E_ZIP, "of the two headers differ"},
        {LOCAL, 1, L_CRC, 1, E_ZIP, "checksums"},
        {LOCAL, 2, L_SIZE, 1, E_ZIP, "sizes of the two headers"},
        {LOCAL, 2, L_PACKED, 1, E_ZIP, "sizes of the two headers"},
        {CENTRAL, 2, C_NAME, 1, E_ZIP, "another name"},
        {CENTRAL, 2, C_FLAGS + 1, 1, E_ZIP, "of the two headers differ"},
        {CENTRAL, 2, C_CRC, 1, E_ZIP, "followed by"},
        {CENTRAL, 2, C_SIZE, 1, E_ZIP, "two sizes"},
        {DESCRIPTOR, 0, 4, 1, E_ZIP, "followed by"},
        {DESCRIPTOR, 0, 8, 1, E_ZIP, "followed by"},
        {DESCRIPTOR, 2, 12, 1, E_ZIP, "followed by"},
        {END, 0, 8, 1, E_ZIP, "several disks"},
        {END64, 0, 40, 1, E_ZIP, "end records"},
        {END64, 0, 48, 1, E_ZIP, "end records"},
        {END64, 0, 4, 1, E_ZIP, "wrong size"},
        {LOCATOR, 0, 8, 1, E_ZIP, "locator"},
    };
    check_changes(changes, YIR_COUNT(changes));
}

Test(zip, what_is_not_read)
{
    static const struct change changes[] = {
        {CENTRAL, 0, C_METHOD, 8, E_ZIP, "compressed"},
        {CENTRAL, 0, C_METHOD, 12, E_ZIP, "compressed"},
        {CENTRAL, 0, C_FLAGS, 1, E_ZIP, "encrypted"},
        {CENTRAL, 0, C_FLAGS, 0x40, E_ZIP, "encrypted"},
        {CENTRAL, 0, C_DISK, 1, E_ZIP, "several disks"},
        {END, 0, 4, 1, E_ZIP, "several disks"},
        {LOCATOR, 0, 4, 1, E_ZIP, "several disks"},
        {END, 0, 20, 1, E_ZIP, "comment"},
        {CENTRAL, 0, 0, 1, E_ZIP, "damaged"},
        {CENTRAL, 1, C_START, 1, E_ZIP, ""},
        {LOCAL, 0, 0, 1, E_ZIP, ""},
        {CENTRAL, 1, C_START + 3, 0x80, E_ZIP, ""},
    };
    check_changes(changes, YIR_COUNT(changes));
}

Test(zip, damaged_data)
{
    size_t len;
    uint8_t *bytes = good(&len);
    bytes[64] ^= 1; /* the first payload stands at the alignment */
    expect(bytes, len, E_CRC, "x/data.pkl");
    cr_assert(fe_zip_open(a, d, 0, bytes, len, true), "a wrong checksum can be allowed");
}

Test(zip, bytes_around_the_archive)
{
    size_t len;
    const uint8_t *bytes = good(&len);
    uint8_t *more = yir_alloc(a, len + 40);
    memcpy(more, "cposix\nsystem\n", 14);
    memcpy(more + 14, bytes, len);
    expect(more, len + 14, E_ZIP, "");
    memcpy(more, bytes, len);
    memcpy(more + len, "trailing", 8);
    expect(more, len + 8, E_ZIP, "followed by a comment");
    /* A comment that is an end record of its own. */
    memcpy(more + len, bytes + len - 22, 22);
    more[len - 2] = 22;
    expect(more, len + 22, E_ZIP, "");
}

Test(zip, gap_between_entries)
{
    size_t len, len2;
    w.align = 0;
    uint8_t *one = ptwrite_archive(&w, records, 1, &len);
    /* The same archive with four bytes before the central directory, and the end records moved along. */
    w.zip64 = false;
    one = ptwrite_archive(&w, records, 1, &len);
    uint8_t *central = signature(one, len, CENTRAL, 0);
    size_t head = (size_t)(central - one);
    uint8_t *two = yir_alloc(a, len + 4);
    len2 = len + 4;
    memcpy(two, one, head);
    memcpy(two + head + 4, central, len - head);
    signature(two, len2, END, 0)[16] = (uint8_t)(head + 4);
    expect(two, len2, E_ZIP, "followed by");
}

static void expect_names(const char *first, const char *second, const char *part)
{
    size_t len;
    struct ptwrite_record r[] = {{first, "1", 1}, {second, "2", 1}};
    const uint8_t *bytes = ptwrite_archive(&w, r, 2, &len);
    expect(bytes, len, part ? E_ZIP : YIR_DIAG_NONE, part ? part : "");
}

Test(zip, names)
{
    static char longest[600];
    expect_names("a/b", "a/c", NULL);
    expect_names("a/..b", "a/b..", NULL);
    expect_names("a/b", "a/b", "two entries");
    expect_names("a/b", "A/b", "two entries");
    expect_names("../b", "c", "not allowed");
    expect_names("a/../b", "c", "not allowed");
    expect_names("a/..", "c", "not allowed");
    expect_names("/b", "c", "not allowed");
    expect_names("a\\b", "c", "not allowed");
    expect_names("", "c", "not allowed");
    memset(longest, 'n', 513);
    const struct ptwrite_record too_long[] = {{longest, "x", 1}};
    size_t n;
    uint8_t *archive = ptwrite_archive(&w, too_long, 1, &n);
    expect(archive, n, E_LIMIT, "zip-name-bytes");
    longest[512] = 0;
    expect_names(longest, "c", NULL);
    size_t len;
    uint8_t *bytes = good(&len);
    signature(bytes, len, CENTRAL, 0)[C_NAME + 1] = 0;
    expect(bytes, len, E_ZIP, "not allowed");
}

/* Sizes and place in the zip64 extra, as for archives beyond 4 GiB. */
Test(zip, zip64_sizes)
{
    size_t len;
    w.plain = true;
    w.align = 0;
    w.zip64 = false;
    uint8_t *one = ptwrite_archive(&w, records, 1, &len);
    size_t head = (size_t)(signature(one, len, CENTRAL, 0) - one), name = strlen(records[0].name);
    uint8_t *two = yir_alloc(a, len + 28);
    memcpy(two, one, len - 22);
    uint8_t *c = two + head, *x = c + C_NAME + name;
    memset(c + C_PACKED, 0xff, 8);
    memset(c + C_START, 0xff, 4);
    c[30] = 28;
    memcpy(x, "\1\0\30\0", 4);
    x[4] = x[12] = (uint8_t)records[0].len;
    memcpy(x + 28, one + len - 22, 22);
    signature(two, len + 28, END, 0)[12] += 28;
    expect(two, len + 28, YIR_DIAG_NONE, "");
    x[12]++;
    expect(two, len + 28, E_ZIP, "two sizes");
    x[12]--;
    x[20] = 1;
    expect(two, len + 28, E_ZIP, "");
    memset(x + 20, 0xff, 8);
    expect(two, len + 28, E_ZIP, "outside");
    x[2] = 20;
    expect(two, len + 28, E_ZIP, "zip64 sizes");
    x[2] = 0xff;
    expect(two, len + 28, E_ZIP, "zip64 sizes");
    x[2] = 24;
    x[0] = 2; /* another kind of field: the sizes are nowhere */
    expect(two, len + 28, E_ZIP, "zip64 sizes");
}

/* Counts and places of the end records, each changed alone. An archive of one form or of both. */
Test(zip, end_records_lie)
{
    static const struct change changes[] = {
        {END64, 0, 16, 1, E_ZIP, "several disks"}, {END64, 0, 20, 1, E_ZIP, "several disks"},
        {END64, 0, 24, 1, E_ZIP, "several disks"}, {LOCATOR, 0, 16, 2, E_ZIP, "several disks"},
        {LOCATOR, 0, 15, 0x80, E_ZIP, "locator"},  {END, 0, 6, 1, E_ZIP, "several disks"},
        {END, 0, 10, 1, E_ZIP, "several disks"},   {END, 0, 12, 1, E_ZIP, "end records"},
        {END, 0, 16, 1, E_ZIP, "end records"},
    };
    static const struct change old_form[] = {
        {END, 0, 12, 1, E_ZIP, "not where"},
        {END, 0, 15, 0x80, E_ZIP, "not where"},
        {END, 0, 16, 1, E_ZIP, "not where"},
        {END, 0, 19, 0x80, E_ZIP, "not where"},
    };
    check_changes(changes, YIR_COUNT(changes));
    w.zip64 = false;
    check_changes(old_form, YIR_COUNT(old_form));
}

static void set16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

Test(zip, counts_of_entries)
{
    static const unsigned counts[] = {0, 1, 2, 4, 200, 65535};
    static const char *const parts[] = {"empty",     "bytes after", "bytes after",
                                        "too small", "too small",   "too small"};
    for (size_t i = 0; i < YIR_COUNT(counts); i++) {
        size_t len;
        w.zip64 = false;
        uint8_t *bytes = good(&len), *end = signature(bytes, len, END, 0);
        set16(end + 8, counts[i]);
        set16(end + 10, counts[i]);
        expect(bytes, len, E_ZIP, parts[i]);
    }
}

/* An entry that reaches into the next one, or into the directory. */
Test(zip, entries_reach_too_far)
{
    static const struct change changes[] = {
        {CENTRAL, 2, 32, 1, E_ZIP, "runs past its end"},
        {CENTRAL, 2, 29, 1, E_ZIP, "runs past its end"},
        {CENTRAL, 2, 31, 1, E_ZIP, "runs past its end"},
        {LOCAL, 0, 29, 1, E_ZIP, "runs into"},
        {LOCAL, 0, 27, 1, E_ZIP, "runs into"},
        {LOCAL, 2, 29, 1, E_ZIP, "runs into"},
        {CENTRAL, 0, C_START, 1, E_ZIP, "begin with its first"},
    };
    check_changes(changes, YIR_COUNT(changes));
    size_t len;
    uint8_t *bytes = good(&len), *c = signature(bytes, len, CENTRAL, 2);
    c[C_SIZE] = c[C_PACKED] = 200;
    expect(bytes, len, E_ZIP, "runs into");
}

/* Two entries of the directory over the same bytes, as in archives that unfold without end. */
Test(zip, entries_overlap)
{
    size_t len;
    struct ptwrite_record r[] = {{"x/aa", "0123456789", 10}, {"x/bb", "0123456789", 10}};
    uint8_t *bytes = ptwrite_archive(&w, r, 2, &len);
    uint8_t *first = signature(bytes, len, CENTRAL, 0), *second = signature(bytes, len, CENTRAL, 1);
    memcpy(second + C_START, first + C_START, 4);
    expect(bytes, len, E_ZIP, "");
    memcpy(second + C_NAME, "x/aa", 4);
    expect(bytes, len, E_ZIP, "");
}

/* The descriptor in its place, with each field wrong, and with the sizes of 64 bits that large entries have.
 */
Test(zip, descriptors)
{
    static const struct change changes[] = {
        {DESCRIPTOR, 2, 0, 1, E_ZIP, "followed by"},
        {DESCRIPTOR, 2, 4, 1, E_ZIP, "followed by"},
        {DESCRIPTOR, 2, 8, 1, E_ZIP, "followed by"},
        {DESCRIPTOR, 2, 12, 1, E_ZIP, "followed by"},
    };
    check_changes(changes, YIR_COUNT(changes));
    size_t len, gaps[] = {8, 12, 4, 1, 0};
    w.zip64 = false;
    uint8_t *one = ptwrite_archive(&w, records, 1, &len), *central = signature(one, len, CENTRAL, 0);
    size_t head = (size_t)(central - one);
    for (size_t i = 0; i < YIR_COUNT(gaps); i++) {
        uint8_t *two = yir_alloc(a, len + gaps[i]), *p = two + head - 16;
        memcpy(two, one, head);
        memcpy(two + head + gaps[i], central, len - head);
        memset(p + 8, 0, 8 + gaps[i]);
        p[8] = (uint8_t)records[0].len;
        p[gaps[i] >= 8 ? 16 : 12] = (uint8_t)records[0].len;
        set16(signature(two, len + gaps[i], END, 0) + 16, (unsigned)(head + gaps[i]));
        bool fits = gaps[i] == 8 || gaps[i] == 0;
        expect(two, len + gaps[i], fits ? YIR_DIAG_NONE : E_ZIP, fits ? "" : "followed by");
        p[gaps[i] >= 8 ? 16 : 12]++;
        expect(two, len + gaps[i], E_ZIP, "followed by");
    }
}

/* Entries whose sizes stand in the local header have no descriptor, and end where the next begins. */
Test(zip, without_descriptors)
{
    size_t len;
    w.plain = true;
    uint8_t *bytes = good(&len);
    uint32_t crc = ptwrite_crc(records[0].bytes, records[0].len - 1);
    uint8_t *l = signature(bytes, len, LOCAL, 0), *c = signature(bytes, len, CENTRAL, 0);
    l[L_SIZE]--, l[L_PACKED]--, c[C_SIZE]--, c[C_PACKED]--;
    for (int i = 0; i < 4; i++)
        l[L_CRC + i] = c[C_CRC + i] = (uint8_t)(crc >> (8 * i));
    expect(bytes, len, E_ZIP, "followed by");
}

/* Refused by its directory alone: what an entry would unfold to is never looked at. */
Test(zip, bombs_cost_nothing)
{
    static const unsigned methods[] = {1, 6, 8, 9, 12, 14, 93, 95, 99};
    static uint8_t zeros[1 << 20];
    struct ptwrite_record r = {"x/data.pkl", zeros, sizeof zeros};
    for (size_t i = 0; i < YIR_COUNT(methods); i++) {
        size_t len;
        uint8_t *bytes = ptwrite_archive(&w, &r, 1, &len);
        uint8_t *c = signature(bytes, len, CENTRAL, 0);
        set16(signature(bytes, len, LOCAL, 0) + L_METHOD, methods[i]);
        set16(c + C_METHOD, methods[i]);
        memset(c + C_SIZE, 0xfe, 4);
        clock_t start = clock();
        expect(bytes, len, E_ZIP, "compressed");
        cr_assert_lt((double)(clock() - start) / CLOCKS_PER_SEC, 0.01);
    }
}
