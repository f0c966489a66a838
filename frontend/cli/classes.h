#ifndef CLI_CLASSES_H
#define CLI_CLASSES_H

#include "error.h"

#include <stdint.h>

/* "person,2,traffic light": names or numbers of classes. Sets wanted[i] to 1 for those named, of nc, the
 * others to 0. */
int cli_classes_parse(const char *list, const char *const *names, int nc, uint8_t *wanted,
                      struct cli_error *e);

#endif
