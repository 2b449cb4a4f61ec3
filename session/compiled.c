#include "session/compiled.h"

#include "base/digest.h"
#include "ir/content.h"
#include "ir/print.h"
#include "session/optimise.h"

#include <string.h>

typedef struct Head {
    char what[16];
    uint64_t size; /* of all */
    uint64_t words; /* bytes of them behind the head */
    uint64_t check[2]; /* of the sizes and the words; code has its own */
} Head;

static const char what_it_is[16] = "relay compiled\n";

static void check_words(const Head *head, const char *words, uint64_t out[2])
{
    Digest d;
    digest_begin(&d);
    digest_word(&d, head->size);
    digest_add(&d, words, head->words);
    digest_end(&d, out);
}

/* ---- the interface ----------------------------------------------------------------------------------------------------------- */

/* What a value of the type has that no other process could make or read; NULL: nothing. */
static const char *stays_here(const Type *t)
{
    t = type_find(t);
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR:
        for (uint32_t i = 0; i < t->n; i++)
            if (dim_is_symbol(t->dims[i]))
                return "an extent that only metadata names";
        return NULL;
    case TYPE_FUNC: return "a function";
    case TYPE_VAR: return "a type parameter";
    case TYPE_HOLE:
    case TYPE_POISON: return "a type that is not known";
    case TYPE_TUPLE:
    case TYPE_REF:
    case TYPE_ADT: break;
    }
    const char *why = NULL;
    for (uint32_t i = 0; i < t->n && !why; i++)
        why = stays_here(t->parts[i]);
    return why;
}

static bool refuse(RelaySession *s, const Def *def, Span span, const Type *t, const char *why)
{
    Diag *d = diag_error(s->cx.diags, E0701_CANNOT_COMPILE, span,
                         "`@%s` cannot be called by other programs: there is %s in `%s`",
                         def->name->text, why, type_str(&s->cx, t));
    diag_help(d, "write a function of values around it, and pick that by `--entry NAME`");
    return false;
}

static bool suits_others(RelaySession *s, const Def *def)
{
    const Function *fn = def->fn;
    const Type *t = type_resolve(&s->cx, fn->base.type);
    const char *why = NULL;
    if (t->kind != TYPE_FUNC || fn->type_params.n)
        return refuse(s, def, def->span, t, "a type parameter");
    for (uint32_t i = 0; i < fn->params.n; i++)
        if ((why = stays_here(t->parts[i])))
            return refuse(s, def, fn->params.at[i]->base.span, t->parts[i], why);
    why = stays_here(t->result);
    return !why || refuse(s, def, def->span, t->result, why);
}

/* `def @f(%x: T) -> R { @f(%x) }`: what parses and has the type. */
static void add_interface(RelaySession *s, Module *m, const Def *def)
{
    const Function *fn = def->fn;
    Arena *a = &m->arena;
    Expr **args = arena_alloc_must(a, fn->params.n + 1, sizeof *args);
    for (uint32_t i = 0; i < fn->params.n; i++)
        args[i] = &fn->params.at[i]->base;
    Expr *call =
        expr_call(a, (Span){0}, expr_global(a, (Span){0}, def->name), fn->params.n, args, NULL);
    const Type *t = type_resolve(&s->cx, fn->base.type);
    call->type = t->result;
    module_define(m, def->name,
                  expr_function(a, (Span){0}, (TypeVarList){0}, fn->params.n, fn->params.at, NULL,
                                t->result, call),
                  (Span){0}, m);
}

static bool print_interface(RelaySession *s, size_t n, const Def *const *defs, const Content *c,
                            Buf *out)
{
    Module *m = module_new(&s->cx);
    bool ok = m != NULL;
    for (size_t i = 0; ok && i < c->types.n; i++) {
        const TypeDef *same = module_find_type(m, c->types.at[i]->name);
        if (same)
            diag_error(s->cx.diags, E0701_CANNOT_COMPILE, c->types.at[i]->span,
                       "the program has two types `%s`: a library could not tell them apart",
                       same->name->text);
        ok = !same;
        module_define_type(m, c->types.at[i]);
    }
    for (size_t i = 0; ok && i < n; i++)
        add_interface(s, m, defs[i]);
    if (ok)
        ir_print_module(out, m, (PrintStyle){.annotations = true});
    module_release(m);
    return ok;
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

static void put(Buf *b, uint64_t v)
{
    buf_bytes(b, (const char *)&v, sizeof v);
}

/* With a NUL at least, up to whole words. */
static void put_text(Buf *b, const char *text, size_t n)
{
    put(b, n);
    buf_bytes(b, text, n);
    buf_repeat(b, 0, 8 - n % 8);
}

static void put_buf(Buf *b, const Buf *text)
{
    put_text(b, buf_text(text), text->n);
}

/* What the JIT counts on, for all functions together. */
static void add_content(Content *all, const Content *c)
{
    for (size_t i = 0; i < c->sources.n; i++) {
        size_t at = 0;
        while (at < all->sources.n && all->sources.at[at] != c->sources.at[i])
            at++;
        if (at == all->sources.n)
            vec_push(&all->sources, &all->arena, c->sources.at[i]);
    }
    for (size_t i = 0; i < c->types.n; i++) {
        size_t at = 0;
        while (at < all->types.n && all->types.at[at] != c->types.at[i])
            at++;
        if (at == all->types.n)
            vec_push(&all->types, &all->arena, c->types.at[i]);
    }
}

static bool save(RelaySession *s, Module *m, const Def *def, const Content *all, Buf *out)
{
    Buf why = {0};
    Module *env = optimise(s, m, def->name);
    bool ok = env && s->jit_table->save(s->jit, env, def->name, all, out, &why);
    Diag *d = why.n && !limit_refused(&s->cx.limits)
                  ? diag_error(s->cx.diags, E0701_CANNOT_COMPILE, def->span,
                               "`@%s` cannot be put in a file: %s", def->name->text, buf_text(&why))
                  : NULL;
    if (d)
        diag_help(d, "`relay run` runs it");
    if (env && env != m)
        s->jit_table->forget(s->jit, env);
    module_release(env);
    buf_deinit(&why);
    return ok;
}

static size_t source_number(const Content *all, uint32_t source)
{
    size_t i = 0;
    while (i < all->sources.n && all->sources.at[i] != source)
        i++;
    return i;
}

/* The places of code count from the first of it. */
static void put_words(RelaySession *s, const Content *all, const Buf *interface, size_t n,
                      const Def *const *defs, const Buf *codes, Buf *out)
{
    Buf build = {0}, features = {0};
    s->jit_table->build(&build);
    s->jit_table->features(&features);
    put_buf(out, &build);
    put_buf(out, &features);
    put_buf(out, interface);
    put(out, all->sources.n);
    for (size_t i = 0; i < all->sources.n; i++) {
        const Source *source = sources_get(&s->cx.sources, all->sources.at[i]);
        put_text(out, source ? source->name : "", source ? strlen(source->name) : 0);
        put_text(out, source ? source->text : "", source ? source->len : 0);
    }
    put(out, all->types.n);
    for (size_t i = 0; i < all->types.n; i++)
        put_text(out, all->types.at[i]->name->text, all->types.at[i]->name->len);
    put(out, n);
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        put_text(out, defs[i]->name->text, defs[i]->name->len);
        put(out, source_number(all, defs[i]->span.source));
        put(out, (uint64_t)defs[i]->span.from << 32 | defs[i]->span.to);
        put(out, at);
        put(out, codes[i].n);
        at += codes[i].n;
    }
    buf_deinit(&build);
    buf_deinit(&features);
}

static bool make_codes(RelaySession *s, Module *m, size_t n, const Def *const *defs, Content *all,
                       Buf *codes)
{
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        Content c;
        ok = suits_others(s, defs[i]);
        content_init(&c, m, defs[i], NULL);
        add_content(all, &c);
        content_deinit(&c);
    }
    for (size_t i = 0; i < n && ok; i++)
        ok = save(s, m, defs[i], all, &codes[i]);
    return ok;
}

bool compiled_write(RelaySession *s, Module *m, size_t n, const Def *const *defs, Buf *out)
{
    Content all = {0};
    arena_init(&all.arena, NULL);
    Buf *codes = arena_alloc_must(&all.arena, n + 1, sizeof *codes);
    memset(codes, 0, (n + 1) * sizeof *codes);
    Buf interface = {0};
    if (!session_jit(s)) {
        if (session_status(s) == RELAY_OK)
            diag_error(s->cx.diags, E0404_LIBRARY, (Span){0}, "nothing can be compiled: %s",
                       buf_text(&s->jit_why));
    } else if (make_codes(s, m, n, defs, &all, codes) &&
               print_interface(s, n, defs, &all, &interface)) {
        Head head = {0};
        buf_bytes(out, (const char *)&head, sizeof head);
        put_words(s, &all, &interface, n, defs, codes, out);
        buf_repeat(out, 0, -out->n % COMPILED_ALIGN);
        head.words = out->n - sizeof head;
        for (size_t i = 0; i < n; i++) {
            buf_bytes(out, buf_text(&codes[i]), codes[i].n);
            out->failed |= codes[i].failed;
        }
        head.size = out->n;
        memcpy(head.what, what_it_is, sizeof head.what);
        if (!out->failed) {
            check_words(&head, out->at + sizeof head, head.check);
            memcpy(out->at, &head, sizeof head);
        }
        out->failed |= interface.failed;
    }
    if (out->failed)
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
    for (size_t i = 0; i < n; i++)
        buf_deinit(&codes[i]);
    buf_deinit(&interface);
    arena_deinit(&all.arena);
    return session_status(s) == RELAY_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------- */

/* Its digest holds off damage, not somebody who makes files; so whatever the words say is looked at. */
typedef struct Reading {
    RelaySession *s;
    const char *at, *end; /* of the words */
    Str code;
    bool wrong;
} Reading;

static uint64_t take(Reading *r)
{
    uint64_t v = 0;
    r->wrong |= (size_t)(r->end - r->at) < sizeof v;
    if (r->wrong)
        return 0;
    memcpy(&v, r->at, sizeof v);
    r->at += sizeof v;
    return v;
}

static Str take_text(Reading *r)
{
    uint64_t n = take(r);
    size_t left = (size_t)(r->end - r->at);
    r->wrong |= left < 8 || n > left - 8 || r->at[n];
    if (r->wrong)
        return (Str){"", 0};
    Str text = {r->at, n};
    r->at += (n | 7) + 1;
    return text;
}

static bool damaged(RelaySession *s)
{
    diag_error(s->cx.diags, E0403_FORMAT, (Span){0}, "this compiled code is damaged");
    return false;
}

/* Names between blanks, all of which are among others. */
static bool has_features(RelaySession *s, const char *wanted, const char *there)
{
    for (const char *at = wanted; *at;) {
        size_t n = strcspn(at, " ");
        bool has = false;
        for (const char *p = there; *p && !has; p += strcspn(p, " "), p += *p == ' ')
            has = strcspn(p, " ") == n && !memcmp(p, at, n);
        if (!has) {
            Diag *d = diag_error(s->cx.diags, E0404_LIBRARY, (Span){0},
                                 "this code was made for a processor that has %.*s", (int)n, at);
            diag_help(d, "compile it on a machine like this one, or with RELAY_CPU=avx2");
            return false;
        }
        at += n + (at[n] == ' ');
    }
    return true;
}

static bool suits_this(Reading *r)
{
    RelaySession *s = r->s;
    Buf build = {0}, features = {0};
    Str wanted_build = take_text(r), wanted = take_text(r);
    bool ok = session_jit(s);
    if (!ok) {
        if (session_status(s) == RELAY_OK)
            diag_error(s->cx.diags, E0404_LIBRARY, (Span){0}, "compiled code cannot be run: %s",
                       buf_text(&s->jit_why));
    } else if (!s->jit_table->build(&build) ||
               !str_eq((Str){buf_text(&build), build.n}, wanted_build)) {
        ok = false;
        Diag *d = diag_error(s->cx.diags, E0404_LIBRARY, (Span){0},
                             "this code was made by another build of relay");
        diag_help(d, "compile it again with the `relay` that belongs to this library");
    } else {
        s->jit_table->features(&features);
        ok = has_features(s, wanted.ptr, buf_text(&features));
    }
    buf_deinit(&build);
    buf_deinit(&features);
    return ok;
}

static void take_sources(Reading *r, Module *m, Content *c)
{
    for (uint64_t n = take(r); n > 0 && !r->wrong; n--) {
        Str name = take_text(r), text = take_text(r);
        uint32_t source = sources_add(&r->s->cx.sources, name.ptr, text.ptr, text.len);
        module_use_source(m, source);
        vec_push(&c->sources, &c->arena, source);
    }
}

static void take_types(Reading *r, const Module *m, Content *c)
{
    for (uint64_t n = take(r); n > 0 && !r->wrong; n--) {
        const TypeDef *def = module_find_type(m, ctx_name(&r->s->cx, take_text(r).ptr));
        r->wrong |= !def;
        vec_push(&c->types, &c->arena, def);
    }
}

static void take_functions(Reading *r, Content *c, Opened *out)
{
    RelaySession *s = r->s;
    Module *m = out->interface;
    uint64_t n = take(r);
    r->wrong |= n > m->defs.n;
    out->functions = arena_alloc_must(&m->arena, r->wrong ? 1 : n + 1, sizeof *out->functions);
    for (out->n = 0; out->n < n && !r->wrong; out->n++) {
        const Def *def = module_find_text(m, take_text(r).ptr);
        uint64_t source = take(r), place = take(r), from = take(r), size = take(r);
        r->wrong |= !def || from > r->code.len || size > r->code.len - from;
        if (r->wrong)
            return;
        if (source < c->sources.n)
            module_define(m, def->name, def->fn,
                          (Span){c->sources.at[source], (uint32_t)(place >> 32), (uint32_t)place},
                          m);
        out->functions[out->n] = def;
        r->wrong |= !s->jit_table->open(s->jit, m, def->name, c, (Str){r->code.ptr + from, size});
    }
}

static bool is_whole(const Head *head)
{
    uint64_t check[2];
    check_words(head, (const char *)(head + 1), check);
    return !memcmp(check, head->check, sizeof check);
}

size_t compiled_size(const void *code)
{
    return ((const Head *)code)->size;
}

bool compiled_open(RelaySession *s, const char *code, size_t size, Opened *out)
{
    const Head *head = (const Head *)(const void *)code;
    *out = (Opened){0};
    if (size < sizeof *head || memcmp(head->what, what_it_is, sizeof head->what) != 0 ||
        head->size > size || head->words > head->size - sizeof *head)
        return damaged(s);
    Reading r = {.s = s, .at = code + sizeof *head, .end = code + sizeof *head + head->words};
    r.code = (Str){r.end, (size_t)(head->size - sizeof *head - head->words)};
    /* Of a file of another build nothing more is known. */
    if (!suits_this(&r) || (!is_whole(head) && !damaged(s)))
        return false;
    Str text = take_text(&r);
    Module *m = out->interface = load_program(s, "the interface", text.ptr, text.len, true);
    if (!m)
        return false;
    Content c = {0};
    arena_init(&c.arena, NULL);
    take_sources(&r, m, &c);
    take_types(&r, m, &c);
    take_functions(&r, &c, out);
    arena_deinit(&c.arena);
    if (r.wrong && session_status(s) == RELAY_OK)
        damaged(s);
    if (session_status(s) == RELAY_OK)
        return true;
    compiled_close(s, out);
    return false;
}

void compiled_close(RelaySession *s, Opened *o)
{
    s->jit_table->forget(s->jit, o->interface);
    module_release(o->interface);
    *o = (Opened){0};
}

Value compiled_call(RelaySession *s, const Opened *o, uint32_t function, const Value *args)
{
    const Def *def = o->functions[function];
    return engine_call(s, &(Runnable){ENGINE_JIT, o->interface, o->interface, def->name, def->span},
                       def->fn->params.n, args);
}
