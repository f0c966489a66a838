/* Zip archives: what opens has entries that lie in the file, apart from each other, and are found by their names. */
#include "frontend/zip.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A part of the path is "..". */
static bool climbs(const char *name)
{
    for (const char *p = name; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (!strcmp(p, "..") || !strncmp(p, "../", 3)) return true;
    return false;
}

static unsigned check_entry(const struct fe_zip *z, size_t i, const uint8_t *data, size_t size)
{
    const struct fe_zip_entry *e = &z->entry[i];
    unsigned sum = 0;
    YIR_ASSERT(fe_zip_find(z, e->name) == e && e->data == data + e->at);
    YIR_ASSERT(e->start < e->at && e->at <= size && e->size <= size - e->at);
    YIR_ASSERT(e->name[0] && e->name[0] != '/' && !climbs(e->name));
    for (uint64_t k = 0; k < e->size; k++) sum += e->data[k];
    for (size_t k = 0; k < i && i < 16; k++) {
        const struct fe_zip_entry *o = &z->entry[k];
        YIR_ASSERT(o->at + o->size <= e->start || e->at + e->size <= o->start);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    const struct fe_zip *z = fe_zip_open(a, d, yir_diag_file(d, "fuzz.pt", NULL, 0), data, size, true);
    volatile unsigned sum = 0;
    (void)sum;
    for (size_t i = 0; z && i < z->n; i++) sum += check_entry(z, i, data, size);
    YIR_ASSERT(z ? z->n > 0 : yir_diag_errors(d) > 0);
    yir_arena_free(a);
    return 0;
}
