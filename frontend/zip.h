/* Zip archives of stored entries, as PyTorch writes them. Every byte of the file must belong to an entry, the
 * central directory or the end records, and all copies of a field must agree: no two readers can then see
 * different contents. */
#ifndef FE_ZIP_H
#define FE_ZIP_H

#include "ir/limits.h"
#include "strmap.h"

struct fe_zip_entry {
    const char *name;    /* unique also when case is ignored; relative, without ".." and NUL */
    const uint8_t *data; /* in the file's bytes */
    uint64_t size;
    uint64_t at;    /* offset of data in the file */
    uint64_t start; /* offset of the local header */
    uint32_t crc;   /* as stored */
};

struct fe_zip {
    const struct fe_zip_entry *entry; /* in the order of the central directory */
    size_t n;
    struct fe_strmap names;
};

/* bytes are borrowed for the life of the result. NULL after reporting at file. */
const struct fe_zip *fe_zip_open(struct yir_arena *a, struct yir_diags *d, uint32_t file,
                                 const uint8_t *bytes, size_t len, bool allow_bad_crc);

const struct fe_zip_entry *fe_zip_find(const struct fe_zip *z, const char *name);

#endif
