#include "dev.h"

static const struct rt_dev *const devices[] = {&rt_dev_cpu, &rt_dev_cuda};

const struct rt_dev *rt_dev_find(uint32_t kind)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (devices[i]->kind == kind) return devices[i];
    return NULL;
}
