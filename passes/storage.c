#include "passes/storage.h"

#include "base/number.h"
#include "stdlib/ops/ops.h"

const TypeDef *storage_type(PassRun *run)
{
    const Name *name = ctx_name(run->cx, "Storage");
    const TypeDef *known = module_find_type(run->module, name);
    if (known)
        return known;
    TypeDef *made = typedef_new(run->cx, name, 0, NULL, (Span){0});
    module_define_type(run->module, made);
    return made;
}

/* `known` has the tuples that were counted: types share parts. */
static int64_t bytes_of(const Type *t, PtrMap *known)
{
    int64_t bytes = 0, part;
    t = type_find(t);
    if (ptrmap_has(known, t))
        return (int64_t)(intptr_t)ptrmap_find(known, t);
    if (t->kind == TYPE_TENSOR && type_is_static(t)) {
        Dim n = dims_product(t->n, t->dims);
        return int64_mul(n, (int64_t)dtype_size(t->dtype), &bytes) ? bytes : 0;
    }
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++) {
        part = bytes_of(t->parts[i], known);
        if (!int64_add(bytes, part, &bytes)) {
            bytes = 0;
            break;
        }
    }
    if (t->kind == TYPE_TUPLE)
        ptrmap_put(known, t, (void *)(intptr_t)bytes);
    return bytes;
}

int64_t storage_bytes(const Type *t)
{
    PtrMap known = {0};
    int64_t bytes = bytes_of(t, &known);
    ptrmap_deinit(&known);
    return bytes;
}
