/* What the tests of the tuning records share: a folder for each test, records that say which they are. */
#ifndef TEST_TUNEBOX_H
#define TEST_TUNEBOX_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cachebox.h"
#include "datafile.h"
#include "longer.h"

#define FILE_NAME "tuning.sqlite"

static char box[192];

static inline void setup(void)
{
    cachebox_path(box, true);
    unsetenv("YOLOC_CACHE");
}

static inline void teardown(void)
{
    cachebox_remove(box);
}

static inline struct cachebox open_box(int line)
{
    struct cachebox b;
    cachebox_open(&b, box, 0);
    cr_assert(b.db, "line %d: %s", line, yir_diag_count(b.diags) ? yir_diag_at(b.diags, 0)->text : "silent");
    return b;
}
#define OPEN() open_box(__LINE__)

static inline void store(struct cachebox *b, unsigned n)
{
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(n);
    cachebox_key(&k, n);
    cr_assert(cg_tunedb_store(b->db, &k.key, &r), "record %u", n);
}

static inline bool same_record(const struct cg_tune_record *a, const struct cg_tune_record *b)
{
    return !strcmp(a->config, b->config) && a->median_s == b->median_s && a->spread_s == b->spread_s && a->when == b->when;
}

/* Whether record n is there; what is there must be what was stored. */
static inline bool has(struct cachebox *b, unsigned n)
{
    struct cachebox_key k;
    struct cg_tune_record r, wanted = cachebox_record(n);
    cachebox_key(&k, n);
    if (!cg_tunedb_lookup(b->db, &k.key, &r)) return false;
    cr_assert(same_record(&r, &wanted), "record %u", n);
    return true;
}

static inline unsigned count_kept(struct cachebox *b, unsigned most)
{
    unsigned n = 0;
    for (unsigned i = 0; i < most; i++) n += has(b, i);
    return n;
}

/* A data base with records 0 to n - 1, closed. */
static inline void fill(unsigned n)
{
    struct cachebox b = OPEN();
    for (unsigned i = 0; i < n; i++) store(&b, i);
    cachebox_close(&b);
}

static inline char *in_box(const char *name)
{
    static char path[2][320];
    static unsigned n;
    n ^= 1;
    snprintf(path[n], sizeof path[n], "%s/%s", box, name);
    return path[n];
}

static inline uint8_t *read_file(const char *name, size_t *size)
{
    uint8_t *bytes = (uint8_t *)test_file_read(in_box(name), size);
    cr_assert_not_null(bytes, "%s", name);
    return bytes;
}

static inline void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *f = fopen(in_box(name), "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static inline void clear(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", box);
    cr_assert_eq(system(command), 0);
}

static inline void set_number(const char *pragma)
{
    cr_assert(cachebox_sql(box, pragma));
}

static unsigned visited;

static inline bool count_visit(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    (void)user;
    cr_expect(k->op_len > 0 && k->threads == 2 && r->median_s > 0);
    visited++;
    return true;
}

#endif
