/* A program entered in a session, cell by cell, means what it means as a whole: on each engine, and in a session that had another program
 * before, whose functions, types and variables have the same names. */
#include "tests/random/examine.h"

#include "include/relay.h"
#include "ir/print.h"
#include "tests/random/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Cells {
    Arena *arena;
    Vec(const char *) texts;
} Cells;

static void add_cell(Cells *c, Buf *text)
{
    vec_push(&c->texts, c->arena, arena_copy_text(c->arena, buf_text(text), text->n));
    buf_clear(text);
}

static void add_module(Cells *c, const Module *m)
{
    Buf text = {0};
    ir_print_module(&text, m, (PrintStyle){.no_header = true});
    add_cell(c, &text);
    buf_deinit(&text);
}

/* ---- a program as cells */

/* Functions that call each other have numbers with the same tens. */
static bool belongs(const Def *to, const Def *d)
{
    const char *a = to->name->text + strcspn(to->name->text, "0123456789"),
               *b = d->name->text + strcspn(d->name->text, "0123456789");
    return *a && *b && atoi(a) / 10 == atoi(b) / 10;
}

static void add_definitions(Cells *c, Ctx *cx, Module *m)
{
    for (size_t i = 0; i < m->defs.n;) {
        Module *part = module_new(cx);
        module_use(part, m);
        size_t first = i;
        do {
            module_define(part, m->defs.at[i].name, m->defs.at[i].fn, m->defs.at[i].span, m);
        } while (++i < m->defs.n && belongs(&m->defs.at[first], &m->defs.at[i]));
        add_module(c, part);
        module_release(part);
    }
}

static void write_shape(Buf *out, const Type *t)
{
    buf_char(out, '[');
    for (uint32_t i = 0; i < t->n; i++)
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    buf_char(out, ']');
}

/* let %in0 = some numbers of the type; */
static void add_argument(Cells *c, uint32_t number, const Type *t)
{
    Buf text = {0};
    long long n = 1;
    for (uint32_t i = 0; i < t->n; i++)
        n *= t->dims[i];
    const char *dtype = dtype_row(dtype_id(t->dtype))->name;
    buf_printf(&text, "let %%in%u = cast(", number);
    if (n == 0) {
        buf_str(&text, "zeros(shape=");
        write_shape(&text, t);
        buf_str(&text, ", dtype=\"float32\")");
    } else {
        buf_printf(&text, "reshape(subtract(mod(arange(0f, %lldf, 1f), 5f), 2f), newshape=", n);
        write_shape(&text, t);
        buf_char(&text, ')');
    }
    buf_printf(&text, ", dtype=\"%s\");", dtype);
    add_cell(c, &text);
    buf_deinit(&text);
}

static void add_call(Cells *c, const Function *main)
{
    Buf text = {0};
    for (uint32_t i = 0; i < main->params.n; i++)
        add_argument(c, i, main->params.at[i]->annotation);
    buf_str(&text, "@main(");
    for (uint32_t i = 0; i < main->params.n; i++)
        buf_printf(&text, "%s%%in%u", i ? ", " : "", i);
    buf_char(&text, ')');
    add_cell(c, &text);
    buf_deinit(&text);
}

/* The cells of a program that has an @main. */
static void add_program(Cells *c, Ctx *cx, Module *m)
{
    Module *types = module_new(cx);
    for (size_t i = 0; i < m->types.n; i++)
        module_define_type(types, m->types.at[i]);
    if (m->types.n > 0)
        add_module(c, types);
    module_release(types);
    add_definitions(c, cx, m);
    add_call(c, module_find_text(m, "main")->fn);
}

/* ---- sessions */

typedef struct Answer {
    Buf value; /* of the last cell */
    Buf errors;
} Answer;

static void take_output(void *data, const RelayOutput *out)
{
    Answer *a = data;
    if (out->kind == RELAY_OUTPUT_RESULT) {
        buf_clear(&a->value);
        buf_bytes(&a->value, out->mimes[0].data, out->mimes[0].size);
    } else if (out->kind == RELAY_OUTPUT_DIAGNOSTIC && out->severity == RELAY_ERROR) {
        buf_printf(&a->errors, "%s: %s\n", out->code, out->title);
    }
}

static void enter(RelaySession *s, const Cells *c, Answer *a)
{
    for (size_t i = 0; i < c->texts.n; i++) {
        const char *text = c->texts.at[i];
        buf_clear(&a->value);
        RelayCell cell = {.text = text, .len = strlen(text), .name = "cell"};
        relay_session_eval(s, &cell, (RelaySink){take_output, a});
    }
}

/* Numbers may differ in their last digits, and so the room that columns take and where lines end. */
static bool same_answers(const Answer *a, const Answer *b)
{
    const char *x = buf_text((Buf *)(uintptr_t)&a->value),
               *y = buf_text((Buf *)(uintptr_t)&b->value);
    for (;;) {
        char *p, *q;
        x += strspn(x, " \n");
        y += strspn(y, " \n");
        if (!*x || !*y)
            return *x == *y;
        double s = strtod(x, &p), t = strtod(y, &q);
        bool number = p > x && q > y;
        if (number ? fabs(s - t) > 2e-2 * (1 + fabs(s) + fabs(t)) : *x != *y)
            return false;
        x = number ? p : x + 1;
        y = number ? q : y + 1;
    }
}

static void answer_free(Answer *a)
{
    buf_deinit(&a->value);
    buf_deinit(&a->errors);
}

typedef struct Session {
    const char *engine;
    bool used; /* by another program before */
} Session;

static bool examine_session(Examiner *x, const Session *kind, const Cells *other,
                            const Cells *cells, const Answer *wanted)
{
    RelaySession *s = relay_session_new(&(RelayOptions){
        .no_prelude = true, .engine = kind->engine, .threads = 1, .time_limit = 20});
    Answer before = {0}, a = {0};
    if (kind->used)
        enter(s, other, &before);
    enter(s, cells, &a);
    bool failed = a.errors.n > 0, fails = wanted->errors.n > 0;
    bool same = failed == fails && (fails || same_answers(wanted, &a));
    if (!same) {
        buf_printf(&x->what, "%s%s: %s\n%s", kind->engine, kind->used ? ", used before" : "",
                   buf_text(&a.value), buf_text(&a.errors));
        for (size_t i = 0; kind->used && i < other->texts.n; i++)
            buf_printf(&x->what, "---- before\n%s\n", other->texts.at[i]);
        for (size_t i = 0; i < cells->texts.n; i++)
            buf_printf(&x->what, "----\n%s\n", cells->texts.at[i]);
    }
    relay_session_free(s);
    answer_free(&before);
    answer_free(&a);
    return same;
}

const char *examine_cells(Examiner *x, Module *m, Module *other, bool jit)
{
    static const Session sessions[] = {{"interp", true}, {"jit", false}, {"jit", true}};
    if (!module_find_text(m, "main") || !module_find_text(other, "main"))
        return NULL;
    Cells cells = {.arena = &m->arena}, before = {.arena = &m->arena};
    add_program(&cells, &x->cx, m);
    add_program(&before, &x->cx, other);
    RelaySession *s = relay_session_new(
        &(RelayOptions){.no_prelude = true, .engine = "interp", .threads = 1, .time_limit = 20});
    Answer wanted = {0};
    enter(s, &cells, &wanted);
    relay_session_free(s);
    bool good = true;
    buf_clear(&x->what);
    buf_printf(&x->what, "wanted: %s\n%s", buf_text(&wanted.value), buf_text(&wanted.errors));
    for (size_t i = 0; good && i < sizeof sessions / sizeof *sessions; i++)
        if (jit || strcmp(sessions[i].engine, "jit") != 0)
            good = examine_session(x, &sessions[i], &before, &cells, &wanted);
    x->valued = wanted.value.n > 0;
    answer_free(&wanted);
    return good ? NULL : "a session gives the same answer";
}
