/* The evaluator from C: limits, refusals, redefinition, function values, what is hot. */
#include "check.h"
#include "interp/interp.h"
#include "interp/tier.h"
#include "parser/parser.h"
#include "runtime/show.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

static Ctx cx;

/* The definitions of the text in a module of their own, checked against `env`. */
static Module *module_of(const char *text, const Module *env)
{
    uint32_t source = sources_add(&cx.sources, "test", text, strlen(text));
    Module *m = parse_text(&cx, source, &(ParseEnv){.globals = env});
    if (m && typecheck_module(&cx, m, env))
        return m;
    for (const Diag *d = cx.diags->first; d; d = d->next)
        printf("%s: %s\n", diag_info(d->code)->code, d->message);
    module_release(m);
    return NULL;
}

static const Name *name(const char *text)
{
    return ctx_name(&cx, text);
}

static Value call(Interp *in, Module *env, const char *function, int32_t arg)
{
    limits_start(&cx.limits);
    diags_clear(cx.diags);
    Value v = value_int32(arg);
    return interp_call_global(in, env, name(function), 1, &v, (Span){0});
}

/* The value as text, or the code of the first diagnostic. */
static void check_call(Interp *in, Module *env, const char *function, int32_t arg,
                       const char *wanted)
{
    Value v = call(in, env, function, arg);
    Buf text = {0};
    if (value_is_none(v))
        buf_str(&text, cx.diags->first ? diag_info(cx.diags->first->code)->code : "nothing");
    else
        value_show(&text, v, (ShowStyle){0});
    CHECK_TEXT(buf_text(&text), wanted);
    CHECK(value_is_none(v) == (cx.diags->errors > 0));
    buf_deinit(&text);
    value_release(v);
}

static const char program[] =
    "#[version = \"0.0.5\"]\n"
    "type Chain { Link(int32, Chain), End }\n"
    "def @endless(%n: int32) -> int32 { 1 + @endless(%n + 1) }\n"
    "def @forever(%n: int32) -> int32 { @forever(%n + 1) }\n"
    "def @down(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @down(%n - 1) } }\n"
    "def @build(%n: int32, %c: Chain) -> Chain {\n"
    "  if (%n == 0) { %c } else { @build(%n - 1, Link(%n, %c)) }\n"
    "}\n"
    "def @total(%c: Chain) -> int32 {\n"
    "  match (%c) { Link(%x, %rest) => %x + @total(%rest), End => 0 }\n"
    "}\n"
    "def @work(%n: int32) -> (int32, Chain) {\n"
    "  let %cell = ref(0);\n"
    "  let %add = fn (%k: int32) -> () { ref_write(%cell, ref_read(%cell) + %k) };\n"
    "  let %list = @build(%n, End);\n"
    "  %add(@total(%list));\n"
    "  %add(1);\n"
    "  (ref_read(%cell), @build(3, End))\n"
    "}\n"
    "def @adder(%k: int32) -> fn (int32) -> int32 { fn (%x: int32) -> int32 { %x + %k } }\n"
    "def @callee(%n: int32) -> int32 { %n * 2 }\n"
    "def @caller(%n: int32) -> int32 { @callee(%n) + 1 }\n"
    "def @draw(%n: int32) {\n"
    "  let %key = zeros(shape=[10], dtype=\"uint64\");\n"
    "  random.normal(%key, 0f, cast(%n, dtype=\"float32\"), out_shape=[3], out_dtype=\"float32\")\n"
    "}\n";

static void test_limits(Module *m)
{
    Interp *in = interp_new(&cx);
    check_call(in, m, "down", 100000, "100000");
    cx.limits.depth_most = 1000;
    check_call(in, m, "down", 900, "900");
    check_call(in, m, "down", 1001, "E0504");
    check_call(in, m, "endless", 0, "E0504");
    cx.limits.depth_most = 0;
    size_t most = cx.limits.memory_most;
    cx.limits.memory_most = cx.limits.memory + (4 << 20);
    check_call(in, m, "endless", 0, "E0504");
    check_call(in, m, "down", 1000, "1000");
    cx.limits.memory_most = most;
    cx.limits.seconds_most = 0.05;
    check_call(in, m, "forever", 0, "E0502");
    cx.limits.seconds_most = 0;
    limits_start(&cx.limits);
    diags_clear(cx.diags);
    cx.limits.interrupted = true;
    Value v = value_int32(0);
    CHECK(value_is_none(interp_call_global(in, m, name("forever"), 1, &v, (Span){0})));
    CHECK(cx.diags->first && cx.diags->first->code == E0501_INTERRUPTED);
    check_call(in, m, "caller", 4, "9");
    interp_free(in);
}

/* Each charge of memory refused once: a diagnostic or the value, never a crash or a leak. */
static void refuse_each(Module *m, const char *function)
{
    bool refused = true;
    for (uint64_t k = 1; refused && k < 5000; k++) {
        Interp *in = interp_new(&cx);
        limits_start(&cx.limits);
        diags_clear(cx.diags);
        cx.limits.charges = 0;
        cx.limits.refuse = k;
        Value n = value_int32(100);
        Value v = interp_call_global(in, m, name(function), 1, &n, (Span){0});
        refused = cx.limits.charges >= k;
        cx.limits.refuse = 0;
        CHECK(value_is_none(v) == (cx.diags->errors > 0));
        value_release(v);
        interp_free(in);
    }
    CHECK(!refused);
}

static void test_refusals(Module *m)
{
    size_t before = 0;
    refuse_each(m, "work");
    refuse_each(m, "draw");
    limits_start(&cx.limits);
    diags_clear(cx.diags);
    for (int i = 0; i < 3; i++) {
        Interp *in = interp_new(&cx);
        check_call(in, m, "work", 100, "(5051, Link(1, Link(2, Link(3, End))))");
        interp_free(in);
        if (i == 1)
            before = cx.limits.memory;
    }
    CHECK(cx.limits.memory == before);
}

static void test_function_values(Module *m)
{
    Interp *in = interp_new(&cx);
    Value five = value_int32(5), f = call(in, m, "adder", 10);
    Buf text = {0};
    CHECK(f.kind == VALUE_FUNCTION);
    value_show(&text, f, (ShowStyle){0});
    CHECK_TEXT(buf_text(&text), "<fn (int32) -> int32>");
    buf_deinit(&text);
    const Type *type = function_kind(f.object)->type(f.object);
    CHECK(type && type->kind == TYPE_FUNC);
    interp_forget(in, m);
    Value v = interp_call(in, m, f, 1, &five, (Span){0});
    CHECK(value_as_int(v) == 15);
    CHECK(value_is_none(interp_call(in, m, f, 0, NULL, (Span){0})));
    CHECK(cx.diags->first && cx.diags->first->code == E0305_ARGUMENTS);
    diags_clear(cx.diags);
    CHECK(value_is_none(interp_call(in, m, five, 0, NULL, (Span){0})));
    CHECK(cx.diags->first && cx.diags->first->code == E0205_NOT_A_FUNCTION);
    interp_free(in);
    value_release(f);
}

/* A new environment is seen at the next call, by what was prepared before too. */
static void test_redefinition(Module *m)
{
    Interp *in = interp_new(&cx);
    check_call(in, m, "caller", 4, "9");
    Module *change =
        module_of("#[version = \"0.0.5\"]\ndef @callee(%n: int32) -> int32 { %n * 3 }", m);
    CHECK(change);
    Module *later = module_derive(m);
    const Def *def = module_find_text(change, "callee");
    module_define(later, def->name, def->fn, def->span, change);
    check_call(in, later, "caller", 4, "13");
    check_call(in, m, "caller", 4, "9");
    check_call(in, later, "caller", 5, "16");
    module_release(later);
    module_release(change);
    check_call(in, m, "caller", 4, "9");
    interp_free(in);
}

static void *note_begun(void *data, const HotDef *hot)
{
    (void)hot;
    ++*(int *)data;
    return NULL;
}

/* How often code is wanted for a definition of whose closures one is called again and again; with `gone` it itself is called no more. */
static int times_wanted(Module *m, bool gone)
{
    int begun = 0;
    Tier tier = {.begin = note_begun, .data = &begun};
    Interp *in = interp_new(&cx);
    interp_set_tier(in, &tier);
    interp_tier_counts(in, 100, UINT64_MAX);
    interp_tier_on(in, true);
    Value five = value_int32(5), f = call(in, m, "adder", 10);
    if (gone)
        interp_forget(in, m);
    for (int i = 0; i < 200; i++)
        value_release(interp_call(in, m, f, 1, &five, (Span){0}));
    interp_free(in);
    value_release(f);
    return begun;
}

static void test_hot(Module *m)
{
    CHECK(times_wanted(m, false) == 1);
    CHECK(times_wanted(m, true) == 0);
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    Module *m = module_of(program, NULL);
    CHECK(m);
    if (m) {
        test_limits(m);
        test_refusals(m);
        test_function_values(m);
        test_redefinition(m);
        test_hot(m);
    }
    module_release(m);
    heap_break_cycles(&cx.limits);
    ctx_deinit(&cx);
    return check_done();
}
