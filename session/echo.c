/* The echo of a session: another one that is told its definitions as text and its variables by their types. Nothing is shared, so neither
 * waits for the other but to hand over a list of changes. */
#include "base/memory.h"
#include "ir/print.h"
#include "session/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What changed between two looks at the session. */
typedef struct Change Change;
struct Change {
    bool anew; /* everything was forgotten before */
    Buf removed; /* `@f` or `T`, a line each */
    Buf text; /* definitions one behind the other */
    size_t *ends; /* of each of them */
    size_t n, cap;
    Buf variables; /* all of them: a line with sigil and name, and one with the type */
    Change *next;
};

struct RelayEcho {
    pthread_mutex_t lock; /* of the list */
    Change *first, *last;

    /* Of the session's thread: what it knew when it was last looked at. Places in sources are never used twice. */
    uint64_t world, defines, binds;
    PtrMap known[2]; /* Name -> its place as a number: types, definitions */

    RelaySession *session; /* of the echo's thread */
};

RelayEcho *relay_echo_new(void)
{
    RelayEcho *e = memory_zeroed(1, sizeof *e);
    if (e)
        pthread_mutex_init(&e->lock, NULL);
    return e;
}

static void change_free(Change *c)
{
    buf_deinit(&c->removed);
    buf_deinit(&c->text);
    buf_deinit(&c->variables);
    free(c->ends);
    free(c);
}

void relay_echo_free(RelayEcho *e)
{
    if (!e)
        return;
    for (Change *c = e->first; c; c = e->first) {
        e->first = c->next;
        change_free(c);
    }
    relay_session_free(e->session);
    ptrmap_deinit(&e->known[0]);
    ptrmap_deinit(&e->known[1]);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* ---- noting -------------------------------------------------------------------------------------------- */

enum { TYPES, DEFS };

static void add_text(Change *c, RelaySession *s, Span at)
{
    const Source *source = sources_get(&s->cx.sources, at.source);
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 16;
        size_t *grown = memory_resize(c->ends, cap * sizeof *grown);
        if (!grown)
            return;
        c->ends = grown;
        c->cap = cap;
    }
    buf_bytes(&c->text, source->text + at.from, at.to - at.from);
    buf_char(&c->text, '\n');
    c->ends[c->n++] = c->text.n;
}

/* The text of something by that name, unless it is known. */
static void note_name(RelayEcho *e, RelaySession *s, Change *c, int kind, const Name *name, Span at)
{
    void *place = (void *)((uintptr_t)at.source << 32 | at.from);
    if (!sources_get(&s->cx.sources, at.source) || ptrmap_find(&e->known[kind], name) == place)
        return;
    ptrmap_put(&e->known[kind], name, place);
    add_text(c, s, at);
}

static void note_removed(RelayEcho *e, Change *c, int kind, const Module *env)
{
    PtrMap *known = &e->known[kind];
    for (size_t i = 0; i < known->n; i++) {
        const Name *name = known->entries[i].key;
        if (!name || (kind == DEFS ? (const void *)module_find(env, name)
                                   : (const void *)module_find_type(env, name)))
            continue;
        buf_printf(&c->removed, "%s%s\n", kind == DEFS ? "@" : "", name->text);
        ptrmap_remove(known, name);
    }
}

/* What the prelude defines the echo knows as well. */
static void note_definitions(RelayEcho *e, RelaySession *s, Change *c)
{
    const Module *env = s->env;
    Module *prelude = s->prelude_loaded ? session_library(s, str_of("prelude.rly")) : NULL;
    note_removed(e, c, TYPES, env);
    note_removed(e, c, DEFS, env);
    for (size_t i = 0; i < env->types.n; i++) {
        const TypeDef *t = env->types.at[i];
        if (!t->broken && !(prelude && module_find_type(prelude, t->name) == t))
            note_name(e, s, c, TYPES, t->name, t->text);
    }
    for (size_t i = 0; i < env->defs.n; i++) {
        const Def *d = &env->defs.at[i];
        const Def *same = prelude ? module_find(prelude, d->name) : NULL;
        if (d->fn && !(d->imported && same))
            note_name(e, s, c, DEFS, d->name, d->fn->base.span);
    }
    module_release(prelude);
}

static void note_variables(RelaySession *s, Change *c)
{
    for (size_t i = 0; i < s->n_locals; i++) {
        const Local *l = &s->locals[i];
        buf_printf(&c->variables, "%c%s\n", l->graph ? '#' : '%', l->var->name->text);
        type_print(&c->variables, type_find(l->var->base.type));
        buf_char(&c->variables, '\n');
    }
}

bool relay_echo_note(RelayEcho *e, RelaySession *s)
{
    bool anew = e->world != s->world;
    bool defines = anew || e->defines != s->defines;
    bool binds = anew || e->binds != s->binds;
    if (s->lost || (!defines && !binds))
        return false;
    Change *c = memory_zeroed(1, sizeof *c);
    if (!c)
        return false;
    c->anew = anew;
    if (anew) {
        ptrmap_clear(&e->known[TYPES]);
        ptrmap_clear(&e->known[DEFS]);
    }
    if (defines)
        note_definitions(e, s, c);
    note_variables(s, c);
    e->world = s->world;
    e->defines = s->defines;
    e->binds = s->binds;
    pthread_mutex_lock(&e->lock);
    if (e->last)
        e->last->next = c;
    else
        e->first = c;
    e->last = c;
    pthread_mutex_unlock(&e->lock);
    return true;
}

/* ---- taking over --------------------------------------------------------------------------------------- */

static void quiet(void *data, const RelayOutput *out)
{
    (void)data;
    (void)out;
}

static bool define(RelaySession *s, const char *text, size_t len)
{
    RelayCell cell = {.text = text, .len = len, .name = "echo", .silent = true};
    return relay_session_eval(s, &cell, (RelaySink){quiet, NULL}) == RELAY_OK;
}

/* Together, since each may use the others; and where one of them does not fit, each as far as it does. */
static void take_text(RelaySession *s, const Change *c)
{
    if (!c->n || define(s, buf_text(&c->text), c->text.n))
        return;
    for (size_t i = 0, from = 0; i < c->n; from = c->ends[i++])
        define(s, buf_text(&c->text) + from, c->ends[i] - from);
}

/* The next line; NULL at the end. */
static const char *line(const char **at, size_t *n)
{
    const char *from = *at;
    if (!*from)
        return NULL;
    *n = strcspn(from, "\n");
    *at = from + *n + (from[*n] == '\n');
    return from;
}

static void take_removed(RelaySession *s, const Change *c)
{
    const char *at = buf_text(&c->removed), *word;
    Module *next = *at ? module_snapshot(s->env) : NULL;
    size_t n;
    while (next && (word = line(&at, &n))) {
        bool def = *word == '@';
        const Name *name = ctx_name_str(&s->cx, (Str){word + def, n - def});
        const TypeDef *type = def ? NULL : module_find_type(next, name);
        if (def && module_find(next, name))
            module_remove(next, name);
        else if (type)
            module_remove_type(next, type);
    }
    if (!next)
        return;
    session_set_env(s, next);
}

/* The type, read as that of a parameter; `m` is the module that it lies in. NULL where it does not fit. */
static const Type *read_type(RelaySession *s, Str text, Module **m)
{
    Buf b = {0};
    buf_str(&b, "fn (%it: ");
    buf_bytes(&b, text.ptr, text.len);
    buf_str(&b, ") { %it }");
    uint32_t source = sources_add(&s->cx.sources, "echo", buf_text(&b), b.n);
    ParseEnv env = session_parse_env(s);
    env.keep_broken = false;
    *m = source ? parse_range(&s->cx, (Span){source, 0, (uint32_t)b.n}, &env) : NULL;
    buf_deinit(&b);
    const Function *fn =
        *m && session_check(s, *m, s->env, (CheckWish){0}) ? expr_as_function((*m)->expr) : NULL;
    return fn && fn->params.n ? fn->params.at[0]->base.type : NULL;
}

static void take_variable(RelaySession *s, Str name, Str type)
{
    bool graph = name.ptr[0] == '#';
    const Name *n = ctx_name_str(&s->cx, (Str){name.ptr + 1, name.len - 1});
    const Local *old = session_local(s, n, graph);
    Buf now = {0};
    if (old)
        type_print(&now, type_find(old->var->base.type));
    bool same = old && str_eq((Str){buf_text(&now), now.n}, type);
    buf_deinit(&now);
    if (same)
        return;
    Module *m = NULL;
    const Type *t = read_type(s, type, &m);
    Module *home = m ? m : module_new(&s->cx);
    if (home) {
        Var *var = expr_var(&home->arena, (Span){0}, n, NULL);
        var->base.type = t ? t : s->cx.poison;
        session_bind(s, var, value_none(), home, graph);
    }
    module_release(home);
}

/* Those that are not in the list are gone. */
static void drop_variables(RelaySession *s, const Change *c)
{
    PtrMap there[2] = {{0}, {0}};
    const char *at = buf_text(&c->variables), *name, *type;
    size_t n, m;
    while ((name = line(&at, &n)) && (type = line(&at, &m)))
        ptrmap_put(&there[*name == '#'], ctx_name_str(&s->cx, (Str){name + 1, n - 1}), NULL);
    for (size_t i = s->n_locals; i-- > 0;)
        if (!ptrmap_has(&there[s->locals[i].graph], s->locals[i].var->name))
            session_unbind(s, s->locals[i].var->name, s->locals[i].graph);
    ptrmap_deinit(&there[0]);
    ptrmap_deinit(&there[1]);
}

typedef struct Take {
    RelaySession *s;
    const Change *c;
} Take;

static void take_names(void *data)
{
    const Take *t = data;
    session_begin(t->s, (RelaySink){quiet, NULL});
    session_load_prelude(t->s);
    /* There are no values that could become some of a type that is defined anew. */
    while (t->s->n_locals)
        session_unbind(t->s, t->s->locals[0].var->name, t->s->locals[0].graph);
    take_removed(t->s, t->c);
    session_end(t->s);
}

static void take_variables(void *data)
{
    const Take *t = data;
    RelaySession *s = t->s;
    const char *at = buf_text(&t->c->variables), *name, *type;
    size_t n, m;
    session_begin(s, (RelaySink){quiet, NULL});
    drop_variables(s, t->c);
    while ((name = line(&at, &n)) && (type = line(&at, &m)))
        take_variable(s, (Str){name, n}, (Str){type, m});
    diags_clear(s->cx.diags);
    session_end(s);
}

static void take(RelaySession *s, const Change *c)
{
    Take t = {s, c};
    RelaySink sink = {quiet, NULL};
    if (c->n || c->removed.n)
        session_guard(s, sink, take_names, &t);
    take_text(s, c);
    /* Definitions use no variables: of several changes the last one says which there are. */
    if (!c->next)
        session_guard(s, sink, take_variables, &t);
}

RelaySession *relay_echo_session(RelayEcho *e)
{
    pthread_mutex_lock(&e->lock);
    Change *list = e->first;
    e->first = e->last = NULL;
    pthread_mutex_unlock(&e->lock);
    for (Change *c = list; c; c = list) {
        list = c->next;
        if (c->anew) {
            relay_session_free(e->session);
            e->session = NULL;
        }
        if (!e->session)
            e->session = relay_session_new(&(RelayOptions){.engine = "interp", .threads = 1});
        if (e->session)
            take(e->session, c);
        change_free(c);
    }
    if (!e->session)
        e->session = relay_session_new(&(RelayOptions){.engine = "interp", .threads = 1});
    return e->session;
}
