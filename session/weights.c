/* Values of many tensors and files of arrays: what a run gives (`-o`), `:write`, `:read`. */
#include "base/memory.h"
#include "ir/ctx.h"
#include "runtime/params.h"
#include "session/commands.h"

#include <stdlib.h>
#include <string.h>

/* So deep may tuples and data lie in each other, and so long may lists be. */
enum { DEPTH_MOST = 1000 };

static bool has_fields(Value v)
{
    return v.kind == VALUE_TUPLE || v.kind == VALUE_CON;
}

static bool refuse_depth(RelaySession *s)
{
    diag_error(s->cx.diags, E0402_USAGE, (Span){0},
               "this value is nested deeper than files of arrays can say: %d", DEPTH_MOST);
    return false;
}

/* The fields of tuples and data are named by their positions: result, result.0, result.1.0. */
static const char *field_name(Arena *arena, const char *name, uint32_t i)
{
    Buf b = {0};
    buf_printf(&b, "%s.%u", name, i);
    return buf_keep(&b, arena);
}

/* The same as the program says it, where it is that of a variable: %x, %x.0, %x.1.0. */
static const char *shown_name(Arena *arena, const Var *var, const char *name)
{
    Buf b = {0};
    if (!var)
        return name;
    buf_printf(&b, "%%%s%s", var->name->text, name + strlen("result"));
    return buf_keep(&b, arena);
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------- */

typedef struct Collected {
    RelaySession *s;
    const Var *var; /* NULL: a result */
    Arena arena;
    Vec(const char *) names;
    Vec(Tensor *) tensors;
} Collected;

static bool collect(Collected *c, Value v, const char *name, int depth)
{
    if (has_fields(v)) {
        bool ok = depth < DEPTH_MOST || refuse_depth(c->s);
        for (uint32_t i = 0; ok && i < object_n(v.object); i++)
            ok = collect(c, object_get(v.object, i), field_name(&c->arena, name, i), depth + 1);
        return ok;
    }
    TensorView view;
    if (!value_view(&v, &view)) {
        diag_error(c->s->cx.diags, E0402_USAGE, (Span){0},
                   "`%s` is no tensor: only tensors, tuples and data of them can be "
                   "written to a file of arrays",
                   shown_name(&c->arena, c->var, name));
        return false;
    }
    Tensor *t = value_to_tensor(&c->s->cx.limits, v);
    if (!t)
        return false;
    vec_push(&c->names, &c->arena, name);
    vec_push(&c->tensors, &c->arena, t);
    return true;
}

static bool write_tensors(RelaySession *s, const char *path, const Var *var, Value v, size_t *n)
{
    Collected c = {.s = s, .var = var};
    arena_init(&c.arena, &s->cx.limits);
    bool ok = collect(&c, v, "result", 0) &&
              params_write(&s->cx.limits, s->cx.diags, path, c.tensors.n, c.names.at, c.tensors.at);
    *n = c.tensors.n;
    for (size_t i = 0; i < c.tensors.n; i++)
        tensor_release(c.tensors.at[i]);
    arena_deinit(&c.arena);
    return ok;
}

bool write_result(RelaySession *s, const char *path, Value v)
{
    size_t n;
    return write_tensors(s, path, NULL, v, &n);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------------- */

typedef struct Found {
    const char *name;
    Tensor *t;
    bool used;
} Found;

typedef struct Reading {
    RelaySession *s;
    const Var *var; /* what takes them */
    const char *path;
    Arena arena;
    Vec(Found) found;
    PtrMap by_name; /* Name -> its number + 1 */
} Reading;

static bool take_array(void *data, const char *name, Tensor *t)
{
    Reading *r = data;
    const Name *key = ctx_name(&r->s->cx, name);
    vec_push(&r->found, &r->arena, ((Found){key->text, t, false}));
    ptrmap_put(&r->by_name, key, (void *)(uintptr_t)r->found.n);
    return true;
}

static bool same_shape(const Tensor *a, const Tensor *b)
{
    return dtype_eq(a->dtype, b->dtype) && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

static Value read_tensor(Reading *r, const Tensor *now, const char *name)
{
    Ctx *cx = &r->s->cx;
    size_t at = (size_t)(uintptr_t)ptrmap_find(&r->by_name, ctx_name(cx, name));
    Found *f = at ? &r->found.at[at - 1] : NULL;
    if (f && same_shape(f->t, now)) {
        f->used = true;
        return value_tensor(tensor_retain(f->t));
    }
    const char *wanted = type_str(cx, type_of_tensor(cx, now));
    if (f)
        diag_error(cx->diags, E0403_FORMAT, (Span){0}, "`%s`: `%s` is `%s`, and `%s` stands there",
                   r->path, name, type_str(cx, type_of_tensor(cx, f->t)), wanted);
    else
        diag_error(cx->diags, E0403_FORMAT, (Span){0}, "`%s` has no `%s`, where `%s` stands",
                   r->path, name, wanted);
    return value_none();
}

/* The value with the file's arrays in its places; NONE after a diagnostic. */
static Value read_value(Reading *r, Value now, const char *name, int depth)
{
    TensorView view;
    if (value_view(&now, &view))
        return read_tensor(r, &view.t, name);
    if (!has_fields(now) || depth == DEPTH_MOST) {
        if (has_fields(now))
            refuse_depth(r->s);
        else
            diag_error(r->s->cx.diags, E0402_USAGE, (Span){0},
                       "`%s` is no tensor: files of arrays hold no such values",
                       shown_name(&r->arena, r->var, name));
        return value_none();
    }
    uint32_t n = object_n(now.object);
    if (!n)
        return value_retain(now);
    Object *made = object_new(&r->s->cx.limits, object_info(now.object), n);
    bool ok = made != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        Value v =
            read_value(r, object_get(now.object, i), field_name(&r->arena, name, i), depth + 1);
        ok = !value_is_none(v);
        if (ok)
            object_set(made, i, v);
    }
    if (!ok && made)
        object_release(made);
    return ok ? value_object(made) : value_none();
}

static bool all_used(Reading *r)
{
    for (size_t i = 0; i < r->found.n; i++) {
        if (r->found.at[i].used)
            continue;
        diag_error(r->s->cx.diags, E0403_FORMAT, (Span){0},
                   "`%s` holds `%s`, for which the variable has no place", r->path,
                   r->found.at[i].name);
        return false;
    }
    return true;
}

static Value read_tensors(RelaySession *s, const char *path, const Var *var, Value now)
{
    Reading r = {.s = s, .path = path, .var = var};
    arena_init(&r.arena, &s->cx.limits);
    Value v = params_read(&s->cx.limits, s->cx.diags, path, take_array, &r)
                  ? read_value(&r, now, "result", 0)
                  : value_none();
    if (!value_is_none(v) && !all_used(&r)) {
        value_release(v);
        v = value_none();
    }
    for (size_t i = 0; i < r.found.n; i++)
        tensor_release(r.found.at[i].t);
    ptrmap_deinit(&r.by_name);
    arena_deinit(&r.arena);
    return v;
}

/* ---- the commands ------------------------------------------------------------------------------------------------------------------ */

static const Local *variable_of(CommandCall *c)
{
    Span at = c->args;
    Str word = command_word(c);
    at.to = at.from + (uint32_t)word.len;
    bool is = word.len > 1 && word.ptr[0] == '%';
    bool graph = is && word.ptr[1] >= '0' && word.ptr[1] <= '9';
    const Local *l =
        is ? session_local(c->s, ctx_name_str(&c->s->cx, (Str){word.ptr + 1, word.len - 1}), graph)
           : NULL;
    if (l)
        return l;
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, at, "`%.*s` is no variable of this session",
                         (int)word.len, word.ptr);
    diag_help(d, "for instance `:%s %%weights weights.npz`", c->row->name);
    return NULL;
}

void command_write(CommandCall *c)
{
    const Local *l = command_need(c, "a variable and a file") ? variable_of(c) : NULL;
    char *path = l && command_need(c, "a file") ? command_rest(c) : NULL;
    size_t n;
    if (path && session_may_write(c->s, path) && write_tensors(c->s, path, l->var, l->value, &n))
        emit_printf(c->s, RELAY_OUTPUT_DISPLAY,
                    "%zu array%s in %s; `:read %%%s` takes them from there", n, n == 1 ? "" : "s",
                    path, l->var->name->text);
    free(path);
}

void command_read(CommandCall *c)
{
    const Local *l = command_need(c, "a variable and a file") ? variable_of(c) : NULL;
    char *path = l && command_need(c, "a file") ? command_file(c) : NULL;
    Value v = path ? read_tensors(c->s, path, l->var, l->value) : value_none();
    if (!value_is_none(v)) {
        session_rebind(c->s, l, v);
        emit_printf(c->s, RELAY_OUTPUT_DISPLAY, "%%%s is what %s holds", l->var->name->text, path);
    }
    free(path);
}
