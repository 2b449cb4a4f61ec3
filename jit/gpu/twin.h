/* Values that lie on the card too: what a run brought there or made there stays, as long as the value lives and nothing else needs the room.
 * What was made there is owed to this machine: its elements come when something here may read them (twins_home), or never, where the value
 * dies before.
 *
 * A twin goes with the storage of a tensor, so it is there in later cells, in tuples, lists and closures, for whoever hands the tensor to a
 * run again: then nothing is brought to the card. Together they take a part of the card's memory and of the session's limit; beyond that,
 * and where a run needs the room, those go that were used the longest ago. */
#ifndef JIT_GPU_TWIN_H
#define JIT_GPU_TWIN_H

#include "jit/internal.h"
#include "runtime/cuda.h"

/* Where the first `bytes` of the tensor's elements lie on the card, until `twins_rest`; 0: they do not. */
uint64_t twin_find(Jit *jit, const Tensor *t, size_t bytes);
/* The block, in which so many bytes of the tensor's elements lie, stays with it, and is no longer the caller's; false where it does not.
 * `owed`: the tensor has none of them yet. */
bool twin_keep(Jit *jit, const Tensor *t, size_t bytes, CudaBlock *block, bool owed);
/* The tensor's elements, or those of what it is a part of, are on the card alone. */
bool twin_is_owed(const Jit *jit, const Tensor *t);
bool twins_are_owed(const Jit *jit);
/* Brings what is owed, and where anything was the card has done its work then; false after a diagnostic: then nothing is owed any more. */
bool twins_home(Jit *jit);
/* What is owed is given up: nobody reads it. */
void twins_forget(Jit *jit);
/* As cuda_take; twins that are not in use make room. */
bool twin_take(Jit *jit, size_t n, CudaBlock *out);
/* What was found may go again. */
void twins_rest(Jit *jit);
/* None is left; the tensors stay. */
void twins_drop(Jit *jit);
/* How many there are, and their bytes. */
size_t twins_count(const Jit *jit, size_t *bytes);

#endif
