#include "tensorfile.h"

#include <string.h>

void tensorfile_add(struct tensorfile *f, const char *name, const int64_t *dim, int rank, float value)
{
    size_t n = 1, start = f->data.len;
    yir_str_fmt(&f->header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", f->header.len ? "," : "", name);
    for (int i = 0; i < rank; i++) {
        yir_str_fmt(&f->header, "%s%lld", i ? "," : "", (long long)dim[i]);
        n *= (size_t)dim[i];
    }
    for (size_t i = 0; i < n; i++)
        yir_str_put(&f->data, (const char *)&value, sizeof value);
    yir_str_fmt(&f->header, "],\"data_offsets\":[%zu,%zu]}", start, f->data.len);
}

struct yir_str tensorfile_finish(struct yir_arena *a, const struct tensorfile *f)
{
    struct yir_str file = {.arena = a};
    const char *header = yir_format(a, "{%s}", f->header.text);
    uint64_t n = strlen(header);
    yir_str_put(&file, (const char *)&n, sizeof n);
    yir_str_put(&file, header, n);
    yir_str_put(&file, f->data.text, f->data.len);
    return file;
}
