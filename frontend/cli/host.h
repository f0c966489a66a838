/* The machine the command runs on. */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include <stddef.h>

/* Cores this process may use. */
int cli_host_threads(void);

/* "AMD EPYC 9B14", or "CPU" when the system does not say. */
void cli_host_cpu(char *out, size_t size);

#endif
