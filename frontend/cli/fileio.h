/* Files as a whole: read into memory, or written so that a reader sees the old file or the new one, never a
 * part. */
#ifndef CLI_FILEIO_H
#define CLI_FILEIO_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Reads until size bytes are there or the file ends, through signals and short reads: how many; -1 with errno. */
int64_t cli_fd_read(int fd, void *to, size_t size);

/* Reads at most `limit` bytes of a regular file, pipe or terminal. *bytes is malloc'd (never NULL on success) and the
 * caller's. */
int cli_file_read(const char *path, size_t limit, uint8_t **bytes, size_t *size, struct cli_error *e);

/* The same of standard input, which messages call stdin. */
int cli_stdin_read(size_t limit, uint8_t **bytes, size_t *size, struct cli_error *e);

/* The same of a regular file alone, never waiting for a FIFO or device; the bytes are aligned to 64. `raise` names the limit
 * in the text of the error. */
int cli_file_read_regular(const char *path, uint64_t limit, const char *raise, uint8_t **bytes, size_t *size,
                          struct cli_error *e);

/* A file being written under a temporary name in the folder of `path`. */
struct cli_output {
    FILE *stream;
    char *path, *temporary;
    mode_t mode;    /* 0: what a plain open would give */
    int fresh;      /* an existing file is an error instead of being replaced */
};

int cli_output_open(struct cli_output *o, const char *path, struct cli_error *e);

/* Flushes, syncs and renames to `path`; on failure nothing is left. Releases `o` in both cases. */
int cli_output_commit(struct cli_output *o, struct cli_error *e);
void cli_output_discard(struct cli_output *o);

/* open, write, commit. */
int cli_file_write(const char *path, const void *bytes, size_t size, struct cli_error *e);

/* The same for a file that may not be there yet. */
int cli_file_create(const char *path, const void *bytes, size_t size, mode_t mode, struct cli_error *e);
void cli_file_remove(const char *path);

/* Makes the folder, and those above it, unless they exist. */
int cli_folder_make(const char *path, struct cli_error *e);

/* Whether both paths lead to one file or folder. */
int cli_same_file(const char *a, const char *b);

/* CLI_USAGE when the output is one of the inputs; input may be NULL. */
int cli_output_spares(const char *output, const char *input, struct cli_error *e);

/* Before long work: whether a file may be written there, as far as that can be told without trying. */
int cli_output_check(const char *path, struct cli_error *e);

/* folder + "/" + stem + suffix, malloc'd; NULL when memory ran out. */
char *cli_path_join(const char *folder, const char *stem, const char *suffix);

#endif
