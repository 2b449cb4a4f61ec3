#include "repl/term.h"

#include "base/base64.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum {
    ESCAPE_MS = 40,         /* a lone Escape is one that nothing follows for so long */
    PASTE_MS = 2000,        /* a paste whose end is lost ends by itself */
};

struct Term {
    int in, out, wake;
    struct termios before;  /* how the terminal was found */
    bool editing;
    unsigned char bytes[4096];
    size_t at, n;           /* what was read and not yet used: bytes[at, n) */
    Buf pasted;
};

bool term_can_edit(int in, int out)
{
    const char *name = getenv("TERM");
    return isatty(in) && isatty(out) && name && *name && strcmp(name, "dumb") != 0;
}

Term *term_new(int in, int out, int wake)
{
    if (!term_can_edit(in, out))
        return NULL;
    Term *t = memory_zeroed(1, sizeof *t);
    if (!t)
        return NULL;
    t->in = in;
    t->out = out;
    t->wake = wake;
    if (tcgetattr(in, &t->before) != 0) {
        free(t);
        return NULL;
    }
    return t;
}

void term_free(Term *t)
{
    if (!t)
        return;
    term_leave(t);
    buf_deinit(&t->pasted);
    free(t);
}

/* ---- modes --------------------------------------------------------------------------------- */

void term_write(Term *t, Buf *b)
{
    fd_write(t->out, buf_text(b), b->n);
    buf_clear(b);
}

void term_edit(Term *t)
{
    static const char paste_on[] = "\x1b[?2004h";
    if (t->editing)
        return;
    struct termios raw = t->before;
    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    /* Not TCSAFLUSH: what was typed while a cell ran is the start of the next one. */
    if (tcsetattr(t->in, TCSADRAIN, &raw) != 0)
        return;
    fd_write(t->out, paste_on, sizeof paste_on - 1);
    t->editing = true;
}

void term_leave(Term *t)
{
    static const char paste_off[] = "\x1b[?2004l";
    if (!t->editing)
        return;
    fd_write(t->out, paste_off, sizeof paste_off - 1);
    tcsetattr(t->in, TCSADRAIN, &t->before);
    t->editing = false;
}

void term_suspend(Term *t)
{
    term_leave(t);
    kill(0, SIGTSTP);
    term_edit(t);
}

void term_suspend_screen(Term *t, Buf *out)
{
    term_other_screen(out, false);
    term_show_cursor(out);
    term_write(t, out);
    term_suspend(t);
    term_other_screen(out, true);
    term_hide_cursor(out);
}

int term_columns(int fd)
{
    struct winsize ws;
    if (!isatty(fd))
        return 0;
    if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
        return ws.ws_col;
    return 80;
}

void term_size(const Term *t, int *columns, int *rows)
{
    struct winsize ws;
    *columns = 80;
    *rows = 24;
    if (ioctl(t->out, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 && ws.ws_row > 0) {
        *columns = ws.ws_col;
        *rows = ws.ws_row;
    }
}

bool term_has_color(int fd)
{
    const char *no = getenv("NO_COLOR");
    const char *name = getenv("TERM");
    if (no && *no)
        return false;
    return isatty(fd) && name && *name && strcmp(name, "dumb") != 0;
}

/* They say so themselves; a question would cost the time until the first prompt. What stands between, as tmux does, has no pictures. */
bool term_has_pictures(int fd)
{
    static const char *const names[] = {"xterm-kitty", "xterm-ghostty", "wezterm"};
    const char *name = getenv("TERM"), *program = getenv("TERM_PROGRAM");
    bool has = program && (!strcmp(program, "WezTerm") || !strcmp(program, "ghostty"));
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        has |= !strcmp(name, names[i]);
    const char *tmux = getenv("TMUX");
    return isatty(fd) && has && !(tmux && *tmux);
}

/* ---- keys ---------------------------------------------------------------------------------- */

typedef enum Input { INPUT_BYTES, INPUT_LATE, INPUT_RESIZE, INPUT_CLOSED } Input;

static Input read_wake(Term *t)
{
    char c = 0;
    if (read(t->wake, &c, 1) == 1 && c == 't')
        return INPUT_CLOSED;
    return c == 'w' ? INPUT_RESIZE : INPUT_LATE;
}

/* Waits until a byte is there, at most `ms` (-1: for ever). */
static Input wait_bytes(Term *t, int ms)
{
    while (t->at == t->n) {
        struct pollfd fds[2] = {{.fd = t->in, .events = POLLIN}, {.fd = t->wake, .events = POLLIN}};
        int ready = poll(fds, t->wake >= 0 && ms < 0 ? 2 : 1, ms);
        if (ready == 0)
            return INPUT_LATE;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0)
            return INPUT_CLOSED;
        if (fds[1].revents)
            return read_wake(t);
        ssize_t k = read(t->in, t->bytes, sizeof t->bytes);
        if (k < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (k <= 0)
            return INPUT_CLOSED;
        t->at = 0;
        t->n = (size_t)k;
    }
    return INPUT_BYTES;
}

bool term_pending(Term *t)
{
    return wait_bytes(t, 0) == INPUT_BYTES;
}

const char *term_pasted(const Term *t, size_t *n)
{
    *n = t->pasted.n;
    return buf_text(&t->pasted);
}

/* Takes what follows up to the closing bracket; line ends become '\n' in any form. */
static TermKey read_paste(Term *t)
{
    static const char end[] = "\x1b[201~";
    size_t seen = 0;
    buf_clear(&t->pasted);
    while (seen < sizeof end - 1 && wait_bytes(t, PASTE_MS) == INPUT_BYTES) {
        char c = (char)t->bytes[t->at++];
        if (c == end[seen]) {
            seen++;
            continue;
        }
        buf_bytes(&t->pasted, end, seen);
        seen = c == end[0];
        if (c == '\n' && t->pasted.n > 0 && t->pasted.at[t->pasted.n - 1] == '\r')
            t->pasted.n--;
        if (!seen)
            buf_char(&t->pasted, c);
    }
    for (size_t i = 0; i < t->pasted.n; i++)
        if (t->pasted.at[i] == '\r')
            t->pasted.at[i] = '\n';
    return (TermKey){KEY_PASTE, 0};
}

/* Keys that end in a letter, after ESC [ or ESC O. */
static uint32_t letter_key(char c)
{
    switch (c) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'C': return KEY_RIGHT;
    case 'D': return KEY_LEFT;
    case 'H': return KEY_HOME;
    case 'F': return KEY_END;
    case 'M': return KEY_ENTER;
    case 'P': return KEY_F1;
    case 'Z': return KEY_TAB;
    default: return KEY_NONE;
    }
}

/* Keys that are a number and a tilde. */
static uint32_t number_key(int number)
{
    switch (number) {
    case 1:
    case 7: return KEY_HOME;
    case 4:
    case 8: return KEY_END;
    case 3: return KEY_DELETE;
    case 5: return KEY_PAGE_UP;
    case 6: return KEY_PAGE_DOWN;
    case 11: return KEY_F1;
    default: return KEY_NONE;
    }
}

static TermKey plain_key(uint32_t code, unsigned mods)
{
    switch (code) {
    case '\r':
    case '\n': return (TermKey){KEY_ENTER, mods};
    case '\t': return (TermKey){KEY_TAB, mods};
    case 8:
    case 127: return (TermKey){KEY_BACKSPACE, mods};
    case 27: return (TermKey){KEY_ESCAPE, mods};
    case 0: return (TermKey){' ', mods | MOD_CTRL};
    default: break;
    }
    if (code < 27)
        return (TermKey){'a' + code - 1, mods | MOD_CTRL};
    if (code < 32)
        return (TermKey){'4' + code - 28, mods | MOD_CTRL};
    return (TermKey){code, mods};
}

/* ESC [ { number ; } letter   the first number is the key, the second the modifiers plus one; 27
 * as the key says that the third number is the character */
static TermKey read_control(Term *t, unsigned mods)
{
    int numbers[4] = {0}, n = 0;
    while (wait_bytes(t, ESCAPE_MS) == INPUT_BYTES) {
        char c = (char)t->bytes[t->at++];
        if (c >= '0' && c <= '9') {
            if (n < 4 && numbers[n] < 1000000)
                numbers[n] = numbers[n] * 10 + (c - '0');
        } else if (c == ';' || c == ':') {
            n++;
        } else if (c >= '@' && c <= '~') {
            if (c == '~' && numbers[0] == 200)
                return read_paste(t);
            if (numbers[1] > 0)
                mods |= (unsigned)(numbers[1] - 1) & 7;
            if (c == 'Z')
                mods |= MOD_SHIFT;
            if (c == 'u')
                return plain_key((uint32_t)numbers[0], mods);
            if (c == '~' && numbers[0] == 27)
                return plain_key((uint32_t)numbers[2], mods);
            return (TermKey){c == '~' ? number_key(numbers[0]) : letter_key(c), mods};
        }
    }
    return (TermKey){KEY_NONE, 0};
}

static TermKey read_character(Term *t, unsigned mods)
{
    char text[4];
    size_t n = 1, want = 1;
    text[0] = (char)t->bytes[t->at++];
    unsigned char lead = (unsigned char)text[0];
    if (lead >= 0xc0)
        want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    while (n < want && wait_bytes(t, ESCAPE_MS) == INPUT_BYTES && (t->bytes[t->at] & 0xc0) == 0x80)
        text[n++] = (char)t->bytes[t->at++];
    uint32_t code;
    utf8_decode(text, n, &code);
    return plain_key(code, mods);
}

static TermKey read_escape(Term *t)
{
    unsigned mods = 0;
    for (int escapes = 0; escapes < 2; escapes++) {
        if (wait_bytes(t, ESCAPE_MS) != INPUT_BYTES)
            return (TermKey){KEY_ESCAPE, mods};
        if (t->bytes[t->at] != 27)
            break;
        t->at++;
        mods = MOD_ALT;
    }
    if (t->at == t->n)
        return (TermKey){KEY_ESCAPE, mods};
    char c = (char)t->bytes[t->at];
    if (c != '[' && c != 'O')
        return read_character(t, MOD_ALT);
    t->at++;
    if (wait_bytes(t, ESCAPE_MS) != INPUT_BYTES)
        return (TermKey){(uint32_t)c, MOD_ALT};
    if (c == '[')
        return read_control(t, mods);
    return (TermKey){letter_key((char)t->bytes[t->at++]), mods};
}

TermKey term_read(Term *t)
{
    switch (wait_bytes(t, -1)) {
    case INPUT_RESIZE: return (TermKey){KEY_RESIZE, 0};
    case INPUT_CLOSED: return (TermKey){KEY_CLOSED, 0};
    case INPUT_LATE: return (TermKey){KEY_NONE, 0};
    case INPUT_BYTES: break;
    }
    if (t->bytes[t->at] != 27)
        return read_character(t, 0);
    t->at++;
    return read_escape(t);
}

/* ---- what is drawn ------------------------------------------------------------------------- */

void term_style(Buf *b, TermStyle style)
{
    static const unsigned char codes[] = {39, 31, 32, 33, 34, 35, 36};
    unsigned color = style & STYLE_COLORS;
    buf_str(b, "\x1b[0");
    if (style & STYLE_BOLD)
        buf_str(b, ";1");
    if (style & STYLE_DIM)
        buf_str(b, ";2");
    if (style & STYLE_UNDERLINE)
        buf_str(b, ";4");
    if (style & STYLE_REVERSE)
        buf_str(b, ";7");
    if (color > 0 && color < sizeof codes)
        buf_printf(b, ";%d", codes[color]);
    buf_char(b, 'm');
}

void term_up(Buf *b, int rows)
{
    if (rows > 0)
        buf_printf(b, "\x1b[%dA", rows);
}

void term_column(Buf *b, int column)
{
    buf_char(b, '\r');
    if (column > 0)
        buf_printf(b, "\x1b[%dC", column);
}

void term_clear_line(Buf *b)
{
    buf_str(b, "\x1b[K");
}

void term_clear_below(Buf *b)
{
    buf_str(b, "\x1b[J");
}

void term_clear_screen(Buf *b)
{
    buf_str(b, "\x1b[H\x1b[2J");
}

void term_home(Buf *b)
{
    buf_str(b, "\x1b[H");
}

void term_other_screen(Buf *b, bool on)
{
    buf_str(b, on ? "\x1b[?1049h" : "\x1b[?1049l");
}

void term_hide_cursor(Buf *b)
{
    buf_str(b, "\x1b[?25l");
}

void term_show_cursor(Buf *b)
{
    buf_str(b, "\x1b[?25h");
}

/* Bytes of the escape sequence at the start of the text; 0 when there is none. */
static size_t escape_length(const char *text, size_t n)
{
    if (n < 2 || text[0] != '\x1b' || text[1] != '[')
        return 0;
    size_t i = 2;
    while (i < n && !(text[i] >= '@' && text[i] <= '~'))
        i++;
    return i < n ? i + 1 : n;
}

/* Pieces of at most 4096 characters, each a command of its own; `q=2`: no answer. */
enum { PICTURE_PIECE = 1024 };

void term_picture(Buf *b, const unsigned char *gray, int width, int height)
{
    size_t n = (size_t)width * (size_t)height;
    unsigned char colors[3 * PICTURE_PIECE];
    for (size_t from = 0; from < n; from += PICTURE_PIECE) {
        size_t piece = n - from < PICTURE_PIECE ? n - from : PICTURE_PIECE;
        for (size_t i = 0; i < 3 * piece; i++)
            colors[i] = gray[from + i / 3];
        buf_str(b, "\033_G");
        if (from == 0)
            buf_printf(b, "a=T,f=24,s=%d,v=%d,q=2,", width, height);
        buf_printf(b, "m=%d;", from + piece < n);
        base64_write(b, colors, 3 * piece);
        buf_str(b, "\033\\");
    }
}

int term_clip(Buf *b, const char *text, size_t n, int columns)
{
    int used = 0;
    for (size_t i = 0, k; i < n; i += k) {
        k = escape_length(text + i, n - i);
        if (k > 0) {
            buf_bytes(b, text + i, k);
            continue;
        }
        uint32_t code;
        k = utf8_decode(text + i, n - i, &code);
        int width = code < 32 ? 1 : utf8_width(code);
        if (used + width > columns)
            break;
        if (code < 32)
            buf_char(b, ' ');
        else
            buf_bytes(b, text + i, k);
        used += width;
    }
    return used;
}

/* The blank at which a line is broken that has room for so many columns: the last one that fits, or the first where none does; `n` when the
 * line fits. The blanks that begin the line are none. */
static size_t break_at(const char *line, size_t n, int columns)
{
    size_t blank = n, first = 0;
    int used = 0;
    while (first < n && line[first] == ' ')
        first++;
    for (size_t i = 0, k; i < n; i += k) {
        uint32_t code;
        k = escape_length(line + i, n - i);
        if (k > 0)
            continue;
        k = utf8_decode(line + i, n - i, &code);
        if (code == ' ' && i > first && (used <= columns || blank == n))
            blank = i;
        used += code < 32 ? 1 : utf8_width(code);
        if (used > columns && blank < n)
            return blank;
    }
    return n;
}

/* How far in a line goes on: further than it begins; in a row of a table, below its second column; a sentence, where it began. */
static int hanging_indent(const char *line, size_t n, int columns)
{
    enum { FURTHER = 4 };
    size_t first = 0, gap;
    while (first < n && line[first] == ' ')
        first++;
    for (gap = first; gap + 1 < n && (line[gap] != ' ' || line[gap + 1] != ' '); gap++)
        continue;
    bool row = first > 0 && gap + 1 < n;
    while (row && gap < n && line[gap] == ' ')
        gap++;
    bool sentence = first == 0 && n > 1 && line[0] >= 'A' && line[0] <= 'Z' && line[1] != '[' &&
                    !(line[1] >= 'A' && line[1] <= 'Z');
    int indent = row ? (int)utf8_text_width(line, gap) : sentence ? 0 : (int)first + FURTHER;
    return indent < columns / 2 ? indent : 0;
}

static void wrap_line(Buf *b, const char *line, size_t n, int columns)
{
    int indent = hanging_indent(line, n, columns);
    size_t stop = break_at(line, n, columns);
    buf_bytes(b, line, stop);
    while (stop < n) {
        line += stop;
        n -= stop;
        while (n > 0 && *line == ' ') {
            line++;
            n--;
        }
        if (n == 0)
            return;
        buf_char(b, '\n');
        buf_repeat(b, ' ', (size_t)indent);
        stop = break_at(line, n, columns - indent);
        buf_bytes(b, line, stop);
    }
}

void term_wrap(Buf *b, const char *text, size_t n, int columns)
{
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t line = end ? (size_t)(end - text) - at : n - at;
        wrap_line(b, text + at, line, columns);
        if (end)
            buf_char(b, '\n');
        at += line + 1;
    }
}

void term_strip(Buf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t k = escape_length(text + i, n - i);
        if (k == 0) {
            const char *next = memchr(text + i + 1, '\x1b', n - i - 1);
            k = next ? (size_t)(next - text) - i : n - i;
            buf_bytes(b, text + i, k);
        }
        i += k;
    }
}
