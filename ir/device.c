#include "ir/device.h"

#include "base/buf.h"
#include "base/number.h"

#include <ctype.h>
#include <string.h>

/* By the original's numbers. */
static const char *const kinds[] = {
    [1] = "cpu", [2] = "cuda",  [4] = "opencl",   [7] = "vulkan",   [8] = "metal",
    [9] = "vpi", [10] = "rocm", [12] = "ext_dev", [14] = "hexagon", [15] = "webgpu",
};

enum { KINDS = sizeof kinds / sizeof *kinds };
_Static_assert((int)KINDS <= (int)DEVICE_KINDS, "there is room for all");

size_t device_kinds(const char **names)
{
    size_t n = 0;
    for (int i = 0; i < KINDS; i++)
        if (kinds[i])
            names[n++] = kinds[i];
    return n;
}

bool device_is_known(Str device)
{
    const char *names[DEVICE_KINDS];
    size_t kind = 0, at;
    while (kind < device.len && !strchr(":/", device.ptr[kind]))
        kind++;
    for (at = kind + (kind < device.len && device.ptr[kind] == ':');
         at < device.len && isdigit((unsigned char)device.ptr[at]); at++)
        continue;
    bool well = kind > 0 && (at < device.len ? device.ptr[at] == '/' : device.ptr[at - 1] != ':');
    for (size_t i = device_kinds(names); i-- > 0 && well;)
        if (str_is((Str){device.ptr, kind}, names[i]))
            return true;
    return false;
}

Str device_print(Arena *arena, int64_t kind, int64_t id, Str scope)
{
    Buf b = {0};
    bool named = kind > 0 && kind < KINDS && kinds[kind];
    if (named)
        buf_str(&b, kinds[kind]);
    else if (kind > 0)
        buf_printf(&b, "device%lld", (long long)kind);
    if (kind > 0 && id >= 0)
        buf_printf(&b, ":%lld", (long long)id);
    if (scope.len)
        buf_printf(&b, "/%.*s", (int)scope.len, scope.ptr);
    size_t len = b.n;
    return (Str){buf_keep(&b, arena), len};
}

static int64_t field_number(const Attrs *fields, const char *key)
{
    const AttrValue *v = attrs_find(fields, key);
    int64_t n = -1;
    if (v && v->kind == ATTR_TEXT && !number_parse_int(v->s, &n))
        n = -1;
    return n;
}

Str device_of_attr(Arena *arena, const AttrValue *v)
{
    if (v && v->kind == ATTR_STRING)
        return v->s;
    if (!v || v->kind != ATTR_RECORD)
        return (Str){"", 0};
    const Attrs *fields = v->record.fields;
    return device_print(arena, field_number(fields, "device_type_int"),
                        field_number(fields, "virtual_device_id"),
                        attrs_string(fields, "memory_scope"));
}
