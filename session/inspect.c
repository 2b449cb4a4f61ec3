/* What is at the cursor: its type, its documentation. */
#include "ir/print.h"
#include "passes/pass.h"
#include "runtime/show.h"
#include "session/help.h"
#include "session/internal.h"
#include "session/op_doc.h"

#include <string.h>

/* The operator's name with all its dots. */
static Str dotted(const char *text, size_t len, LexedToken t)
{
    size_t from = t.from, to = t.to;
    while (from > 1 && text[from - 1] == '.')
        for (from--; from > 0 && (text[from - 1] == '_' || (text[from - 1] | 32) >= 'a'); from--)
            continue;
    while (to + 1 < len && text[to] == '.')
        for (to++;
             to < len && (text[to] == '_' || ((text[to] | 32) >= 'a' && (text[to] | 32) <= 'z') ||
                          (text[to] >= '0' && text[to] <= '9'));
             to++)
            continue;
    return (Str){text + from, to - from};
}

static void describe_local(RelaySession *s, Buf *b, const Local *local)
{
    buf_printf(b, "%%%s: ", local->var->name->text);
    type_print(b, local->var->base.type);
    TensorView view;
    Value v = local->value;
    if (value_is_none(v))
        return;
    if (value_view(&v, &view) && view.t.size > 1) {
        buf_char(b, '\n');
        tensor_summary(b, &view.t, NULL);
        return;
    }
    buf_str(b, " = ");
    value_show(b, v, (ShowStyle){.elements = 100, .list = 20, .width = s->options.width});
}

bool describe_name(RelaySession *s, Buf *b, Str name, int detail)
{
    const Name *n = ctx_name_str(&s->cx, name);
    const Constructor *con = module_find_con(s->env, n);
    const TypeDef *def = module_find_type(s->env, n);
    const Op *op = op_find(&s->cx, name);
    const Pass *pass = pass_find(name);
    if (con) {
        buf_printf(b, "%s: ", con->name->text);
        type_print(b, type_of_constructor(&s->cx, con));
    } else if (def) {
        buf_printf(b, "type %s", def->name->text);
        for (uint32_t i = 0; i < def->n_cons; i++) {
            buf_printf(b, "\n  %s: ", def->cons[i]->name->text);
            type_print(b, type_of_constructor(&s->cx, def->cons[i]));
        }
    } else if (op) {
        if (detail)
            op_text(&s->cx, b, op);
        else
            op_signature(b, op);
    } else if (pass) {
        buf_printf(b, "%s (level %d): %s", pass->name, pass->opt_level, pass->doc);
    } else {
        return false;
    }
    return true;
}

static bool describe(RelaySession *s, Buf *b, const char *text, size_t len, LexedToken t,
                     int detail)
{
    Str word = {text + t.from, t.to - t.from};
    Str bare = {word.ptr + 1, word.len - 1};
    if (word.ptr[0] == '@') {
        const Def *def = module_find(s->env, ctx_name_str(&s->cx, bare));
        if (!def)
            return false;
        buf_printf(b, "@%s: ", def->name->text);
        type_print(b, def->fn->base.type);
        if (detail) {
            buf_char(b, '\n');
            ir_print_expr(b, &def->fn->base, (PrintStyle){0});
        }
        return true;
    }
    if (word.ptr[0] == '%') {
        const Name *n = ctx_name_str(&s->cx, bare);
        const Var *v = ptrmap_find(&s->local_names, n);
        if (!v)
            v = ptrmap_find(&s->graph_names, n);
        for (size_t i = 0; i < s->n_locals; i++)
            if (s->locals[i].var == v) {
                describe_local(s, b, &s->locals[i]);
                return true;
            }
        return false;
    }
    if (word.ptr[0] == ':')
        return help_command(b, bare, session_width(s));
    return describe_name(s, b, dotted(text, len, t), detail);
}

/* The text, and as Markdown what the word names when that is an operator. */
static void emit_inspected(RelaySession *s, const Buf *b, const Op *op, RelaySink sink)
{
    Buf page = {0};
    if (op)
        op_page(&s->cx, &page, op, true);
    RelayMime mimes[] = {{"text/plain", buf_text(b), b->n},
                         {"text/markdown", buf_text(&page), page.n}};
    if (sink.emit)
        sink.emit(
            sink.data,
            &(RelayOutput){.kind = RELAY_OUTPUT_DISPLAY, .mimes = mimes, .n_mimes = op ? 2 : 1});
    buf_deinit(&page);
}

typedef struct InspectCall {
    RelaySession *s;
    const char *text;
    size_t len, cursor;
    int detail;
    RelaySink sink;
    bool found;
} InspectCall;

static void inspect(void *data)
{
    InspectCall *call = data;
    RelaySession *s = call->s;
    const char *text = call->text;
    size_t len = call->len, cursor = call->cursor;
    int detail = call->detail;
    session_load_prelude(s);
    LexedToken at = {0}, callee;
    bool stands = lexed_at(text, len, cursor, true, &at);
    Buf b = {0};
    bool found = stands && describe(s, &b, text, len, at, detail);
    bool around =
        found && text[at.from] != ':' && describe_around(s, &b, text, len, cursor, AROUND_CALLEE);
    const Op *op = found && detail && !around ? op_find(&s->cx, dotted(text, len, at)) : NULL;
    if (!found)
        found = describe_around(s, &b, text, len, cursor, AROUND_ALL);
    /* A variable that is not known is not what is called. */
    bool named = stands && strchr("%@", text[at.from]);
    if (!found && !named && callee_before(text, cursor, &callee) &&
        describe(s, &b, text, len, callee, detail)) {
        found = true;
        op = detail ? op_find(&s->cx, dotted(text, len, callee)) : NULL;
    }
    Str word = {text + at.from, at.to - at.from};
    found = found || (stands && help_word(&b, word, session_width(s)));
    if (found)
        emit_inspected(s, &b, op, call->sink);
    buf_deinit(&b);
    call->found = found;
}

bool relay_session_inspect(RelaySession *s, const char *text, size_t len, size_t cursor, int detail,
                           RelaySink sink)
{
    InspectCall call = {s, text, len, cursor, detail, sink, false};
    return session_guard(s, (RelaySink){0}, inspect, &call) && call.found;
}
