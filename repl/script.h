/* Text that runs as if it were typed. */
#ifndef REPL_SCRIPT_H
#define REPL_SCRIPT_H

#include "repl/face.h"

typedef enum ScriptUse {
    SCRIPT_SILENT,
    SCRIPT_PROMPTS,             /* a person types, on a terminal that cannot edit */
} ScriptUse;

/* Runs standard input cell by cell, each as soon as its last line has come. */
void script_run_lines(Face *face, ScriptUse use);
/* Runs a file as one text, each item a cell: definitions in a row are one, and may refer to later ones. */
void script_run_file(Face *face, const char *path);

#endif
