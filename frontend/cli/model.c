#include "model.h"

#include "fileio.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MODULE_MAGIC "YOLOCMOD"

/* A file that can't be read is no module: what reads it next says why. */
static int is_module(const char *path)
{
    char head[sizeof MODULE_MAGIC - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* never waits for a FIFO's writer */
    if (fd < 0)
        return 0;
    int64_t n = cli_fd_read(fd, head, sizeof head);
    close(fd);
    return n == sizeof head && memcmp(head, MODULE_MAGIC, sizeof head) == 0;
}

static int recompile(struct cli_compiler *c, const struct cli_trust *trust, const char *path,
                     const struct cli_limits *limits, yoloc_result *out, struct cli_error *e)
{
    struct cli_modfile f;
    if (cli_modfile_read(&f, path, trust, limits, e) != 0)
        return -1;
    int rc = cli_compiler_check(c, yoloc_recompile(c->handle, f.bytes, f.size, out), e);
    cli_modfile_free(&f);
    return rc;
}

/* A description and weights carry no signature: the environment's wish for one is then about nothing. */
int cli_model_compile(struct cli_compiler *c, const struct cli_build *build, const struct cli_trust *trust, const char *command,
                      const char *path, const struct cli_limits *limits, yoloc_result *out, struct cli_error *e)
{
    int module = is_module(path);
    if (module && (build->weights || build->scale || build->nc || build->layers || build->head))
        return cli_fail(e, CLI_USAGE,
                        "%s: %s is a module: its model and weights are fixed, so --weights, "
                        "--scale, --nc, --head and --layers have no meaning",
                        command, path);
    if (module)
        return recompile(c, trust, path, limits, out, e);
    if (trust->key || trust->signature)
        return cli_fail(e, CLI_USAGE, "%s: %s is no module, and only modules have signatures", command, path);
    return cli_compiler_check(c, yoloc_compile(c->handle, path, build->weights, out), e);
}
