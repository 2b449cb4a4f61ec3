/* The terminal: modes, keys, size, and every escape sequence of the program.
 *
 * A Term belongs to whoever made it; between term_edit and term_leave the terminal sends each key
 * as it is pressed, and at all other times it is as it was found. What is drawn goes into a Buf
 * first and reaches the screen in one write.
 *
 *     Term *t = term_new(0, 1, -1);
 *     if (t) {
 *         term_edit(t);
 *         TermKey key = term_read(t);
 *         term_leave(t);
 *         term_free(t);
 *     } */
#ifndef REPL_TERM_H
#define REPL_TERM_H

#include "base/buf.h"

typedef struct Term Term;

/* Keys that are no character; a character is its code point. */
enum {
    KEY_NONE = 0x110000,    /* a sequence that means nothing here */
    KEY_UP,
    KEY_DOWN,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_HOME,
    KEY_END,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_ENTER,
    KEY_TAB,
    KEY_BACKSPACE,
    KEY_DELETE,
    KEY_ESCAPE,
    KEY_F1,
    KEY_PASTE,              /* a pasted text: term_pasted */
    KEY_RESIZE,             /* the window has another size now */
    KEY_CLOSED,             /* the terminal is gone, or somebody asks the program to end */
};

enum { MOD_SHIFT = 1, MOD_ALT = 2, MOD_CTRL = 4 };

typedef struct TermKey {
    uint32_t code;          /* control characters come as their letter with MOD_CTRL */
    unsigned mods;
} TermKey;

/* Whether the two are a terminal on which one can edit: no pipe, and not TERM=dumb. */
bool term_can_edit(int in, int out);
/* NULL when they are not, or without memory. `wake` is a
 * descriptor whose bytes interrupt reading: 'w' becomes KEY_RESIZE, 't' KEY_CLOSED; -1 for none. */
Term *term_new(int in, int out, int wake);
void term_free(Term *t);

void term_edit(Term *t);
void term_leave(Term *t);
/* Stops the process as Ctrl-Z does, and comes back to editing when it goes on. */
void term_suspend(Term *t);
/* The same from the other screen, which is given back meanwhile and is to be drawn again. */
void term_suspend_screen(Term *t, Buf *out);

void term_size(const Term *t, int *columns, int *rows);
/* Waits for a key. */
TermKey term_read(Term *t);
/* More keys have arrived already: what comes is a paste, not typing. */
bool term_pending(Term *t);
const char *term_pasted(const Term *t, size_t *n);
/* Writes and empties the buffer. */
void term_write(Term *t, Buf *b);

/* Columns of the terminal behind a descriptor; 0 when it is none. */
int term_columns(int fd);
/* Whether colours are wanted on a descriptor: a terminal that has them, and no NO_COLOR. */
bool term_has_color(int fd);
/* Whether it draws pictures by the protocol of kitty. */
bool term_has_pictures(int fd);

/* ---- what is drawn ------------------------------------------------------------------------- */

/* A colour, and any of the flags. The sixteen colours of the terminal's own theme read well on
 * light and dark. */
typedef unsigned TermStyle;
enum {
    STYLE_PLAIN,
    STYLE_RED,
    STYLE_GREEN,
    STYLE_YELLOW,
    STYLE_BLUE,
    STYLE_MAGENTA,
    STYLE_CYAN,
    STYLE_COLORS = 15, /* mask of the colour */
    STYLE_BOLD = 16,
    STYLE_DIM = 32,
    STYLE_UNDERLINE = 64,
    STYLE_REVERSE = 128,
};

void term_style(Buf *b, TermStyle style);
void term_up(Buf *b, int rows);
void term_column(Buf *b, int column); /* from 0 */
void term_clear_line(Buf *b); /* from the cursor to the right */
void term_clear_below(Buf *b); /* from the cursor to the end of the screen */
void term_clear_screen(Buf *b);
void term_home(Buf *b); /* to the first row */
/* A screen of its own, and back to the other with all that stands there. */
void term_other_screen(Buf *b, bool on);
void term_hide_cursor(Buf *b);
void term_show_cursor(Buf *b);

/* A picture, a byte a pixel, by the protocol of kitty; the cursor stands behind its last row. */
void term_picture(Buf *b, const unsigned char *gray, int width, int height);
/* Copies text up to so many columns; colours in it pass through, other control characters become
 * blanks. Returns the columns that were used. */
int term_clip(Buf *b, const char *text, size_t n, int columns);
/* Copies text, with lines that are longer broken at blanks; what goes on stands further in. */
void term_wrap(Buf *b, const char *text, size_t n, int columns);
/* Copies text without its colours. */
void term_strip(Buf *b, const char *text, size_t n);

#endif
