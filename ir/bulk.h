/* Large parts of files, read by several threads. */
#ifndef YIR_BULK_H
#define YIR_BULK_H

#include <stddef.h>
#include <stdint.h>

/* Reads the n bytes from `at` on. `see`, if any, gets all of them in order, by the calling thread, as soon as they are there; no thread
 * is left when the call returns. The number of bytes before the file's end or n, or -1 with errno set, or YIR_BULK_NO_MEMORY. */
enum { YIR_BULK_NO_MEMORY = -2 };
int64_t yir_bulk_read(int fd, void *to, size_t n, uint64_t at, void (*see)(void *user, const void *bytes, size_t n), void *user);

#endif
