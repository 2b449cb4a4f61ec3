#include "tests/random/examine.h"

#include "tests/random/metadata.h"
#include "tests/random/mistakes.h"

#include "interp/observe.h"
#include "ir/equal.h"
#include "ir/json_read.h"
#include "ir/json_write.h"
#include "ir/print.h"
#include "ir/walk.h"
#include "ir/verify.h"
#include "parser/parser.h"
#include "passes/forms.h"
#include "passes/pass.h"
#include "runtime/heap.h"
#include "runtime/show.h"
#include "base/random.h"
#include "session/internal.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool examiner_init(Examiner *x, const JitTable *jit_table)
{
    *x = (Examiner){.jit_table = jit_table};
    if (!ctx_init(&x->cx, &stdlib_ops))
        return false;
    x->interp = interp_new(&x->cx);
    x->jit = jit_table ? jit_table->create(&x->cx) : NULL;
    return x->interp && (!jit_table || x->jit);
}

bool examiner_deinit(Examiner *x)
{
    size_t live = 0;
    if (x->jit)
        x->jit_table->destroy(x->jit);
    interp_free(x->interp);
    heap_break_cycles(&x->cx.limits);
    bool clean = heap_check(&x->cx.limits, &live) && live == 0;
    buf_deinit(&x->what);
    ctx_deinit(&x->cx);
    return clean;
}

static void note_diags(Examiner *x)
{
    for (const Diag *d = x->cx.diags->first; d; d = d->next)
        buf_printf(&x->what, "%s: %s\n", diag_info(d->code)->code, d->message);
}

/* ---- reading back */

/* The lines of a text behind a sign. */
static void note_lines(Examiner *x, char sign, const char *at)
{
    while (*at) {
        size_t n = strcspn(at, "\n");
        buf_printf(&x->what, "%c%.*s\n", sign, (int)n, at);
        at += n + (at[n] == '\n');
    }
}

/* What stands in each behind the lines with which both begin. */
static void note_difference(Examiner *x, const char *first, const char *second)
{
    const char *a = first, *b = second;
    for (size_t n = strcspn(a, "\n"); a[n] && strncmp(a, b, n + 1) == 0; n = strcspn(a, "\n")) {
        a += n + 1;
        b += n + 1;
    }
    buf_str(&x->what, "the difference:\n");
    note_lines(x, '-', a);
    note_lines(x, '+', b);
}

static Module *read_back(Examiner *x, const Buf *text)
{
    const ParseEnv env = {0};
    uint32_t source = sources_add(&x->cx.sources, "printed", buf_text(text), text->n);
    return parse_text(&x->cx, source, &env);
}

/* A pass may drop the one annotation that said what the `A` of a `Nil` is; the text has no other place for it. What is found for it then may
 * be the parameter of another function, when the text of what had types is read. Of functions of higher rank more follows from what is written:
 * which of two operators is meant, and what a parameter without a type is. */
static bool lost_annotation(const Examiner *x, bool typed)
{
    if (x->may_refuse && x->passed)
        return true;
    for (const Diag *d = x->cx.diags->first; d; d = d->next)
        if (d->severity >= SEVERITY_ERROR && d->code != E0208_UNSOLVED &&
            !(typed && d->code == E0215_SCOPE))
            return false;
    return true;
}

/* Without the annotation that a pass dropped, an extent may be known that was not. */
static bool holds_any(Examiner *x, const Module *m)
{
    if (x->may_refuse) /* a parameter without a type may be of fewer types */
        return true;
    Buf text = {0};
    ir_print_module(&text, m, (PrintStyle){.types = true, .no_metadata = true});
    bool any = strstr(buf_text(&text), "?") != NULL;
    buf_deinit(&text);
    x->lost += any;
    return any;
}

static WalkNext find_untyped(void *data, const Expr *e)
{
    const Function *f = expr_as_function(e);
    for (uint32_t i = 0; f && i < f->params.n; i++)
        *(bool *)data |= !f->params.at[i]->annotation;
    return *(bool *)data ? WALK_STOP : WALK_ON;
}

/* A parameter whose type only inference says: once it is written, what was decided before it was known may be known better. */
static bool lacks_type(const Module *m)
{
    bool lacks = false;
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn)
            ir_walk(&m->defs.at[i].fn->base, find_untyped, NULL, &lacks);
    if (m->expr)
        ir_walk(m->expr, find_untyped, NULL, &lacks);
    return lacks;
}

static size_t count_polymorphic(const Module *m)
{
    Buf text = {0};
    ir_print_module(&text, m, (PrintStyle){.types = true, .no_metadata = true});
    size_t n = 0;
    for (const char *at = buf_text(&text); (at = strstr(at, "fn [")); at++)
        n++;
    buf_deinit(&text);
    return n;
}

/* Without the annotation that a pass dropped, an operator that is a value stays polymorphic. */
static bool more_polymorphic(Examiner *x, const Module *m, const Module *again)
{
    bool more = count_polymorphic(again) > count_polymorphic(m);
    x->lost += more;
    return more;
}

static bool of_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '/';
}

/* The end of a type variable that begins at `at`, as the generator names them; NULL: something else. */
static const char *after_type_var(const char *text, const char *at)
{
    if (*at < 'A' || *at > 'S' || (at > text && (of_name(at[-1]) || strchr("%@.", at[-1]))))
        return NULL;
    at += 1 + strspn(at + 1, "0123456789");
    return of_name(*at) ? NULL : at;
}

/* Equal but for the names of type variables: of two equal types, inference keeps the one or the other. */
static bool same_text(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        const char *p = after_type_var(a, x), *q = after_type_var(b, y);
        if (!p != !q || (!p && *x != *y))
            return false;
        x = p ? p : x + 1;
        y = q ? q : y + 1;
    }
    return *x == *y;
}

/* ---- through a saved graph */

const char *examine_graph(Examiner *x, Module *m, uint64_t seed)
{
    buf_clear(&x->what);
    diags_clear(x->cx.diags);
    limits_start(&x->cx.limits);
    give_metadata(&x->cx, m, seed);
    Buf first = {0}, second = {0}, graph = {0};
    const char *bad = NULL;
    ir_print_module(&first, m, (PrintStyle){0});
    x->metadata = strstr(buf_text(&first), "\n#[metadata]") != NULL;
    Module *read = read_back(x, &first), *again = NULL;
    if (read) {
        graph_write_module(&graph, &x->cx, read);
        uint32_t source = sources_add(&x->cx.sources, "graph", buf_text(&graph), graph.n);
        again = graph_read_module(&x->cx, source, (GraphImport){0});
    }
    if (again)
        ir_print_module(&second, again, (PrintStyle){0});
    if (!read || !again)
        bad = read ? "the graph is read back" : "the text is read back";
    else if (strcmp(buf_text(&first), buf_text(&second)) != 0) {
        bad = "the text behind the graph is the same";
        note_difference(x, buf_text(&first), buf_text(&second));
    }
    if (bad)
        note_diags(x);
    module_release(read);
    module_release(again);
    buf_deinit(&first);
    buf_deinit(&second);
    buf_deinit(&graph);
    return bad;
}

/* The module printed, read and printed again; `typed` with what inference found. */
static const char *check_text(Examiner *x, const Module *m, bool typed)
{
    const char *bad = NULL;
    PrintStyle style = {.types = typed};
    Buf first = {0}, second = {0};
    ir_print_module(&first, m, style);
    Module *again = read_back(x, &first);
    bool inferred = again && typecheck_module(&x->cx, again, NULL);
    /* What fails when it runs may fail earlier where a pass made known what an annotation left open. */
    bool lost = again && !inferred && x->passed && (lost_annotation(x, true) || x->fails);
    if (lost)
        diags_clear(x->cx.diags);
    if (!again)
        bad = typed ? "the text with types is read back" : "the text is read back";
    else if (lost)
        x->lost++;
    else if (!inferred)
        bad = "what was read back has types";
    else if (!ir_module_equal(m, again) &&
             !(x->passed && (holds_any(x, m) || more_polymorphic(x, m, again))))
        bad =
            typed ? "the text with types is equal as a program" : "the text is equal as a program";
    if (!bad && !lost)
        ir_print_module(&second, again, style);
    bool same = typed ? same_text(buf_text(&first), buf_text(&second))
                      : !strcmp(buf_text(&first), buf_text(&second));
    bool better = typed && (x->passed || lacks_type(m));
    if (!bad && !lost && !same && !(better && holds_any(x, m))) {
        bad = typed ? "the types are the same" : "the text is the same";
        note_difference(x, buf_text(&first), buf_text(&second));
    }
    if (bad)
        note_diags(x);
    module_release(again);
    buf_deinit(&first);
    buf_deinit(&second);
    return bad;
}

/* ---- values */

static uint64_t fill(Value *v, DType dtype, uint64_t seed)
{
    double n = dtype_is_bool(dtype) ? (double)(random_at(seed, 0) % 2)
                                    : (double)(random_at(seed, 0) % 17) / 4 - 2;
    *v = value_scalar_double(dtype, n);
    return seed + 1;
}

static Value argument(Examiner *x, const Type *t, uint64_t seed)
{
    Value v;
    if (t->n == 0) {
        fill(&v, t->dtype, seed);
        return v;
    }
    Tensor *tensor = tensor_new(&x->cx.limits, t->dtype, (int32_t)t->n, t->dims);
    for (int64_t i = 0; i < tensor->size; i++) {
        seed = fill(&v, t->dtype, seed);
        memcpy(tensor->data + (size_t)i * dtype_size(t->dtype), &v.bits, dtype_size(t->dtype));
    }
    return value_tensor(tensor);
}

typedef struct Run {
    Value value;
    DiagCode error; /* when there is no value */
} Run;

typedef Value Caller(Examiner *x, Module *m, const Name *name, uint32_t n, const Value *args);

static Value by_interp(Examiner *x, Module *m, const Name *name, uint32_t n, const Value *args)
{
    return interp_call_global(x->interp, m, name, n, args, (Span){0});
}

static Value by_jit(Examiner *x, Module *m, const Name *name, uint32_t n, const Value *args)
{
    Buf why = {0};
    values_retain(n, args);
    Value v = x->jit_table->call(x->jit, m, name, n, args, (Span){0}, &why);
    if (why.n > 0) {
        diag_error(x->cx.diags, E0701_CANNOT_COMPILE, (Span){0}, "%s", buf_text(&why));
        values_release(n, args);
    }
    buf_deinit(&why);
    return v;
}

/* The value of @main, or of a bare expression. */
static Run run_main(Examiner *x, Module *m, Caller *caller)
{
    const Def *def = module_find_text(m, "main");
    Value args[4];
    uint32_t n = def ? def->fn->params.n : 0;
    for (uint32_t i = 0; i < n; i++)
        args[i] = argument(x, def->fn->params.at[i]->base.type, i);
    diags_clear(x->cx.diags);
    limits_start(&x->cx.limits);
    PtrMap none = {0};
    Run run = {.value = def ? caller(x, m, def->name, n, args)
                            : interp_eval(x->interp, m, m, m->expr, &none)};
    if (value_is_none(run.value))
        run.error = x->cx.diags->first ? x->cx.diags->first->code : DIAG_CODES;
    values_release(n, args);
    return run;
}

static bool near(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (a == b)
        return true;
    return fabs(a - b) <= tolerance * (1 + fabs(a) + fabs(b));
}

static bool same_tensors(const Value *a, const Value *b, bool narrow)
{
    TensorView s, t;
    if (!value_view(a, &s) || !value_view(b, &t) || !dtype_eq(s.t.dtype, t.t.dtype) ||
        s.t.rank != t.t.rank)
        return false;
    for (int i = 0; i < s.t.rank; i++)
        if (s.t.shape[i] != t.t.shape[i])
            return false;
    double tolerance = !dtype_is_float(s.t.dtype) ? 0 : narrow || s.t.dtype.bits < 32 ? 0.02 : 1e-4;
    for (int64_t i = 0; i < s.t.size; i++)
        if (!near(tensor_get_double(&s.t, i), tensor_get_double(&t.t, i), tolerance))
            return false;
    return true;
}

/* Values of a program are small: recursion does. */
static bool same_values(Value a, Value b, bool narrow)
{
    if (a.kind <= VALUE_TENSOR || b.kind <= VALUE_TENSOR)
        return same_tensors(&a, &b, narrow);
    if (a.kind != b.kind || object_n(a.object) != object_n(b.object) ||
        object_info(a.object)->tag != object_info(b.object)->tag)
        return false;
    for (uint32_t i = 0; i < object_n(a.object); i++)
        if (!same_values(object_get(a.object, i), object_get(b.object, i), narrow))
            return false;
    return true;
}

static void note_run(Examiner *x, const char *who, const Run *run)
{
    buf_printf(&x->what, "%s: ", who);
    if (value_is_none(run->value))
        buf_str(&x->what, run->error == DIAG_CODES ? "no value" : diag_info(run->error)->code);
    else
        value_show(&x->what, run->value, (ShowStyle){0});
    buf_char(&x->what, '\n');
}

static bool same_runs(Examiner *x, const Run *a, const Run *b)
{
    bool none = value_is_none(a->value);
    bool same = none == value_is_none(b->value) &&
                (none ? a->error == b->error : same_values(a->value, b->value, x->narrow));
    x->differs |= !same;
    if (!same) {
        note_run(x, "before", a);
        note_run(x, "after", b);
    }
    return same;
}

static WalkNext add_owners(void *data, const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    if (c && c->value.kind == VALUE_TENSOR)
        *(size_t *)data += c->value.tensor->refs;
    return WALK_ON;
}

/* How many hold the constants of the module, all together. */
static size_t owners_of_constants(const Module *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn)
            ir_walk(&m->defs.at[i].fn->base, add_owners, NULL, &n);
    return n;
}

static const char *check_code(Examiner *x, Module *m, const Run *wanted)
{
    Buf why = {0};
    size_t owners = owners_of_constants(m);
    const Name *name = ctx_name(&x->cx, "main");
    bool prepared = x->jit_table->prepare(x->jit, m, name, NULL, &why);
    const char *bad = NULL;
    if (prepared) {
        Run run = run_main(x, m, by_jit);
        bad = same_runs(x, wanted, &run) ? NULL : "the JIT gives what the evaluator gives";
        value_release(run.value);
    } else if (x->cx.diags->errors) {
        bad = "compiling reports no error";
        note_diags(x);
    }
    x->compiled = prepared && !bad;
    x->jit_table->forget(x->jit, m);
    buf_deinit(&why);
    return !bad && owners_of_constants(m) != owners ? "the JIT lets go of the constants" : bad;
}

/* The program as it is written, and after what runs before code is made; that may leave out what fails and is not used. */
static const char *check_jit(Examiner *x, Module *m, const Run *wanted)
{
    const char *bad = check_code(x, m, wanted);
    bool has_value = !value_is_none(wanted->value);
    for (int level = 2; level <= 3 && !bad && has_value; level++) {
        Module *now = passes_run_for_code(
            &(PassContext){.cx = &x->cx, .opt_level = level, .exact = x->exact}, m);
        bad = now ? check_code(x, now, wanted) : "the pipeline runs";
        if (!now)
            note_diags(x);
        module_release(now);
    }
    return bad;
}

/* ---- passes */

/* The same type, or one that knows an extent that was unknown. What was written beside an operator or a constructor made it a function of
 * one type, and graphs have no place for that. */
static bool at_least(const Type *before, const Type *now)
{
    if (type_equal(before, now))
        return true;
    if (before->kind == TYPE_FUNC && now->kind == TYPE_FUNC && before->n == now->n &&
        before->n_params == 0 && now->n_params > 0)
        return true;
    if (before->kind != now->kind || before->n != now->n || before->kind == TYPE_VAR)
        return false;
    if (before->kind == TYPE_TENSOR) {
        for (uint32_t i = 0; i < before->n; i++)
            if (before->dims[i] >= 0 && before->dims[i] != now->dims[i])
                return false;
        return dtype_eq(before->dtype, now->dtype);
    }
    for (uint32_t i = 0; i < before->n; i++)
        if (!at_least(before->parts[i], now->parts[i]))
            return false;
    return before->kind != TYPE_FUNC || at_least(before->result, now->result);
}

/* Marks of regions that nobody put where they belong are told to be wrong. */
static bool has_stray_marks(const Examiner *x, const Module *m)
{
    Buf text = {0};
    for (const Diag *d = x->cx.diags->first; d; d = d->next)
        if (d->code != E0608_REGION)
            return false;
    ir_print_module(&text, m, (PrintStyle){.no_metadata = true});
    bool has = strstr(buf_text(&text), "annotation.compiler_") != NULL;
    buf_deinit(&text);
    return has;
}

static bool same_types(Examiner *x, const Module *before, const Module *now)
{
    for (size_t i = 0; i < now->defs.n; i++) {
        const Def *d = &now->defs.at[i], *old = module_find(before, d->name);
        if (!d->fn || !old || at_least(old->fn->base.type, d->fn->base.type))
            continue;
        buf_printf(&x->what, "@%s: %s became %s\n", d->name->text,
                   type_str(&x->cx, old->fn->base.type), type_str(&x->cx, d->fn->base.type));
        return false;
    }
    return !before->expr || at_least(before->expr->type, now->expr->type);
}

/* Whether it is in order that there is no program behind the pass. */
static bool may_refuse(Examiner *x, const Module *m, const Run *wanted)
{
    if (wanted && value_is_none(wanted->value))
        return true; /* what fails when it runs may fail earlier */
    /* Nor can a pass infer again what it left unsaid, or what only a value that is never computed says. */
    bool lost = x->cx.limits.hit == LIMIT_NONE && (lost_annotation(x, false) || holds_any(x, m));
    x->lost += lost;
    return lost || has_stray_marks(x, m);
}

/* The program behind the pass goes to *after, the caller's; NULL: there is none. */
static const char *check_pass(Examiner *x, Module *m, const char *pass, const Run *wanted,
                              Module **after)
{
    PassContext pc = {.cx = &x->cx, .opt_level = 5, .exact = x->exact};
    diags_clear(x->cx.diags);
    limits_start(&x->cx.limits);
    Module *now = *after = passes_run_text(&pc, m, pass);
    const char *bad = NULL;
    if (!now && may_refuse(x, m, wanted))
        return NULL;
    if (!now)
        bad = "the pass goes through";
    if (!bad && !ir_verify(&x->cx, now, NULL, true))
        bad = "the pass leaves a well-formed program";
    if (!bad && !same_types(x, m, now))
        bad = "the pass keeps the types";
    if (bad)
        note_diags(x);
    x->passed = true;
    x->went++;
    if (!bad)
        bad = check_text(x, now, false);
    if (!bad)
        bad = check_text(x, now, true);
    if (!bad && wanted && !value_is_none(wanted->value)) {
        Run run = run_main(x, now, by_interp);
        bad = same_runs(x, wanted, &run) ? NULL : "the pass keeps the value";
        value_release(run.value);
    }
    if (bad)
        buf_printf(&x->what, "after %s:\n", pass);
    if (bad && now)
        ir_print_module(&x->what, now, (PrintStyle){.no_metadata = true});
    if (now)
        interp_forget(x->interp, now);
    return bad;
}

/* One after the other; what a sequence of them made is compiled too. */
static const char *check_passes(Examiner *x, Module *m, const Run *wanted)
{
    const char *bad = NULL;
    Module *now = module_retain(m);
    for (size_t i = 0; i < x->n_passes && now && !bad; i++) {
        Module *after;
        bad = check_pass(x, now, x->passes[i], wanted, &after);
        module_release(now);
        now = after;
    }
    if (!bad && now && x->jit && x->n_passes > 1 && wanted && !value_is_none(wanted->value) &&
        module_find_text(now, "main"))
        bad = check_code(x, now, wanted);
    module_release(now);
    return bad;
}

/* ---- infinities and NaN */

/* Whether a float of the value is not finite, or a zero below zero: which of two zeros an extreme is depends on the order. */
static bool has_unbounded(Value v)
{
    TensorView t;
    if (v.kind > VALUE_TENSOR) {
        for (uint32_t i = 0; v.kind == VALUE_TUPLE && i < object_n(v.object); i++)
            if (has_unbounded(object_get(v.object, i)))
                return true;
        return false;
    }
    if (!value_view(&v, &t) || !dtype_is_float(t.t.dtype))
        return false;
    for (int64_t i = 0; i < t.t.size; i++) {
        double x = tensor_get_double(&t.t, i);
        if (!isfinite(x) || (x == 0 && signbit(x)))
            return true;
    }
    return false;
}

static bool is_of_floats(Value v)
{
    TensorView view;
    return value_view(&v, &view) && dtype_is_float(view.t.dtype);
}

/* What was met while a program ran. */
typedef struct Met {
    Examiner *x;
    /* An operator that folds meets an infinity or NaN, or gives one: then only exact code gives what the evaluator gives. */
    bool folds;
    /* Nobody says what is right: the last bits of floats are looked at, or a remainder of them, which jumps where these are others. */
    bool open;
} Met;

static bool note_op(void *data, const Event *e)
{
    Met *met = data;
    const Op *op = e->kind == EVENT_OP ? op_find(&met->x->cx, str_of(e->what)) : NULL;
    if (!op)
        return true;
    bool looks = !strcmp(op->name, "reinterpret");
    bool folds = op->pattern == OP_REDUCE || op->pattern == OP_OUT_FUSABLE;
    met->folds |= folds && has_unbounded(e->result.value);
    for (uint32_t i = 0; i < e->n; i++) {
        met->folds |= folds && has_unbounded(e->args[i]);
        met->open |= looks && is_of_floats(e->args[i]);
    }
    met->open |= strstr(op->name, "mod") && is_of_floats(e->result.value);
    return true;
}

static Met met_by(Examiner *x, Module *m)
{
    Met met = {.x = x};
    Observer observer = {note_op, &met};
    interp_observe(x->interp, &observer);
    Run run = run_main(x, m, by_interp);
    interp_observe(x->interp, NULL);
    value_release(run.value);
    diags_clear(x->cx.diags);
    return met;
}

static void set_exact(Examiner *x, bool exact)
{
    x->exact = exact;
    if (x->jit)
        x->jit_table->set_mode(x->jit, (JitMode){.exact = exact});
}

/* ---- all */

static const char *check_engines(Examiner *x, Module *m, const Run *wanted, bool has_main)
{
    const char *bad = NULL;
    if (has_main && x->jit)
        bad = check_jit(x, m, wanted);
    diags_clear(x->cx.diags);
    return bad ? bad : check_passes(x, m, wanted);
}

static const char *check_values(Examiner *x, Module *m)
{
    Run run = {0};
    const char *bad = NULL;
    bool has_main = module_find_text(m, "main") != NULL;
    bool runs = has_main || (m->expr && m->free_vars.n == 0);
    if (runs) {
        run = run_main(x, m, by_interp);
        x->valued = !value_is_none(run.value);
        x->fails = !x->valued;
        if (!x->valued && run.error == DIAG_CODES)
            bad = "a program without a value says why";
        diags_clear(x->cx.diags);
    }
    if (!bad)
        bad = check_engines(x, m, runs ? &run : NULL, has_main);
    Met met = bad && x->differs ? met_by(x, m) : (Met){0};
    if (met.open) {
        bad = NULL;
        buf_clear(&x->what);
    } else if (met.folds) {
        x->exactly++;
        buf_clear(&x->what);
        set_exact(x, true);
        bad = check_engines(x, m, &run, has_main);
        set_exact(x, false);
    }
    value_release(run.value);
    interp_forget(x->interp, m);
    return bad;
}

/* Whether something in it is computed with floats of half the width, a constant of the metadata too. */
static bool is_narrow(const Module *m)
{
    Buf typed = {0};
    ir_print_module(&typed, m, (PrintStyle){.no_metadata = true, .types = true});
    bool narrow = strstr(buf_text(&typed), "float16") != NULL;
    buf_deinit(&typed);
    return narrow;
}

/* There is no derivative by what holds a function, and none of a few operators. */
static bool refuses_forms(Examiner *x)
{
    for (const Diag *d = x->cx.diags->first; d; d = d->next)
        if (d->severity >= SEVERITY_ERROR && d->code != E0605_NO_GRADIENT)
            return false;
    x->refused++;
    return true;
}

/* Whether the message says of something that it is not what it is. */
static bool denies_itself(const Diag *d)
{
    if (strstr(d->message, "[in0")) /* operators have types of their own, whose text is the same */
        return false;
    const char *is = strstr(d->message, " is `"), *needed = strstr(d->message, "`, but `");
    if (!is || !needed)
        return false;
    is += strlen(" is `");
    size_t n = (size_t)(needed - is);
    needed += strlen("`, but `");
    return strncmp(is, needed, n) == 0 && needed[n] == '`';
}

/* What is wrong with how the types were refused. */
static const char *refuses_types(Examiner *x)
{
    x->refused++;
    for (const Diag *d = x->cx.diags->first; d; d = d->next)
        if (d->code == E0121_TOO_DEEP || denies_itself(d)) {
            note_diags(x);
            return "what is refused differs from what is needed";
        }
    return NULL;
}

const char *examine(Examiner *x, Module *m)
{
    buf_clear(&x->what);
    diags_clear(x->cx.diags);
    limits_start(&x->cx.limits);
    x->compiled = x->valued = x->fails = x->passed = x->differs = false;
    const char *bad = NULL;
    bool typed = typecheck_module(&x->cx, m, NULL);
    if (!typed && x->may_refuse)
        return refuses_types(x);
    if (!typed)
        bad = "it is well typed";
    else if (!forms_expand(&x->cx, m, NULL, (FormsWish){0})) {
        if (refuses_forms(x))
            return NULL;
        bad = "its derivatives are written into it";
    } else if (!ir_verify(&x->cx, m, NULL, true))
        bad = "it is well formed";
    x->narrow = !bad && is_narrow(m);
    if (bad)
        note_diags(x);
    if (!bad)
        bad = check_text(x, m, false);
    if (!bad)
        bad = check_text(x, m, true);
    return bad ? bad : check_values(x, m);
}

/* ---- mistakes */

/* The first error; warnings may stand before it. */
static bool has_place(const Diag *d, uint32_t source, size_t len)
{
    while (d && d->severity < SEVERITY_ERROR)
        d = d->next;
    if (!d)
        return false;
    return d->severity == SEVERITY_ERROR && d->span.source == source &&
           d->span.from <= d->span.to && d->span.to <= len;
}

bool examine_mistake(Examiner *x, const Module *m, uint64_t seed, bool *made)
{
    Buf text = {0}, right = {0};
    ir_print_module(&text, m, (PrintStyle){.types = true});
    buf_bytes(&right, text.at, text.n);
    const char *mistake = make_mistake(&text, seed);
    *made = mistake != NULL;
    bool good = true;
    if (mistake) {
        diags_clear(x->cx.diags);
        limits_start(&x->cx.limits);
        buf_clear(&x->what);
        uint32_t source = sources_add(&x->cx.sources, "mistake", buf_text(&text), text.n);
        Module *wrong = parse_text(&x->cx, source, &(ParseEnv){0});
        bool accepted = wrong && typecheck_module(&x->cx, wrong, NULL);
        good = !accepted && has_place(x->cx.diags->first, source, text.n);
        if (!good) {
            buf_printf(&x->what, "%s, %s\n", mistake, accepted ? "accepted" : "without a place");
            note_difference(x, buf_text(&right), buf_text(&text));
            note_diags(x);
        }
        module_release(wrong);
    }
    buf_deinit(&text);
    buf_deinit(&right);
    return good;
}
