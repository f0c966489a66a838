#include "check.h"

#ifdef YOLOC_MUTATION
#include <stdlib.h>
#include <string.h>

int cli_check_off(const char *id)
{
    const char *name = getenv("YOLOC_CHECK_OFF");
    return name && strcmp(name, id) == 0;
}
#endif
