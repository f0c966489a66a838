#include "service.h"

#include <string.h>

static const char text[] = {
#include <service_text.h>
    0,
};

const char *cg_service_text(size_t *size)
{
    *size = sizeof text - 1;
    return text;
}

bool cg_takes_pictures(const struct yir_func *f)
{
    for (uint32_t i = 0; i < f->ninput; i++)
        if (!strcmp(f->input[i].name, "input_u8")) return true;
    return false;
}
