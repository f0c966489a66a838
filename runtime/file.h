#ifndef RT_FILE_H
#define RT_FILE_H

#include "block.h"
#include "digest.h"
#include "status.h"

struct rt_taken_digest {
    int taken; /* 0: it was not, as the file is small */
    uint8_t bytes[RT_DIGEST];
};

/* Reads a regular file of at most `limit` bytes into a private block, so that nothing that others do to the
 * file afterwards is seen. Never blocks on a FIFO or device. Of a large file parts are read by several threads, and the digest of a
 * module is taken of what is there meanwhile. FORMAT, LIMIT, IO, OOM_HOST. */
yolort_status rt_file_read(struct rt_block *out, struct rt_taken_digest *digest, const char *path, uint64_t limit,
                           const struct rt_error *e);

#endif
