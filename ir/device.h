/* Where values are: a device as text, "cuda:0", with a memory scope "cuda:0/global". Objects of the metadata say the same by numbers. */
#ifndef IR_DEVICE_H
#define IR_DEVICE_H

#include "base/arena.h"
#include "ir/attrs.h"

/* The text of a device: of what kind, by the number that the original gives it, which of them, in what memory ("": any). The empty
 * text where neither kind nor number is given; a kind without a name is `device` and its number. */
Str device_print(Arena *arena, int64_t kind, int64_t id, Str scope);

/* Whether it begins with a kind of device that has a name, and goes on as devices do: "cuda", "cuda:0", "cuda:0/global". */
bool device_is_known(Str device);
/* The names of the kinds into `names`, which has room for DEVICE_KINDS; how many. */
enum { DEVICE_KINDS = 16 };
size_t device_kinds(const char **names);

/* The device that an attribute names, as text; empty where it names none. */
Str device_of_attr(Arena *arena, const AttrValue *v);

#endif
