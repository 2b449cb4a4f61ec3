/* Looks for what the strings of a parameter name, a row for each kind of name (AttrNames). */
#include "passes/params.h"

#include "ir/device.h"
#include "ir/op.h"

#include <string.h>

/* What names there are, for a suggestion. */
typedef struct Names {
    Vec(const char *) list;
    Arena *arena;
} Names;

typedef struct Kind {
    const char *word, *sigil; /* `sigil` stands in front of it in programs, not here */
    bool (*is)(const PassContext *pc, const Module *m, Str name);
    void (*all)(const PassContext *pc, const Module *m, Names *out);
} Kind;

static bool is_function(const PassContext *pc, const Module *m, Str name)
{
    const Name *n = ctx_name_str(pc->cx, name);
    return module_find(m, n) || (pc->env && module_find(pc->env, n));
}

static void all_functions(const PassContext *pc, const Module *m, Names *out)
{
    (void)pc;
    for (size_t i = 0; i < m->defs.n; i++)
        vec_push(&out->list, out->arena, m->defs.at[i].name->text);
}

static bool is_parameter(const PassContext *pc, const Module *m, Str name)
{
    (void)pc;
    for (size_t i = 0; i < m->defs.n; i++)
        for (uint32_t k = 0; m->defs.at[i].fn && k < m->defs.at[i].fn->params.n; k++)
            if (str_is(name, m->defs.at[i].fn->params.at[k]->name->text))
                return true;
    return false;
}

static void all_parameters(const PassContext *pc, const Module *m, Names *out)
{
    (void)pc;
    for (size_t i = 0; i < m->defs.n; i++)
        for (uint32_t k = 0; m->defs.at[i].fn && k < m->defs.at[i].fn->params.n; k++)
            vec_push(&out->list, out->arena, m->defs.at[i].fn->params.at[k]->name->text);
}

static bool is_operator(const PassContext *pc, const Module *m, Str name)
{
    (void)m;
    return op_find(pc->cx, name);
}

static bool note_operator(void *data, const Op *op)
{
    Names *out = data;
    vec_push(&out->list, out->arena, op->name);
    return true;
}

static void all_operators(const PassContext *pc, const Module *m, Names *out)
{
    (void)m;
    op_each(pc->cx->ops, note_operator, out);
}

static bool is_device(const PassContext *pc, const Module *m, Str name)
{
    (void)pc;
    (void)m;
    return device_is_known(name);
}

static bool is_device_kind(const PassContext *pc, const Module *m, Str name)
{
    return is_device(pc, m, name) && !memchr(name.ptr, ':', name.len) &&
           !memchr(name.ptr, '/', name.len);
}

static void all_kinds(const PassContext *pc, const Module *m, Names *out)
{
    (void)pc;
    (void)m;
    const char *names[DEVICE_KINDS];
    size_t n = device_kinds(names);
    for (size_t i = 0; i < n; i++)
        vec_push(&out->list, out->arena, names[i]);
}

static const Kind kinds[] = {
    [ATTR_NAMES_FUNCTIONS] = {"function", "@", is_function, all_functions},
    [ATTR_NAMES_PARAMETERS] = {"parameter of a function", "%", is_parameter, all_parameters},
    [ATTR_NAMES_OPERATORS] = {"operator", "", is_operator, all_operators},
    [ATTR_NAMES_DEVICES] = {"device", "", is_device, all_kinds},
    [ATTR_NAMES_DEVICE_KINDS] = {"kind of device", "", is_device_kind, all_kinds},
};

enum { LISTED = 12 };

static void help_names(Diag *d, const Names *names)
{
    Buf b = {0};
    for (size_t i = 0; i < names->list.n; i++)
        buf_printf(&b, "%s`%s`", i ? ", " : "", names->list.at[i]);
    diag_help(d, "the names are %s", buf_text(&b));
    buf_deinit(&b);
}

static bool check_name(const PassContext *pc, const Pass *pass, const Module *m, const OpAttr *row,
                       const Attr *a, Str name)
{
    const Kind *kind = &kinds[row->names];
    Diags *ds = pc->cx->diags;
    if (kind->is(pc, m, name))
        return true;
    Names names = {.arena = &ds->arena};
    const char *text = arena_copy_text(&ds->arena, name.ptr, name.len);
    Diag *d =
        diag_error(ds, E0603_PIPELINE, a->span, "`%s` of `%s` names `%s`, and there is no such %s",
                   row->name, pass->name, text, kind->word);
    diag_note(d, "`%s`: %s", row->name, row->doc);
    kind->all(pc, m, &names);
    if (*kind->sigil && name.len > 1 && *name.ptr == *kind->sigil)
        diag_help(d, "the name stands here without `%s`: \"%s\"", kind->sigil, text + 1);
    else if (!diag_suggest(d, text, names.list.n, names.list.at) && names.list.n &&
             names.list.n <= LISTED)
        help_names(d, &names);
    return false;
}

static bool check_param(const PassContext *pc, const Pass *pass, const Module *m, const OpAttr *row,
                        const Attr *a)
{
    const AttrValue *v = &a->value;
    if (v->kind == ATTR_STRING)
        return check_name(pc, pass, m, row, a, v->s);
    bool ok = true;
    uint32_t step = row->type == ATTR_TYPE_DICT ? 2 : 1;
    for (uint32_t i = 0; v->kind == ATTR_LIST && i < v->list.n; i += step)
        if (v->list.at[i].kind == ATTR_STRING)
            ok &= check_name(pc, pass, m, row, a, v->list.at[i].s);
    return ok;
}

bool params_name_what_is(const PassContext *pc, const Pass *pass, const Module *m,
                         const Attrs *written)
{
    bool ok = true;
    for (const OpAttr *row = pass->params; row && row->name; row++) {
        const Attr *a = row->names && written ? attrs_get(written, row->name, 0) : NULL;
        if (a)
            ok &= check_param(pc, pass, m, row, a);
    }
    return ok;
}
