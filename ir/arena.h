/* Bump arena: memory of one compile, released at once. No free() of single objects. */
#ifndef YIR_ARENA_H
#define YIR_ARENA_H

#include "base.h"

struct yir_arena;

struct yir_arena_mark {
    void *block;
    size_t used;
};

/* Out of memory ends in a call of `oom`, which must not return (the driver jumps back to its entry).
 * oom NULL: the process aborts. Returns NULL when not even the arena's head can be had. */
struct yir_arena *yir_arena_new(void (*oom)(void *user), void *user);

/* Runs the deferred releases (newest first), then frees all memory. NULL is allowed. */
void yir_arena_free(struct yir_arena *a);

/* Never NULL. Aligned to 16 bytes; zeroed. size 0 gives a unique pointer. */
void *yir_alloc(struct yir_arena *a, size_t size);

/* n * size with overflow check (overflow counts as out of memory). Zeroed. */
void *yir_alloc_n(struct yir_arena *a, size_t n, size_t size);

/* Grows a vector of `*cap` elements to hold at least `need`, by doubling, inside the arena; contents are
 * kept, the new part is zeroed. Returns the (possibly moved) vector and updates *cap. */
void *yir_grow(struct yir_arena *a, void *vec, size_t *cap, size_t need, size_t size);

char *yir_strdup(struct yir_arena *a, const char *s);
char *yir_strndup(struct yir_arena *a, const char *s, size_t n);
YIR_PRINTF(2, 3) char *yir_format(struct yir_arena *a, const char *fmt, ...);

/* release(ptr) runs when the arena is freed: for mappings, files, handles of libraries. */
void yir_arena_defer(struct yir_arena *a, void (*release)(void *), void *ptr);

/* A place, NULL for now, for memory that a library will malloc: what is put there is freed with the arena. Asked for
 * before that memory exists, so that no failure comes between the two. */
void **yir_arena_slot(struct yir_arena *a);

/* Scratch use: everything allocated after the mark is given back by the reset. Deferred releases
 * registered after the mark stay registered, so none may be made between mark and reset. */
struct yir_arena_mark yir_arena_mark(struct yir_arena *a);
void yir_arena_reset(struct yir_arena *a, struct yir_arena_mark m);

/* Bytes handed out and not reset. */
size_t yir_arena_used(const struct yir_arena *a);

/* Growing text in an arena; always NUL-terminated once something was put. */
struct yir_str {
    struct yir_arena *arena;
    char *text;
    size_t len, cap;
};
void yir_str_put(struct yir_str *s, const char *bytes, size_t n);
YIR_PRINTF(2, 3) void yir_str_fmt(struct yir_str *s, const char *fmt, ...);

#endif
