#include "stdlib/stdlib.h"

#include "stdlib/families.h"

#define FAMILY(name) name##_ops,
static const Op *const families[] = {
#include "stdlib/families.def"
    NULL,
};
#undef FAMILY

const OpTable stdlib_ops = {families};

const PreludeFile *stdlib_text(Str name)
{
    for (const PreludeFile *f = prelude_files; f->name; f++)
        if (str_is(name, f->name))
            return f;
    return NULL;
}
