/* Compiled code in files, from one process to the next.
 *
 *     $XDG_CACHE_HOME/relay/code/3f…a0       one for each definition that was compiled, by its contents (ir/content.h)
 *
 * Code in a file is run, so the folder must be this person's alone; where it is not, nothing is read or written, and W0702 says so.
 * Files appear whole, by renaming, and go when the folder grows too large, those that were used least lately first; several processes
 * may do all of this at once. A file that is damaged or was made by another build is as good as none. */
#ifndef JIT_CACHE_H
#define JIT_CACHE_H

#include "base/buf.h"
#include "base/diag.h"
#include "base/str.h"

#include <stdatomic.h>

/* Bytes of all files together, where the environment's RELAY_CACHE gives no number of mebibytes: so many, of what the disk has free this
 * part at most. A large network takes more than half a gibibyte, and a file may take half of all. */
#define CACHE_MOST ((size_t)4 << 30)
#define CACHE_PART 8

typedef struct Cache {
    bool off; /* nobody wants it */
    bool tried;
    Buf folder; /* ends in a slash; empty: there is none that may be used */
    size_t most; /* bytes of all files together */
    atomic_uint stores; /* so far */
    atomic_size_t since; /* bytes stored since the folder was looked through */
} Cache;

/* A file, mapped; counted by the one thread that has it. */
typedef struct CacheFile {
    uint32_t refs;
    bool lent; /* the bytes are somebody else's, and stay for good */
    char *at;
    size_t n;
} CacheFile;

void cache_deinit(Cache *c);
/* Finds the folder; false when there is none. Reports once when it may not be used. */
bool cache_open(Cache *c, Diags *diags);
/* Owned by the caller; NULL: there is none. */
CacheFile *cache_read(Cache *c, const uint64_t key[2]);
/* The same over bytes that stay where they are as long as the process. */
CacheFile *cache_lent(Str bytes);
void cache_release(CacheFile *f); /* NULL is nothing */
/* Puts the pieces in place, one behind the other; that it fails is nobody's concern. Any thread may, once the cache is open. */
void cache_write(Cache *c, const uint64_t key[2], size_t n, const Str *pieces);
void cache_remove(Cache *c, const uint64_t key[2]);

#endif
