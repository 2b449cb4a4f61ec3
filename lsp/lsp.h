/* The language server: `relay lsp` serves an editor on standard input and output until that says `exit`.
 *
 * A face as the terminal and the notebook are: what it answers, the session knows (include/relay.h, documents). wire.c reads and writes
 * messages, text.c keeps the texts that are open and counts places as editors do, server.c has a row for each method, and
 * what they answer stands in read.c (questions), change.c (edits) and jobs.c (programs that it runs beside). */
#ifndef LSP_LSP_H
#define LSP_LSP_H

/* The exit code: 0 after `shutdown` and `exit`; 2 where the system does not read or write, 3 where it gives no memory: then `*why` says
 * which, and `*error` is its errno, else 0; else 1. */
int lsp_run(const char **why, int *error);

#endif
