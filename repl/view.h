/* Draws the text that is being edited, with its prompts, and a panel of lines below it.
 *
 * The view occupies the rows from its first prompt to the end of the screen and draws all of them
 * each time, in one write. Lines wider than the screen wrap as the terminal itself wraps them, so
 * that selecting with the mouse gives the text as it was typed, and a text taller than the screen
 * shows the part around the cursor. */
#ifndef REPL_VIEW_H
#define REPL_VIEW_H

#include "repl/term.h"

typedef struct ViewScene {
    const char *text;
    size_t n, cursor;
    const char *styles;             /* one TermStyle a byte; NULL: without colours */
    size_t mark_from, mark_to;      /* underlined, for a match of the search */
    const char *panel;              /* lines with their colours, each ended by '\n' */
    size_t panel_n;
} ViewScene;

typedef struct ViewRow {
    size_t from, to;                /* bytes of the text */
    int column;                     /* of its first character in the line, for tabs */
    bool wraps;                     /* goes on in the next row */
    bool starts;                    /* has a prompt */
} ViewRow;

typedef struct View {
    Term *term;
    const char *prompt, *more;      /* of the first line and of the others; of equal width */
    bool color;
    int columns, rows;              /* of the screen */
    int height, cursor_row; /* what was drawn last: rows, and which of them the cursor is in */
    ViewRow *layout;
    int n_layout, cap_layout;
    int cursor_at, cursor_column; /* where the layout has the cursor */
    Buf out;
} View;

void view_deinit(View *v);
/* Starts below what is on the screen. */
void view_start(View *v);
void view_draw(View *v, const ViewScene *scene);
/* After the window changed its size: finds the rows that the terminal moved, and draws. */
void view_resize(View *v, const ViewScene *scene);
/* Leaves the cursor on a line of its own below the text. */
void view_finish(View *v, const ViewScene *scene);

#endif
