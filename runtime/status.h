/* Failures inside the runtime: a status, and one line of text for whoever can show it. */
#ifndef RT_STATUS_H
#define RT_STATUS_H

#include "check.h"
#include "yolort.h"

/* Where the text goes; text may be NULL, size counts the terminator. */
struct rt_error {
    char *text;
    size_t size;
};

/* status.c: writes the text (cut to fit, always terminated) and gives back s. e may be NULL. */
yolort_status rt_fail(const struct rt_error *e, yolort_status s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Gives back the status, with a text, unless the rule of checks.def holds. */
#define RT_CHECK(e, status, id, cond, ...)                                                                   \
    do {                                                                                                     \
        if (!RT_HOLDS(id, cond)) return rt_fail((e), YOLORT_##status, __VA_ARGS__);                          \
    } while (0)

#define RT_TRY(expr)                                                                                         \
    do {                                                                                                     \
        yolort_status try_ = (expr);                                                                         \
        if (try_) return try_;                                                                               \
    } while (0)

#endif
