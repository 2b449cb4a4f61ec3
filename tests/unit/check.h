/* Checks for unit tests: each that fails is printed, and the last line of main says how many did.
 *
 *     int main(void)
 *     {
 *         CHECK(1 + 1 == 2);
 *         CHECK_TEXT(buf_text(&b), "two");
 *         return check_done();
 *     } */
#ifndef TESTS_UNIT_CHECK_H
#define TESTS_UNIT_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static long checks_made, checks_failed;

static inline bool check_that(bool good, const char *what, const char *file, int line)
{
    checks_made++;
    if (good)
        return true;
    /* A thousand lines of the same failure help nobody. */
    if (++checks_failed <= 20)
        printf("%s:%d: failed: %s\n", file, line, what);
    return false;
}

static inline void check_text(const char *got, const char *wanted, const char *file, int line)
{
    if (!check_that(strcmp(got, wanted) == 0, "the text", file, line))
        printf("--- got\n%s\n--- wanted\n%s\n---\n", got, wanted);
}

#define CHECK(condition) check_that((condition), #condition, __FILE__, __LINE__)
#define CHECK_TEXT(got, wanted) check_text((got), (wanted), __FILE__, __LINE__)

static inline int check_done(void)
{
    printf("%ld checks, %ld failed\n", checks_made, checks_failed);
    return checks_failed > 0;
}

#endif
