/* Compiled libraries and C: what of a type C can say, headers, and calls.
 *
 * A parameter or result that is a tuple comes as its tensors, one after the other, however tuples nest. */
#include "session/compiled.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ------------------------------------------------------------------------------------------------------------------- */

static bool is_tensors(const Type *t)
{
    t = type_find(t);
    bool ok = t->kind == TYPE_TENSOR || t->kind == TYPE_TUPLE;
    for (uint32_t i = 0; ok && t->kind == TYPE_TUPLE && i < t->n; i++)
        ok = is_tensors(t->parts[i]);
    return ok;
}

static bool check_type(RelaySession *s, const Def *def, Span span, const char *what, const Type *t)
{
    if (is_tensors(t))
        return true;
    Diag *d = diag_error(s->cx.diags, E0701_CANNOT_COMPILE, span,
                         "`@%s` cannot be called from C: its %s is `%s`", def->name->text, what,
                         type_str(&s->cx, t));
    diag_note(d, "C passes tensors, and tuples of tensors");
    diag_help(
        d, "write a function of tensors around it, and pick functions by `--entry NAME`, as often "
           "as you like");
    return false;
}

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static void add_word(Buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        buf_char(out, plain ? c : '_');
    }
}

/* `dir/mlp.rly`: `mlp`. */
static Str stem(const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *dot = strchr(name, '.');
    size_t n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return n ? (Str){name, n} : str_of("model");
}

void compiled_symbol(Buf *out, const char *file, const char *function)
{
    Str name = stem(file);
    if (*name.ptr >= '0' && *name.ptr <= '9')
        buf_char(out, '_');
    add_word(out, name.ptr, name.len);
    buf_char(out, '_');
    add_word(out, function, strlen(function));
}

static bool check_function(RelaySession *s, const Def *def)
{
    const Function *fn = def->fn;
    const Type *t = type_resolve(&s->cx, fn->base.type);
    if (t->kind != TYPE_FUNC || fn->type_params.n)
        return check_type(s, def, def->span, "type", t);
    bool ok = check_type(s, def, def->span, "result", t->result);
    for (uint32_t i = 0; ok && i < fn->params.n; i++) {
        Buf what = {0};
        buf_printf(&what, "parameter `%%%s`", fn->params.at[i]->name->text);
        ok = check_type(s, def, fn->params.at[i]->base.span, buf_text(&what), t->parts[i]);
        buf_deinit(&what);
    }
    return ok;
}

/* What the function is called in C; noted, so that no other is. */
static bool check_symbol(RelaySession *s, const char *file, const Def *def, PtrMap *taken)
{
    Buf symbol = {0};
    compiled_symbol(&symbol, file, def ? def->name->text : "error");
    const Name *name = ctx_name(&s->cx, buf_text(&symbol));
    bool is_new = !ptrmap_has(taken, name);
    ptrmap_put(taken, name, (void *)(uintptr_t)name);
    if (!is_new) {
        Diag *d = diag_error(s->cx.diags, E0701_CANNOT_COMPILE, def->span,
                             "`@%s` would be `%s` in C, as something else is", def->name->text,
                             name->text);
        diag_help(d, "`--entry NAME` picks the functions, as often as it is given");
    }
    buf_deinit(&symbol);
    return is_new;
}

bool compiled_suits_c(RelaySession *s, const char *file, size_t n, const Def *const *defs)
{
    PtrMap taken = {0};
    bool ok = check_symbol(s, file, NULL, &taken);
    for (size_t i = 0; ok && i < n; i++)
        ok = check_function(s, defs[i]) && check_symbol(s, file, defs[i], &taken);
    ptrmap_deinit(&taken);
    return ok;
}

/* ---- the header -------------------------------------------------------------------------------------------------------------- */

/* A line for each tensor; `number` counts them. */
static void add_tensors(Buf *out, const char *list, const char *name, const Type *t,
                        uint32_t *number)
{
    t = type_find(t);
    if (t->kind == TYPE_TENSOR) {
        buf_printf(out, " *     %s[%u]%s%s: ", list, *number, *name ? "  " : "", name);
        type_print(out, t);
        buf_char(out, '\n');
        ++*number;
        return;
    }
    for (uint32_t i = 0; i < t->n; i++) {
        Buf part = {0};
        buf_printf(&part, "%s.%u", name, i);
        add_tensors(out, list, buf_text(&part), t->parts[i], number);
        buf_deinit(&part);
    }
}

static void add_function(RelaySession *s, Buf *out, const char *file, const Def *def)
{
    const Function *fn = def->fn;
    const Type *t = type_resolve(&s->cx, fn->base.type);
    uint32_t args = 0, results = 0;
    buf_printf(out, "\n/* @%s\n *\n", def->name->text);
    for (uint32_t i = 0; i < fn->params.n; i++) {
        Buf name = {0};
        buf_printf(&name, "%%%s", fn->params.at[i]->name->text);
        add_tensors(out, "args", buf_text(&name), t->parts[i], &args);
        buf_deinit(&name);
    }
    add_tensors(out, "results", "", t->result, &results);
    buf_printf(out, " *\n * %u argument%s, %u result%s. */\nRelayStatus ", args,
               args == 1 ? "" : "s", results, results == 1 ? "" : "s");
    compiled_symbol(out, file, def->name->text);
    buf_str(out, "(const RelayTensor *args, RelayTensor *results);\n");
}

void compiled_header(RelaySession *s, const char *file, size_t n, const Def *const *defs, Buf *out)
{
    Buf guard = {0}, error = {0};
    compiled_symbol(&guard, file, "h");
    compiled_symbol(&error, file, "error");
    for (size_t i = 0; i < guard.n; i++)
        guard.at[i] -= guard.at[i] >= 'a' && guard.at[i] <= 'z' ? 'a' - 'A' : 0;
    buf_str(out, "/* Made by `relay compile --emit header` of `");
    Str name = stem(file);
    add_word(out, name.ptr, name.len);
    buf_printf(out,
               "`, for the library of `--emit lib`.\n"
               " *\n"
               " * Each function takes an array of tensors and fills an array of tensors, as long "
               "as it says; an extent `?` is any. relay.h\n"
               " * says what a RelayTensor is. Arguments are lent for the call. A result whose "
               "`data` is NULL is given memory, which\n"
               " * `free(result.data)` gives back; one with `data` says its own dtype and shape "
               "and is written there. What is not RELAY_OK\n"
               " * leaves the results as they were, and %s() says why. Any thread may call; calls "
               "wait for each other. */\n"
               "#ifndef %s\n#define %s\n\n#include \"relay.h\"\n\n"
               "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
               "/* What went wrong in this thread's last call; \"\": nothing. Lent until the next "
               "call. */\n"
               "const char *%s(void);\n",
               buf_text(&error), buf_text(&guard), buf_text(&guard), buf_text(&error));
    for (size_t i = 0; i < n; i++)
        add_function(s, out, file, defs[i]);
    buf_str(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    buf_deinit(&guard);
    buf_deinit(&error);
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------- */

/* A library that was called; there for good, since the file is never closed. */
typedef struct Library Library;
struct Library {
    Library *next;
    const char *code;
    pthread_mutex_t lock; /* of the session: one call at a time */
    RelaySession *session;
    Opened opened;
};

static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;
static Library *libraries;

#define ERROR_MOST 4096
static _Thread_local char error_text[ERROR_MOST];

const char *relay_compiled_error(void)
{
    return error_text;
}

/* What does not fit is left out, by whole characters. */
static void note_error(void *data, const RelayOutput *out)
{
    (void)data;
    if (out->kind != RELAY_OUTPUT_DIAGNOSTIC)
        return;
    size_t n = strlen(error_text), room = ERROR_MOST - 1 - n, size = out->mimes[0].size;
    if (size > room)
        for (size = room; size > 0 && (out->mimes[0].data[size] & 0xc0) == 0x80;)
            size--;
    memcpy(error_text + n, out->mimes[0].data, size);
    error_text[n + size] = '\0';
}

static Library *library_of(const char *code)
{
    pthread_mutex_lock(&libraries_lock);
    Library *l = libraries;
    while (l && l->code != code)
        l = l->next;
    if (!l && (l = memory_zeroed(1, sizeof *l))) {
        pthread_mutex_init(&l->lock, NULL);
        l->code = code;
        l->next = libraries;
        libraries = l;
    }
    pthread_mutex_unlock(&libraries_lock);
    return l;
}

typedef struct CCall {
    Library *library;
    uint32_t function;
    const RelayTensor *args;
    RelayTensor *results;
    uint32_t at; /* of the arrays, the next one */
    RelayStatus status;
} CCall;

/* DLPack has a code for bool. */
static DType dtype_there(DType t)
{
    return dtype_is_bool(t) ? (DType){6, 8, 1} : t;
}

static bool wrong(CCall *c, const char *list, const char *what, const Type *t)
{
    RelaySession *s = c->library->session;
    Diag *d = diag_error(s->cx.diags, E0305_ARGUMENTS, (Span){0}, "`%s[%u]` of `@%s` %s", list,
                         c->at, c->library->opened.functions[c->function]->name->text, what);
    if (t)
        diag_note(d, "it is to be `%s`", type_str(&s->cx, t));
    return false;
}

static bool has_type(const RelayTensor *given, const Type *t)
{
    DType want = dtype_there(t->dtype);
    bool ok = given->code == want.code && given->bits == want.bits && given->lanes == want.lanes &&
              given->rank == (int32_t)t->n && (given->shape || t->n == 0);
    for (uint32_t i = 0; ok && i < t->n; i++)
        ok = t->dims[i] < 0 ? given->shape[i] >= 0 : given->shape[i] == t->dims[i];
    return ok;
}

/* Elements at other distances come one by one; rank and shape are those of `to`. */
static void copy_elements(Tensor *to, const char *from, const int64_t *strides)
{
    size_t size = dtype_size(to->dtype);
    int64_t at[TENSOR_RANK_MOST] = {0}, place = 0;
    for (int64_t i = 0; i < to->size; i++) {
        memcpy(to->data + (size_t)i * size, from + place * (int64_t)size, size);
        for (int32_t k = to->rank; k-- > 0;) {
            place += strides[k];
            if (++at[k] < to->shape[k])
                break;
            place -= strides[k] * to->shape[k];
            at[k] = 0;
        }
    }
}

static Value take_tensor(CCall *c, const Type *t)
{
    RelaySession *s = c->library->session;
    const RelayTensor *given = &c->args[c->at];
    if (!has_type(given, t))
        return wrong(c, "args", "has another dtype, rank or shape", t), value_none();
    if (given->device_type != 1)
        return wrong(c, "args", "does not lie in the memory of the processor", NULL), value_none();
    Tensor *copy = tensor_new_raw(&s->cx.limits, t->dtype, given->rank, given->shape);
    if (!copy)
        return value_none();
    const char *from = (const char *)given->data + given->byte_offset;
    Value v = value_none();
    if (copy->size > 0 && !given->data)
        wrong(c, "args", "has no data", NULL);
    else if (copy->size > 0 && given->strides)
        copy_elements(copy, from, given->strides);
    else if (copy->size > 0)
        memcpy(copy->data, from, (size_t)copy->size * dtype_size(t->dtype));
    for (int64_t i = 0; dtype_is_bool(t->dtype) && given->data && i < copy->size; i++)
        copy->data[i] = copy->data[i] != 0;
    if (copy->size == 0 || given->data) {
        v = t->n == 0 ? value_scalar(t->dtype, copy->data) : value_tensor(tensor_retain(copy));
        c->at++;
    }
    tensor_release(copy);
    return v;
}

/* NONE after a diagnostic. */
static Value take_value(CCall *c, const Type *t)
{
    t = type_find(t);
    if (t->kind == TYPE_TENSOR)
        return take_tensor(c, t);
    if (t->n == 0)
        return value_unit();
    Object *o = object_new(&c->library->session->cx.limits, &tuple_info, t->n);
    for (uint32_t i = 0; o && i < t->n; i++) {
        Value part = take_value(c, t->parts[i]);
        if (value_is_none(part)) {
            value_release(value_object(o));
            return part;
        }
        object_set(o, i, part);
    }
    return o ? value_object(o) : value_none();
}

/* Whether the value, one of the type that was declared, fits where it is to go. */
static bool check_results(CCall *c, Value v)
{
    TensorView view;
    if (!value_view(&v, &view)) {
        for (uint32_t i = 0; i < object_n(v.object); i++)
            if (!check_results(c, object_get(v.object, i)))
                return false;
        return true;
    }
    const RelayTensor *to = &c->results[c->at];
    const Type *t = type_of_tensor(&c->library->session->cx, &view.t);
    if (to->data && (!has_type(to, t) || to->strides))
        return wrong(c, "results", "has data for another dtype, rank or shape, or has strides", t);
    if (to->data && to->device_type != 1)
        return wrong(c, "results", "does not lie in the memory of the processor", NULL);
    c->at++;
    return true;
}

/* Into memory that is there, or that the caller frees: elements, and the shape behind them. */
static bool give_tensor(CCall *c, const Tensor *t)
{
    RelaySession *s = c->library->session;
    RelayTensor *to = &c->results[c->at++];
    size_t bytes = ((size_t)t->size * dtype_size(t->dtype) + 63) & ~(size_t)63;
    Tensor *flat = tensor_contiguous(&s->cx.limits, t);
    char *own =
        flat && !to->data ? memory_aligned(64, bytes + 64 * (((size_t)t->rank + 8) / 8)) : NULL;
    if (!flat || (!to->data && !own)) {
        tensor_release(flat);
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
        return false;
    }
    if (own) {
        DType dtype = dtype_there(t->dtype);
        *to = (RelayTensor){.data = own,
                            .device_type = 1,
                            .rank = t->rank,
                            .code = dtype.code,
                            .bits = dtype.bits,
                            .lanes = dtype.lanes,
                            .shape = (int64_t *)(void *)(own + bytes)};
        memcpy(to->shape, t->shape, (size_t)t->rank * sizeof *to->shape);
    }
    memcpy((char *)to->data + to->byte_offset, flat->data, (size_t)t->size * dtype_size(t->dtype));
    tensor_release(flat);
    return true;
}

static bool give_results(CCall *c, Value v)
{
    TensorView view;
    if (value_view(&v, &view))
        return give_tensor(c, &view.t);
    for (uint32_t i = 0; i < object_n(v.object); i++)
        if (!give_results(c, object_get(v.object, i)))
            return false;
    return true;
}

/* All of them, or none. */
static void put_results(CCall *c, Value v)
{
    c->at = 0;
    if (!check_results(c, v))
        return;
    uint32_t n = c->at;
    RelayTensor *before = memory_must((n + 1) * sizeof *before);
    memcpy(before, c->results, n * sizeof *before);
    c->at = 0;
    bool ok = give_results(c, v);
    for (uint32_t i = 0; i < n && !ok; i++) {
        if (!before[i].data)
            memory_free(c->results[i].data);
        c->results[i] = before[i];
    }
    memory_free(before);
}

static void call_function(CCall *c, const Def *def)
{
    Library *l = c->library;
    RelaySession *s = l->session;
    uint32_t n = def->fn->params.n, taken = 0;
    Value *args = memory_zeroed((size_t)n + 1, sizeof *args);
    Value v = value_none();
    while (args && taken < n &&
           !value_is_none(args[taken] = take_value(c, def->fn->params.at[taken]->base.type)))
        taken++;
    if (args && taken == n)
        v = compiled_call(s, &l->opened, c->function, args);
    if (!value_is_none(v))
        put_results(c, v);
    value_release(v);
    for (uint32_t i = 0; i < taken; i++)
        value_release(args[i]);
    memory_free(args);
}

static void run_call(void *data)
{
    CCall *c = data;
    Library *l = c->library;
    RelaySession *s = l->session;
    session_begin(s, (RelaySink){note_error, NULL});
    if (l->opened.interface || compiled_open(s, l->code, compiled_size(l->code), &l->opened)) {
        if (c->function < l->opened.n)
            call_function(c, l->opened.functions[c->function]);
        else
            diag_error(s->cx.diags, E0403_FORMAT, (Span){0}, "there is no function %u",
                       c->function);
    }
    c->status = session_end(s);
}

RelayStatus relay_compiled_call(const RelayTensor *args, RelayTensor *results, const void *code,
                                uint32_t function)
{
    static const char no_memory[] = "there is no memory for a session";
    error_text[0] = '\0';
    CCall c = {.library = library_of(code), .function = function, .args = args, .results = results};
    Library *l = c.library;
    if (l)
        pthread_mutex_lock(&l->lock);
    if (l && !l->session)
        l->session = relay_session_new(&(RelayOptions){.no_prelude = true});
    RelayStatus status = RELAY_LIMIT;
    if (!l || !l->session)
        memcpy(error_text, no_memory, sizeof no_memory);
    else if (session_guard(l->session, (RelaySink){note_error, NULL}, run_call, &c))
        status = c.status;
    else
        l->opened = (Opened){0}; /* the session begins anew */
    if (l)
        pthread_mutex_unlock(&l->lock);
    return status;
}
