#include "ir/te_internal.h"

#include "runtime/show.h"

#include <string.h>

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

static void print_tensor(Buf *out, const TeProgram *p, int id)
{
    static const char *const letters[] = {"x", "y", "z", "w"};
    if (id < p->n_inputs) {
        if (p->n_inputs <= 4)
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

static const char *op_name(uint8_t op)
{
    static const char *const names[TE_OPS] = {
#define TE_UNARY(ID, name, result) [TE_##ID] = name,
#define TE_BINARY(ID, name, result) [TE_##ID] = name,
#include "ir/te_scalar.def"
#undef TE_UNARY
#undef TE_BINARY
    };
    return names[op];
}

/* How tightly an operator binds; 0: it is written as a call. */
static int binding(const Te *e)
{
    if (e->kind != TE_NODE_BINARY)
        return e->kind == TE_NODE_SELECT ? 1 : 9;
    switch ((int)e->op) {
    case TE_MUL:
    case TE_DIV:
    case TE_MOD: return 5;
    case TE_ADD:
    case TE_SUB: return 4;
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

typedef struct Printer {
    Buf *out;
    const TeProgram *p;
    const TeStage *s;
    int depth;
} Printer;

static void print_expr(Printer *pr, const Te *e);

static void print_operand(Printer *pr, const Te *e, int around)
{
    int own = binding(e);
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
    print_tensor(pr->out, pr->p, e->tensor);
    if (e->n) {
        buf_char(pr->out, '[');
        print_list(pr, e->n, e->index);
        buf_char(pr->out, ']');
    }
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
    print_operand(pr, e->a, own);
    buf_printf(pr->out, " %s ", op_name(e->op));
    print_operand(pr, e->b, own + 1);
}

static void print_expr(Printer *pr, const Te *e)
{
    if (++pr->depth > 60) {
        buf_str(pr->out, "…");
        pr->depth--;
        return;
    }
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: element_show(pr->out, e->dtype, &e->value.bits); break;
    case TE_NODE_AXIS: print_axis(pr->out, pr->s, e->axis); break;
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
        print_operand(pr, e->c, 1);
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

static const char *reduce_name(TeReduce kind)
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

static void print_stage(Buf *out, const TeProgram *p, int i)
{
    const TeStage *s = &p->stages[i];
    Printer pr = {.out = out, .p = p, .s = s};
    if (s->rank) {
        buf_str(out, "for ");
        print_loops(out, s, 0, s->rank, s->shape);
        buf_str(out, ":\n  ");
    }
    print_tensor(out, p, p->n_inputs + i);
    for (int k = 0; k < s->rank; k++) {
        buf_str(out, k ? ", " : "[");
        print_axis(out, s, k);
    }
    buf_str(out, s->rank ? "] = " : " = ");
    if (s->reduce != TE_NO_REDUCE) {
        buf_printf(out, "%s(", reduce_name(s->reduce));
        print_loops(out, s, s->rank, s->n_reduced, s->reduced);
        buf_str(out, ") ");
    }
    print_expr(&pr, s->body);
    buf_char(out, '\n');
}

void te_print(Buf *out, const TeProgram *p)
{
    for (int i = 0; i < p->n_stages; i++)
        print_stage(out, p, i);
}
