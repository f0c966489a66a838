/* Failures inside the runtime: a status, and one line of text for whoever can show it. */
#ifndef RT_STATUS_H
#define RT_STATUS_H

#include "yolort.h"

/* Where the text goes; text may be NULL, size counts the terminator. */
struct rt_error {
    char *text;
    size_t size;
};

/* status.c: writes the text (cut to fit, always terminated) and gives back s. e may be NULL. */
yolort_status rt_fail(const struct rt_error *e, yolort_status s, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * One rule about data from outside. A build with RT_SKIP_LINE=n leaves out the rule of line n, so that tests
 * can be shown to need each rule: some test has to fail then.
 */
#ifndef RT_SKIP_LINE
#define RT_SKIP_LINE 0
#endif
#define RT_CHECK(e, status, cond, ...)                                                                       \
    do {                                                                                                     \
        if (!(cond) && __LINE__ != RT_SKIP_LINE) return rt_fail((e), YOLORT_##status, __VA_ARGS__);          \
    } while (0)

#define RT_TRY(expr)                                                                                         \
    do {                                                                                                     \
        yolort_status try_ = (expr);                                                                         \
        if (try_) return try_;                                                                               \
    } while (0)

#endif
