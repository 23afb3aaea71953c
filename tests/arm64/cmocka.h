/* SPDX-License-Identifier: Apache-2.0 */
/* The subset of cmocka that the kernel tests use, for a toolchain without cmocka. The first failure ends the program.
 */
#ifndef TV_TESTS_ARM64_CMOCKA_H
#define TV_TESTS_ARM64_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define fail_msg(...)                                                                                                  \
    (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define assert_true(x) ((x) ? (void)0 : (void)fail_msg("%s is false", #x))
#define assert_false(x) ((x) ? (void)fail_msg("%s is true", #x) : (void)0)
#define assert_int_equal(a, b)                                                                                         \
    ((long long)(a) == (long long)(b)                                                                                  \
         ? (void)0                                                                                                     \
         : (void)fail_msg("%s is %lld, %s is %lld", #a, (long long)(a), #b, (long long)(b)))
#define assert_memory_equal(a, b, n) (memcmp(a, b, n) == 0 ? (void)0 : (void)fail_msg("%s and %s differ", #a, #b))
#define assert_string_equal(a, b) (strcmp(a, b) == 0 ? (void)0 : (void)fail_msg("'%s' and '%s'", a, b))

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(f)                                                                                            \
    {                                                                                                                  \
#f, f                                                                                                          \
    }

static inline int run_all(const struct CMUnitTest *tests, size_t count)
{
    void *state = NULL;
    for (size_t i = 0; i < count; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run(&state);
    }
    return 0;
}

#define cmocka_run_group_tests(tests, setup, teardown) run_all(tests, sizeof(tests) / sizeof *(tests))

#endif
