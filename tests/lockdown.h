/* A process that can no longer start programs, use the network, write files, make threads or map code: the kernel kills it
 * (SIGSYS) when it tries. Files may be opened for reading. */
#ifndef TEST_LOCKDOWN_H
#define TEST_LOCKDOWN_H

/* For the calling process and for good; -1 when this kernel or machine has no such filter. */
int lockdown(void);

#endif
