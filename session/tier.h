/* The engine `auto`: the JIT for what the evaluator finds hot. */
#ifndef SESSION_TIER_H
#define SESSION_TIER_H

#include "session/internal.h"

/* The session's evaluator asks for code from now on, while its tier is on. */
void tier_start(RelaySession *s);
/* A line with the definitions that are compiled; nothing when none are. */
void tier_describe(const RelaySession *s, Buf *out);

#endif
