/* What a command is given to compile: a description and weights, a checkpoint that holds both, or a module. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "compiler.h"
#include "modfile.h"

/* Compiles it with the open compiler, whose options are `build`'s. command: its name, for messages. */
int cli_model_compile(struct cli_compiler *c, const struct cli_build *build, const struct cli_trust *trust, const char *command,
                      const char *path, const struct cli_limits *limits, yoloc_result *out, struct cli_error *e);

#endif
