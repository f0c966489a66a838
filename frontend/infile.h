/* Whole input files, read into memory of our own: a file that another process cuts short is then an error,
 * not a SIGBUS. */
#ifndef FE_INFILE_H
#define FE_INFILE_H

#include "ir/diag.h"

/* Reads a regular file of at most max bytes. The bytes live as long as the arena; *bytes[len] is 0.
 * -1 after reporting (E_OPEN, E_LIMIT with `raise` at its end, E_MEMORY) at file, which yir_diag_file gave
 * for path. */
int fe_infile_read(struct yir_arena *a, struct yir_diags *d, const char *path, uint32_t file, uint64_t max,
                   const char *raise, const uint8_t **bytes, size_t *len);

#endif
