/* Where the libraries hand memory to the readers, in builds with YOLOC_MSAN: what libyaml and jansson allocate counts as
 * written, and so do the structs that they fill in. What the readers make of it is theirs. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <yaml.h>

#include "msan.h"

static void *written(void *p, size_t n)
{
    if (p) test_written(p, n);
    return p;
}

static void *allocate(size_t n)
{
    return written(malloc(n ? n : 1), n);
}

/* libyaml calls these by name, and takes the program's. */
#define SEEN __attribute__((visibility("default")))
SEEN void *yaml_malloc(size_t n);
SEEN void *yaml_realloc(void *p, size_t n);
SEEN yaml_char_t *yaml_strdup(const yaml_char_t *text);

void *yaml_malloc(size_t n)
{
    return allocate(n);
}

void *yaml_realloc(void *p, size_t n)
{
    return p ? written(realloc(p, n ? n : 1), n) : allocate(n);
}

yaml_char_t *yaml_strdup(const yaml_char_t *text)
{
    size_t n = strlen((const char *)text) + 1;
    yaml_char_t *copy = allocate(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

__attribute__((constructor)) static void jansson_allocates(void)
{
    json_set_alloc_funcs(allocate, free);
}

/* The stack that the next call of a library takes, which still has the marks of frames before. */
__attribute__((noinline)) static void clear_stack(void)
{
    char below[1 << 16];
    test_written(below, sizeof below);
    __asm__ volatile("" ::"r"(below) : "memory");
}

json_t *__real_json_loadb(const char *text, size_t n, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t n, size_t flags, json_error_t *error);

json_t *__wrap_json_loadb(const char *text, size_t n, size_t flags, json_error_t *error)
{
    clear_stack();
    json_t *root = __real_json_loadb(text, n, flags, error);
    if (error) test_written(error, sizeof *error);
    return root;
}
