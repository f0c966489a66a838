/* Module files, loaded by the runtime; nothing of them is run. In builds with FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION the
 * digest is not looked at, so that the checks behind it are reached. */
#include <string.h>

#include "runtime/yolort.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[256] = "";
    yolort_module *m = NULL;
    yolort_status s = yolort_load(&m, data, size, error, sizeof error);
    if (s) {
        if (!error[0] || m) __builtin_trap();
        return 0;
    }
    volatile size_t sum = strlen(yolort_module_info(m)->model);
    (void)sum;
    for (size_t i = 0; i < yolort_io_count(m); i++) sum += strlen(yolort_io_at(m, i)->name);
    for (int32_t i = 0; i < yolort_module_info(m)->nc; i++) sum += strlen(yolort_module_info(m)->names[i]);
    yolort_module_free(m);
    return 0;
}
