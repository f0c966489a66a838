/*
 * The part of Criterion that our units use, run one after another in one process: for ThreadSanitizer, whose memory layout
 * leaves no room for the sandboxes of the real one, and for MemorySanitizer, which would have to be in Criterion too.
 * Options read: .init .fini .timeout .disabled; a test with .signal or .exit_code needs a sandbox and is skipped.
 * Messages are not formatted; the failed expression is printed.
 */
#ifndef SERIAL_CRITERION_H
#define SERIAL_CRITERION_H
#pragma GCC system_header

#include <math.h>
#include <stdio.h>
#include <string.h>

struct serial_options {
    void (*init)(void);
    void (*fini)(void);
    double timeout;
    int disabled, signal, exit_code, end_;
    const char *description;
};

struct serial_test {
    const char *suite, *name; /* name NULL: options of the whole suite */
    void (*body)(void);
    struct serial_options options;
    struct serial_test *next;
};

void serial_add(struct serial_test *t);
/* Counts a failure; die: leaves the test. What follows the text is not read. */
void serial_fail(int die, const char *file, int line, const char *text, ...);
void serial_skip(const char *why, ...);

#define Test(...) SERIAL_TEST_(__VA_ARGS__, .end_ = 0)
#define SERIAL_TEST_(suite_, name_, ...)                                                                      \
    static void suite_##_##name_##_body_(void);                                                               \
    static struct serial_test suite_##_##name_##_test_ = {                                                    \
        .suite = #suite_, .name = #name_, .body = suite_##_##name_##_body_, .options = {__VA_ARGS__}};        \
    __attribute__((constructor)) static void suite_##_##name_##_add_(void)                                    \
    {                                                                                                         \
        serial_add(&suite_##_##name_##_test_);                                                                \
    }                                                                                                         \
    static void suite_##_##name_##_body_(void)
#define TestSuite(...) SERIAL_SUITE_(__VA_ARGS__, .end_ = 0)
#define SERIAL_SUITE_(suite_, ...)                                                                            \
    static struct serial_test suite_##_suite_ = {.suite = #suite_, .options = {__VA_ARGS__}};                 \
    __attribute__((constructor)) static void suite_##_suite_add_(void)                                        \
    {                                                                                                         \
        serial_add(&suite_##_suite_);                                                                         \
    }                                                                                                         \
    struct serial_test

#define SERIAL_FIRST_(x, ...) (x)
#define SERIAL_1_(...) SERIAL_FIRST_(__VA_ARGS__, 0)
#define SERIAL_(die, cond, text, ...)                                                                         \
    ((cond) ? (void)0 : serial_fail(die, __FILE__, __LINE__, text, __VA_ARGS__))
#define SERIAL_OP_(die, op, a, ...) SERIAL_(die, (a) op SERIAL_1_(__VA_ARGS__), #a " " #op " " #__VA_ARGS__, __VA_ARGS__)
#define SERIAL_STR_(die, a, ...)                                                                              \
    SERIAL_(die, strcmp((a), SERIAL_1_(__VA_ARGS__)) == 0, #a " equals " #__VA_ARGS__, __VA_ARGS__)
#define SERIAL_ARR_(die, a, b, ...)                                                                           \
    SERIAL_(die, memcmp((a), (b), SERIAL_1_(__VA_ARGS__)) == 0, #a " equals " #b, __VA_ARGS__)
#define SERIAL_FLOAT_(die, a, b, ...)                                                                         \
    SERIAL_(die, fabs((double)(a) - (double)(b)) <= (double)SERIAL_1_(__VA_ARGS__), #a " is near " #b, __VA_ARGS__)

#define cr_assert(...) SERIAL_(1, SERIAL_1_(__VA_ARGS__), #__VA_ARGS__, __VA_ARGS__)
#define cr_expect(...) SERIAL_(0, SERIAL_1_(__VA_ARGS__), #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_not(...) SERIAL_(1, !SERIAL_1_(__VA_ARGS__), "not " #__VA_ARGS__, __VA_ARGS__)
#define cr_expect_not(...) SERIAL_(0, !SERIAL_1_(__VA_ARGS__), "not " #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_null(...) SERIAL_(1, !SERIAL_1_(__VA_ARGS__), "NULL: " #__VA_ARGS__, __VA_ARGS__)
#define cr_expect_null(...) SERIAL_(0, !SERIAL_1_(__VA_ARGS__), "NULL: " #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_not_null(...) SERIAL_(1, SERIAL_1_(__VA_ARGS__) != NULL, "not NULL: " #__VA_ARGS__, __VA_ARGS__)
#define cr_expect_not_null(...) SERIAL_(0, SERIAL_1_(__VA_ARGS__) != NULL, "not NULL: " #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_eq(a, ...) SERIAL_OP_(1, ==, a, __VA_ARGS__)
#define cr_expect_eq(a, ...) SERIAL_OP_(0, ==, a, __VA_ARGS__)
#define cr_assert_neq(a, ...) SERIAL_OP_(1, !=, a, __VA_ARGS__)
#define cr_expect_neq(a, ...) SERIAL_OP_(0, !=, a, __VA_ARGS__)
#define cr_assert_lt(a, ...) SERIAL_OP_(1, <, a, __VA_ARGS__)
#define cr_expect_lt(a, ...) SERIAL_OP_(0, <, a, __VA_ARGS__)
#define cr_assert_leq(a, ...) SERIAL_OP_(1, <=, a, __VA_ARGS__)
#define cr_expect_leq(a, ...) SERIAL_OP_(0, <=, a, __VA_ARGS__)
#define cr_assert_gt(a, ...) SERIAL_OP_(1, >, a, __VA_ARGS__)
#define cr_expect_gt(a, ...) SERIAL_OP_(0, >, a, __VA_ARGS__)
#define cr_assert_geq(a, ...) SERIAL_OP_(1, >=, a, __VA_ARGS__)
#define cr_expect_geq(a, ...) SERIAL_OP_(0, >=, a, __VA_ARGS__)
#define cr_assert_str_eq(a, ...) SERIAL_STR_(1, a, __VA_ARGS__)
#define cr_expect_str_eq(a, ...) SERIAL_STR_(0, a, __VA_ARGS__)
#define cr_expect_str_neq(a, ...)                                                                             \
    SERIAL_(0, strcmp((a), SERIAL_1_(__VA_ARGS__)) != 0, #a " equals not " #__VA_ARGS__, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, ...) SERIAL_ARR_(1, a, b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, ...) SERIAL_ARR_(0, a, b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, ...) SERIAL_FLOAT_(1, a, b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, ...) SERIAL_FLOAT_(0, a, b, __VA_ARGS__)
#define cr_assert_fail(...) SERIAL_(1, 0, "fail", __VA_ARGS__)
#define cr_expect_fail(...) SERIAL_(0, 0, "fail", __VA_ARGS__)
#define cr_log_error(...) (printf(__VA_ARGS__), putchar('\n'))
#define cr_log_info cr_log_error
#define cr_skip(...) serial_skip("" __VA_ARGS__)
#define cr_skip_test(...) serial_skip("" __VA_ARGS__)

#endif
