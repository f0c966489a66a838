#include "crashpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/crashpoint.h"

static struct crash_seen *shared; /* with the process that started this one; NULL: not under crash_run */
static long crash_at;

#ifndef YOLOC_CRASH
void yir_crash_point(const char *label);
#endif

static void note(const char *label)
{
    shared->points++;
    snprintf(shared->last, CRASH_LABEL, "%s", label);
    for (int i = 0; i < shared->nlabel; i++)
        if (strcmp(shared->label[i], label) == 0) return;
    if (shared->nlabel < CRASH_LABELS) snprintf(shared->label[shared->nlabel++], CRASH_LABEL, "%s", label);
}

void yir_crash_point(const char *label)
{
    if (!shared) return;
    note(label);
    if (shared->points == crash_at) _exit(CRASH_CODE);
}

int crash_run(int (*body)(void *), void *arg, long at, struct crash_seen *seen)
{
    int status;
    struct crash_seen *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) abort();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        shared = s;
        crash_at = at;
        _exit(body(arg));
    }
    if (waitpid(child, &status, 0) != child) abort();
    if (seen) *seen = *s;
    munmap(s, sizeof *s);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
