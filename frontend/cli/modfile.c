#include "modfile.h"

#include "engine.h"
#include "fileio.h"
#include "sign/yolosign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An empty variable is more likely a mistake in a script than a wish for no check. */
static int wanted_key(const struct cli_trust *t, const char **key, struct cli_error *e)
{
    const char *variable = t ? getenv("YOLOC_REQUIRE_SIGNATURE") : NULL;
    *key = t && t->key ? t->key : variable;
    if (*key && !**key)
        return cli_fail(e, CLI_USAGE, "YOLOC_REQUIRE_SIGNATURE is empty; name a public key, or unset it");
    if (t && t->signature && !*key)
        return cli_fail(e, CLI_USAGE, "--signature is of no use without --require-signature");
    return 0;
}

static int check(struct cli_modfile *f, const char *path, const char *key, const char *signature,
                 struct cli_error *e)
{
    char *beside = NULL, text[512] = "";
    if (!signature && asprintf(&beside, "%s.sig", path) < 0)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
    yolosign_status s = yolosign_check_files(key, signature ? signature : beside, f->bytes, f->size, text, sizeof text);
    free(beside);
    if (s != YOLOSIGN_OK)
        return cli_fail(e, CLI_SIGNATURE, "%s: not accepted, as a signature is required: %s", path, text);
    f->verified = 1;
    return 0;
}

int cli_modfile_read(struct cli_modfile *f, const char *path, const struct cli_trust *trust,
                     const struct cli_limits *limits, struct cli_error *e)
{
    const char *key;
    *f = (struct cli_modfile){.bytes = NULL};
    if (wanted_key(trust, &key, e) != 0)
        return -1;
    if (cli_file_read_regular(path, limits->module_bytes, "module-bytes", &f->bytes, &f->size, e) != 0)
        return -1;
    int rc = key ? check(f, path, key, trust->signature, e) : 0;
    if (rc != 0)
        cli_modfile_free(f);
    return rc;
}

void cli_modfile_free(struct cli_modfile *f)
{
    free(f->bytes);
    *f = (struct cli_modfile){.bytes = NULL};
}

static int load(yolort_module **out, const struct cli_modfile *f, const char *path, const struct cli_limits *limits, int look,
                struct cli_error *e)
{
    char text[512] = "", named[640];
    yolort_load_opts o;
    yolort_load_opts_init(&o, sizeof o);
    o.max_bytes = limits->module_bytes;
    o.max_sections = (uint32_t)limits->module_sections;
    o.max_table_bytes = limits->module_table_bytes;
    o.look = look;
    yolort_status s = yolort_load_within(out, f->bytes, f->size, &o, text, sizeof text);
    if (s == YOLORT_LIMIT)
        snprintf(named, sizeof named, "%s (raise it with --limit module-sections=N or module-table-bytes=N)", text);
    else if (s == YOLORT_FORMAT)
        snprintf(named, sizeof named, "%s; the file looks like %s", text, cli_file_kind(f->bytes, f->size));
    else
        snprintf(named, sizeof named, "%s", text);
    return cli_runtime_check(s, path, named, e);
}

int cli_modfile_load(yolort_module **out, const struct cli_modfile *f, const char *path, const struct cli_limits *limits,
                     struct cli_error *e)
{
    return load(out, f, path, limits, 0, e);
}

int cli_modfile_look(yolort_module **out, const struct cli_modfile *f, const char *path, const struct cli_limits *limits,
                     struct cli_error *e)
{
    return load(out, f, path, limits, 1, e);
}
