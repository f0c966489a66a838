#include "criterion/criterion.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Tests run slower under a sanitizer by about this factor, so their time limits are longer. */
enum { SLOWER = 10 };

static struct serial_test *tests, *suites;
static jmp_buf leave;
static int failures, skipped;

void serial_add(struct serial_test *t)
{
    struct serial_test **list = t->name ? &tests : &suites;
    while (*list)
        list = &(*list)->next;
    *list = t;
}

void serial_fail(int die, const char *file, int line, const char *text, ...)
{
    printf("%s:%d: failed: %s\n", file, line, text);
    failures++;
    if (die)
        longjmp(leave, 1);
}

void serial_skip(const char *why, ...)
{
    printf("%s\n", why);
    skipped = 1;
    longjmp(leave, 1);
}

static const struct serial_options *suite_options(const char *suite)
{
    static const struct serial_options none;
    for (const struct serial_test *s = suites; s; s = s->next)
        if (strcmp(s->suite, suite) == 0)
            return &s->options;
    return &none;
}

static void call(void (*own)(void), void (*of_suite)(void))
{
    if (own || of_suite)
        (own ? own : of_suite)();
}

/* 1 passed, 0 skipped, -1 failed */
static int run(const struct serial_test *t)
{
    const struct serial_options *o = &t->options, *s = suite_options(t->suite);
    double limit = o->timeout > 0 ? o->timeout : s->timeout;
    if (o->disabled || s->disabled || o->signal || o->exit_code || s->signal)
        return 0;
    failures = skipped = 0;
    alarm(limit > 0 ? (unsigned)(limit * SLOWER) + 1 : 0);
    if (setjmp(leave) == 0) {
        call(o->init, s->init);
        t->body();
    }
    if (setjmp(leave) == 0)
        call(o->fini, s->fini);
    alarm(0);
    return failures ? -1 : !skipped;
}

int main(void)
{
    int tested = 0, failing = 0;
    for (const struct serial_test *t = tests; t; t = t->next) {
        int rc = run(t);
        printf("[%s] %s::%s\n", rc < 0 ? "FAIL" : rc ? "PASS" : "SKIP", t->suite, t->name);
        fflush(stdout);
        tested += rc != 0;
        failing += rc < 0;
    }
    printf("Synthesis: Tested: %d | Passing: %d | Failing: %d\n", tested, tested - failing, failing);
    return failing > 0;
}
