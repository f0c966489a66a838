/* The crash points (ir/crashpoint.h) of a test program: counted, and one of them ends the process. */
#ifndef TEST_CRASHPOINT_H
#define TEST_CRASHPOINT_H

enum { CRASH_CODE = 137, CRASH_LABELS = 64, CRASH_LABEL = 48 };

/* What the points of a process that crash_run started have seen. */
struct crash_seen {
    long points;                            /* that were reached */
    char last[CRASH_LABEL];                 /* the last one's label */
    int nlabel;
    char label[CRASH_LABELS][CRASH_LABEL];  /* each label that was reached, once */
};

/*
 * Runs body(arg) in a child process whose at-th crash point (from 1; 0: none) ends it with CRASH_CODE, at once and
 * without any clearing up. The child's exit code (body's result when no point ended it), or 128 + the signal that
 * killed it. seen may be NULL. A test runs at = 1, 2, ... until CRASH_CODE doesn't come back.
 */
int crash_run(int (*body)(void *), void *arg, long at, struct crash_seen *seen);

#endif
