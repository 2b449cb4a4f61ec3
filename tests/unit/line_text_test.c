/* The edited text: characters, words, lines, cutting, undo. */
#include "repl/text.h"

#include <stdio.h>
#include <string.h>

static int failures;

static void expect(const Text *t, int line, const char *text, size_t cursor)
{
    if (strcmp(buf_text(&t->buf), text) == 0 && t->cursor == cursor)
        return;
    printf("line %d: `%s` at %zu, not `%s` at %zu\n", line, buf_text(&t->buf), t->cursor, text,
           cursor);
    failures++;
}

static void expect_at(int line, size_t got, size_t want)
{
    if (got == want)
        return;
    printf("line %d: position %zu, not %zu\n", line, got, want);
    failures++;
}

#define EXPECT(t, text, cursor) expect((t), __LINE__, (text), (cursor))
#define EXPECT_AT(got, want) expect_at(__LINE__, (got), (want))

static void put(Text *t, const char *text)
{
    text_insert(t, text, strlen(text));
}

static void test_characters(void)
{
    Text t = {0};
    put(&t, "a\xc3\xa9"
            "e\xcc\x81"
            "\xe6\x97\xa5"); /* é; e with a combining accent; a wide one */
    EXPECT_AT(text_next(&t, 0), 1);
    EXPECT_AT(text_next(&t, 1), 3);
    EXPECT_AT(text_next(&t, 3), 6);
    EXPECT_AT(text_next(&t, 6), 9);
    EXPECT_AT(text_next(&t, 9), 9);
    EXPECT_AT(text_back(&t, 9), 6);
    EXPECT_AT(text_back(&t, 6), 3);
    EXPECT_AT(text_back(&t, 3), 1);
    EXPECT_AT(text_back(&t, 0), 0);
    EXPECT_AT((size_t)text_column(&t, 9), 5);
    text_erase(&t, text_back(&t, 6), 6);
    EXPECT(&t, "a\xc3\xa9\xe6\x97\xa5", 3);
    text_deinit(&t);
}

static void test_broken_bytes(void)
{
    Text t = {0};
    put(&t, "\x80\xff(\xe6\x97");
    size_t at = 0;
    for (int steps = 0; at < t.buf.n && steps < 10; steps++)
        at = text_next(&t, at);
    EXPECT_AT(at, 5);
    for (int steps = 0; at > 0 && steps < 10; steps++)
        at = text_back(&t, at);
    EXPECT_AT(at, 0);
    text_deinit(&t);
}

static void test_words(void)
{
    Text t = {0};
    put(&t, "add(%x_1, nn.relu(%y))");
    EXPECT_AT(text_word_next(&t, 0), 3);
    EXPECT_AT(text_word_next(&t, 3), 8);
    EXPECT_AT(text_word_next(&t, 8), 12);
    EXPECT_AT(text_word_back(&t, 22), 19);
    EXPECT_AT(text_word_back(&t, 19), 13);
    EXPECT_AT(text_blank_back(&t, 22), 10);
    EXPECT_AT(text_blank_back(&t, 10), 0);
    text_deinit(&t);
}

static void test_lines(void)
{
    Text t = {0};
    put(&t, "long line\nab\n\nlast line");
    EXPECT_AT(text_line_start(&t, 11), 10);
    EXPECT_AT(text_line_end(&t, 11), 12);
    EXPECT_AT(text_line_above(&t, 5, 5), 5);
    EXPECT_AT(text_line_below(&t, 5, 5), 12);
    EXPECT_AT(text_line_below(&t, 12, 5), 13);
    EXPECT_AT(text_line_below(&t, 13, 5), 19);
    EXPECT_AT(text_line_below(&t, 19, 5), 19);
    EXPECT_AT(text_line_above(&t, 13, 1), 11);
    text_deinit(&t);
}

static void test_cutting(void)
{
    Text t = {0};
    put(&t, "one two three");
    text_cut(&t, text_word_back(&t, t.cursor), t.cursor);
    text_cut(&t, text_word_back(&t, t.cursor), t.cursor);
    EXPECT(&t, "one ", 4);
    text_move(&t, 0);
    text_paste(&t);
    EXPECT(&t, "two threeone ", 9);
    text_move(&t, 9);
    text_cut(&t, 9, 13);
    EXPECT(&t, "two three", 9);
    text_paste(&t);
    text_paste_other(&t);
    EXPECT(&t, "two threetwo three", 18);
    text_paste_other(&t);
    EXPECT(&t, "two threeone ", 13);
    text_move(&t, 13);
    text_paste_other(&t);
    EXPECT(&t, "two threeone ", 13);
    text_deinit(&t);
}

static void test_undo(void)
{
    Text t = {0};
    text_type(&t, "a", 1);
    text_type(&t, "b", 1);
    text_move(&t, 1);
    text_type(&t, "x", 1);
    text_undo(&t);
    EXPECT(&t, "ab", 1);
    text_undo(&t);
    EXPECT(&t, "", 0);
    text_undo(&t);
    text_redo(&t);
    EXPECT(&t, "ab", 1);
    text_redo(&t);
    EXPECT(&t, "axb", 2);
    text_undo(&t);
    text_type(&t, "y", 1);
    text_redo(&t);
    EXPECT(&t, "ayb", 2);
    text_deinit(&t);
}

/* More changes than are kept: the oldest are forgotten, the others come back in order. */
static void test_much_undo(void)
{
    Text t = {0};
    for (int i = 0; i < 3 * TEXT_UNDOS; i++)
        put(&t, "x");
    for (int i = 0; i < 3 * TEXT_UNDOS; i++)
        text_undo(&t);
    EXPECT_AT(t.buf.n, 2 * TEXT_UNDOS);
    for (int i = 0; i < 3 * TEXT_UNDOS; i++)
        text_redo(&t);
    EXPECT_AT(t.buf.n, 3 * TEXT_UNDOS);
    text_deinit(&t);
}

static void test_transpose(void)
{
    Text t = {0};
    put(&t, "ab\xc3\xa9");
    text_transpose(&t);
    EXPECT(&t,
           "a\xc3\xa9"
           "b",
           4);
    text_move(&t, 0);
    text_transpose(&t);
    EXPECT(&t,
           "a\xc3\xa9"
           "b",
           0);
    text_deinit(&t);
}

int main(void)
{
    test_characters();
    test_broken_bytes();
    test_words();
    test_lines();
    test_cutting();
    test_undo();
    test_much_undo();
    test_transpose();
    return failures != 0;
}
