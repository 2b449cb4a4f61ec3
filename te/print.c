#include "te/print.h"

#include "runtime/show.h"
#include "te/walk.h"

#include <string.h>

#define NAMED_MOST 32

typedef struct Printer {
    Buf *out;
    const TeNames *names;
    int depth;
    PtrMap uses, seen; /* of the expression's nodes: not NULL where there are several uses */
    int n_named;
    const Te *named[NAMED_MOST]; /* v0, v1 and so on */
    const Te *defined; /* the one that is being written out */
} Printer;

/* What a program's tensors and a stage's axes are called. */
typedef struct StageNames {
    TeNames base;
    const TeProgram *p;
    const char *const *inputs; /* NULL: x, y and so on */
    const TeStage *s;
} StageNames;

/* Names of axes: i0, i1, … of the space, k0, k1, … reduced. */
static void print_axis(Buf *out, const TeStage *s, int axis)
{
    if (axis < s->rank)
        buf_printf(out, "i%d", axis);
    else if (s->n_reduced == 1)
        buf_str(out, "k");
    else
        buf_printf(out, "k%d", axis - s->rank);
}

static void axis_name(const TeNames *names, Buf *out, int axis)
{
    print_axis(out, ((const StageNames *)names)->s, axis);
}

void te_print_tensor(Buf *out, const TeProgram *p, const char *const *inputs, int id)
{
    static const char *const letters[] = {"x", "y", "z", "w"};
    if (id < p->n_inputs) {
        if (inputs)
            buf_str(out, inputs[id]);
        else if (p->n_inputs <= 4)
            buf_str(out, letters[id]);
        else
            buf_printf(out, "x%d", id);
        return;
    }
    for (int i = 0; i < p->n_outputs; i++)
        if (p->outputs[i] == id && p->n_outputs == 1) {
            buf_str(out, "out");
            return;
        } else if (p->outputs[i] == id) {
            buf_printf(out, "out%d", i);
            return;
        }
    buf_printf(out, "t%d", id - p->n_inputs);
}

static void tensor_name(const TeNames *names, Buf *out, int id)
{
    const StageNames *sn = (const StageNames *)names;
    te_print_tensor(out, sn->p, sn->inputs, id);
}

static const char *op_name(uint8_t op)
{
    static const char *const names[TE_OPS] = {
#define TE_UNARY(ID, name, result) [TE_##ID] = name,
#define TE_BINARY(ID, name, result) [TE_##ID] = name,
#include "te/scalar.def"
#undef TE_UNARY
#undef TE_BINARY
    };
    return names[op];
}

/* How tightly an operator binds; 0: it is written as a call. */
static int binding(const Te *e)
{
    if (e->kind == TE_NODE_LOAD && e->otherwise)
        return 1;
    if (e->kind != TE_NODE_BINARY)
        return e->kind == TE_NODE_SELECT ? 1 : 9;
    switch ((int)e->op) {
    case TE_MUL:
    case TE_DIV:
    case TE_MOD: return 6;
    case TE_ADD:
    case TE_SUB: return 5;
    case TE_SHL:
    case TE_SHR: return 4;
    case TE_EQ:
    case TE_NE:
    case TE_LT:
    case TE_LE:
    case TE_GT:
    case TE_GE: return 3;
    case TE_AND:
    case TE_OR: return 2;
    }
    return 0;
}

static void print_expr(Printer *pr, const Te *e);

/* ---- what is used twice gets a name ------------------------------------------------------------------ */

#define NAMED_LEAST 6 /* nodes; smaller ones are written again */

/* Operands and indices; what stands outside of a load is no part of it. */
static int n_parts(const Te *e)
{
    return e->kind == TE_NODE_LOAD ? e->n : te_children(e);
}

/* The nodes that are written out for it, but no more than NAMED_LEAST; indices that are axes do not count. */
static int size_of(const Te *e)
{
    int size = 1;
    for (int i = 0; i < n_parts(e) && size < NAMED_LEAST; i++)
        size += size_of(te_child(e, i)) - (e->kind == TE_NODE_LOAD);
    return size;
}

static void count_uses(Printer *pr, const Te *e)
{
    bool again = ptrmap_has(&pr->uses, e);
    ptrmap_put(&pr->uses, e, again ? pr : NULL);
    for (int i = 0; i < n_parts(e) && !again; i++)
        count_uses(pr, te_child(e, i));
}

/* Finds what is named, the inner ones first. */
static void find_names(Printer *pr, const Te *e)
{
    if (ptrmap_has(&pr->seen, e))
        return;
    ptrmap_put(&pr->seen, e, pr);
    for (int i = 0; i < n_parts(e); i++)
        find_names(pr, te_child(e, i));
    if (pr->n_named < NAMED_MOST && ptrmap_find(&pr->uses, e) && size_of(e) >= NAMED_LEAST)
        pr->named[pr->n_named++] = e;
}

/* The number of its name, -1 without one. */
static int name_of(const Printer *pr, const Te *e)
{
    for (int i = 0; i < pr->n_named; i++)
        if (pr->named[i] == e && e != pr->defined)
            return i;
    return -1;
}

/* ---- expressions ------------------------------------------------------------------------------------- */

static void print_operand(Printer *pr, const Te *e, int around)
{
    int own = name_of(pr, e) >= 0 ? 9 : binding(e);
    bool brackets = own && own < around;
    if (brackets)
        buf_char(pr->out, '(');
    print_expr(pr, e);
    if (brackets)
        buf_char(pr->out, ')');
}

static void print_list(Printer *pr, int n, Te *const *e)
{
    for (int i = 0; i < n; i++) {
        buf_str(pr->out, i ? ", " : "");
        print_expr(pr, e[i]);
    }
}

static void print_load(Printer *pr, const Te *e)
{
    if (e->word)
        buf_str(pr->out, "word(");
    pr->names->tensor(pr->names, pr->out, e->tensor);
    if (e->n && !(pr->names->is_number && pr->names->is_number(pr->names, e->tensor))) {
        buf_char(pr->out, '[');
        print_list(pr, e->n, e->index);
        buf_char(pr->out, ']');
    }
    if (e->word > 1)
        buf_printf(pr->out, " by %d", e->word);
    if (e->word)
        buf_char(pr->out, ')');
    if (e->otherwise) {
        buf_str(pr->out, " or ");
        print_operand(pr, e->otherwise, 9);
    }
}

static void print_binary(Printer *pr, const Te *e)
{
    int own = binding(e);
    if (!own) {
        Te *both[2] = {e->a, e->b};
        buf_printf(pr->out, "%s(", op_name(e->op));
        print_list(pr, 2, both);
        buf_char(pr->out, ')');
        return;
    }
    if (e->op == TE_SHL || e->op == TE_SHR)
        own = 7; /* nobody knows how tightly these bind */
    print_operand(pr, e->a, own);
    Buf number = {0};
    if (e->op == TE_ADD && e->b->kind == TE_NODE_CONST)
        element_show(&number, e->b->dtype, &e->b->value.bits);
    if (number.n && buf_text(&number)[0] == '-') { /* a + -1 */
        buf_printf(pr->out, " - %s", buf_text(&number) + 1);
    } else {
        buf_printf(pr->out, " %s ", op_name(e->op));
        print_operand(pr, e->b, own + 1);
    }
    buf_deinit(&number);
}

static void print_expr(Printer *pr, const Te *e)
{
    int name = name_of(pr, e);
    if (name >= 0) {
        buf_printf(pr->out, "v%d", name);
        return;
    }
    if (++pr->depth > 60) {
        buf_str(pr->out, "…");
        pr->depth--;
        return;
    }
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: element_show(pr->out, e->dtype, &e->value.bits); break;
    case TE_NODE_AXIS: pr->names->axis(pr->names, pr->out, e->axis); break;
    case TE_NODE_LOAD: print_load(pr, e); break;
    case TE_NODE_UNARY:
        buf_str(pr->out, op_name(e->op));
        if (e->op != TE_NEG)
            buf_char(pr->out, '(');
        print_operand(pr, e->a, e->op == TE_NEG ? 9 : 0);
        if (e->op != TE_NEG)
            buf_char(pr->out, ')');
        break;
    case TE_NODE_BINARY: print_binary(pr, e); break;
    case TE_NODE_CAST:
        dtype_print(pr->out, e->dtype);
        buf_char(pr->out, '(');
        print_expr(pr, e->a);
        buf_char(pr->out, ')');
        break;
    case TE_NODE_SELECT:
        print_operand(pr, e->a, 2);
        buf_str(pr->out, " ? ");
        print_operand(pr, e->b, 2);
        buf_str(pr->out, " : ");
        print_operand(pr, e->c, e->c->kind == TE_NODE_SELECT ? 1 : 2);
        break;
    }
    pr->depth--;
}

static void print_loops(Buf *out, const TeStage *s, int from, int n, const int64_t *extents)
{
    for (int i = 0; i < n; i++) {
        buf_str(out, i ? ", " : "");
        print_axis(out, s, from + i);
        buf_printf(out, " in 0..%lld", (long long)extents[i]);
    }
}

const char *te_reduce_name(TeReduce kind)
{
    static const char *const names[] = {[TE_NO_REDUCE] = "",
                                        [TE_SUM] = "sum",
                                        [TE_PROD] = "prod",
                                        [TE_REDUCE_MAX] = "max",
                                        [TE_REDUCE_MIN] = "min",
                                        [TE_ALL] = "all",
                                        [TE_ANY] = "any",
                                        [TE_ARGMAX] = "argmax",
                                        [TE_ARGMIN] = "argmin",
                                        [TE_ARGMAX_LAST] = "argmax_last",
                                        [TE_ARGMIN_LAST] = "argmin_last"};
    return names[kind];
}

/* for k0 in 0..4: out[place(…)] += x1[k0], onto x0 */
static void print_scatter(Buf *out, const StageNames *names, int id)
{
    const TeStage *s = names->s;
    buf_str(out, "for ");
    print_loops(out, s, s->rank, s->n_reduced, s->reduced);
    buf_str(out, ":\n  ");
    tensor_name(&names->base, out, id);
    buf_str(out, ", which begins as ");
    tensor_name(&names->base, out, s->onto);
    buf_str(out, ", [");
    te_print_expr(out, s->at, &names->base, 4);
    buf_printf(out, "] %s= ", s->reduce == TE_SUM ? "+" : te_reduce_name(s->reduce));
}

static void print_head(Buf *out, const StageNames *names, int id)
{
    const TeStage *s = names->s;
    if (s->at) {
        print_scatter(out, names, id);
        return;
    }
    if (s->rank) {
        buf_str(out, "for ");
        print_loops(out, s, 0, s->rank, s->shape);
        buf_str(out, ":\n  ");
    }
    tensor_name(&names->base, out, id);
    for (int k = 0; k < s->rank; k++) {
        buf_str(out, k ? ", " : "[");
        print_axis(out, s, k);
    }
    buf_str(out, s->rank ? "] = " : " = ");
    if (s->reduce != TE_NO_REDUCE) {
        buf_printf(out, "%s(", te_reduce_name(s->reduce));
        print_loops(out, s, s->rank, s->n_reduced, s->reduced);
        buf_str(out, ") ");
    }
}

void te_print_expr(Buf *out, const Te *e, const TeNames *names, int indent)
{
    Printer pr = {.out = out, .names = names};
    count_uses(&pr, e);
    find_names(&pr, e);
    print_expr(&pr, e);
    for (int k = 0; k < pr.n_named; k++) {
        pr.defined = pr.named[k];
        buf_printf(out, "\n%*s%s v%d = ", indent, "", k ? "     " : "where", k);
        print_expr(&pr, pr.defined);
    }
    ptrmap_deinit(&pr.uses);
    ptrmap_deinit(&pr.seen);
}

void te_print(Buf *out, const TeProgram *p, const char *const *names)
{
    for (int i = 0; i < p->n_stages; i++) {
        StageNames sn = {{axis_name, tensor_name, NULL}, p, names, &p->stages[i]};
        print_head(out, &sn, p->n_inputs + i);
        te_print_expr(out, p->stages[i].body, &sn.base, sn.s->rank ? 4 : 2);
        buf_char(out, '\n');
    }
}
