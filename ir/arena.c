#include "arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#if defined(__GNUC__) && !defined(__clang__)
/* gcc takes the poisoned bytes for an input of the call. */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define POISON(p, n) __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

#ifndef YIR_ARENA_FIRST /* bytes; tests of failing allocations make nearly every object a block of its own */
#define YIR_ARENA_FIRST (64 * 1024)
#define YIR_ARENA_MOST (8 * 1024 * 1024)
#endif
enum { ALIGN = 16, FIRST_BLOCK = YIR_ARENA_FIRST, MAX_BLOCK = YIR_ARENA_MOST };

struct block {
    struct block *prev;
    size_t size, used; /* of data */
    _Alignas(ALIGN) unsigned char data[];
};

struct deferred {
    struct deferred *prev;
    void (*release)(void *);
    void *ptr;
};

struct yir_arena {
    struct block *top;
    struct deferred *deferred;
    void (*oom)(void *user);
    void *user;
};

void yir_bug(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s:%d: yoloc bug: ", file, line);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    abort();
}

struct yir_arena *yir_arena_new(void (*oom)(void *user), void *user)
{
    struct yir_arena *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->oom = oom;
    a->user = user;
    return a;
}

YIR_NORETURN static void out_of_memory(struct yir_arena *a)
{
    if (a->oom) a->oom(a->user);
    YIR_BUG("out of memory in an arena without a handler");
}

static void free_block(struct block *b)
{
    UNPOISON(b->data, b->size);
    free(b);
}

void yir_arena_free(struct yir_arena *a)
{
    if (!a) return;
    for (struct deferred *d = a->deferred; d; d = d->prev) d->release(d->ptr);
    while (a->top) {
        struct block *b = a->top;
        a->top = b->prev;
        free_block(b);
    }
    free(a);
}

static void push_block(struct yir_arena *a, size_t need)
{
    size_t size = a->top ? a->top->size * 2 : FIRST_BLOCK;
    if (size > MAX_BLOCK) size = MAX_BLOCK;
    if (size < need) size = need;
    struct block *b = size > SIZE_MAX - sizeof *b ? NULL : malloc(sizeof *b + size);
    if (!b) out_of_memory(a);
    *b = (struct block){.prev = a->top, .size = size};
    POISON(b->data, size);
    a->top = b;
}

void *yir_alloc(struct yir_arena *a, size_t size)
{
    if (size > SIZE_MAX - 2 * ALIGN) out_of_memory(a);
    size_t take = size ? (size + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if (!a->top || a->top->size - a->top->used < take) push_block(a, take);
    unsigned char *p = a->top->data + a->top->used;
    a->top->used += take;
    UNPOISON(p, size ? size : ALIGN);
    return memset(p, 0, size ? size : ALIGN);
}

void *yir_alloc_n(struct yir_arena *a, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / size) out_of_memory(a);
    return yir_alloc(a, n * size);
}

void *yir_grow(struct yir_arena *a, void *vec, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return vec;
    size_t n = *cap ? *cap : 16;
    while (n < need) {
        if (n > SIZE_MAX / 2) out_of_memory(a);
        n *= 2;
    }
    void *p = yir_alloc_n(a, n, size);
    if (vec) memcpy(p, vec, *cap * size);
    *cap = n;
    return p;
}

char *yir_strndup(struct yir_arena *a, const char *s, size_t n)
{
    char *p = yir_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *yir_strdup(struct yir_arena *a, const char *s)
{
    return yir_strndup(a, s, strlen(s));
}

static char *vformat(struct yir_arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    YIR_ASSERT(n >= 0);
    char *p = yir_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *yir_format(struct yir_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = vformat(a, fmt, ap);
    va_end(ap);
    return p;
}

void yir_arena_defer(struct yir_arena *a, void (*release)(void *), void *ptr)
{
    struct deferred *d = yir_alloc(a, sizeof *d);
    *d = (struct deferred){a->deferred, release, ptr};
    a->deferred = d;
}

static void free_slot(void *slot)
{
    free(*(void **)slot);
}

void **yir_arena_slot(struct yir_arena *a)
{
    void **slot = yir_alloc(a, sizeof *slot);
    yir_arena_defer(a, free_slot, slot);
    return slot;
}

struct yir_arena_mark yir_arena_mark(struct yir_arena *a)
{
    return (struct yir_arena_mark){a->top, a->top ? a->top->used : 0};
}

void yir_arena_reset(struct yir_arena *a, struct yir_arena_mark m)
{
    while (a->top != m.block) {
        struct block *b = a->top;
        a->top = b->prev;
        free_block(b);
    }
    if (!a->top) return;
    POISON(a->top->data + m.used, a->top->used - m.used);
    a->top->used = m.used;
}

size_t yir_arena_used(const struct yir_arena *a)
{
    size_t n = 0;
    for (const struct block *b = a->top; b; b = b->prev) n += b->used;
    return n;
}

void yir_str_put(struct yir_str *s, const char *bytes, size_t n)
{
    s->text = yir_grow(s->arena, s->text, &s->cap, s->len + n + 1, 1);
    memcpy(s->text + s->len, bytes, n);
    s->len += n;
    s->text[s->len] = 0;
}

void yir_str_fmt(struct yir_str *s, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    YIR_ASSERT(n >= 0);
    s->text = yir_grow(s->arena, s->text, &s->cap, s->len + (size_t)n + 1, 1);
    vsnprintf(s->text + s->len, (size_t)n + 1, fmt, again);
    va_end(again);
    s->len += (size_t)n;
}
