/* Whether the address sanitizer watches, and how it is told of memory that nobody has been given. */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESSES_WATCHED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(ADDRESSES_WATCHED)
#define ADDRESSES_WATCHED 1
#endif

#ifdef ADDRESSES_WATCHED
#include <sanitizer/asan_interface.h>
#define poison(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define unpoison(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
/* A function that reads what is hidden. */
#define UNWATCHED __attribute__((no_sanitize("address")))
#else
#define ADDRESSES_WATCHED 0
#define poison(p, n) ((void)(p), (void)(n))
#define unpoison(p, n) ((void)(p), (void)(n))
#define UNWATCHED
#endif

#endif
