/* The rules of evaluation in words, and what else of a recording is put into words. */
#include "base/utf8.h"
#include "base/memory.h"
#include "runtime/show.h"
#include "session/steps/record.h"

#include <stdlib.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------------- */

#define VALUE_ELEMENTS 12

static void show_cell(void *data, Buf *out, const Object *cell)
{
    const Recorder *r = data;
    size_t number = (size_t)(uintptr_t)ptrmap_find(&r->cell_numbers, cell);
    if (number)
        buf_printf(out, "r%zu", number);
    else
        buf_str(out, "a reference");
}

void record_clip(Buf *out, const char *text, size_t n, size_t columns)
{
    bool fits = utf8_text_width(text, n) <= columns;
    n = fits ? n : utf8_offset(text, n, columns - 1);
    while (!fits && n > 0 && utf8_text_width(text, n) > columns - 1)
        n = utf8_offset(text, n, utf8_count(text, n) - 1);
    buf_bytes(out, text, n);
    buf_str(out, fits ? "" : "…");
}

static void show(Recorder *r, Buf *out, Value v, ShowStyle style, size_t columns)
{
    Buf text = {0};
    style.bare = true;
    style.width = 1 << 20;
    style.ref = show_cell;
    style.data = r;
    style.limits = &r->s->cx.limits;
    value_show(&text, v, style);
    record_clip(out, buf_text(&text), text.n, columns);
    buf_deinit(&text);
}

void record_brief(Recorder *r, Buf *out, Value v)
{
    show(r, out, v, (ShowStyle){.elements = 6, .list = 8, .large = SHOW_TYPE}, 60);
}

void record_value(Recorder *r, Buf *out, Value v)
{
    show(r, out, v, (ShowStyle){.elements = VALUE_ELEMENTS, .list = 24, .large = SHOW_SUMMARY},
         200);
}

void record_content(Recorder *r, Buf *out, Value v)
{
    if (v.kind == VALUE_TENSOR && v.tensor->size > VALUE_ELEMENTS)
        tensor_summary(out, v.tensor, &r->s->cx.limits);
    else if (v.kind == VALUE_FUNCTION)
        buf_str(out, "a function");
    else
        record_value(r, out, v);
}

void record_type(RelaySession *s, Buf *out, const Binding *b)
{
    const Type *t = b->type;
    if (b->value.kind == VALUE_SCALAR)
        t = type_scalar(&s->cx, b->value.dtype);
    else if (b->value.kind == VALUE_TENSOR)
        t = type_of_tensor(&s->cx, b->value.tensor);
    if (t)
        type_print(out, t);
}

void record_text(Recorder *r, Buf *out, Span span, size_t columns)
{
    const Source *source = sources_get(&r->s->cx.sources, span.source);
    Buf text = {0};
    for (uint32_t i = span.from; source && i < span.to && i < source->len; i++) {
        char c = source->text[i];
        bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
        if (!blank)
            buf_char(&text, c);
        else if (text.n && text.at[text.n - 1] != ' ')
            buf_char(&text, ' ');
        if (text.n > 4 * columns)
            break;
    }
    record_clip(out, buf_text(&text), text.n, columns);
    buf_deinit(&text);
}

/* ---- bindings ------------------------------------------------------------------------------------- */

/* `%a = 1, %b = 2`: the newest `n` of the list, oldest first. */
static void bindings(Recorder *r, Buf *out, const Bound *list, uint32_t n)
{
    const Bound *shown[8];
    uint32_t k = 0;
    for (; list && k < n && k < sizeof shown / sizeof *shown; list = list->older)
        shown[k++] = list;
    for (uint32_t i = k; i-- > 0;) {
        buf_printf(out, "%%%s = ", shown[i]->is.name->text);
        record_brief(r, out, shown[i]->is.value);
        buf_str(out, i > 0 ? ", " : "");
    }
}

/* The list from its `n` oldest on. */
static const Bound *oldest(const Bound *list, uint32_t n)
{
    uint32_t all = 0;
    for (const Bound *b = list; b; b = b->older)
        all++;
    for (; list && all > n; all--)
        list = list->older;
    return list;
}

static void function_name(Buf *out, const char *what, bool global)
{
    if (what)
        buf_printf(out, "%c%s", global ? '@' : '%', what);
    else
        buf_str(out, "fn");
}

void record_call(Recorder *r, Buf *out, const Activation *a)
{
    if (a->depth == 0 && !a->what) {
        record_text(r, out, a->body, 60);
        return;
    }
    function_name(out, a->what, a->global);
    buf_char(out, '(');
    bindings(r, out, oldest(a->params, a->n_params), a->n_params);
    buf_char(out, ')');
}

const Bound **record_variables(const Bound *list, size_t most, size_t *n)
{
    size_t all = 0, kept = 0;
    for (const Bound *b = list; b && all < most; b = b->older)
        all++;
    const Bound **out = memory_alloc((all + 1) * sizeof *out);
    PtrMap seen = {0};
    for (const Bound *b = out ? list : NULL; b && kept < all; b = b->older) {
        if (ptrmap_has(&seen, b->is.name))
            continue;
        ptrmap_put(&seen, b->is.name, NULL);
        out[kept++] = b;
    }
    ptrmap_deinit(&seen);
    for (size_t i = 0; i < kept / 2; i++) {
        const Bound *b = out[i];
        out[i] = out[kept - 1 - i];
        out[kept - 1 - i] = b;
    }
    *n = kept;
    return out;
}

bool record_is_fresh(const RecordStep *step, const Bound *b)
{
    const Bound *list = step->now ? step->now->bound : NULL;
    for (uint32_t i = 0; list && i < step->n_new; i++, list = list->older)
        if (list == b)
            return true;
    return false;
}

uint32_t record_depth(const RecordStep *step)
{
    return step->now ? step->now->depth : 0;
}

/* ---- the rules ------------------------------------------------------------------------------------ */

static void list_args(Recorder *r, Buf *out, const RecordStep *s)
{
    for (uint32_t i = 0; i < s->n_args && i < RECORD_ARGS; i++) {
        buf_str(out, i == 0 ? "" : i + 1 == s->n_args ? " and " : ", ");
        record_brief(r, out, s->args[i]);
    }
    if (s->n_args > RECORD_ARGS)
        buf_str(out, ", …");
}

static void rule_start(Recorder *r, Buf *out, const RecordStep *s)
{
    (void)s;
    const Activation *a = s->now;
    buf_str(out, "the evaluation begins");
    if (a && a->bound) {
        buf_str(out, " with ");
        bindings(r, out, a->bound, 8);
    }
}

static void rule_op(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_printf(out, "`%s`", s->what);
    if (s->n_args) {
        buf_str(out, " of ");
        list_args(r, out, s);
    }
    buf_str(out, " is ");
    record_brief(r, out, s->value);
}

static void rule_con(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_printf(out, "the constructor `%s` makes ", s->what);
    record_brief(r, out, s->value);
    buf_str(out, " of ");
    list_args(r, out, s);
}

static void rule_tuple(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_printf(out, "%u value%s make%s the tuple ", s->n_args, s->n_args == 1 ? "" : "s",
               s->n_args == 1 ? "s" : "");
    record_brief(r, out, s->value);
}

static void rule_get(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_printf(out, "field %u of ", s->choice);
    record_brief(r, out, s->args[0]);
    buf_str(out, " is ");
    record_brief(r, out, s->value);
}

static void rule_closure(Recorder *r, Buf *out, const RecordStep *s)
{
    (void)r;
    buf_str(out, "the function literal becomes a closure");
    if (s->n_args == 0)
        buf_str(out, ", which needs no value from outside");
    else
        buf_printf(out, ", which keeps %u value%s from outside", s->n_args,
                   s->n_args == 1 ? "" : "s");
}

static void rule_global(Recorder *r, Buf *out, const RecordStep *s)
{
    (void)r;
    buf_printf(out, "`@%s` is used as a value", s->what);
}

static void rule_ref_new(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_str(out, "`ref`: the new cell ");
    record_brief(r, out, s->value);
    buf_str(out, " holds ");
    record_brief(r, out, s->args[0]);
}

static void rule_ref_read(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_str(out, "`ref_read`: the cell ");
    record_brief(r, out, s->args[0]);
    buf_str(out, " holds ");
    record_brief(r, out, s->value);
}

static void rule_ref_write(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_str(out, "`ref_write`: the cell ");
    record_brief(r, out, s->args[0]);
    buf_str(out, " holds ");
    record_brief(r, out, s->args[1]);
    buf_str(out, " now, ");
    record_brief(r, out, s->args[2]);
    buf_str(out, " before");
}

static void rule_let(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_str(out, "the value is ");
    if (value_is_none(s->value))
        buf_str(out, "not needed");
    else
        record_brief(r, out, s->value);
}

static void rule_if(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_str(out, "`if`: the condition is ");
    record_brief(r, out, s->args[0]);
    buf_str(out, s->choice == 0 ? ", so the first branch is evaluated"
                                : ", so the branch of the `else` is evaluated");
}

static void rule_match(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_str(out, "`match`: ");
    record_brief(r, out, s->args[0]);
    buf_printf(out, " fits clause %u, `", s->choice + 1);
    record_text(r, out, s->pattern, 40);
    buf_char(out, '`');
    if (s->n_new) {
        buf_str(out, ", so ");
        bindings(r, out, s->now ? s->now->bound : NULL, s->n_new);
    }
}

static void rule_join(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_printf(out, "the branch is done: the value of the `%s` is ", s->what);
    record_brief(r, out, s->value);
}

static void called(Recorder *r, Buf *out, const RecordStep *s)
{
    buf_char(out, '`');
    function_name(out, s->what, s->global);
    buf_str(out, "` is called");
    const Activation *a = s->now;
    if (a && a->n_params) {
        buf_str(out, " with ");
        bindings(r, out, oldest(a->params, a->n_params), a->n_params);
    }
}

static void rule_call(Recorder *r, Buf *out, const RecordStep *s)
{
    called(r, out, s);
    buf_str(out, ": its body is evaluated");
}

static void rule_tail_call(Recorder *r, Buf *out, const RecordStep *s)
{
    called(r, out, s);
    buf_str(out, " as the last thing here: its frame takes the place of this one");
}

static void rule_return(Recorder *r, Buf *out, const RecordStep *s)
{
    if (s->what) {
        buf_char(out, '`');
        function_name(out, s->what, s->global);
        buf_str(out, "` returns ");
    } else if (s->now && s->now->depth == 0 && s->span.from == s->now->body.from &&
               s->span.to == s->now->body.to) {
        buf_str(out, "the value of the whole expression is ");
    } else {
        buf_str(out, "the function returns ");
    }
    record_brief(r, out, s->value);
}

static void rule_fail(Recorder *r, Buf *out, const RecordStep *s)
{
    (void)r;
    buf_printf(out, "here the evaluation fails: %s", s->message ? s->message : "a limit was hit");
}

/* In the order of EventKind. */
static void (*const rules[])(Recorder *r, Buf *out, const RecordStep *s) = {
    [EVENT_START] = rule_start,       [EVENT_OP] = rule_op,
    [EVENT_CON] = rule_con,           [EVENT_TUPLE] = rule_tuple,
    [EVENT_GET] = rule_get,           [EVENT_CLOSURE] = rule_closure,
    [EVENT_GLOBAL] = rule_global,     [EVENT_REF_NEW] = rule_ref_new,
    [EVENT_REF_READ] = rule_ref_read, [EVENT_REF_WRITE] = rule_ref_write,
    [EVENT_LET] = rule_let,           [EVENT_IF] = rule_if,
    [EVENT_MATCH] = rule_match,       [EVENT_JOIN] = rule_join,
    [EVENT_CALL] = rule_call,         [EVENT_TAIL_CALL] = rule_tail_call,
    [EVENT_RETURN] = rule_return,     [EVENT_FAIL] = rule_fail,
};

void record_rule(Recorder *r, Buf *out, const RecordStep *s)
{
    rules[s->kind](r, out, s);
    if (s->name)
        buf_printf(out, "; `%%%s` is bound to it", s->name->text);
}
