/* A process that runs what strangers wrote, and cannot do more than that.
 *
 *     Buf why = {0};
 *     if (!sandbox_enter(files, n, SANDBOX_NO_NETWORK, &why)) …
 *
 * From then on this thread, and every thread that it starts, opens no file but those named (to read them) and the libraries of the
 * system; it starts no program and no process, and touches no other; no memory is writable and executable at once; and there is no
 * network. What is open stays open. There is no way back. The kernel does this (Landlock for files, seccomp for all else), whatever
 * code runs. docs/security.md says what it is good for. */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include "base/buf.h"

typedef enum SandboxNetwork {
    SANDBOX_NO_NETWORK,
    SANDBOX_NETWORK, /* as it was, until sandbox_close_network */
} SandboxNetwork;

/* False when the kernel cannot: `why` says what is missing, and what the process may do is undefined. Before there are other threads. */
bool sandbox_enter(const char *const *files, size_t n, SandboxNetwork network, Buf *why);
/* Whether the file is one of those named, or lies beneath one, as long as there is a sandbox: libraries of the system can be opened, and are
 * no texts that a program may read. */
bool sandbox_shows(const char *path);
/* From here on the sockets that there are may be used and no others be made, by any thread. */
bool sandbox_close_network(Buf *why);

#endif
