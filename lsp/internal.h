/* What the files of lsp/ share. */
#ifndef LSP_INTERNAL_H
#define LSP_INTERNAL_H

#include "base/buf.h"
#include "include/relay.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* ---- wire.c: messages -------------------------------------------------------------------------------------------- */

typedef struct Wire {
    int in, out;
    Buf waiting; /* bytes that were read and not taken */
    size_t at; /* of the first of them */
    size_t skip; /* bytes of a message that is too large, still to come */
    bool ended; /* there is no more to read */
    int unread, failed; /* errno, where it cannot be read; written */
} Wire;

typedef enum WireState { WIRE_MESSAGE, WIRE_WRONG, WIRE_LOST, WIRE_WAIT } WireState;

/* The next whole message of those that came; the caller's. WIRE_WRONG: it was no JSON, or too large; WIRE_LOST: and a text may have changed by
 * it. */
WireState wire_next(Wire *w, json_t **out);
/* Reads what there is, at least something, unless the input ended. */
void wire_read(Wire *w);
/* Takes the message. */
void wire_send(Wire *w, json_t *message);

/* ---- text.c: open documents -------------------------------------------------------------------------------------- */

typedef struct Open {
    struct Open *next;
    char *uri;
    char *path; /* of a file; else the URI */
    Buf text;
    size_t *lines; /* offsets of their starts; NULL: not known */
    size_t n_lines;
    json_int_t version;
    RelayDocument *document;
    bool stale; /* the document has an older text */
    bool unseen; /* what was found was not sent yet */
    bool lost; /* a change was not understood: nobody knows the text until it comes as a whole */
} Open;

void open_free(Open *o);
/* The path of a `file:` URI, else a copy of it; and back. */
char *path_of_uri(const char *uri);
char *uri_of_path(const char *path);
/* Takes over a new text, or one change of the list of `didChange`; what makes no sense is the text's loss. */
void open_set(Open *o, const char *text, size_t len);
void open_change(Open *o, const json_t *change, bool utf8);
void open_lose(Open *o);

/* How long the end of a line at the offset is; 0: none ends there. */
size_t line_end_at(const Open *o, size_t at);
/* Places: lines from 0, and columns in units of UTF-16 unless the editor counts bytes. What lies outside of the text is brought into it. */
size_t offset_of(Open *o, const json_t *position, bool utf8);
json_t *position_of(Open *o, size_t offset, bool utf8);
json_t *range_json(Open *o, RelayRange range, bool utf8);

/* ---- server.c ----------------------------------------------------------------------------------------------------- */

typedef struct Job Job;

typedef struct Server {
    Wire wire;
    RelaySession *session;
    Open *open;
    Job *jobs;
    bool utf8; /* columns count bytes */
    bool initialized, shutdown, exit;
} Server;

/* What a handler answers: a result, or an error by its number. */
typedef struct Answer {
    json_t *result;
    int error;
    const char *message;
    bool later; /* a job answers */
} Answer;

enum {
    ERROR_PARSE = -32700,
    ERROR_REQUEST = -32600,
    ERROR_METHOD = -32601,
    ERROR_PARAMS = -32602,
    ERROR_EARLY = -32002,
    ERROR_FAILED = -32803,
    ERROR_CANCELLED = -32800,
};

Answer answer_with(json_t *result); /* takes it; NULL: there is no memory */
Answer answer_error(int error, const char *message);
void server_reply(Server *s, const json_t *id, Answer answer);
void server_notify(Server *s, const char *method, json_t *params);

/* The document that the parameters name, read and checked; NULL: there is none, or its text is lost. */
Open *open_of(Server *s, const json_t *params);
/* The same with the place that they ask about. */
Open *open_at(Server *s, const json_t *params, size_t *offset);
/* Text as JSON, whatever it holds. */
json_t *text_json(const char *text, size_t n);

/* ---- read.c, change.c, jobs.c: answers ------------------------------------------------------------------------------ */

json_t *semantic_legend(void);
Answer hover(Server *s, const json_t *params);
Answer completion(Server *s, const json_t *params);
Answer definition(Server *s, const json_t *params);
Answer references(Server *s, const json_t *params);
Answer highlights(Server *s, const json_t *params);
Answer symbols(Server *s, const json_t *params);
Answer semantic_tokens(Server *s, const json_t *params);
Answer inlay_hints(Server *s, const json_t *params);
json_t *diagnostics(Server *s, Open *o);

Answer formatting(Server *s, const json_t *params);
Answer prepare_rename(Server *s, const json_t *params);
Answer rename_all(Server *s, const json_t *params);
Answer code_actions(Server *s, const json_t *params);

json_t *job_commands(void);
Answer code_lenses(Server *s, const json_t *params);
/* Starts the program that a lens names; its reply comes when that has ended. */
Answer execute(Server *s, const json_t *params, const json_t *id);
void jobs_cancel(Server *s, const json_t *id);
/* Jobs as places to wait at, and what is there to read of them. */
typedef struct pollfd PollFd;
size_t jobs_poll(const Server *s, PollFd *fds, size_t most);
void jobs_read(Server *s);
void jobs_end(Server *s);

#endif
