#include "tunerow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "check.h"

enum { COLUMN_KEY, COLUMN_FIELDS, COLUMN_CONFIG = COLUMN_FIELDS + CG_TUNE_FIELDS, COLUMN_MEDIAN, COLUMN_SPREAD, COLUMN_MADE, COLUMN_SUM };
_Static_assert(COLUMN_SUM + 1 == CG_TUNE_COLUMNS, "columns of CG_TUNE_ROW");

/* --- digests: each part with its length before it, numbers as 8 little-endian bytes ------------------------------- */

static void add_number(XXH3_state_t *h, uint64_t v)
{
    uint8_t b[8];
    for (int i = 0; i < 8; i++) b[i] = (uint8_t)(v >> 8 * i);
    XXH3_128bits_update(h, b, sizeof b);
}

static void add_bytes(XXH3_state_t *h, const void *bytes, size_t n)
{
    add_number(h, n);
    XXH3_128bits_update(h, bytes, n);
}

static void add_real(XXH3_state_t *h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    add_number(h, bits);
}

static struct cg_digest finish(const XXH3_state_t *h)
{
    XXH128_canonical_t c;
    struct cg_digest d;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(h));
    memcpy(d.byte, c.digest, sizeof d.byte);
    return d;
}

static struct cg_digest digest_fields(const struct cg_tune_fields *f)
{
    XXH3_state_t h;
    XXH3_128bits_reset(&h);
    for (int i = 0; i < CG_TUNE_FIELDS; i++) add_bytes(&h, f->field[i].text, f->field[i].len);
    return finish(&h);
}

static struct cg_digest digest_row(const struct cg_tune_row *row)
{
    XXH3_state_t h;
    XXH3_128bits_reset(&h);
    add_bytes(&h, row->fields.digest.byte, sizeof row->fields.digest.byte);
    for (int i = 0; i < CG_TUNE_FIELDS; i++) add_bytes(&h, row->fields.field[i].text, row->fields.field[i].len);
    add_bytes(&h, row->record.config, strlen(row->record.config));
    add_real(&h, row->record.median_s);
    add_real(&h, row->record.spread_s);
    add_number(&h, (uint64_t)row->record.when);
    return finish(&h);
}

/* --- keys and records ----------------------------------------------------------------------------------------------- */

bool cg_tune_fields(struct cg_tune_fields *f, const struct cg_tune_key *k)
{
    snprintf(f->threads, sizeof f->threads, "%d", k->threads);
    const char *const texts[] = {k->op, k->target, f->threads, k->versions, k->space};
    _Static_assert(YIR_COUNT(texts) == CG_TUNE_FIELDS, "fields of a key");
    for (int i = 0; i < CG_TUNE_FIELDS; i++) {
        YIR_ASSERT(texts[i]);
        f->field[i].text = texts[i];
        f->field[i].len = i ? strlen(texts[i]) : k->op_len;
        if (f->field[i].len > (i ? CG_TUNE_TEXT_MOST : CG_TUNE_OP_MOST)) return false;
    }
    f->digest = digest_fields(f);
    return true;
}

static bool printable(const char *s)
{
    if (!*s) return false;
    for (; *s; s++)
        if (*s < 0x20 || *s > 0x7e) return false;
    return true;
}

/* From a nanosecond to ten minutes. */
static bool is_time(double s)
{
    return isfinite(s) && s >= 1e-9 && s <= 600;
}

bool cg_tune_plausible(const struct cg_tune_record *r)
{
    if (CG_BREAKS(TUNE_CONFIG, !memchr(r->config, 0, sizeof r->config) || !printable(r->config))) return false;
    if (CG_BREAKS(TUNE_MEDIAN, !is_time(r->median_s))) return false;
    return CG_HOLDS(TUNE_SPREAD, isfinite(r->spread_s) && r->spread_s >= 0 && r->spread_s <= 600);
}

bool cg_tune_is(const struct cg_tune_row *row, const struct cg_tune_fields *f)
{
    bool same = true;
    for (int i = 0; i < CG_TUNE_FIELDS; i++) {
        size_t n = f->field[i].len;
        same &= row->fields.field[i].len == n && memcmp(row->fields.field[i].text, f->field[i].text, n) == 0;
    }
    return same;
}

/* --- rows ----------------------------------------------------------------------------------------------------------- */

static int bind_text(sqlite3_stmt *s, int column, const char *text, size_t n)
{
    return sqlite3_bind_text(s, column + 1, text, (int)n, SQLITE_STATIC);
}

int cg_tune_bind(sqlite3_stmt *s, struct cg_tune_row *row)
{
    const struct cg_tune_fields *f = &row->fields;
    const struct cg_tune_record *r = &row->record;
    row->sum = digest_row(row);
    int rc = sqlite3_bind_blob(s, COLUMN_KEY + 1, f->digest.byte, sizeof f->digest.byte, SQLITE_STATIC);
    for (int i = 0; i < CG_TUNE_FIELDS; i++) rc |= bind_text(s, COLUMN_FIELDS + i, f->field[i].text, f->field[i].len);
    rc |= bind_text(s, COLUMN_CONFIG, r->config, strlen(r->config));
    rc |= sqlite3_bind_double(s, COLUMN_MEDIAN + 1, r->median_s);
    rc |= sqlite3_bind_double(s, COLUMN_SPREAD + 1, r->spread_s);
    rc |= sqlite3_bind_int64(s, COLUMN_MADE + 1, r->when);
    rc |= sqlite3_bind_blob(s, COLUMN_SUM + 1, row->sum.byte, sizeof row->sum.byte, SQLITE_STATIC);
    return rc == SQLITE_OK ? SQLITE_OK : SQLITE_NOMEM;
}

static bool read_digest(sqlite3_stmt *s, int column, struct cg_digest *d)
{
    if (sqlite3_column_type(s, column) != SQLITE_BLOB || sqlite3_column_bytes(s, column) != sizeof d->byte) return false;
    memcpy(d->byte, sqlite3_column_blob(s, column), sizeof d->byte);
    return true;
}

/* NULL: not a text, or no memory for it. */
static const char *read_text(sqlite3_stmt *s, int column, size_t *len)
{
    if (sqlite3_column_type(s, column) != SQLITE_TEXT) return NULL;
    const char *text = (const char *)sqlite3_column_text(s, column);
    *len = (size_t)sqlite3_column_bytes(s, column);
    return text;
}

static bool read_fields(sqlite3_stmt *s, struct cg_tune_fields *f)
{
    for (int i = 0; i < CG_TUNE_FIELDS; i++) {
        f->field[i].text = read_text(s, COLUMN_FIELDS + i, &f->field[i].len);
        if (!f->field[i].text) return false;
    }
    return true;
}

static bool read_record(sqlite3_stmt *s, struct cg_tune_record *r)
{
    size_t len;
    const char *config = read_text(s, COLUMN_CONFIG, &len);
    if (!config || len >= sizeof r->config || memchr(config, 0, len)) return false;
    if (sqlite3_column_type(s, COLUMN_MEDIAN) != SQLITE_FLOAT || sqlite3_column_type(s, COLUMN_SPREAD) != SQLITE_FLOAT) return false;
    if (sqlite3_column_type(s, COLUMN_MADE) != SQLITE_INTEGER) return false;
    memcpy(r->config, config, len + 1);
    r->median_s = sqlite3_column_double(s, COLUMN_MEDIAN);
    r->spread_s = sqlite3_column_double(s, COLUMN_SPREAD);
    r->when = sqlite3_column_int64(s, COLUMN_MADE);
    return true;
}

bool cg_tune_read(sqlite3_stmt *s, struct cg_tune_row *row)
{
    struct cg_digest sum;
    *row = (struct cg_tune_row){0};
    if (!read_digest(s, COLUMN_KEY, &row->fields.digest) || !read_digest(s, COLUMN_SUM, &row->sum)) return false;
    if (!read_fields(s, &row->fields) || !read_record(s, &row->record)) return false;
    sum = digest_row(row);
    if (CG_BREAKS(TUNE_SUM, memcmp(sum.byte, row->sum.byte, sizeof sum.byte) != 0)) return false;
    sum = digest_fields(&row->fields);
    if (CG_BREAKS(TUNE_KEY, memcmp(sum.byte, row->fields.digest.byte, sizeof sum.byte) != 0)) return false;
    return cg_tune_plausible(&row->record);
}
