/* Diagnostics: collected, numbered, with the source line and a caret. User mistakes end here, never in asserts. */
#ifndef YIR_DIAG_H
#define YIR_DIAG_H

#include "arena.h"

/* A place in a file. file indexes yir_diags' file table + 1; 0: no file. line 0: whole file (or binary, see
 * yir_diag_bin). line and col count from 1; col is a byte column. */
struct yir_loc {
    uint32_t file, line, col;
};

enum yir_diag_id {
    YIR_DIAG_NONE,
#define DIAG(id, number, severity, text) id,
#include "diag.def"
#undef DIAG
    YIR_DIAG_COUNT
};

enum yir_severity { YIR_NOTE, YIR_WARNING, YIR_ERROR };

/* Class of an error; decides the exit code of the command and the status of the API. */
enum yir_class { YIR_CLASS_NONE, YIR_CLASS_INPUT, YIR_CLASS_USAGE, YIR_CLASS_RESOURCE };

struct yir_diag {
    enum yir_diag_id id;
    enum yir_severity severity;
    struct yir_loc loc;
    const char *text;     /* one line, without file, severity and number */
    const char *rendered; /* the whole text: file:line:col: error: text [E021], source line, caret */
};

struct yir_diags; /* the collection; lives in its arena */

/* Reports past the 20th error are counted, not kept. `sink` (may be NULL) sees each diagnostic as it comes. */
struct yir_diags *yir_diags_new(struct yir_arena *a, void (*sink)(void *user, const struct yir_diag *),
                                void *user);

/* While on, errors after the first are told as its notes, a few of them: for mistakes that share one cause. */
void yir_diags_one_error(struct yir_diags *d, bool on);

/* Limits for the readers that report here (limits.h); borrowed. NULL until set. */
struct yir_limits;
void yir_diags_set_limits(struct yir_diags *d, const struct yir_limits *l);
const struct yir_limits *yir_diags_limits(const struct yir_diags *d);

/* Makes a file known; text (may be NULL for binary files) is borrowed and must outlive the collection. */
uint32_t yir_diag_file(struct yir_diags *d, const char *name, const char *text, size_t len);
const char *yir_diag_file_name(const struct yir_diags *d, uint32_t file); /* "" for 0 */

/* Reports; the severity is that of the row in diag.def. Returns -1, so that `return yir_diag(...)` reads well.
 * Format literals only. Text from outside goes through %s and is made printable when rendered. */
YIR_PRINTF(4, 5)
int yir_diag(struct yir_diags *d, struct yir_loc loc, enum yir_diag_id id, const char *fmt, ...);

/* The same for a binary file: rendered as `file: at byte 1234: error: text [E...]`. */
YIR_PRINTF(5, 6)
int yir_diag_bin(struct yir_diags *d, uint32_t file, uint64_t offset, enum yir_diag_id id, const char *fmt, ...);

/* A further line under the newest diagnostic, with its own place. */
YIR_PRINTF(3, 4) void yir_diag_note(struct yir_diags *d, struct yir_loc loc, const char *fmt, ...);

int yir_diag_errors(const struct yir_diags *d); /* errors so far, kept or not */
size_t yir_diag_count(const struct yir_diags *d);
const struct yir_diag *yir_diag_at(const struct yir_diags *d, size_t i);
enum yir_class yir_diag_class(const struct yir_diags *d); /* of the first error */

/* Text from a file for a line of its own on a terminal: what a terminal must not get (utf8.h) as \xHH a byte,
 * the rest as it is; itself where there is none of it. */
const char *yir_printable(struct yir_arena *a, const char *text);

/* For --explain: number is 21 or "E021"'s 21; NULL when there is none. */
const char *yir_diag_explain(unsigned number);
enum yir_diag_id yir_diag_by_number(unsigned number);
unsigned yir_diag_number(enum yir_diag_id id);

/* Nearest name by edit distance (at most a third of the length, at least 1), or NULL: for "did you mean". */
const char *yir_nearest(const char *name, const char *const *names, size_t n);
/* At most `limit` changes away; the first of equally near ones. */
const char *yir_nearest_within(const char *name, const char *const *names, size_t n, unsigned limit);

#endif
