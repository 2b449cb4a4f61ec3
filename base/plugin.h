/* Plug-ins: parts of the program that are opened when they are first used, because their
 * libraries are slow to load (LLVM, ZeroMQ).
 *
 * A plug-in is `relay-NAME.so`, beside the executable in a build tree, in `lib/relay` when
 * installed. It takes the functions of the lower layers from the program that opens it and shows
 * one function of its own, the entry, whose name begins with `relay_NAME_`. It stays open until
 * the program ends.
 *
 *     Buf why = {0};
 *     const Engine *(*entry)(void) = (const Engine *(*)(void))plugin_open("jit", "relay_jit_engine", &why); */
#ifndef BASE_PLUGIN_H
#define BASE_PLUGIN_H

#include "base/buf.h"

/* Any function; the caller converts it to the type that the entry has. */
typedef void PluginEntry(void);

/* What the headers were when the program, or the plug-in, was built (cmake/plugin_mark.cmake). */
extern const char relay_plugin_mark[];

/* The plug-in's entry; NULL when it is not there, does not load or is of a build with other headers, and `why` says so in
 * one line. Functions that it calls are looked for when they are first called: it may open another plug-in before that. */
PluginEntry *plugin_open(const char *name, const char *entry, Buf *why);

/* Another place to look for plug-ins, behind all others; lent for good. */
void plugin_also_in(const char *folder);

/* A file that is installed with the program or library that this code lies in, "relay" or "librelay.so.0": its path. False when it
 * is not there. */
bool plugin_sibling(const char *name, Buf *path);

/* A system library, by the first of its names under which it is there; NULL when it is under none, and `why`, which may be NULL and
 * otherwise is empty, says what the loader said of the first. What fails for want of memory is counted as such. */
void *library_open(const char *const *names, size_t n, int flags, Buf *why);

/* A function of a system library that may be absent ("libcuda.so.1"); NULL when the library or the function is. */
PluginEntry *library_entry(const char *library, const char *name);

/* What tells apart the builds of the program or library that this address lies in, which the linker made of all that is in it; false
 * when it has no such mark. */
bool plugin_build(const void *address, Buf *out);

#endif
