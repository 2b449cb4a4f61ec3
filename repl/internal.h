/* What the files of the line editor share: line.c has the keys, menu.c completion, search.c the
 * search through the history. */
#ifndef REPL_INTERNAL_H
#define REPL_INTERNAL_H

#include "repl/line.h"
#include "repl/text.h"
#include "repl/view.h"

/* The list of what could stand at the cursor. */
typedef struct Menu {
    RelayCompletions *items; /* NULL: closed */
    size_t selected; /* items->n: none, what was typed stands there */
    size_t from, to; /* the bytes of the text that the choice replaces */
    Buf typed; /* what stood there when the list was opened */
} Menu;

/* The search through the history. */
typedef struct Search {
    bool active;
    Buf query;
    size_t entry, at; /* the match; line_history_end: none yet */
    bool failed; /* the last step found nothing more */
} Search;

struct Line {
    Term *term;
    RelaySession *session;
    LineHistory *history;
    bool color;
    Text text;
    View view;
    Buf styles, panel;
    Menu menu;
    Search search;
    size_t browsed; /* the entry of the history that is shown; line_history_end: none */
    bool browsing; /* the last key went through the history, so the next one may, too */
    Buf kept; /* the text before the history was entered */
    size_t kept_cursor;
    int column; /* that Up and Down aim at; -1: where the cursor is */
    Buf ghost; /* how the text may go on; drawn behind it */
    Buf shown; /* both, while they are drawn */
    Buf offered; /* what the next cell begins with */
    bool over; /* the cell is entered or given up: nothing more is suggested */
    void (*idle)(void *data);
    void *idle_data;
};

/* Completes the text at the cursor, or opens the list. */
void menu_open(Line *l);
void menu_close(Line *l);
/* False when the key is none of the list's; it is closed then. */
bool menu_key(Line *l, TermKey key);
void menu_draw(const Line *l, Buf *panel);

/* ghost.c: finds how the text may go on; takes it over. */
void ghost_find(Line *l);
bool ghost_take(Line *l);
/* A line about the first mistake in the text, if there is one. */
void live_check(Line *l, Buf *panel);

void search_open(Line *l);
/* False when the key is none of the search's; the match is the text then. */
bool search_key(Line *l, TermKey key);
void search_draw(const Line *l, Buf *panel);

/* Keeps the text as what leaving the history or the search goes back to; and goes back to it. */
void line_keep(Line *l);
void line_go_back(Line *l);

#endif
