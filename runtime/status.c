#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* "1.2.3" of the build as 0x00010203. */
uint32_t yolort_version(void)
{
    const char *p = YOLOC_VERSION_TEXT;
    uint32_t v = 0;
    for (int i = 0; i < 3; i++) {
        char *end;
        v = v << 8 | (uint32_t)(strtoul(p, &end, 10) & 0xff);
        p = *end ? end + 1 : end;
    }
    return v;
}

const char *yolort_status_name(yolort_status s)
{
    static const char *const name[] = {
        [YOLORT_OK] = "OK",
        [YOLORT_FORMAT] = "FORMAT",
        [YOLORT_LIMIT] = "LIMIT",
        [YOLORT_INTEGRITY] = "INTEGRITY",
        [YOLORT_UNSUPPORTED] = "UNSUPPORTED",
        [YOLORT_INCOMPATIBLE] = "INCOMPATIBLE",
        [YOLORT_NO_DEVICE] = "NO_DEVICE",
        [YOLORT_OOM_HOST] = "OOM_HOST",
        [YOLORT_OOM_DEVICE] = "OOM_DEVICE",
        [YOLORT_IO] = "IO",
        [YOLORT_BUSY] = "BUSY",
        [YOLORT_TIMEOUT] = "TIMEOUT",
        [YOLORT_DEVICE_LOST] = "DEVICE_LOST",
        [YOLORT_ARG] = "ARG",
    };
    size_t i = (size_t)s;
    return i < sizeof name / sizeof *name ? name[i] : "unknown";
}

yolort_status rt_fail(const struct rt_error *e, yolort_status s, const char *fmt, ...)
{
    if (!e || !e->text || !e->size) return s;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, e->size, fmt, ap);
    va_end(ap);
    return s;
}
