#ifndef RT_FILE_H
#define RT_FILE_H

#include "block.h"
#include "status.h"

/* Reads a regular file of at most `limit` bytes into a private block, so that nothing that others do to the
 * file afterwards is seen. Never blocks on a FIFO or device. FORMAT, LIMIT, IO, OOM_HOST. */
yolort_status rt_file_read(struct rt_block *out, const char *path, uint64_t limit, const struct rt_error *e);

#endif
