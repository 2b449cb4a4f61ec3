/* The optimiser between a program and the engine that compiles it. */
#ifndef SESSION_OPTIMISE_H
#define SESSION_OPTIMISE_H

#include "passes/pass.h"
#include "session/internal.h"

/* A module with `name` of env and all that it reaches, after the pipeline of the session's level (at level 0 env itself); the
 * caller's. NULL after a diagnostic. */
Module *optimise(RelaySession *s, Module *env, const Name *name);
/* Runs the pipeline on all that `name` reaches, and tells the listener of that context each pass; nothing is kept. */
void optimise_watched(RelaySession *s, Module *env, const Name *name, const PassContext *listener);
/* The types of the arguments' values where they say more than those of the parameters, else NULL; whether one does. */
bool optimise_find_types(RelaySession *s, const Function *f, const Value *args, const Type **types);
/* The environment for a call with these arguments: env itself where neither the types of `name` nor those of what it calls leave extents
 * open, or where it can only be compiled as it is; else one that has `name` for their extents. The caller's. */
Module *optimise_for_shapes(RelaySession *s, Module *env, const Name *name, const Value *args);
/* Whether nothing would have to be done for that. */
bool optimised_already(RelaySession *s, Module *env, const Name *name);
/* What it would give for `name` if so; else NULL. */
const Function *optimised_as(RelaySession *s, Module *env, const Name *name);
/* Lets go of what was made of the definitions that lie in `home`; NULL: of all, as when the level changes. */
void optimise_forget(RelaySession *s, const Module *home);

#endif
