/* yoloc sign: detached signatures of modules, and keys for them. */
#include "commands.h"
#include "engine.h"
#include "fileio.h"
#include "interrupt.h"
#include "modfile.h"
#include "sign/yolosign.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *key, *fresh, *output;
    struct cli_texts limit;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "key", .letter = 'k', .value = CLI_TEXT, .group = 1, .at = AT(key), .metavar = "NAME.key",
     .help = "the secret key to sign with"},
    {.name = "new-key", .value = CLI_TEXT, .group = 1, .at = AT(fresh), .metavar = "NAME",
     .help = "make a pair of keys: NAME.key, to be kept secret, and NAME.pub, to be handed out"},
    {.name = "output", .letter = 'o', .value = CLI_TEXT, .at = AT(output), .metavar = "FILE",
     .help = "the signature to write; else MODULE.sig"},
    CLI_ROW_LIMIT(options, limit),
};

/* --- a signature --- */

/* What is damaged, or no module, is not worth a signature. One for another kind of machine is. */
static int check_module(const struct cli_modfile *f, const char *path, const struct cli_limits *limits,
                        struct cli_error *e)
{
    yolort_module *m = NULL;
    int rc = cli_modfile_load(&m, f, path, limits, e);
    yolort_module_free(m);
    return rc != 0 && e->number == CLI_MODULE_TARGET ? 0 : rc;
}

static int write_signature(const struct cli_modfile *f, const struct options *o, const char *path, const char *output,
                           struct cli_error *e)
{
    char signature[YOLOSIGN_TEXT], text[512] = "";
    if (cli_same_file(output, path) || cli_same_file(output, o->key))
        return cli_fail(e, CLI_USAGE, "sign: %s would be overwritten; give another -o", output);
    yolosign_status s = yolosign_make_file(o->key, f->bytes, f->size, signature, text, sizeof text);
    if (s != YOLOSIGN_OK)
        return cli_fail(e, s == YOLOSIGN_IO ? CLI_OPEN : CLI_SIGNATURE, "%s", text);
    return cli_file_write(output, signature, strlen(signature), e);
}

static int sign_module(const struct options *o, const char *path, struct cli_error *e)
{
    struct cli_modfile f;
    struct cli_limits limits;
    char *output = o->output ? strdup(o->output) : NULL;
    if (!output && asprintf(&output, "%s.sig", path) < 0)
        return cli_fail(e, CLI_MEMORY, "out of memory");
    int rc = cli_limits_read(&limits, &o->limit, e);
    if (rc == 0)
        rc = cli_modfile_read(&f, path, NULL, &limits, e);
    if (rc == 0) {
        rc = check_module(&f, path, &limits, e);
        if (rc == 0)
            rc = write_signature(&f, o, path, output, e);
        cli_modfile_free(&f);
    }
    if (rc == 0)
        printf("%s: signature of %s\n", output, path);
    free(output);
    return rc;
}

/* --- keys --- */

/* Both files, or neither: the second name being taken undoes the first. */
static int write_keys(const char *secret_path, const char *pub_path, struct cli_error *e)
{
    char secret[YOLOSIGN_TEXT], pub[YOLOSIGN_TEXT];
    yolosign_status s = yolosign_key_new(secret, pub);
    if (s != YOLOSIGN_OK) {
        cli_fail(e, CLI_SIGNATURE, "%s: %s", secret_path, yolosign_status_text(s));
        e->exit_code = CLI_NO_RESOURCE;
        return -1;
    }
    cli_interrupt_hold();
    int rc = cli_file_create(secret_path, secret, strlen(secret), 0600, e);
    if (rc == 0) {
        rc = cli_file_create(pub_path, pub, strlen(pub), 0644, e);
        if (rc != 0)
            cli_file_remove(secret_path);
    }
    cli_interrupt_release();
    yolosign_wipe(secret);
    return rc;
}

static int make_keys(const struct options *o, struct cli_error *e)
{
    char *secret_path = NULL, *pub_path = NULL;
    int rc;
    if (asprintf(&secret_path, "%s.key", o->fresh) < 0 || asprintf(&pub_path, "%s.pub", o->fresh) < 0)
        rc = cli_fail(e, CLI_MEMORY, "out of memory");
    else
        rc = write_keys(secret_path, pub_path, e);
    if (rc == 0)
        printf("%s: secret, signs modules\n%s: public, for --require-signature\n", secret_path, pub_path);
    free(secret_path);
    free(pub_path);
    return rc;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    if (!o->key && !o->fresh)
        return cli_fail(e, CLI_USAGE, "sign: --key NAME.key signs a module, --new-key NAME makes keys; one is needed");
    if (o->fresh && (args->nrest || o->output))
        return cli_fail(e, CLI_USAGE, "sign: --new-key takes neither a module nor -o");
    if (o->key && !args->nrest)
        return cli_fail(e, CLI_USAGE, "sign: --key needs the module to sign");
    return o->fresh ? make_keys(o, e) : sign_module(o, args->rest[0], e);
}

const struct cli_command cli_command_sign = {
    .name = "sign",
    .arguments = "MODULE --key NAME.key | --new-key NAME",
    .summary = "Signs a module, or makes keys for that (Ed25519).",
    .details =
        "The signature is a file of its own beside the module. Commands that load modules check it with "
        "--require-signature NAME.pub.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 0, .max_rest = 1,
    .run = run,
};
