/* The text that is being edited: bytes, a cursor, undo, and what was cut.
 *
 * Positions are byte offsets and always stand between characters, where a character is what a
 * reader takes for one (utf8_cluster). Motions are questions: they return a
 * position, and `text_move` goes there.
 *
 *     text_insert(t, "add(1, 2)", 9);
 *     text_move(t, text_word_back(t, t->cursor));
 *     text_cut(t, t->cursor, text_line_end(t, t->cursor));
 *     text_paste(t); */
#ifndef REPL_TEXT_H
#define REPL_TEXT_H

#include "base/buf.h"

enum { TEXT_CUTS = 16, TEXT_UNDOS = 200 };

/* What the last action was; a run of the same kind is undone at once, and cut into one piece. */
typedef enum TextAction {
    ACTION_OTHER,
    ACTION_TYPE,
    ACTION_ERASE,
    ACTION_CUT,
    ACTION_PASTE
} TextAction;

typedef struct TextState {
    char *text;
    size_t n, cursor;
} TextState;

typedef struct Text {
    Buf buf;
    size_t cursor;
    TextAction action;
    TextState undo[TEXT_UNDOS];
    int n_undo, n_redo;         /* what can be redone lies behind what can be undone */
    Buf cuts[TEXT_CUTS];        /* newest first */
    size_t pasted_from;         /* start of the last paste, for text_paste_other */
    int pasted;                 /* which cut it was */
} Text;

void text_deinit(Text *t);
/* Empties the text and forgets undo; what was cut stays. */
void text_reset(Text *t);
/* Puts other text in place of all, cursor at its end. */
void text_set(Text *t, const char *p, size_t n);

void text_move(Text *t, size_t to);
void text_insert(Text *t, const char *p, size_t n);
/* As one keystroke among many: undone together with its neighbours. */
void text_type(Text *t, const char *p, size_t n);
void text_replace(Text *t, size_t from, size_t to, const char *p, size_t n);
void text_erase(Text *t, size_t from, size_t to);
void text_cut(Text *t, size_t from, size_t to);
void text_paste(Text *t);
/* Puts the next older cut in place of the one just pasted. */
void text_paste_other(Text *t);
void text_transpose(Text *t);
void text_undo(Text *t);
void text_redo(Text *t);

/* ---- positions ----------------------------------------------------------------------------- */

size_t text_next(const Text *t, size_t at);
size_t text_back(const Text *t, size_t at);
size_t text_word_next(const Text *t, size_t at); /* behind the next word */
size_t text_word_back(const Text *t, size_t at); /* at the start of the word before */
size_t text_blank_back(const Text *t, size_t at); /* the same, where only blanks separate words */
size_t text_line_start(const Text *t, size_t at);
size_t text_line_end(const Text *t, size_t at);
/* The same column, or the end, of the line above or below; `at` itself where there is none. */
size_t text_line_above(const Text *t, size_t at, int column);
size_t text_line_below(const Text *t, size_t at, int column);
int text_column(const Text *t, size_t at);
bool text_is_blank(const Text *t, size_t from, size_t to);

#endif
