/* The machine the command runs on. */
#ifndef CLI_HOST_H
#define CLI_HOST_H

#include <stddef.h>

/* Puts something in the place of standard streams that the caller closed, so that no output file gets their
 * numbers: reading finds the end, writing to standard output fails, standard error goes nowhere. */
void cli_host_streams(void);

/* Whether standard output was open at the start; else there is nobody to tell. */
int cli_host_has_output(void);

/* "AMD EPYC 9B14", or "CPU" when the system does not say. */
void cli_host_cpu(char *out, size_t size);

#endif
