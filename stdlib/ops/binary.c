/* Operators of two tensors that broadcast, comparisons, and `where`. */
#include "stdlib/ops/ops.h"

static void binary(TeBuilder *b, TeOp op)
{
    int r = te_out_rank(b, 0);
    ops_emit(b, te_binary(b, op, te_load_broadcast(b, te_input(b, 0), r),
                          te_load_broadcast(b, te_input(b, 1), r)));
}

#define LIKE_LHS(g) "collapse_sum_like(" g ", %lhs)"
#define LIKE_RHS(g) "collapse_sum_like(" g ", %rhs)"
/* The gradient goes where the element came from. */
#define CHOSEN(IS_LHS)                               \
    "let %zeros = zeros_like(%g); let %is = " IS_LHS \
    "; (" LIKE_LHS("where(%is, %g, %zeros)") ", " LIKE_RHS("where(%is, %zeros, %g)") ")"

/* b a^(b-1), and a^b log(a). Where both are 0 the first is 0, and would be 0 times infinity; the exponent stays as it is, for a constant
 * one makes a power cheap. */
#define POWER_GRAD                                                                                             \
    "let %edge = logical_and(equal(%rhs, zeros_like(%rhs)), equal(%lhs, zeros_like(%lhs))); "                  \
    "let %base = where(%edge, ones_like(%lhs), %lhs); "                                                        \
    "(" LIKE_LHS("multiply(%g, multiply(%rhs, power(%base, subtract(%rhs, ones_like(%rhs)))))") ", " LIKE_RHS( \
        "multiply(%g, where(greater(%lhs, zeros_like(%lhs)), multiply(%out, log(%lhs)), "                      \
        "zeros_like(%out)))") ")"

/* Relay name, C name, scalar function, relation, infix form, gradient, documentation. */
#define BINARY(X)                                                                                  \
    X("add", add, ADD, broadcast, "+", "(" LIKE_LHS("%g") ", " LIKE_RHS("%g") ")",                 \
      "The sum of the elements.")                                                                  \
    X("subtract", subtract, SUB, broadcast, "-",                                                   \
      "(" LIKE_LHS("%g") ", " LIKE_RHS("negative(%g)") ")", "The difference of the elements.")     \
    X("multiply", multiply, MUL, broadcast, "*",                                                   \
      "(" LIKE_LHS("multiply(%g, %rhs)") ", " LIKE_RHS("multiply(%g, %lhs)") ")",                  \
      "The product of the elements.")                                                              \
    X("divide", divide, DIV, broadcast, "/",                                                       \
      "(" LIKE_LHS("divide(%g, %rhs)") ", " LIKE_RHS(                                              \
          "negative(divide(multiply(%g, %out), %rhs))") ")",                                       \
      "The quotient of the elements; of integers it is truncated toward zero.")                    \
    X("maximum", maximum, MAX, broadcast, NULL, CHOSEN("greater(%lhs, %rhs)"),                     \
      "The greater of the elements; where one is NaN, the right one.")                             \
    X("minimum", minimum, MIN, broadcast, NULL, CHOSEN("less(%lhs, %rhs)"),                        \
      "The lesser of the elements; where one is NaN, the right one.")                              \
    X("power", power, POW, broadcast_float, NULL, POWER_GRAD,                                      \
      "The left to the power of the right.")                                                       \
    X("floor_divide", floor_divide, FLOORDIV, broadcast, NULL,                                     \
      "(zeros_like(%lhs), zeros_like(%rhs))", "The quotient, rounded down.")                       \
    X("floor_mod", floor_mod, FLOORMOD, broadcast, NULL,                                           \
      "(" LIKE_LHS("%g") ", " LIKE_RHS("negative(multiply(%g, floor_divide(%lhs, %rhs)))") ")",    \
      "What `floor_divide` leaves: it has the sign of the right operand.")                         \
    X("trunc_divide", trunc_divide, TRUNCDIV, broadcast, NULL,                                     \
      "(zeros_like(%lhs), zeros_like(%rhs))", "The quotient, truncated toward zero.")              \
    X("trunc_mod", trunc_mod, MOD, broadcast, NULL,                                                \
      "(" LIKE_LHS("%g") ", " LIKE_RHS("negative(multiply(%g, trunc_divide(%lhs, %rhs)))") ")",    \
      "What `trunc_divide` leaves: it has the sign of the left operand.")                          \
    X("mod", mod, MOD, broadcast, NULL,                                                            \
      "(" LIKE_LHS("%g") ", " LIKE_RHS("negative(multiply(%g, trunc_divide(%lhs, %rhs)))") ")",    \
      "The remainder of the truncated division: it has the sign of the left operand.")             \
    X("left_shift", left_shift, SHL, broadcast_int, NULL, NULL,                                    \
      "The bits of the left, moved up by the right; 0 when all are moved out.")                    \
    X("right_shift", right_shift, SHR, broadcast_int, NULL, NULL,                                  \
      "The bits of the left, moved down by the right; the sign is kept.")                          \
    X("logical_and", logical_and, AND, broadcast_bool, NULL, NULL, "True where both are.")         \
    X("logical_or", logical_or, OR, broadcast_bool, NULL, NULL, "True where one is, or both.")     \
    X("logical_xor", logical_xor, XOR, broadcast_bool, NULL, NULL, "True where one is, not both.") \
    X("bitwise_and", bitwise_and, AND, broadcast_int, NULL, NULL, "The bits that both have.")      \
    X("bitwise_or", bitwise_or, OR, broadcast_int, NULL, NULL, "The bits that one has, or both.")  \
    X("bitwise_xor", bitwise_xor, XOR, broadcast_int, NULL, NULL,                                  \
      "The bits that one has, not both.")                                                          \
    X("equal", equal, EQ, compare, "==", NULL, "True where the elements are equal.")               \
    X("not_equal", not_equal, NE, compare, "!=", "(zeros_like(%lhs), zeros_like(%rhs))",           \
      "True where the elements differ.")                                                           \
    X("less", less, LT, compare, "<", NULL, "True where the left is below the right.")             \
    X("less_equal", less_equal, LE, compare, "<=", "(zeros_like(%lhs), zeros_like(%rhs))",         \
      "True where the left is not above the right.")                                               \
    X("greater", greater, GT, compare, ">", NULL, "True where the left is above the right.")       \
    X("greater_equal", greater_equal, GE, compare, ">=", NULL,                                     \
      "True where the left is not below the right.")

#define COMPUTE(name, id, OP, rel, symbol, grad, doc) \
    static void compute_##id(TeBuilder *b)            \
    {                                                 \
        binary(b, TE_##OP);                           \
    }
BINARY(COMPUTE)
#undef COMPUTE

/* ---- where -------------------------------------------------------------------------------------- */

#define SHAPES_rel_where "(c...), (a...), (b...) -> (broadcast(c, a, b)...)"
static RelResult rel_where(Rel *r)
{
    const Type *c = rel_tensor(r, 0), *x = c ? rel_tensor(r, 1) : NULL;
    const Type *y = x ? rel_tensor(r, 2) : NULL;
    if (!y)
        return rel_blocked(r);
    if (!rel_dtypes_agree(r, 1, x, 2, y))
        return REL_FAILED;
    Dim xy[TENSOR_RANK_MOST], all[TENSOR_RANK_MOST];
    uint32_t n, m;
    if (!dims_broadcast(r->cx, x->n, x->dims, y->n, y->dims, &n, xy)) {
        rel_error(r, E0202_SHAPE, 2, "`where` cannot broadcast `%s` and `%s` to one shape",
                  type_str(r->cx, x), type_str(r->cx, y));
        return REL_FAILED;
    }
    if (!dims_broadcast(r->cx, c->n, c->dims, n, xy, &m, all)) {
        Diag *d = rel_error(
            r, E0202_SHAPE, 0, "the condition `%s` does not fit the operands' shape, `%s`",
            type_str(r->cx, c), type_str(r->cx, type_tensor(r->cx, x->dtype, n, xy)));
        diag_help(d,
                  "shapes are aligned at their last axes; extents must be equal, or one of them 1");
        return REL_FAILED;
    }
    return rel_set_output(r, type_tensor(r->cx, x->dtype, m, all));
}

static void compute_where(TeBuilder *b)
{
    int r = te_out_rank(b, 0);
    Te *c = te_load_broadcast(b, te_input(b, 0), r);
    ops_emit(b, te_select(b, te_cast(b, (DType){DTYPE_CODE_UINT, 1, 1}, c),
                          te_load_broadcast(b, te_input(b, 1), r),
                          te_load_broadcast(b, te_input(b, 2), r)));
}

static const OpArg where_args[] = {
    {"condition", "which operand to take; numbers count as True unless 0"},
    {"x", "taken where the condition is True"},
    {"y", "taken where it is False"},
    {0},
};

/* clang-format off */
#define SAMPLES_broadcast "(float32[2,3], float32[3]) (int32[2,1], int32[1,3]) (float64, float64[2])"
#define SAMPLES_broadcast_float "(float32[2,3], float32[3]) (float64, float64)"
#define SAMPLES_broadcast_int "(int32[2,3], int32[3]) (uint8[4], uint8)"
#define SAMPLES_broadcast_bool "(bool[2,3], bool[3]) (bool, bool)"
#define SAMPLES_compare "(float32[2,3], float32[3]) (int64[4], int64) (bool[2], bool[2])"
#define ROW(NAME, id, OP, REL, SYMBOL, GRAD, DOC)                                              \
    {.name = NAME, .doc = DOC, .args = args_pair, .samples = SAMPLES_##REL,                    \
     .pattern = OP_BROADCAST, OP_REL(rel_##REL), .compute = compute_##id, .grad = GRAD,         \
     .symbol = SYMBOL},
/* clang-format on */

const Op binary_ops[] = {
    BINARY(ROW){.name = "where",
                .doc = "Elements of `x` where the condition is True, of `y` where it is False.",
                .args = where_args,
                .samples = "(bool[2,3], float32[2,3], float32[2,3]) (bool[3], int32[2,3], int32)",
                .pattern = OP_BROADCAST,
                OP_REL(rel_where),
                .compute = compute_where,
                .grad = "let %zeros = zeros_like(%g); (zeros_like(%condition), "
                        "collapse_sum_like(where(%condition, %g, %zeros), %x), "
                        "collapse_sum_like(where(%condition, %zeros, %g), %y))"},
    {0},
};
