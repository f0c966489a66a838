/* The folder of the caches, and what both of them (tunedb.h, artifact.h) share. A cache that can't be used costs one
 * warning and never a compile: every function of the three headers takes a NULL handle and then finds nothing and keeps
 * nothing.
 *
 * Handles live in an arena and are closed with it. They belong to one thread at a time; handles of one folder may be
 * open in many threads and processes at once. In a child after fork() a handle is as NULL. */
#ifndef CG_CACHEDIR_H
#define CG_CACHEDIR_H

#include "ir/diag.h"

struct cg_cachedir;

struct cg_cachedir_opts {
    const char *path;         /* NULL: $YOLOC_CACHE_DIR, else $XDG_CACHE_HOME/yoloc, else $HOME/.cache/yoloc */
    bool required;            /* what is wrong is E_CACHE rather than W_CACHE, and YOLOC_CACHE=off does not count */
    unsigned long filesystem; /* as statfs tells it in f_type; 0: ask. For tests. */
};

/* Makes the folder (mode 0700) when it is missing, and opens it. NULL: there is none that may be used, which one
 * diagnostic says; or YOLOC_CACHE=off, without any (on is the default, other values are reported). o NULL: all of it zero. */
struct cg_cachedir *cg_cachedir_open(struct yir_arena *a, struct yir_diags *d, const struct cg_cachedir_opts *o);

/* Without links; for messages and for SQLite, which can't be given a descriptor. */
const char *cg_cachedir_path(const struct cg_cachedir *c);

int cg_cachedir_fd(const struct cg_cachedir *c);

/* false: on a network or user-space file system, whose locks can't be relied on. */
bool cg_cachedir_shared(const struct cg_cachedir *c);

/* false: c is NULL, or belongs to the process that this one was forked from. */
bool cg_cachedir_usable(const struct cg_cachedir *c);

/* Reports what keeps a cache from being used: the first such report of a folder is told, later ones are not. */
YIR_PRINTF(2, 3) void cg_cachedir_report(struct cg_cachedir *c, const char *fmt, ...);

/* NULL, or why an open folder may not be used: it is another user's, or may be written by others. */
const char *cg_cachedir_distrust_folder(int fd);

/* NULL, or why a file of the folder may not be used: it is a link, has a second name, is not regular, is another
 * user's, or may be written by others. NULL also when there is no such file. */
const char *cg_cachedir_distrust(int folder, const char *name);

/* Waits for a lock (flock's LOCK_SH or LOCK_EX) on an open file; false: another process holds it. */
bool cg_cachedir_lock(int fd, int how, int most_ms);
enum { CG_CACHEDIR_WAIT_MS = 2000 }; /* after which a process that holds a lock counts as stuck */

/* --- keys ---------------------------------------------------------------------------------------------------- */

/* Appends a field of a key: no two lists of fields give the same bytes. */
void cg_key_put(struct yir_str *key, const char *name, const void *bytes, size_t n);
void cg_key_text(struct yir_str *key, const char *name, const char *text);

struct cg_digest {
    uint8_t byte[16]; /* XXH3-128, canonical (big-endian) form */
};
struct cg_digest cg_digest(const void *bytes, size_t n);
void cg_digest_hex(const struct cg_digest *d, char hex[33]);

#endif
