/* Files as a whole: read into memory, or written so that a reader sees the old file or the new one, never a
 * part. */
#ifndef CLI_FILEIO_H
#define CLI_FILEIO_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Reads at most `limit` bytes of a regular file or pipe. *bytes is malloc'd (never NULL on success) and the
 * caller's. */
int cli_file_read(const char *path, size_t limit, uint8_t **bytes, size_t *size, struct cli_error *e);

/* A file being written under a temporary name in the folder of `path`. */
struct cli_output {
    FILE *stream;
    char *path, *temporary;
};

int cli_output_open(struct cli_output *o, const char *path, struct cli_error *e);

/* Flushes, syncs and renames to `path`; on failure nothing is left. Releases `o` in both cases. */
int cli_output_commit(struct cli_output *o, struct cli_error *e);
void cli_output_discard(struct cli_output *o);

/* open, write, commit. */
int cli_file_write(const char *path, const void *bytes, size_t size, struct cli_error *e);

/* Makes the folder, and those above it, unless they exist. */
int cli_folder_make(const char *path, struct cli_error *e);

/* Whether both paths lead to one file or folder. */
int cli_same_file(const char *a, const char *b);

/* folder + "/" + stem + suffix, malloc'd; NULL when memory ran out. */
char *cli_path_join(const char *folder, const char *stem, const char *suffix);

#endif
