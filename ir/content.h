/* What a program is made of, as 128 bits that are the same in every process that reads the same text, and what the program is made
 * from, in an order that is the same too. So what was made of a program once can be found again, and put together with the things of
 * another process: its texts, data types and definitions.
 *
 * Unlike the structural hash (equal.h), it depends on all that code made of the program may show: names, types, places in the text. Where
 * a text stands among those of the session does not count. */
#ifndef IR_CONTENT_H
#define IR_CONTENT_H

#include "base/digest.h"
#include "ir/module.h"

typedef struct Content {
    uint64_t key[2];
    Vec(uint32_t) sources; /* the texts, in order of first mention */
    Vec(const TypeDef *) types; /* data types, likewise */
    Vec(const Def *) defs; /* the definition and all that it reaches; of the module */
    Arena arena;
} Content;

/* Of a definition of the module with all that it reaches; `how`: what else decides what is made of it; NULL: nothing. */
void content_init(Content *c, const Module *m, const Def *def, const Buf *how);
void content_deinit(Content *c);
/* The key for one more word or text beside. */
void content_key_with(const Content *c, const char *text, uint64_t out[2]);

#endif
