/* Output files that appear whole or not at all: written under another name in the same folder, then
 * renamed. */
#ifndef FE_OUTFILE_H
#define FE_OUTFILE_H

#include "ir/diag.h"

struct fe_outfile {
    struct yir_loc loc; /* of reports */
    int fd;       /* -1: not open */
    char *path;   /* the place of the result, links resolved */
    char *temp;   /* name of the file being written; not in use while unnamed */
    bool unnamed; /* O_TMPFILE: has no name yet, so even a kill leaves nothing */
};

/* Starts a file that is to stand at path. Refuses directories, devices, pipes. -1 after reporting E_WRITE; o
 * is then closed (abort and commit are allowed and do nothing, commit fails). */
int fe_outfile_open(struct fe_outfile *o, struct yir_diags *d, const char *path);

/* Appends. On failure reports, and the file is given up (closed and removed). */
int fe_outfile_write(struct fe_outfile *o, struct yir_diags *d, const void *bytes, size_t n);

/* Flushes to the disk and puts the file in its place, over one that stands there. -1 after reporting: nothing
 * is left. */
int fe_outfile_commit(struct fe_outfile *o, struct yir_diags *d);

/* Gives the file up. Allowed at any time, also after a commit. */
void fe_outfile_abort(struct fe_outfile *o);

/* The whole way for bytes that are already there. */
int fe_outfile_put(struct yir_diags *d, const char *path, const void *bytes, size_t n);

#endif
