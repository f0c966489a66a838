/* A folder for caches that a test may do anything to, and rows that the library would not write. */
#ifndef TEST_CACHEBOX_H
#define TEST_CACHEBOX_H

#include "codegen/artifact.h"
#include "codegen/tunedb.h"

/* What one process has open. */
struct cachebox {
    char path[192];
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct cg_cachedir *dir;
    struct cg_tunedb *db;
    struct cg_artifacts *art;
};

/* A fresh, empty folder's name; its place exists. In memory when the machine has a place for that and fast is set. */
void cachebox_path(char path[192], bool fast);
void cachebox_remove(const char *path); /* and its place; aborts unless path is as cachebox_path makes it */

/* Opens all there is, as well as it can be. limit: of artifacts, 0 for the default. */
void cachebox_open(struct cachebox *b, const char *path, uint64_t limit);
void cachebox_open_on(struct cachebox *b, const char *path, unsigned long filesystem);
void cachebox_close(struct cachebox *b);

/* The text of the only diagnostic, "" when there is none; NULL when there are several. */
const char *cachebox_told(const struct cachebox *b);

/* Whether the folder has such a file; file NULL: whether it has any. */
bool cachebox_has(const char *path, const char *file);
unsigned cachebox_count(const char *path, const char *prefix); /* files whose names begin so */

/* The n-th of endlessly many keys (its strings stay until the next call with the same place), and a record for it. */
struct cachebox_key {
    struct cg_tune_key key;
    char op[96];
};
void cachebox_key(struct cachebox_key *k, unsigned n);
struct cg_tune_record cachebox_record(unsigned n);

/* Runs statements on the folder's data base; false when SQLite refuses. */
bool cachebox_sql(const char *path, const char *text);

/* Writes a row as the format has it, whatever it says. key_of: the fields that the key column is made from. */
void cachebox_row(const char *path, const struct cg_tune_key *fields, const struct cg_tune_key *key_of,
                  const struct cg_tune_record *r, bool right_sum);

/* Claims a key for a process. since_ms: after boot; below 0: now. */
void cachebox_claim(const char *path, const struct cg_tune_key *k, int64_t pid, int64_t started, int64_t since_ms, const char *boot);

/* Changes bytes of a file at random as the seed says; may cut it. */
void cachebox_mutate(uint8_t *bytes, size_t *size, unsigned seed);

#endif
