/* Ends a call when its time is over. */
#ifndef JIT_WATCH_H
#define JIT_WATCH_H

#include "base/limit.h"

typedef struct Watch Watch;

/* NULL when there is no time limit. The interrupt flag is set when the time is over before watch_end. */
Watch *watch_begin(Limits *limits);
void watch_end(Watch *w);

#endif
