#include "infile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "ir/bulk.h"
#include "ir/large.h"

struct buffer {
    uint8_t *bytes;
    size_t len;
};

static void release(void *p)
{
    free(((struct buffer *)p)->bytes);
}

/* What keeps the file from being read, or NULL. No arena call in here: fd is open. */
static const char *fill(int fd, uint64_t max, struct buffer *b, enum yir_diag_id *id)
{
    struct stat st;
    *id = E_OPEN;
    if (fstat(fd, &st) != 0) return strerror(errno);
    if (FE_BREAKS(FILE_DIRECTORY, S_ISDIR(st.st_mode))) return "is a directory";
    if (FE_BREAKS(FILE_REGULAR, !S_ISREG(st.st_mode))) return "is not a regular file";
    *id = E_LIMIT;
    if (FE_BREAKS(FILE_SIZE, (uint64_t)st.st_size > max || (uint64_t)st.st_size >= SIZE_MAX))
        return "is larger than the limit";
    *id = E_MEMORY;
    b->len = (size_t)st.st_size;
    b->bytes = yir_large_alloc(b->len + 1);
    if (!b->bytes) return "does not fit into memory";
    int64_t n = yir_bulk_read(fd, b->bytes, b->len, 0, NULL, NULL);
    if (n == YIR_BULK_NO_MEMORY) return "does not fit into memory";
    *id = E_OPEN;
    if (n < 0) return strerror(errno);
    if (FE_BREAKS(FILE_SHRANK, n != (int64_t)b->len)) return "became shorter while it was read";
    b->bytes[b->len] = 0;
    return NULL;
}

int fe_infile_read(struct yir_arena *a, struct yir_diags *d, const char *path, uint32_t file, uint64_t max,
                   const char *raise, const uint8_t **bytes, size_t *len)
{
    struct yir_loc loc = {.file = file};
    struct buffer *b = yir_alloc(a, sizeof *b);
    yir_arena_defer(a, release, b);
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return yir_diag(d, loc, E_OPEN, "cannot be opened: %s", strerror(errno));
    enum yir_diag_id id;
    const char *why = fill(fd, max, b, &id);
    close(fd);
    if (why && id == E_LIMIT)
        return yir_diag(d, loc, id, "%s of %llu bytes%s", why, (unsigned long long)max, raise);
    if (why) return yir_diag(d, loc, id, "%s", why);
    *bytes = b->bytes;
    *len = b->len;
    return 0;
}
