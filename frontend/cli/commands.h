/* The commands. A command is a row here, a file cmd_<name>.c that defines cli_command_<name>, and nothing
 * else; cmd_predict.c has two names. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "args.h"

#define COMMAND(name) extern const struct cli_command cli_command_##name;
#include "commands.def"
#undef COMMAND

/* Options without a command: --version, --list-ops, --explain ... */
extern const struct cli_command cli_command_list;

#endif
