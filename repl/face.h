/* A session with what a face in the terminal has around it: signals in, output out. */
#ifndef REPL_FACE_H
#define REPL_FACE_H

#include "base/buf.h"
#include "repl/repl.h"
#include "repl/signals.h"

typedef struct Face {
    RelaySession *session;
    Signals *signals;
    Show show;
    RelayStatus worst;          /* of the cells so far */
} Face;

/* False, with a message and the status in `worst`, when there is no memory for a session or its engine is not in this build. */
bool face_init(Face *f, const ReplOptions *options, SignalsUse use);
void face_deinit(Face *f);
/* Reads a text, "-" from standard input, into an empty buffer. False after a message; `worst` is its status. */
bool face_read(Face *f, const char *path, Buf *out);
/* Runs what the person wants of every session. */
void face_start(Face *f);
/* Runs one cell. */
void face_eval(Face *f, const RelayCell *cell);
/* Takes a whole program to a stage; `sink` NULL: what comes out is shown. */
RelayStatus face_stage(Face *f, const RelayRequest *request, const RelaySink *sink);
/* Nothing more can be done: the person left, or the output is gone. */
bool face_done(const Face *f);

#endif
