/* What the tests of the loader share: loads, and what they answer. */
#ifndef TEST_LOADBOX_H
#define TEST_LOADBOX_H

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "modbuild.h"
#include "runtime/yolort.h"

static char text[512];

/* Loads and frees again; the text of a failure is in `text`. */
static inline yolort_status load(const void *bytes, size_t size)
{
    yolort_module *m = NULL;
    memset(text, 'x', sizeof text);
    yolort_status s = yolort_load(&m, bytes, size, text, sizeof text);
    cr_expect_eq(m != NULL, s == YOLORT_OK);
    if (s) cr_expect(memchr(text, 0, sizeof text) && text[0] && !strchr(text, '\n'), "one line of text");
    yolort_module_free(m);
    return s;
}

static inline yolort_status load_built(struct modbuild *b)
{
    size_t size;
    uint8_t *bytes = modbuild_finish(b, &size);
    yolort_status s = load(bytes, size);
    free(bytes);
    return s;
}

static inline void expect(struct modbuild *b, yolort_status want, const char *part)
{
    yolort_status s = load_built(b);
    cr_expect_eq(s, want, "%s: %s: %s", part, yolort_status_name(s), text);
    if (s) cr_expect(strstr(text, part), "\"%s\" is not in \"%s\"", part, text);
}

#endif
