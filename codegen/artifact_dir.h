/* The folder of the artifacts: places, sizes, and what goes when there is too much. For artifact*.c. */
#ifndef CG_ARTIFACT_DIR_H
#define CG_ARTIFACT_DIR_H

#include "artifact.h"

#define CG_ARTIFACT_TEMPORARY ".tmp-" /* begins the names of files that are being written */

struct cg_entry_name {
    char folder[3], file[33];
};

bool cg_artifacts_usable(const struct cg_artifacts *c);

/* Writing failed before: reported, and not tried again. EBUSY is forgiven twice in a row; EISDIR, a folder in the place of the entry,
 * which is named, always. */
bool cg_artifacts_broken(const struct cg_artifacts *c);
void cg_artifacts_break(struct cg_artifacts *c, const struct cg_entry_name *n, int error);

/* Opens one of the 256 folders; make: also when it is missing. -1 with errno. */
int cg_artifacts_folder(struct cg_artifacts *c, const char *name, bool make);

/* Makes room and renames a whole file to its place. 0, or an errno; *full: there is no room to be made. */
int cg_artifacts_settle(struct cg_artifacts *c, int folder, const char *temporary, const struct cg_entry_name *n,
                        uint64_t bytes, bool *full);

/* The kind that the head of a file names; false: it has none. */
bool cg_artifact_kind(int folder, const char *file, char kind[16]);

/* false: its digest is wrong, or it is no such file at all. What can't be looked at counts as sound. */
bool cg_artifact_sound(int folder, const char *file);

#endif
