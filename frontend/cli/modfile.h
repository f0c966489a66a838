/* A module file in memory: read once, its signature checked where one is asked for, and then used from there, so that the
 * bytes that were checked are the bytes that run. */
#ifndef CLI_MODFILE_H
#define CLI_MODFILE_H

#include "limits.h"
#include "runtime/yolort.h"

/* What a command asks of modules; rows for an options struct S with a member `trust`. */
struct cli_trust {
    const char *key, *signature; /* files, or NULL */
};
#define CLI_ROWS_TRUST(S) \
    {.name = "require-signature", .value = CLI_TEXT, .at = offsetof(struct S, trust.key), .metavar = "KEY.pub", \
     .help = "refuse a module that this key did not sign (`yoloc sign`); else YOLOC_REQUIRE_SIGNATURE names the key"}, \
    {.name = "signature", .value = CLI_TEXT, .at = offsetof(struct S, trust.signature), .metavar = "FILE", \
     .help = "the signature; else MODULE.sig"}

struct cli_modfile {
    uint8_t *bytes; /* malloc'd, aligned as yolort_load likes it */
    size_t size;
    int verified;   /* a signature was required, and is right */
};

/* Regular files only. On failure nothing is left to free. trust NULL: no signature is asked for, whatever the environment
 * says. */
int cli_modfile_read(struct cli_modfile *f, const char *path, const struct cli_trust *trust,
                     const struct cli_limits *limits, struct cli_error *e);
void cli_modfile_free(struct cli_modfile *f);

/* The module borrows the file's bytes. */
int cli_modfile_load(yolort_module **out, const struct cli_modfile *f, const char *path,
                     const struct cli_limits *limits, struct cli_error *e);

/* The same to look at alone: no device that its programs need has to be here. */
int cli_modfile_look(yolort_module **out, const struct cli_modfile *f, const char *path, const struct cli_limits *limits,
                     struct cli_error *e);

#endif
