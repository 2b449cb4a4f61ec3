/* Relay text as HTML, and a frame for whatever is shown step by step over it.
 *
 * Everything here is a plain document: no script, nothing fetched, colours from the theme of the page. Both views that step (how
 * inference got to a type, how an evaluation went) share two things:
 *
 *   html_source   a text with token colours, line numbers and marked ranges, whole or some lines of it
 *   HtmlSteps     numbered steps, of which one is seen at a time, with back and forward; without styles (a notebook that is not
 *                 trusted, a mail) the steps stand below each other and can all be read
 *
 *     HtmlSteps steps;
 *     html_steps_begin(&steps, out, n);
 *     for (…) {
 *         html_step_begin(&steps, "the title of the step", HTML_STEP_PLAIN);
 *         html_source(out, text, len, (HtmlLines){0}, n_marks, marks);
 *         …anything else…
 *         html_step_end(&steps);
 *     }
 *     html_steps_end(&steps);
 */
#ifndef SESSION_HTML_H
#define SESSION_HTML_H

#include "base/buf.h"
#include "session/code.h"

/* What stands in front of views in a page of their own: its head, and colours for both themes where nothing else sets them. */
void html_page_begin(Buf *out, const char *title);

/* Puts all styles of a page into one sheet, where the first stood; what stands in several of its parts is written once. */
void html_one_sheet(Buf *page);

/* A rule for the paper, where nobody unfolds anything: what parts of `of` are folded is seen there, but for the text of a picture. */
#define HTML_UNFOLDED(of)                     \
    "@media print{" of " details:not(.relay-" \
    "as-text)::details-content{content-visibility:visible;block-size:auto}}"

/* Relay text with token classes, by itself; in a frame with their colours. */
void html_tokens(Buf *out, const char *text, size_t len);
/* Plain text, in which code stands in backquotes. */
void html_words(Buf *out, const char *text);
/* What a program became, likewise; of a long text the first lines have colours. */
void html_code_tokens(Buf *out, CodeLanguage language, const char *text, size_t len);
void html_code(Buf *out, CodeLanguage language, const char *text, size_t len);
void html_program(Buf *out, const char *text, size_t len);
/* What a picture says as text, folded: pages that are not trusted, and readers of screens, have no pictures. */
void html_as_text(Buf *out, const Buf *text);

typedef enum HtmlMarkKind {
    HTML_MARK_AT, /* what the step is about */
    HTML_MARK_OTHER, /* what else takes part */
    HTML_MARK_WRONG, /* what went wrong */
    HTML_MARK_CHOICE, /* a label of a radio button, with the classes of HTML_MARK_NUMBERED */
    HTML_MARK_NUMBERED, /* without colours: its bytes have the class `k<number>`, beside those of other marks around them */
} HtmlMarkKind;

/* Bytes [from, to) of the text. Of marks that overlap the narrower one is seen. */
typedef struct HtmlMark {
    size_t from, to;
    HtmlMarkKind kind;
    uint32_t number;
    const char *
        prefix; /* CHOICE: the button is `<prefix><id>-<number>`, the label has the class `h<hue>` too */
    uint64_t id;
    uint32_t hue;
} HtmlMark;

/* The lines that are shown, counted from 1; all where `to` is 0. `before`: how many lines of the file stand in front of the text. */
typedef struct HtmlLines {
    uint32_t from, to, before;
} HtmlLines;

/* The colours of html_source, once before the first; html_steps_begin writes them too. */
void html_source_style(Buf *out);
void html_source(Buf *out, const char *text, size_t len, HtmlLines lines, size_t n,
                 const HtmlMark *marks);

typedef enum HtmlStepKind { HTML_STEP_PLAIN, HTML_STEP_WRONG } HtmlStepKind;

typedef struct HtmlSteps {
    Buf *out;
    size_t n, at;
    uint64_t id; /* tells the frames of one page apart */
    size_t start; /* the step that is seen first; 1 unless the caller changes it */
    const char *classes; /* of the next step's button, for rules of the caller's; NULL: none */
} HtmlSteps;

/* A page may hold the same view twice, and views of sessions that are gone: each has a number of its own. */
void html_steps_begin(HtmlSteps *steps, Buf *out, size_t n);
/* `title` is plain text, in which code stands in backquotes. */
void html_step_begin(HtmlSteps *steps, const char *title, HtmlStepKind kind);
/* Leads to another step, counted from 1; to none it is grey. */
void html_step_link(const HtmlSteps *steps, size_t to, const char *text);
void html_step_end(HtmlSteps *steps);
void html_steps_end(HtmlSteps *steps);

#endif
