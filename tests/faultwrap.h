/*
 * Calls of the system that fail on demand: a program linked with -Wl,--wrap=NAME for each NAME of faultwrap.def runs
 * its own objects and our libraries on these; other libraries (libc's insides, LLVM, libpng) keep the real ones.
 */
#ifndef TEST_FAULTWRAP_H
#define TEST_FAULTWRAP_H

#include <stddef.h>

enum fault_class { FAULT_NONE, FAULT_MEMORY, FAULT_IO, FAULT_LIBRARY };

struct fault {
    enum fault_class of;
    long at;      /* the call of this class that fails, from 1; 0: none, calls are only counted */
    int onwards;  /* that call and all after it, else that one alone */
    int error;    /* errno of the failure */
    int cut;      /* reads and writes of more than a byte do half of it; nothing else fails */
};

void fault_arm(const struct fault *f);

/* Back to normal; the number of calls of the class since fault_arm. */
long fault_disarm(void);

/* Name of the last call that failed since fault_arm, "" when none did. */
const char *fault_last(void);

/* Blocks and mappings that were made through the wrappers, armed or not, and not given back. */
long fault_live(void);

/* For libraries that take an allocator; of class FAULT_LIBRARY. */
void *fault_library_malloc(size_t n);

/* Open descriptors of the process. */
int fault_descriptors(void);

#endif
