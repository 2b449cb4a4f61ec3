#include "session/views/trace.h"

#include "ir/op.h"
#include "ir/print.h"

#include <stdlib.h>
#include <string.h>

const char *const trace_category_names[] = {
#define TRACE_CATEGORY(NAME, what) what,
    TRACE_CATEGORIES
#undef TRACE_CATEGORY
};

const char *const trace_change_words[] = {
#define TRACE_CHANGE(NAME, word, sign, mark) word,
    TRACE_CHANGES
#undef TRACE_CHANGE
};

const char trace_change_signs[] = {
#define TRACE_CHANGE(NAME, word, sign, mark) sign,
    TRACE_CHANGES
#undef TRACE_CHANGE
    0};

/* ---- nodes and their numbers ------------------------------------------------------------------------------------------------ */

static bool is_atom(const Expr *e)
{
    return e->kind <= EXPR_CON;
}

static TraceCategory category_of_call(const Call *call)
{
    const Function *f = expr_as_function(call->callee);
    if (f && function_is_primitive(f))
        return TRACE_KERNELS;
    return expr_as_op(call->callee) ? TRACE_OPERATORS : TRACE_CALLS;
}

static TraceCategory category(const Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT: return TRACE_CONSTANTS;
    case EXPR_TUPLE:
    case EXPR_TUPLE_GET: return TRACE_TUPLES;
    case EXPR_CALL: return category_of_call(expr_as_call(e));
    case EXPR_FUNCTION: return TRACE_FUNCTIONS;
    case EXPR_LET: return TRACE_LETS;
    case EXPR_IF:
    case EXPR_MATCH: return TRACE_CHOICES;
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE: return TRACE_REFERENCES;
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: break;
    }
    return TRACE_N_CATEGORIES;
}

uint32_t trace_node(const Trace *t, const Expr *e)
{
    return (uint32_t)(uintptr_t)places_value(&t->ids, e);
}

static uint32_t node_new(Trace *t, const Expr *e)
{
    uint32_t id = (uint32_t)t->numbers.n;
    vec_push(&t->numbers, &t->arena, -1);
    vec_push(&t->seen, &t->arena, 0);
    *places_slot(&t->ids, &t->arena, e) = (void *)(uintptr_t)id;
    return id;
}

typedef struct Gather {
    Trace *t;
    Arena *arena;
    uint32_t *counts;
    Places met; /* definitions may share nodes */
    Vec(const Expr *) all;
} Gather;

static void gather_node(Gather *g, const Expr *e)
{
    if (!places_add(&g->met, g->arena, e))
        return;
    TraceCategory c = category(e);
    if (c < TRACE_N_CATEGORIES)
        g->counts[c]++;
    if (!is_atom(e))
        vec_push(&g->all, g->arena, e);
}

static WalkNext before_node(void *data, const Expr *e)
{
    Gather *g = data;
    if (limit_hit(&g->t->s->cx.limits))
        return WALK_STOP;
    return places_has(&g->met, e) ? WALK_SKIP : WALK_ON;
}

static WalkNext after_node(void *data, const Expr *e)
{
    gather_node(data, e);
    return WALK_ON;
}

/* Of the definitions that are the text's own. */
static void gather(Gather *g, const Module *m)
{
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn && !m->defs.at[i].imported)
            ir_walk(&m->defs.at[i].fn->base, before_node, after_node, g);
    if (m->expr)
        ir_walk(m->expr, before_node, after_node, g);
}

/* ---- which node is which ------------------------------------------------------------------------------------------------------- */

/* What two nodes have in common that are one at two moments; `level` says how much of it counts. */
typedef enum Likeness {
    LIKE_PLACE_AND_KIND, /* written at the same place, and the same operator */
    LIKE_OPERANDS, /* the same operator on the same nodes: where nothing was written */
    LIKE_PLACE, /* what stands in place of another */
    LIKENESSES
} Likeness;

#define TAKEN UINT32_MAX

typedef struct Key {
    Span span;
    uint32_t at; /* in the list that it is from; TAKEN: it has found its like */
    uint64_t kind; /* the kind of node, and what it calls */
    uint64_t operands;
} Key;

static const void *callee_identity(const Expr *e)
{
    const Call *call = expr_as_call(e);
    const Expr *callee = call ? call->callee : NULL;
    const OpRef *op = expr_as_op(callee);
    const ConRef *con = expr_as_con(callee);
    const GlobalVar *global = expr_as_global(callee);
    return op ? (const void *)op->op : con ? (const void *)con->con : global ? global->name : NULL;
}

typedef struct Operands {
    const Trace *t;
    uint64_t hash;
} Operands;

static void add_operand(void *data, Expr *const *slot)
{
    Operands *o = data;
    uint32_t id = trace_node(o->t, *slot);
    uintptr_t what = id ? id : (uintptr_t)*slot;
    const OpRef *op = expr_as_op(*slot);
    what = op ? (uintptr_t)op->op : what;
    o->hash = hash_bytes(&what, sizeof what, o->hash);
}

static Key key_of(const Expr *e, uint32_t at)
{
    uint64_t parts[] = {e->kind, (uint64_t)(uintptr_t)callee_identity(e)};
    return (Key){.span = e->span, .kind = hash_bytes(parts, sizeof parts, 0), .at = at};
}

static uint64_t operands_of(const Trace *t, const Expr *e)
{
    Operands o = {t, 0};
    ir_children(e, add_operand, &o);
    return o.hash;
}

static int order_of(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_places(const Key *a, const Key *b)
{
    int c = order_of(a->span.source, b->span.source);
    c = c ? c : order_of(a->span.from, b->span.from);
    return c ? c : order_of(a->span.to, b->span.to);
}

static int compare_kinds(const Key *a, const Key *b)
{
    return order_of(a->kind, b->kind);
}

static int compare_operands(const Key *a, const Key *b)
{
    return order_of(a->operands, b->operands);
}

static int compare(const Key *a, const Key *b, Likeness like)
{
    int c = like == LIKE_OPERANDS ? compare_operands(a, b) : compare_places(a, b);
    return c || like == LIKE_PLACE ? c : compare_kinds(a, b);
}

static int by_place_and_kind(const void *a, const void *b)
{
    int c = compare(a, b, LIKE_PLACE_AND_KIND);
    return c ? c : order_of(((const Key *)a)->at, ((const Key *)b)->at);
}

static int by_operands(const void *a, const void *b)
{
    int c = compare(a, b, LIKE_OPERANDS);
    return c ? c : order_of(((const Key *)a)->at, ((const Key *)b)->at);
}

/* The last of several is what a rewrite leaves at a place: operands come before what uses them. */
static int by_place(const void *a, const void *b)
{
    int c = compare(a, b, LIKE_PLACE);
    return c ? c : order_of(((const Key *)b)->at, ((const Key *)a)->at);
}

typedef struct Keys {
    Key *at;
    size_t n;
} Keys;

static size_t without_taken(Keys keys)
{
    size_t n = 0;
    for (size_t i = 0; i < keys.n; i++)
        if (keys.at[i].at != TAKEN)
            keys.at[n++] = keys.at[i];
    return n;
}

/* Both lists in order: what is alike goes together, one by one, and out of them. */
static void pair_up(Trace *t, Keys *gone, Keys *fresh, Likeness like, const Expr *const *old,
                    const Expr *const *now)
{
    static int (*const orders[])(const void *, const void *) = {
        [LIKE_PLACE_AND_KIND] = by_place_and_kind,
        [LIKE_OPERANDS] = by_operands,
        [LIKE_PLACE] = by_place,
    };
    if (!gone->n || !fresh->n)
        return;
    qsort(gone->at, gone->n, sizeof *gone->at, orders[like]);
    if (limit_hit(&t->s->cx.limits))
        return;
    qsort(fresh->at, fresh->n, sizeof *fresh->at, orders[like]);
    for (size_t i = 0, k = 0; i < gone->n && k < fresh->n;) {
        Key *a = &gone->at[i], *b = &fresh->at[k];
        int c = compare(a, b, like);
        bool placeless = like != LIKE_OPERANDS && span_is_none(a->span);
        if (c == 0 && !placeless) {
            uint32_t id = trace_node(t, old[a->at]);
            *places_slot(&t->ids, &t->arena, now[b->at]) = (void *)(uintptr_t)id;
            t->seen.at[id] = t->moment;
            a->at = b->at = TAKEN;
        }
        i += c <= 0;
        k += c >= 0;
    }
    gone->n = without_taken(*gone);
    fresh->n = without_taken(*fresh);
}

/* Once what could be found by its place has its number: operands of both moments are told apart by that. */
static void note_operands(const Trace *t, Keys keys, const Expr *const *nodes)
{
    for (size_t i = 0; i < keys.n && !limit_hit(&t->s->cx.limits); i++)
        keys.at[i].operands = operands_of(t, nodes[keys.at[i].at]);
}

/* The nodes that are there without a number, and those whose number nothing has any more. */
static void match_nodes(Trace *t, const Gather *g, Arena *scratch)
{
    uint32_t moment = t->moment;
    Keys gone = {arena_new_array(scratch, Key, t->now.n + 1), 0};
    Keys fresh = {arena_new_array(scratch, Key, g->all.n + 1), 0};
    for (size_t i = 0; i < g->all.n; i++) {
        uint32_t id = trace_node(t, g->all.at[i]);
        if (id && t->seen.at[id] != moment)
            t->seen.at[id] = moment;
        else
            fresh.at[fresh.n++] = key_of(g->all.at[i], (uint32_t)i);
    }
    for (size_t i = 0; i < t->now.n && !limit_hit(&t->s->cx.limits); i++)
        if (t->seen.at[trace_node(t, t->now.at[i])] != moment)
            gone.at[gone.n++] = key_of(t->now.at[i], (uint32_t)i);
    for (Likeness like = 0; like < LIKENESSES && !limit_hit(&t->s->cx.limits); like++) {
        if (like == LIKE_OPERANDS && gone.n && fresh.n) {
            note_operands(t, gone, t->now.at);
            note_operands(t, fresh, g->all.at);
        }
        pair_up(t, &gone, &fresh, like, t->now.at, g->all.at);
    }
    for (size_t i = 0; i < fresh.n; i++) {
        uint32_t id = node_new(t, g->all.at[fresh.at[i].at]);
        t->seen.at[id] = moment;
    }
}

/* ---- lines -------------------------------------------------------------------------------------------------------------------- */

static int32_t line_number(void *data, const Expr *e)
{
    Trace *t = data;
    uint32_t id = trace_node(t, e);
    if (!id)
        id = node_new(t, e);
    if (t->numbers.at[id] < 0)
        t->numbers.at[id] = t->next_number++;
    return t->numbers.at[id];
}

/* ---- names of variables ---------------------------------------------------------------------------------------------------------- */

/* A variable keeps its name as long as what binds it keeps its number, so `%p0` stays `%p0` when there is another function in front.
 * The use is there until the next name is asked for. */
static TraceNameUse *use_of(Trace *t, const Name *name)
{
    while (t->users.n <= name->id)
        vec_push(&t->users, &t->arena, ((TraceNameUse){0}));
    return &t->users.at[name->id];
}

static bool is_taken(Trace *t, const Name *name, const Var *v)
{
    const TraceNameUse *use = use_of(t, name);
    return use->moment == t->moment && use->var != v;
}

static void take_name(Trace *t, const Name *name, const Var *v)
{
    TraceNameUse *use = use_of(t, name);
    use->moment = t->moment;
    use->var = v;
    *places_slot(&t->names, &t->arena, v) = (void *)(uintptr_t)name;
}

typedef struct Binders {
    Trace *t;
    Arena *scratch;
    uint32_t id, n;
} Binders;

/* What had a name keeps it. */
static void note_binder(void *data, Var *v)
{
    Binders *b = data;
    Trace *t = b->t;
    /* What is called otherwise by whoever made it is another variable. */
    uint64_t parts[] = {b->id, b->n++, (uint64_t)(uintptr_t)v->name};
    void *key = (void *)(uintptr_t)(hash_bytes(parts, sizeof parts, 0) | 1);
    const Name *name = places_value(&t->names, v);
    name = name ? name : ptrmap_find(&t->binders, key);
    *places_slot(&t->keys, b->scratch, v) = key;
    if (name && !is_taken(t, name, v))
        take_name(t, name, v);
}

/* A name that nothing has at this moment. */
static const Name *free_name(Trace *t, const Var *v, const char *stem)
{
    const Name *first = name_intern(&t->words, stem, strlen(stem)), *name = first;
    TraceNameUse *use = use_of(t, first);
    Buf b = {0};
    use->next = use->counted == t->moment ? use->next : 0;
    use->counted = t->moment;
    while (is_taken(t, name, v) && !b.failed) {
        buf_clear(&b);
        buf_str(&b, stem);
        buf_uint(&b, ++use_of(t, first)->next);
        name = name_intern(&t->words, buf_text(&b), b.n);
    }
    buf_deinit(&b);
    return name;
}

static const char *line_name(void *data, const Var *v, const char *stem)
{
    Trace *t = data;
    const Name *name = places_value(&t->names, v);
    void *key = places_value(&t->keys, v);
    if (!name || use_of(t, name)->moment != t->moment || is_taken(t, name, v))
        name = free_name(t, v, stem);
    take_name(t, name, v);
    if (key)
        ptrmap_put(&t->binders, key, (void *)(uintptr_t)name);
    return name->text;
}

static uint32_t line_mark(void *data, const Expr *e)
{
    return trace_node(data, e);
}

/* Takes the mark out of a line: whose it is. */
static uint32_t take_mark(Buf *out, const char *line, const char *end)
{
    const char *mark = memchr(line, PRINT_MARK_BEGIN, (size_t)(end - line));
    if (!mark) {
        buf_bytes(out, line, (size_t)(end - line));
        return 0;
    }
    uint32_t id = 0;
    const char *p = mark + 1;
    for (; p < end && *p != PRINT_MARK_END; p++)
        id = id * 10 + (uint32_t)(*p - '0');
    buf_bytes(out, line, (size_t)(mark - line));
    if (p < end)
        buf_bytes(out, p + 1, (size_t)(end - p - 1));
    return id;
}

static const TraceText *text_of(Trace *t, const Module *m, const Gather *g)
{
    TraceText *text = arena_new(&t->arena, TraceText);
    PrintNodes nodes = {line_number, line_mark, line_name, t};
    Buf marked = {0};
    t->keys = (Places){0};
    for (size_t i = 0; i < g->all.n; i++) {
        Binders b = {t, g->arena, trace_node(t, g->all.at[i]), 0};
        ir_binders(g->all.at[i], note_binder, &b);
    }
    ir_print_module(&marked, m,
                    (PrintStyle){.no_header = true, .no_metadata = true, .nodes = &nodes});
    const Expr **owner = arena_new_array(g->arena, const Expr *, t->numbers.n + 1);
    for (size_t i = 0; i < g->all.n; i++)
        owner[trace_node(t, g->all.at[i])] = g->all.at[i];
    const char *end = buf_text(&marked) + marked.n;
    buf_reserve(&text->text, marked.n); /* lines lie in it */
    for (const char *line = buf_text(&marked); line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        size_t from = text->text.n;
        uint32_t id = take_mark(&text->text, line, stop);
        TraceLine one = {.node = id, .text = {text->text.at + from, text->text.n - from}};
        one.e = id && id < t->numbers.n ? owner[id] : NULL;
        one.node = one.e ? id : 0;
        if (!text->text.failed)
            vec_push(&text->lines, &t->arena, one);
        line = newline ? newline + 1 : end;
    }
    buf_deinit(&marked);
    return text;
}

/* ---- what became of the lines ---------------------------------------------------------------------------------------------------- */

/* The longest rising row of `at` (entries of SIZE_MAX are left out): keep[i] for those in it. */
static void rising(const size_t *at, size_t n, bool *keep, Arena *scratch)
{
    size_t *ends = arena_new_array(scratch, size_t, n + 1), len = 0;
    size_t *before = arena_new_array(scratch, size_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        if (at[i] == SIZE_MAX)
            continue;
        size_t low = 0, high = len;
        while (low < high) {
            size_t mid = (low + high) / 2;
            if (at[ends[mid]] < at[i])
                low = mid + 1;
            else
                high = mid;
        }
        before[i] = low ? ends[low - 1] : SIZE_MAX;
        ends[low] = i;
        len += low == len;
    }
    for (size_t i = len ? ends[len - 1] : SIZE_MAX; i != SIZE_MAX; i = before[i])
        keep[i] = true;
}

typedef struct Compare {
    Trace *t;
    const TraceLines *a, *b;
    size_t *home; /* of a line of b: the line of the same node in a; SIZE_MAX: none */
    bool *stays; /* in its place among the others */
    bool *moves; /* of a line of a: it stands elsewhere in b */
    TraceLines *out;
} Compare;

static void put(Compare *c, TraceLine line, TraceChange change)
{
    line.change = change;
    vec_push(c->out, &c->t->arena, line);
}

static bool same_text(const TraceLine *a, const TraceLine *b)
{
    return str_eq(a->text, b->text);
}

/* Without the blanks in front. */
static bool same_words(const TraceLine *a, const TraceLine *b)
{
    Str x = a->text, y = b->text;
    for (; x.len && *x.ptr == ' '; x.ptr++)
        x.len--;
    for (; y.len && *y.ptr == ' '; y.ptr++)
        y.len--;
    return str_eq(x, y);
}

static void put_pair(Compare *c, const TraceLine *old, const TraceLine *now, TraceChange same)
{
    if (same_words(old, now)) {
        put(c, *now, same);
        return;
    }
    put(c, *old, TRACE_LINE_WAS);
    put(c, *now, TRACE_LINE_REPLACED);
}

static void put_now(Compare *c, size_t b)
{
    if (c->home[b] != SIZE_MAX)
        put_pair(c, &c->a->at[c->home[b]], &c->b->at[b], TRACE_LINE_MOVED);
    else
        put(c, c->b->at[b], TRACE_LINE_NEW);
}

static bool same_brace(const Compare *c, size_t a, size_t b)
{
    const TraceLine *old = &c->a->at[a], *now = &c->b->at[b];
    return !old->node && !now->node && same_text(old, now);
}

/* Lines of no node, as braces, stay where the same text stands; those of nodes are new, gone, or elsewhere. */
static void put_between(Compare *c, size_t a, size_t a_end, size_t b, size_t b_end)
{
    size_t tail = 0;
    while (a_end - tail > a && b_end - tail > b &&
           same_brace(c, a_end - 1 - tail, b_end - 1 - tail))
        tail++;
    a_end -= tail;
    b_end -= tail;
    while (a < a_end || b < b_end) {
        const TraceLine *old = a < a_end ? &c->a->at[a] : NULL;
        const TraceLine *now = b < b_end ? &c->b->at[b] : NULL;
        if (old && c->moves[a])
            a++;
        else if (old && now && same_brace(c, a, b))
            put(c, *now, TRACE_LINE_KEPT), a++, b++;
        else if (old && (old->node || !now || !now->node))
            put(c, *old, TRACE_LINE_GONE), a++;
        else
            put_now(c, b++);
    }
    for (; tail; tail--)
        put(c, c->b->at[b_end++], TRACE_LINE_KEPT);
}

static void compare_lines(Trace *t, const TraceText *before, const TraceText *now, TraceLines *out,
                          Arena *scratch)
{
    Compare c = {.t = t, .a = &before->lines, .b = &now->lines, .out = out};
    size_t n = now->lines.n, *place = arena_new_array(scratch, size_t, t->numbers.n + 1);
    c.home = arena_new_array(scratch, size_t, n + 1);
    c.stays = arena_new_array(scratch, bool, n + 1);
    c.moves = arena_new_array(scratch, bool, before->lines.n + 1);
    for (size_t i = 0; i < before->lines.n; i++)
        place[before->lines.at[i].node] = i + 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = now->lines.at[i].node;
        c.home[i] = id && place[id] ? place[id] - 1 : SIZE_MAX;
    }
    rising(c.home, n, c.stays, scratch);
    for (size_t i = 0; i < n; i++)
        if (c.home[i] != SIZE_MAX && !c.stays[i])
            c.moves[c.home[i]] = true;
    size_t a = 0, b = 0;
    for (size_t i = 0; i < n; i++) {
        if (!c.stays[i])
            continue;
        put_between(&c, a, c.home[i], b, i);
        put_pair(&c, &c.a->at[c.home[i]], &c.b->at[i], TRACE_LINE_KEPT);
        a = c.home[i] + 1;
        b = i + 1;
    }
    put_between(&c, a, before->lines.n, b, n);
}

static void count_lines(TraceStep *step)
{
    for (size_t i = 0; i < step->lines.n; i++) {
        const TraceLine *line = &step->lines.at[i];
        step->counts[line->change] += line->node != 0;
        step->changed |= line->change != TRACE_LINE_KEPT;
    }
    if (!step->changed)
        step->lines.n = 0;
}

/* ---- recording ----------------------------------------------------------------------------------------------------------------- */

static const TraceText *look(Trace *t, const Module *m, uint32_t *counts)
{
    Arena scratch;
    arena_init(&scratch, &t->s->cx.limits);
    Gather g = {.t = t, .arena = &scratch, .counts = counts};
    gather(&g, m);
    t->moment++;
    match_nodes(t, &g, &scratch);
    const TraceText *text = text_of(t, m, &g);
    t->now.n = 0;
    for (size_t i = 0; i < g.all.n; i++)
        vec_push(&t->now, &t->arena, g.all.at[i]);
    arena_deinit(&scratch);
    return text;
}

static void begin(Trace *t, const Module *before)
{
    t->first = module_retain((Module *)(uintptr_t)before);
    t->text = look(t, before, t->nodes);
}

void trace_after(void *data, const char *pass, double seconds, const Module *before,
                 const Module *now)
{
    Trace *t = data;
    if (!t->first)
        begin(t, before);
    const TraceStep *last = t->steps.n ? &vec_last(&t->steps) : NULL;
    const TraceText *old = last ? last->text : t->text;
    TraceStep step = {.pass = pass, .seconds = seconds, .text = old};
    step.now = module_retain((Module *)(uintptr_t)now);
    if (module_same(before, now)) {
        memcpy(step.nodes, last ? last->nodes : t->nodes, sizeof step.nodes);
    } else {
        Arena scratch;
        arena_init(&scratch, &t->s->cx.limits);
        step.text = look(t, now, step.nodes);
        compare_lines(t, old, step.text, &step.lines, &scratch);
        count_lines(&step);
        arena_deinit(&scratch);
    }
    for (size_t i = 0; i < t->events.n; i++)
        vec_push(&step.events, &t->arena, t->events.at[i]);
    t->events.n = 0;
    t->seconds += seconds;
    vec_push(&t->steps, &t->arena, step);
}

#define NAME_MOST 40

/* What has no name of its own. */
static const char *const kinds[EXPR_KINDS] = {
    [EXPR_CONSTANT] = "a constant",
    [EXPR_TUPLE] = "a tuple",
    [EXPR_TUPLE_GET] = "a projection",
    [EXPR_CALL] = "a call",
    [EXPR_FUNCTION] = "a function",
    [EXPR_LET] = "a `let`",
    [EXPR_IF] = "an `if`",
    [EXPR_MATCH] = "a `match`",
    [EXPR_REF_NEW] = "a new reference",
    [EXPR_REF_READ] = "a `ref_read`",
    [EXPR_REF_WRITE] = "a `ref_write`",
};

/* What the node is, in a word or two; an operator's call goes by its name, what is written in place by its text. */
static const char *name_of(Trace *t, const Expr *e)
{
    Buf b = {0}, text = {0};
    const Op *op = expr_call_of_op(e);
    const Name *name = places_value(&t->names, e);
    if (!e)
        return NULL;
    if (op)
        buf_str(&text, op->name);
    else if (name)
        buf_printf(&text, "%%%s", name->text);
    else if (is_atom(e))
        ir_print_expr(&text, e, (PrintStyle){.no_metadata = true});
    if (strncmp(buf_text(&text), "meta[", 5) == 0)
        buf_clear(&text);
    if (text.n > NAME_MOST) {
        buf_cut(&text, NAME_MOST);
        buf_str(&text, "…");
    }
    if (text.n)
        buf_printf(&b, "`%s`", buf_text(&text));
    else if (kinds[e->kind]) /* what has none is written in place, if there is memory for it */
        buf_str(&b, kinds[e->kind]);
    buf_deinit(&text);
    return buf_keep(&b, &t->arena);
}

void trace_decided(void *data, const PassEvent *event)
{
    Trace *t = data;
    TraceEvent e = {.rule = event->rule, .nodes = {event->at, event->with, event->made}};
    for (size_t i = 0; i < 3; i++)
        e.names[i] = name_of(t, e.nodes[i]);
    const char *words[] = {event->a, event->b};
    for (size_t i = 0; i < 2; i++)
        e.words[i] = words[i] ? arena_copy_text(&t->arena, words[i], strlen(words[i])) : NULL;
    vec_push(&t->events, &t->arena, e);
}

void trace_init(Trace *t, RelaySession *s)
{
    *t = (Trace){.s = s};
    arena_init(&t->arena, &s->cx.limits);
    interner_init(&t->words, &t->arena);
    vec_push(&t->numbers, &t->arena, -1); /* there is no node 0 */
    vec_push(&t->seen, &t->arena, 0);
}

static void text_free(const TraceText *text)
{
    if (text)
        buf_deinit((Buf *)(uintptr_t)&text->text);
}

void trace_deinit(Trace *t)
{
    const TraceText *freed = t->text;
    text_free(freed);
    for (size_t i = 0; i < t->steps.n; i++) {
        if (t->steps.at[i].text != freed)
            text_free(t->steps.at[i].text);
        freed = t->steps.at[i].text;
        module_release(t->steps.at[i].now);
    }
    module_release(t->first);
    ptrmap_deinit(&t->binders);
    interner_deinit(&t->words);
    arena_deinit(&t->arena);
}

void trace_listen(Trace *t, PassContext *pc)
{
    pc->after = trace_after;
    pc->decided = trace_decided;
    pc->data = t;
}

/* ---- asking ---------------------------------------------------------------------------------------------------------------------- */

size_t trace_changed(const Trace *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->steps.n; i++)
        n += t->steps.at[i].changed;
    return n;
}

size_t trace_alone(const Trace *t, TraceView view)
{
    return view.step == TRACE_LAST ? t->steps.n : view.step <= t->steps.n ? view.step : 0;
}

bool trace_is_seen(const TraceStep *step, TraceView view)
{
    return step->changed || (view.why && step->events.n);
}

uint32_t trace_count(const uint32_t *nodes)
{
    uint32_t n = 0;
    for (size_t i = 0; i < TRACE_N_CATEGORIES; i++)
        n += nodes[i];
    return n;
}

static bool begins_part(const TraceLine *line)
{
    return line->text.len && line->text.ptr[0] != ' ' && line->text.ptr[0] != '}';
}

Str trace_elide(Trace *t, const TraceLine *line, size_t most)
{
    static const char between[] = " … ";
    size_t tail = most / 3, head = most - tail;
    Buf b = {0};
    if (line->text.len <= most)
        return line->text;
    const char *end = line->text.ptr + line->text.len;
    while (head && (line->text.ptr[head] & 0xC0) == 0x80)
        head--;
    while (tail && (end[-(ptrdiff_t)tail] & 0xC0) == 0x80)
        tail--;
    buf_bytes(&b, line->text.ptr, head);
    buf_str(&b, between);
    buf_bytes(&b, end - tail, tail);
    size_t n = b.n;
    return (Str){buf_keep(&b, &t->arena), n};
}

TraceLines trace_fold(Trace *t, const TraceLines *lines, size_t context, size_t most)
{
    TraceLines out = {0};
    size_t n = lines->n;
    bool *shown = arena_new_array(&t->arena, bool, n + 1);
    for (size_t i = 0, head = 0, upto = 0; i < n; i++) {
        head = begins_part(&lines->at[i]) ? i : head;
        if (lines->at[i].change == TRACE_LINE_KEPT)
            continue;
        shown[head] = true;
        for (upto = upto + context > i ? upto : i - context; upto <= i + context && upto < n;
             upto++)
            shown[upto] = true;
    }
    /* A fold takes a line itself. */
    for (size_t i = 1; i + 1 < n; i++)
        shown[i] |= shown[i - 1] && shown[i + 1];
    if (n > 1)
        shown[n - 1] |= shown[n - 2];
    for (size_t i = 0, left = most; i < n; i++) {
        if (shown[i] && left > 0) {
            vec_push(&out, &t->arena, lines->at[i]);
            left--;
        } else if (out.n && vec_last(&out).change == TRACE_LINE_FOLD) {
            vec_last(&out).folded++;
        } else {
            TraceLine fold = {.change = TRACE_LINE_FOLD, .folded = 1};
            vec_push(&out, &t->arena, fold);
        }
    }
    return out;
}

void trace_counts_print(Buf *out, const TraceStep *step)
{
    static const char *const marks[TRACE_N_CHANGES] = {
#define TRACE_CHANGE(NAME, word, sign, mark) mark,
        TRACE_CHANGES
#undef TRACE_CHANGE
    };
    const char *between = "";
    for (size_t i = 0; i < TRACE_N_CHANGES; i++) {
        if (!marks[i] || !step->counts[i])
            continue;
        buf_printf(out, "%s%s%u", between, marks[i], (unsigned)step->counts[i]);
        between = " ";
    }
    if (!*between)
        buf_str(out, step->changed ? "changed" : "no change");
}

static void print_node(const Trace *t, Buf *out, const TraceEvent *e, size_t i)
{
    uint32_t id = e->nodes[i] ? trace_node(t, e->nodes[i]) : 0;
    int32_t number = id ? t->numbers.at[id] : -1;
    buf_str(out, e->names[i] ? e->names[i] : "nothing");
    if (number >= 0)
        buf_printf(out, " (`%%%d`)", (int)number);
}

void trace_event_print(const Trace *t, Buf *out, const TraceEvent *e)
{
    static const char *const places[] = {"at", "with", "made", "a", "b"};
    for (const char *p = e->rule->says; *p;) {
        size_t n = strcspn(p, "{"), k = 0;
        buf_bytes(out, p, n);
        p += n;
        if (!*p)
            break;
        size_t len = strcspn(p + 1, "}");
        while (k < 5 && (strlen(places[k]) != len || memcmp(places[k], p + 1, len)))
            k++;
        if (k < 3)
            print_node(t, out, e, k);
        else if (k < 5)
            buf_str(out, e->words[k - 3] ? e->words[k - 3] : "");
        p += len + 2;
    }
}

void trace_origin_print(const Trace *t, Buf *out, const Expr *e)
{
    SourceMap *map = &t->s->cx.sources;
    const Source *source = sources_get(map, e->span.source);
    if (!source || span_is_none(e->span))
        return;
    Position at = span_start(map, e->span);
    buf_printf(out, "%s:%u:%u", source->name, (unsigned)at.line, (unsigned)at.column);
}

bool trace_is_timed(const Trace *t)
{
    return !t->rewrites && !t->untimed;
}

void trace_time_print(const Trace *t, Buf *out, double seconds)
{
    if (trace_is_timed(t))
        buf_printf(out, ", %.2f ms", seconds * 1e3);
}

void trace_summary_print(const Trace *t, Buf *out)
{
    const char *many = t->steps.n == 1 ? "" : t->rewrites ? "s" : "es";
    size_t changed = trace_changed(t);
    buf_printf(out, "%zu %s%s", t->steps.n, t->rewrites ? "rewrite" : "pass", many);
    if (!t->rewrites)
        buf_printf(out, ", %zu of them change%s something", changed, changed == 1 ? "s" : "");
    trace_time_print(t, out, t->seconds);
}
