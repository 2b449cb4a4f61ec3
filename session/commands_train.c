/* `:train`: a variable that is bound to what an expression makes of it, again and again, and a curve of the losses while that goes on. */
#include "base/memory.h"
#include "base/number.h"
#include "session/commands.h"
#include "session/views/plot.h"

#include <stdlib.h>
#include <string.h>

/* Seconds between two pictures. */
#define PICTURE_EVERY 0.2

typedef struct Training {
    RelaySession *s;
    const Name *name; /* of the variable */
    uint32_t arg; /* which argument of the code it is; as many as there are: none */
    Thunk thunk;
    Runnable code;
    int64_t steps, done;
    size_t n; /* curves */
    double *curves[PLOT_CURVES_MOST];
    double shown; /* when */
    unsigned live;
} Training;

/* ---- what is asked ------------------------------------------------------------------------------------------------------------ */

static bool is_number(const Type *t)
{
    t = type_find(t);
    return t->kind == TYPE_TENSOR && t->n == 0;
}

/* How many numbers the second field is; 0: it is none. */
static size_t count_losses(const Type *t)
{
    t = type_find(t);
    if (t->kind != TYPE_TUPLE)
        return is_number(t);
    size_t n = 0;
    while (n < t->n && is_number(t->parts[n]))
        n++;
    return n == t->n && n <= PLOT_CURVES_MOST ? n : 0;
}

/* False after a diagnostic. */
static bool fits(Training *t, CommandCall *c, const Local *l, const Type *made)
{
    RelaySession *s = t->s;
    made = type_resolve(&s->cx, made);
    const Type *state = type_resolve(&s->cx, l->var->base.type);
    bool pair = made->kind == TYPE_TUPLE && made->n == 2;
    t->n = pair ? count_losses(made->parts[1]) : 0;
    if (t->n && type_equal(made->parts[0], state))
        return true;
    Diag *d = diag_error(
        s->cx.diags, E0402_USAGE, c->args,
        t->n ? "the first field is to become `%%%s`, which is `%s`, and is `%s`"
             : "the next `%%%s`, which is `%s`, and its loss are needed, and this is `%s`",
        l->var->name->text, type_str(&s->cx, state),
        type_str(&s->cx, t->n ? made->parts[0] : made));
    diag_help(
        d,
        "for instance `:train steps=20 %%%s @epoch(%%%s)`, where `@epoch` gives a pair of the "
        "state and a number, or several",
        l->var->name->text, l->var->name->text);
    return false;
}

static bool find_variable(Training *t, CommandCall *c)
{
    Span at = c->args;
    Str word = command_word(c);
    at.to = at.from + (uint32_t)word.len;
    const Name *name = word.len > 1 && word.ptr[0] == '%'
                           ? ctx_name_str(&t->s->cx, (Str){word.ptr + 1, word.len - 1})
                           : NULL;
    t->name = name;
    if (name && session_local(t->s, name, false))
        return true;
    Diag *d;
    if (name && session_local(t->s, name, true))
        d = diag_error(t->s->cx.diags, E0402_USAGE, at,
                       "`%.*s` stands for one expression and is never bound again", (int)word.len,
                       word.ptr);
    else
        d = diag_error(t->s->cx.diags, E0402_USAGE, at, "`%.*s` is no variable of this session",
                       (int)word.len, word.ptr);
    diag_help(d, "`let %%state = …;` first, then `:train %%state EXPR`");
    return false;
}

/* ---- steps ----------------------------------------------------------------------------------------------------------------------- */

static void take_losses(Training *t, Value losses)
{
    for (size_t k = 0; k < t->n; k++) {
        TensorView view;
        Value v = losses.kind == VALUE_TUPLE ? object_get(losses.object, (uint32_t)k) : losses;
        t->curves[k][t->done] = value_view(&v, &view) ? tensor_get_double(&view.t, 0) : 0;
    }
}

static void show(Training *t, bool more)
{
    Buf title = {0};
    buf_printf(&title, "step %lld of %lld", (long long)t->done, (long long)t->steps);
    for (size_t k = 0; k < t->n; k++) {
        buf_str(&title, k ? ", " : " · ");
        number_print_g6(&title, t->curves[k][t->done - 1]);
    }
    PlotLive what = {
        (const double *const *)t->curves, t->n, t->done, buf_text(&title), t->live, more};
    plot_live(t->s, &what);
    buf_deinit(&title);
    t->shown = clock_seconds();
}

/* The variable holds the next state from here on. */
static void bind_state(Training *t, Value state)
{
    session_rebind(t->s, session_local(t->s, t->name, false), state);
    if (t->arg < t->thunk.n)
        t->thunk.args[t->arg] = session_local(t->s, t->name, false)->value;
}

/* False after a diagnostic. */
static bool step(Training *t)
{
    Value v = engine_call(t->s, &t->code, t->thunk.n, t->thunk.args);
    if (value_is_none(v))
        return false;
    take_losses(t, object_get(v.object, 1));
    t->done++;
    bind_state(t, value_retain(object_get(v.object, 0)));
    value_release(v);
    return true;
}

static void train(Training *t)
{
    t->shown = clock_seconds();
    unsigned outer = progress_enter(&t->s->progress, "training", "steps", (uint64_t)t->steps);
    while (t->done < t->steps && step(t)) {
        progress_step(&t->s->progress, (uint64_t)t->done);
        if (t->done < t->steps && clock_seconds() - t->shown > PICTURE_EVERY)
            show(t, true);
    }
    progress_leave(&t->s->progress, outer);
    if (t->done == t->steps && t->done)
        show(t, false);
    else if (t->s->cx.diags->last)
        diag_help(t->s->cx.diags->last, "`%%%s` is what step %lld of %lld left", t->name->text,
                  (long long)t->done, (long long)t->steps);
}

/* What an end before the last step left is made again by the steps that were done. */
static void note_steps(const Training *t, const CommandCall *c)
{
    Buf b = {0};
    buf_printf(&b, ":train steps=%lld %%%s %.*s", (long long)t->done, t->name->text,
               (int)c->text.len, c->text.ptr);
    journal_text(t->s, buf_text(&b), b.n);
    buf_deinit(&b);
}

static uint32_t argument_of(const Thunk *t, const Name *name)
{
    const Function *fn = module_find(t->module, t->name)->fn;
    uint32_t i = 0;
    while (i < t->n && fn->params.at[i]->name != name)
        i++;
    return i;
}

void command_train(CommandCall *c)
{
    RelaySession *s = c->s;
    Training t = {.s = s};
    uint64_t steps = 10;
    if (!command_need(c, "a variable and an expression") || !command_setting(c, "steps", &steps) ||
        !find_variable(&t, c))
        return;
    t.steps = steps > 1000000 ? 1000000 : (int64_t)steps;
    t.live = ++s->lives;
    Module *m = command_program(c);
    bool ok = m && fits(&t, c, session_local(s, t.name, false), m->expr->type) &&
              thunk_make(s, s->env, m, m->expr, CLOSURES_ALL, &t.thunk);
    bool ready =
        ok && engine_prepare(s, session_steady_engine(s), t.thunk.module, t.thunk.name, &t.code);
    for (size_t k = 0; ready && k < t.n; k++)
        ready = (t.curves[k] = memory_zeroed((size_t)t.steps + 1, sizeof(double))) != NULL;
    if (ready) {
        t.arg = argument_of(&t.thunk, t.name);
        train(&t);
        if (t.done && t.done < t.steps)
            note_steps(&t, c);
    }
    for (size_t k = 0; k < t.n; k++)
        free(t.curves[k]);
    engine_release(s, &t.code);
    if (ok)
        thunk_free(s, &t.thunk);
    module_release(m);
}
