/* The meaning of each scalar function (te/scalar.def) as LLVM code, for one value or a vector of them. The evaluator's loops in
 * te/loops_int.c and te/loops_float.c say the same in C. */
#include "te/te.h"
#include "jit/math.h"

#include <math.h>
#include <stdio.h>

LLVMTypeRef lanes_type(const Lanes *l, LLVMTypeRef element)
{
    return l->n == 1 ? element : LLVMVectorType(element, l->n);
}

Ssa lanes_splat(const Lanes *l, Ssa scalar)
{
    if (l->n == 1)
        return scalar;
    LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(scalar), l->n);
    if (LLVMIsConstant(scalar)) {
        Ssa parts[64];
        for (unsigned i = 0; i < l->n; i++)
            parts[i] = scalar;
        return LLVMConstVector(parts, l->n);
    }
    LLVMBuilderRef b = l->g->b;
    Ssa first = LLVMBuildInsertElement(b, LLVMGetPoison(t), scalar, gen_int(l->g->i32, 0), "");
    Ssa zeros = LLVMConstNull(LLVMVectorType(l->g->i32, l->n));
    return LLVMBuildShuffleVector(b, first, LLVMGetPoison(t), zeros, "");
}

Ssa lanes_float(const Lanes *l, LLVMTypeRef element, double v)
{
    return lanes_splat(l, LLVMConstReal(element, v));
}

Ssa lanes_int(const Lanes *l, LLVMTypeRef element, int64_t v)
{
    return lanes_splat(l, gen_int(element, v));
}

Ssa lanes_const(const Lanes *l, Value v)
{
    LLVMTypeRef t = gen_dtype(l->g, v.dtype);
    if (dtype_is_float(v.dtype))
        return lanes_float(l, t, value_as_double(v));
    return lanes_int(l, t, value_as_int(v));
}

/* A number of the operand's own type. */
static Ssa same_float(const Lanes *l, DType t, double v)
{
    return lanes_float(l, gen_dtype(l->g, t), v);
}

static Ssa same_int(const Lanes *l, DType t, int64_t v)
{
    return lanes_int(l, gen_dtype(l->g, t), v);
}

/* 16-bit floats are computed in float32 and rounded after each function. */
static Ssa rounded(const Lanes *l, DType t, Ssa v)
{
    if (t.bits != 16)
        return v;
    return gen_from_stored(l->g, t, gen_to_stored(l->g, t, v));
}

static Ssa intrinsic(const Lanes *l, const char *name, Ssa *args, unsigned n)
{
    return gen_intrinsic(l->g, name, LLVMTypeOf(args[0]), args, n);
}

/* fmod, step by step: what is left after multiples of |y| by powers of two, the largest first, each subtracted exactly. */
static Ssa device_fmod(Gen *g, LLVMTypeRef t)
{
    const char *name = t == g->f64 ? "fmod_64" : "fmod_32";
    Ssa fn = LLVMGetNamedFunction(g->m, name);
    if (fn)
        return fn;
    LLVMTypeRef params[2] = {t, t};
    fn = LLVMAddFunction(g->m, name, LLVMFunctionType(t, params, 2, false));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    gen_attribute(g, fn, "alwaysinline");
    LLVMBuilderRef b = g->b;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(b), begin = gen_block(g, fn, ""),
                      odd = gen_block(g, fn, "odd"), grow = gen_block(g, fn, "grow"),
                      shrink = gen_block(g, fn, "shrink"), end = gen_block(g, fn, "end");
    Ssa x = LLVMGetParam(fn, 0), y = LLVMGetParam(fn, 1), zero = LLVMConstReal(t, 0);
    LLVMPositionBuilderAtEnd(b, begin);
    Ssa r = gen_intrinsic(g, "llvm.fabs", t, &x, 1), d = gen_intrinsic(g, "llvm.fabs", t, &y, 1);
    Ssa infinity = LLVMConstReal(t, __builtin_inf());
    Ssa usual = LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOGT, d, zero, ""),
                             LLVMBuildFCmp(b, LLVMRealOLT, r, infinity, ""), "");
    Ssa less = LLVMBuildFCmp(b, LLVMRealOLT, r, d, "");
    LLVMBuildCondBr(b, LLVMBuildAnd(b, usual, LLVMBuildNot(b, less, ""), ""), grow, odd);
    LLVMPositionBuilderAtEnd(b, odd);
    LLVMBuildRet(b, LLVMBuildSelect(b, usual, x, LLVMConstReal(t, __builtin_nan("")), ""));
    LLVMPositionBuilderAtEnd(b, grow);
    Ssa s = LLVMBuildPhi(b, t, ""), twice = LLVMBuildFAdd(b, s, s, "");
    Ssa froms[2] = {d, twice};
    LLVMBasicBlockRef blocks[2] = {begin, grow};
    LLVMAddIncoming(s, froms, blocks, 2);
    LLVMBuildCondBr(b, LLVMBuildFCmp(b, LLVMRealOLE, twice, r, ""), grow, shrink);
    LLVMPositionBuilderAtEnd(b, shrink);
    Ssa step = LLVMBuildPhi(b, t, ""), rest = LLVMBuildPhi(b, t, "");
    Ssa fits = LLVMBuildFCmp(b, LLVMRealOGE, rest, step, "");
    Ssa left = LLVMBuildSelect(b, fits, LLVMBuildFSub(b, rest, step, ""), rest, "");
    Ssa half = LLVMBuildFMul(b, step, LLVMConstReal(t, 0.5), "");
    Ssa steps[2] = {s, half}, rests[2] = {r, left};
    LLVMBasicBlockRef before[2] = {grow, shrink};
    LLVMAddIncoming(step, steps, before, 2);
    LLVMAddIncoming(rest, rests, before, 2);
    LLVMBuildCondBr(b, LLVMBuildFCmp(b, LLVMRealOGT, step, d, ""), shrink, end);
    LLVMPositionBuilderAtEnd(b, end);
    Ssa signs[2] = {left, x};
    LLVMBuildRet(b, gen_intrinsic(g, "llvm.copysign", t, signs, 2));
    LLVMPositionBuilderAtEnd(b, here);
    return fn;
}

static Ssa library_call(Gen *g, const char *name, Ssa *args, unsigned n)
{
    if (!g->device)
        return gen_call_abi(g, name, args, n);
    Ssa fn = device_fmod(g, LLVMTypeOf(args[0]));
    return LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

/* A function of the C library, a call for each lane. On a GPU there is none, and fmod alone comes here. */
Ssa lanes_library(const Lanes *l, const char *name, DType t, Ssa *args, unsigned n)
{
    Gen *g = l->g;
    char text[24];
    snprintf(text, sizeof text, "%s%s", name, t.bits == 64 ? "" : "f");
    if (l->n == 1)
        return library_call(g, text, args, n);
    Ssa out = LLVMGetPoison(LLVMTypeOf(args[0]));
    for (unsigned i = 0; i < l->n; i++) {
        Ssa lane = gen_int(g->i32, i), one[2];
        for (unsigned k = 0; k < n; k++)
            one[k] = LLVMBuildExtractElement(g->b, args[k], lane, "");
        out = LLVMBuildInsertElement(g->b, out, library_call(g, text, one, n), lane, "");
    }
    return out;
}

/* ---- floats --------------------------------------------------------------------------------------------------- */

static const char *library_name(int op)
{
    switch (op) {
    case TE_EXP: return "exp";
    case TE_LOG: return "log";
    case TE_LOG2: return "log2";
    case TE_LOG10: return "log10";
    case TE_TANH: return "tanh";
    case TE_ERF: return "erf";
    case TE_SIN: return "sin";
    case TE_COS: return "cos";
    case TE_TAN: return "tan";
    case TE_SINH: return "sinh";
    case TE_COSH: return "cosh";
    case TE_ASIN: return "asin";
    case TE_ACOS: return "acos";
    case TE_ATAN: return "atan";
    case TE_ASINH: return "asinh";
    case TE_ACOSH: return "acosh";
    case TE_ATANH: return "atanh";
    default: return NULL;
    }
}

static const char *intrinsic_name(int op)
{
    switch (op) {
    case TE_ABS: return "llvm.fabs";
    case TE_SQRT: return "llvm.sqrt";
    case TE_FLOOR: return "llvm.floor";
    case TE_CEIL: return "llvm.ceil";
    case TE_TRUNC: return "llvm.trunc";
    case TE_ROUND: return "llvm.round";
    default: return NULL;
    }
}

static Ssa float_sign(const Lanes *l, DType t, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    Ssa zero = same_float(l, t, 0), one = same_float(l, t, 1), minus = same_float(l, t, -1);
    Ssa below = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, a, zero, ""), minus, zero, "");
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOGT, a, zero, ""), one, below, "");
}

static Ssa float_unary(const Lanes *l, int op, DType t, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    Ssa one = same_float(l, t, 1), infinity = same_float(l, t, __builtin_inf());
    const char *name = intrinsic_name(op);
    if (name)
        return intrinsic(l, name, &a, 1);
    switch (op) {
    case TE_NEG: return LLVMBuildFNeg(b, a, "");
    case TE_RSQRT: return LLVMBuildFDiv(b, one, intrinsic(l, "llvm.sqrt", &a, 1), "");
    case TE_SIGN: return float_sign(l, t, a);
    case TE_ISNAN: return LLVMBuildFCmp(b, LLVMRealUNO, a, a, "");
    case TE_ISINF:
        return LLVMBuildFCmp(b, LLVMRealOEQ, intrinsic(l, "llvm.fabs", &a, 1), infinity, "");
    case TE_ISFINITE:
        return LLVMBuildFCmp(b, LLVMRealOLT, intrinsic(l, "llvm.fabs", &a, 1), infinity, "");
    case TE_SIGMOID: {
        Ssa e = float_unary(l, TE_EXP, t, LLVMBuildFNeg(b, a, ""));
        return LLVMBuildFDiv(b, one, LLVMBuildFAdd(b, one, e, ""), "");
    }
    default: break;
    }
    Ssa v = lanes_math(l, op, t, a);
    return v ? v : lanes_library(l, library_name(op), t, &a, 1);
}

static Ssa float_compare(const Lanes *l, int op, Ssa x, Ssa y)
{
    LLVMRealPredicate p = op == TE_EQ   ? LLVMRealOEQ
                          : op == TE_NE ? LLVMRealUNE
                          : op == TE_LT ? LLVMRealOLT
                          : op == TE_LE ? LLVMRealOLE
                          : op == TE_GT ? LLVMRealOGT
                                        : LLVMRealOGE;
    return LLVMBuildFCmp(l->g->b, p, x, y, "");
}

/* A constant that is the same in all lanes, as that of a position is not; NULL: it is none. */
static Ssa constant_lane(const Lanes *l, Ssa v)
{
    if (!LLVMIsConstant(v) || l->n == 1)
        return LLVMIsConstant(v) ? v : NULL;
    Ssa first = LLVMGetAggregateElement(v, 0);
    for (unsigned i = 1; i < (unsigned)l->n; i++)
        if (LLVMGetAggregateElement(v, i) != first)
            return NULL;
    return first;
}

/* The value of a constant, the same in all lanes. */
static bool constant_float(const Lanes *l, Ssa v, double *out)
{
    LLVMBool loses;
    v = constant_lane(l, v);
    if (!v || !LLVMIsAConstantFP(v))
        return false;
    *out = LLVMConstRealGetDouble(v, &loses);
    return true;
}

/* A constant's reciprocal, by which lanes are multiplied instead: where that is exact, or may round otherwise. NULL: there is none. */
static Ssa reciprocal(const Lanes *l, DType t, Ssa y)
{
    double v;
    int exponent;
    if (t.bits > 32 || l->n < 2 || !constant_float(l, y, &v))
        return NULL;
    double by = 1 / v;
    bool exact = frexp(v, &exponent) == 0.5 || frexp(v, &exponent) == -0.5;
    if (!isnormal((float)by) || (l->g->jit->exact && !exact))
        return NULL;
    return same_float(l, t, by);
}

/* The root as a power has it: of -0 it is 0, of minus infinity infinity. */
static Ssa root_as_power(const Lanes *l, DType t, Ssa x)
{
    LLVMBuilderRef b = l->g->b;
    Ssa low = LLVMBuildFCmp(b, LLVMRealOEQ, x, same_float(l, t, -INFINITY), "");
    Ssa root = LLVMBuildFAdd(b, x, same_float(l, t, 0), "");
    root = intrinsic(l, "llvm.sqrt", &root, 1);
    return LLVMBuildSelect(b, low, same_float(l, t, INFINITY), root, "");
}

/* A power with a constant exponent that a few operations give: squares and reciprocals round once, as the power does. NULL: it is another. */
static Ssa constant_power(const Lanes *l, DType t, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    double e;
    if (!constant_float(l, y, &e))
        return NULL;
    if (e == 1)
        return x;
    if (e == -1)
        return LLVMBuildFDiv(b, same_float(l, t, 1), x, "");
    if ((e == 0.5 || e == -0.5) && !l->g->jit->exact) {
        Ssa root = root_as_power(l, t, x);
        return e > 0 ? root : LLVMBuildFDiv(b, same_float(l, t, 1), root, "");
    }
    if (e != 2 && (l->g->jit->exact || (e != 3 && e != 4)))
        return NULL;
    Ssa square = LLVMBuildFMul(b, x, x, "");
    return e == 2 ? square : LLVMBuildFMul(b, square, e == 3 ? x : square, "");
}

/* What is left of a division. Where the quotient is a number that the type holds exactly, it is too great by one at most, the product with
 * it is subtracted without rounding, and the rest is right at once; where that does not hold in some lane, the C library is asked. */
static Ssa float_mod(const Lanes *l, DType t, Ssa x, Ssa y)
{
    Gen *g = l->g;
    LLVMBuilderRef b = g->b;
    Ssa both[2] = {x, y};
    if (l->n == 1 || g->device || t.bits == 16)
        return lanes_library(l, "fmod", t, both, 2);
    Ssa a = intrinsic(l, "llvm.fabs", &x, 1), d = intrinsic(l, "llvm.fabs", &y, 1);
    Ssa q = LLVMBuildFDiv(b, a, d, "");
    q = intrinsic(l, "llvm.trunc", &q, 1);
    Ssa most = same_float(l, t, t.bits == 64 ? 0x1p53 : 0x1p24);
    Ssa fits = LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOLT, q, most, ""),
                            LLVMBuildFCmp(b, LLVMRealOLT, d, same_float(l, t, INFINITY), ""), "");
    Ssa parts[3] = {LLVMBuildFNeg(b, q, ""), d, a}, signs[2];
    Ssa rest = intrinsic(l, "llvm.fma", parts, 3);
    Ssa below = LLVMBuildFCmp(b, LLVMRealOLT, rest, same_float(l, t, 0), "");
    signs[0] = LLVMBuildSelect(b, below, LLVMBuildFAdd(b, rest, d, ""), rest, "");
    signs[1] = x;
    Ssa quick = intrinsic(l, "llvm.copysign", signs, 2);
    return unless_far(l, t, LLVMBuildNot(b, fits, ""), quick, "fmod", both, 2);
}

/* maximum and minimum give the second operand when one is NaN. */
static Ssa float_binary(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    Ssa both[2] = {x, y}, q;
    switch (op) {
    case TE_ADD: return LLVMBuildFAdd(b, x, y, "");
    case TE_SUB: return LLVMBuildFSub(b, x, y, "");
    case TE_MUL: return LLVMBuildFMul(b, x, y, "");
    case TE_DIV:
        q = reciprocal(l, t, y);
        return q ? LLVMBuildFMul(b, x, q, "") : LLVMBuildFDiv(b, x, y, "");
    case TE_FLOORDIV: q = LLVMBuildFDiv(b, x, y, ""); return intrinsic(l, "llvm.floor", &q, 1);
    case TE_TRUNCDIV: q = LLVMBuildFDiv(b, x, y, ""); return intrinsic(l, "llvm.trunc", &q, 1);
    case TE_FLOORMOD:
        q = LLVMBuildFDiv(b, x, y, "");
        q = intrinsic(l, "llvm.floor", &q, 1);
        return LLVMBuildFSub(b, x, LLVMBuildFMul(b, q, y, ""), "");
    case TE_MOD: return float_mod(l, t, x, y);
    case TE_POW:
        q = constant_power(l, t, x, y);
        q = q ? q : lanes_power(l, t, x, y);
        return q ? q : lanes_library(l, "pow", t, both, 2);
    case TE_MAX: return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOGT, x, y, ""), x, y, "");
    case TE_MIN: return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, x, y, ""), x, y, "");
    default: return float_compare(l, op, x, y);
    }
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

static Ssa int_negated(const Lanes *l, Ssa a)
{
    return LLVMBuildNeg(l->g->b, a, "");
}

static Ssa is_negative(const Lanes *l, DType t, Ssa a)
{
    return LLVMBuildICmp(l->g->b, LLVMIntSLT, a, same_int(l, t, 0), "");
}

static Ssa int_unary(const Lanes *l, int op, DType t, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    bool is_signed = dtype_is_signed(t);
    Ssa zero = same_int(l, t, 0);
    switch (op) {
    case TE_NEG: return int_negated(l, a);
    case TE_ABS:
        return is_signed ? LLVMBuildSelect(b, is_negative(l, t, a), int_negated(l, a), a, "") : a;
    case TE_SIGN: {
        Ssa positive = LLVMBuildICmp(b, is_signed ? LLVMIntSGT : LLVMIntNE, a, zero, "");
        Ssa other = zero;
        if (is_signed)
            other = LLVMBuildSelect(b, is_negative(l, t, a), same_int(l, t, -1), zero, "");
        return LLVMBuildSelect(b, positive, same_int(l, t, 1), other, "");
    }
    case TE_NOT: return LLVMBuildNot(b, a, "");
    case TE_ISNAN:
    case TE_ISINF: return lanes_int(l, l->g->i1, 0);
    case TE_ISFINITE: return lanes_int(l, l->g->i1, 1);
    default: return a; /* the rounding ones */
    }
}

Ssa lanes_any(const Lanes *l, Ssa bits)
{
    LLVMBuilderRef b = l->g->b;
    if (l->n == 1)
        return bits;
    if (l->mask)
        bits = LLVMBuildAnd(b, bits, l->mask, "");
    return gen_intrinsic(l->g, "llvm.vector.reduce.or", LLVMTypeOf(bits), &bits, 1);
}

/* The value of a constant, the same in all lanes. */
static bool constant_int(const Lanes *l, Ssa v, int64_t *out)
{
    v = constant_lane(l, v);
    if (!v || !LLVMIsAConstantInt(v))
        return false;
    *out = LLVMConstIntGetSExtValue(v);
    return true;
}

/* Zero divisors are reported; they and -1, whose quotient may not fit, become 1. */
static Ssa safe_divisor(const Lanes *l, DType t, Ssa y, Ssa *minus_one)
{
    LLVMBuilderRef b = l->g->b;
    int64_t known;
    *minus_one = NULL;
    if (constant_int(l, y, &known) && known != 0 && (known != -1 || !dtype_is_signed(t)))
        return y;
    Ssa one = same_int(l, t, 1);
    Ssa zero = LLVMBuildICmp(b, LLVMIntEQ, y, same_int(l, t, 0), "");
    l->fault(l->data, lanes_any(l, zero), "relay_divided_by_zero");
    y = LLVMBuildSelect(b, zero, one, y, "");
    if (!dtype_is_signed(t))
        return y;
    *minus_one = LLVMBuildICmp(b, LLVMIntEQ, y, same_int(l, t, -1), "");
    return LLVMBuildSelect(b, *minus_one, one, y, "");
}

static bool is_power_of_two(const Lanes *l, Ssa y, int64_t *out)
{
    return constant_int(l, y, out) && *out > 0 && (*out & (*out - 1)) == 0;
}

/* Whether a loop divides so: there is no instruction that divides integers of several lanes, and what is known is multiplied by. */
static bool divides_as_reals(const Lanes *l, DType t, Ssa d)
{
    int64_t known;
    return l->n > 1 && !l->g->device && t.bits >= 8 && !constant_int(l, d, &known);
}

/* Whether no double holds x and all between it and 0 so that a sum with 1.5 * 2^52 has it at the end of its bits. */
static Ssa is_long(const Lanes *l, DType t, Ssa x)
{
    bool is_signed = dtype_is_signed(t);
    Ssa from_least = is_signed ? LLVMBuildAdd(l->g->b, x, same_int(l, t, INT64_C(1) << 51), "") : x;
    Ssa most = same_int(l, t, (INT64_C(1) << (is_signed ? 52 : 51)) - 1);
    return LLVMBuildICmp(l->g->b, LLVMIntUGT, from_least, most, "");
}

/* Integers of 64 bits of which each fits into a double with room to spare are divided as such, else all as they are. Processors convert few
 * vectors of them, but by sums all do. */
static Ssa long_quotient(const Lanes *l, DType t, Ssa x, Ssa d)
{
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef own = LLVMTypeOf(x), real = lanes_type(l, l->g->f64);
    Ssa shift = lanes_float(l, l->g->f64, 0x1.8p52), from = LLVMConstBitCast(shift, own);
    Ssa far = LLVMBuildOr(b, is_long(l, t, x), is_long(l, t, d), ""), of[2] = {x, d};
    for (int i = 0; i < 2; i++) {
        of[i] = LLVMBuildBitCast(b, LLVMBuildAdd(b, of[i], from, ""), real, "");
        of[i] = LLVMBuildFSub(b, of[i], shift, "");
    }
    Ssa q = LLVMBuildFDiv(b, of[0], of[1], "");
    q = LLVMBuildFAdd(b, intrinsic(l, "llvm.trunc", &q, 1), shift, "");
    Far f = far_begin(l, far, LLVMBuildSub(b, LLVMBuildBitCast(b, q, own, ""), from, ""));
    q = dtype_is_signed(t) ? LLVMBuildSDiv(b, x, d, "") : LLVMBuildUDiv(b, x, d, "");
    return far_end(l, &f, q);
}

/* Towards zero. From x / d to the next integer is at least a part in x, which rounding to more bits than x has does not bridge. */
static Ssa int_quotient(const Lanes *l, DType t, Ssa x, Ssa d, bool reals)
{
    LLVMBuilderRef b = l->g->b;
    bool is_signed = dtype_is_signed(t);
    if (!reals)
        return is_signed ? LLVMBuildSDiv(b, x, d, "") : LLVMBuildUDiv(b, x, d, "");
    if (t.bits > 32)
        return long_quotient(l, t, x, d);
    LLVMTypeRef real = lanes_type(l, t.bits <= 16 ? l->g->f32 : l->g->f64), own = LLVMTypeOf(x);
    x = is_signed ? LLVMBuildSIToFP(b, x, real, "") : LLVMBuildUIToFP(b, x, real, "");
    d = is_signed ? LLVMBuildSIToFP(b, d, real, "") : LLVMBuildUIToFP(b, d, real, "");
    Ssa q = LLVMBuildFDiv(b, x, d, "");
    return is_signed ? LLVMBuildFPToSI(b, q, own, "") : LLVMBuildFPToUI(b, q, own, "");
}

static Ssa int_divide(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    bool is_signed = dtype_is_signed(t), rest = op == TE_MOD || op == TE_FLOORMOD;
    bool floors = is_signed && (op == TE_FLOORDIV || op == TE_FLOORMOD);
    int64_t known;
    if (floors && is_power_of_two(l, y, &known))
        return rest ? LLVMBuildAnd(b, x, same_int(l, t, known - 1), "")
                    : LLVMBuildAShr(b, x, same_int(l, t, __builtin_ctzll((uint64_t)known)), "");
    Ssa minus_one, d = safe_divisor(l, t, y, &minus_one), q = NULL, r = NULL;
    bool reals = divides_as_reals(l, t, d);
    if (!rest || floors || reals)
        q = int_quotient(l, t, x, d, reals);
    if (reals)
        r = LLVMBuildSub(b, x, LLVMBuildMul(b, q, d, ""), "");
    else if (rest || floors)
        r = is_signed ? LLVMBuildSRem(b, x, d, "") : LLVMBuildURem(b, x, d, "");
    if (floors) {
        Ssa uneven = LLVMBuildICmp(b, LLVMIntNE, r, same_int(l, t, 0), "");
        Ssa apart = is_negative(l, t, LLVMBuildXor(b, x, d, ""));
        Ssa both = LLVMBuildAnd(b, uneven, apart, "");
        q = LLVMBuildSelect(b, both, LLVMBuildSub(b, q, same_int(l, t, 1), ""), q, "");
        r = LLVMBuildSelect(b, both, LLVMBuildAdd(b, r, d, ""), r, "");
    }
    if (!minus_one)
        return rest ? r : q;
    if (rest)
        return LLVMBuildSelect(b, minus_one, same_int(l, t, 0), r, "");
    return LLVMBuildSelect(b, minus_one, int_negated(l, x), q, "");
}

static Ssa int_power(const Lanes *l, DType t, Ssa x, Ssa y)
{
    /* As the evaluator does it: through double. */
    static const DType wide = {DTYPE_CODE_FLOAT, 64, 1};
    Ssa both[2] = {lanes_cast(l, wide, t, x), lanes_cast(l, wide, t, y)};
    Ssa v = l->g->device ? lanes_power(l, wide, both[0], both[1]) : NULL;
    v = v ? intrinsic(l, "llvm.rint", &v, 1) : lanes_library(l, "pow", wide, both, 2);
    return lanes_cast(l, t, wide, v);
}

/* One outside is reported, and becomes the first. */
static Ssa int_place(const Lanes *l, DType t, Ssa x, Ssa extent)
{
    LLVMBuilderRef b = l->g->b;
    Ssa from_end = LLVMBuildAdd(b, x, extent, "");
    Ssa at = LLVMBuildSelect(b, is_negative(l, t, x), from_end, x, "");
    Ssa outside = LLVMBuildICmp(b, LLVMIntUGE, at, extent, "");
    l->fault(l->data, lanes_any(l, outside), "relay_bad_place");
    return LLVMBuildSelect(b, outside, same_int(l, t, 0), at, "");
}

static Ssa int_shift(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    int64_t known;
    bool is_signed = dtype_is_signed(t);
    if (is_signed && !(constant_int(l, y, &known) && known >= 0))
        l->fault(l->data, lanes_any(l, is_negative(l, t, y)), "relay_bad_shift");
    Ssa most = same_int(l, t, t.bits - 1), zero = same_int(l, t, 0);
    Ssa wide = LLVMBuildICmp(b, LLVMIntUGT, y, most, "");
    Ssa count = LLVMBuildSelect(b, wide, most, y, "");
    if (op == TE_SHL)
        return LLVMBuildSelect(b, wide, zero, LLVMBuildShl(b, x, count, ""), "");
    if (is_signed)
        return LLVMBuildAShr(b, x, count, "");
    return LLVMBuildSelect(b, wide, zero, LLVMBuildLShr(b, x, count, ""), "");
}

static Ssa int_compare(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    bool s = dtype_is_signed(t);
    LLVMIntPredicate p = op == TE_EQ   ? LLVMIntEQ
                         : op == TE_NE ? LLVMIntNE
                         : op == TE_LT ? (s ? LLVMIntSLT : LLVMIntULT)
                         : op == TE_LE ? (s ? LLVMIntSLE : LLVMIntULE)
                         : op == TE_GT ? (s ? LLVMIntSGT : LLVMIntUGT)
                                       : (s ? LLVMIntSGE : LLVMIntUGE);
    return LLVMBuildICmp(l->g->b, p, x, y, "");
}

/* Part `i` of each word, of so many bits, as a number with its sign or without one. */
static Ssa part_of(const Lanes *l, Ssa word, int i, int bits, bool is_signed)
{
    LLVMBuilderRef b = l->g->b;
    Ssa up = LLVMBuildShl(b, word, lanes_int(l, l->g->i32, 32 - bits * (i + 1)), "");
    Ssa down = lanes_int(l, l->g->i32, 32 - bits);
    return is_signed ? LLVMBuildAShr(b, up, down, "") : LLVMBuildLShr(b, up, down, "");
}

/* The sum by the instruction that makes it, where the processor has one for so many lanes; else NULL. */
static Ssa dots_at_once(const Lanes *l, int op, Ssa acc, Ssa x, Ssa y)
{
    Gen *g = l->g;
    bool wide = l->n == 16;
    char name[64];
    if ((l->n != 4 && l->n != 8 && l->n != 16) || (wide && !gen_has(g, "avx512bw")))
        return NULL;
    if (!g->device && orc_has_dots(&g->jit->orc)) {
        Ssa args[3] = {acc ? acc : LLVMConstNull(LLVMTypeOf(x)), x, y};
        const char *dots = op == TE_DOTS ? "vpdpbusd" : "vpdpwssd";
        snprintf(name, sizeof name, "llvm.x86.avx512.%s.%u", dots, 32 * l->n);
        return gen_intrinsic(g, name, NULL, args, 3);
    }
    if (op == TE_DOTS || !gen_has(g, l->n == 8 ? "avx2" : "sse2"))
        return NULL;
    LLVMTypeRef halves = LLVMVectorType(g->i16, 2 * l->n);
    Ssa args[2] = {LLVMBuildBitCast(g->b, x, halves, ""), LLVMBuildBitCast(g->b, y, halves, "")};
    const char *madd = wide        ? "llvm.x86.avx512.pmaddw.d.512"
                       : l->n == 8 ? "llvm.x86.avx2.pmadd.wd"
                                   : "llvm.x86.sse2.pmadd.wd";
    Ssa sum = gen_intrinsic(g, madd, NULL, args, 2);
    return acc ? LLVMBuildAdd(g->b, acc, sum, "") : sum;
}

Ssa lanes_dots(const Lanes *l, int op, Ssa acc, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    int bits = op == TE_DOTS ? 8 : 16;
    Ssa sum = dots_at_once(l, op, acc, x, y);
    for (int i = 0; i < 32 / bits && !sum; i++) {
        Ssa both = LLVMBuildMul(b, part_of(l, x, i, bits, op == TE_PAIRS),
                                part_of(l, y, i, bits, true), "");
        acc = acc ? LLVMBuildAdd(b, acc, both, "") : both;
    }
    return sum ? sum : acc;
}

static Ssa int_binary(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    switch (op) {
    case TE_ADD: return LLVMBuildAdd(b, x, y, "");
    case TE_SUB: return LLVMBuildSub(b, x, y, "");
    case TE_MUL: return LLVMBuildMul(b, x, y, "");
    case TE_DIV:
    case TE_TRUNCDIV:
    case TE_FLOORDIV:
    case TE_MOD:
    case TE_FLOORMOD: return int_divide(l, op, t, x, y);
    case TE_POW: return int_power(l, t, x, y);
    case TE_MAX: return LLVMBuildSelect(b, int_compare(l, TE_GT, t, x, y), x, y, "");
    case TE_MIN: return LLVMBuildSelect(b, int_compare(l, TE_LT, t, x, y), x, y, "");
    case TE_SHL:
    case TE_SHR: return int_shift(l, op, t, x, y);
    case TE_PLACE: return int_place(l, t, x, y);
    case TE_AND: return LLVMBuildAnd(b, x, y, "");
    case TE_OR: return LLVMBuildOr(b, x, y, "");
    case TE_XOR: return LLVMBuildXor(b, x, y, "");
    case TE_DOTS:
    case TE_PAIRS: return lanes_dots(l, op, NULL, x, y);
    default: return int_compare(l, op, t, x, y);
    }
}

/* ---- truth values: one bit --------------------------------------------------------------------------------------- */

static Ssa bool_unary(const Lanes *l, int op, Ssa a)
{
    switch (op) {
    case TE_NOT: return LLVMBuildNot(l->g->b, a, "");
    case TE_ISNAN:
    case TE_ISINF: return lanes_int(l, l->g->i1, 0);
    case TE_ISFINITE: return lanes_int(l, l->g->i1, 1);
    default: return a;
    }
}

static Ssa bool_binary(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    Ssa false_lanes = lanes_int(l, l->g->i1, 0);
    switch (op) {
    case TE_ADD:
    case TE_OR:
    case TE_MAX: return LLVMBuildOr(b, x, y, "");
    case TE_MUL:
    case TE_AND:
    case TE_MIN: return LLVMBuildAnd(b, x, y, "");
    case TE_SUB:
    case TE_XOR: return LLVMBuildXor(b, x, y, "");
    case TE_SHL:
    case TE_SHR: return LLVMBuildSelect(b, y, false_lanes, x, "");
    case TE_DIV:
    case TE_TRUNCDIV:
    case TE_FLOORDIV:
    case TE_MOD:
    case TE_FLOORMOD:
        l->fault(l->data, lanes_any(l, LLVMBuildNot(b, y, "")), "relay_divided_by_zero");
        return op == TE_MOD || op == TE_FLOORMOD ? false_lanes : x;
    case TE_POW: return LLVMBuildOr(b, x, LLVMBuildNot(b, y, ""), "");
    default: return int_compare(l, op, t, x, y);
    }
}

/* ---- by dtype ------------------------------------------------------------------------------------------------------ */

Ssa lanes_unary(const Lanes *l, int op, DType t, Ssa a)
{
    if (dtype_is_bool(t))
        return bool_unary(l, op, a);
    if (!dtype_is_float(t))
        return int_unary(l, op, t, a);
    Ssa v = float_unary(l, op, t, a);
    bool test = op == TE_ISNAN || op == TE_ISINF || op == TE_ISFINITE;
    return test ? v : rounded(l, t, v);
}

/* Sums and products of halves where the processor has them: as those of float32 that are rounded, without the way there and back. NULL where
 * it has not. */
static Ssa half_binary(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    LLVMOpcode code = op == TE_ADD   ? LLVMFAdd
                      : op == TE_SUB ? LLVMFSub
                      : op == TE_MUL ? LLVMFMul
                                     : (LLVMOpcode)0;
    bool has = l->n > 1 && t.code == DTYPE_CODE_FLOAT && t.bits == 16 && code &&
               gen_has(l->g, "avx512fp16");
    if (!has)
        return NULL;
    LLVMTypeRef own = lanes_type(l, LLVMHalfTypeInContext(l->g->c));
    Ssa of[2] = {LLVMBuildFPTrunc(l->g->b, x, own, ""), LLVMBuildFPTrunc(l->g->b, y, own, "")};
    return LLVMBuildFPExt(l->g->b, LLVMBuildBinOp(l->g->b, code, of[0], of[1], ""), LLVMTypeOf(x),
                          "");
}

Ssa lanes_binary(const Lanes *l, int op, DType t, Ssa x, Ssa y)
{
    if (dtype_is_bool(t))
        return bool_binary(l, op, t, x, y);
    if (!dtype_is_float(t))
        return int_binary(l, op, t, x, y);
    Ssa half = half_binary(l, op, t, x, y);
    if (half)
        return half;
    Ssa v = float_binary(l, op, t, x, y);
    return op >= TE_EQ ? v : rounded(l, t, v);
}

/* The float as an integer of so many bits, where it lies below 2^most in size; elsewhere 0. */
static Ssa int_within(const Lanes *l, LLVMTypeRef to, Ssa a, double most, Ssa *fits)
{
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef element = l->n == 1 ? LLVMTypeOf(a) : LLVMGetElementType(LLVMTypeOf(a));
    *fits = LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOGE, a, lanes_float(l, element, -most), ""),
                         LLVMBuildFCmp(b, LLVMRealOLT, a, lanes_float(l, element, most), ""), "");
    Ssa safe = LLVMBuildSelect(b, *fits, a, lanes_float(l, element, 0), "");
    return LLVMBuildFPToSI(b, safe, lanes_type(l, to), "");
}

static Ssa shortened(const Lanes *l, DType to, unsigned from_bits, Ssa v)
{
    return to.bits == from_bits
               ? v
               : LLVMBuildTrunc(l->g->b, v, lanes_type(l, gen_dtype(l->g, to)), "");
}

/* What int64 cannot hold is its least value, as the processor has it; of uint64, what it holds beyond that. */
static Ssa word_of_float(const Lanes *l, DType to, Ssa a)
{
    Gen *g = l->g;
    Ssa fits, v = int_within(l, g->i64, a, 0x1p63, &fits), least = lanes_int(l, g->i64, INT64_MIN);
    v = LLVMBuildSelect(g->b, fits, v, least, "");
    if (dtype_is_signed(to) || to.bits < 64)
        return v;
    LLVMTypeRef element = l->n == 1 ? LLVMTypeOf(a) : LLVMGetElementType(LLVMTypeOf(a));
    Ssa off = LLVMBuildFSub(g->b, a, lanes_float(l, element, 0x1p63), "");
    Ssa high = LLVMBuildFCmp(g->b, LLVMRealOGE, off, lanes_float(l, element, 0), "");
    Ssa above = LLVMBuildAdd(g->b, int_within(l, g->i64, off, 0x1p63, &fits), least, "");
    return LLVMBuildSelect(g->b, LLVMBuildAnd(g->b, high, fits, ""), above, v, "");
}

/* Through 64 bits, then wrapped. */
static Ssa int_of_float(const Lanes *l, DType to, Ssa a)
{
    Gen *g = l->g;
    Ssa fits, v, near = NULL;
    LLVMBasicBlockRef from[2], go = NULL;
    if (l->n > 1 && to.bits <= 32 && !g->device) {
        /* Lanes of 32 bits are enough but for what wraps around, which is rare. */
        near = shortened(l, to, 32, int_within(l, g->i32, a, 2147483648.0, &fits));
        Ssa fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(g->b));
        LLVMBasicBlockRef far = gen_block(g, fn, "far");
        go = gen_block(g, fn, "go");
        from[0] = LLVMGetInsertBlock(g->b);
        gen_branch(g, lanes_any(l, LLVMBuildNot(g->b, fits, "")), far, go, false);
        LLVMPositionBuilderAtEnd(g->b, far);
    }
    v = shortened(l, to, 64, word_of_float(l, to, a));
    if (!near)
        return v;
    Ssa values[2] = {near, v};
    from[1] = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    return gen_either(g, go, values, from);
}

static Ssa int_of_int(const Lanes *l, DType to, DType from, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = lanes_type(l, gen_dtype(l->g, to));
    unsigned from_bits = dtype_is_bool(from) ? 1 : from.bits;
    if (to.bits < from_bits)
        return LLVMBuildTrunc(b, a, t, "");
    if (to.bits == from_bits)
        return a;
    return dtype_is_signed(from) ? LLVMBuildSExt(b, a, t, "") : LLVMBuildZExt(b, a, t, "");
}

/* Two roundings, the first of them to odd, are as good as one. */
static Ssa float_odd(const Lanes *l, Ssa a)
{
    Gen *g = l->g;
    LLVMTypeRef t = lanes_type(l, g->i32);
    Ssa near = LLVMBuildFPTrunc(g->b, a, lanes_type(l, g->f32), "");
    Ssa back = LLVMBuildFPExt(g->b, near, LLVMTypeOf(a), "");
    Ssa above = LLVMBuildFCmp(g->b, LLVMRealOGT, intrinsic(l, "llvm.fabs", &back, 1),
                              intrinsic(l, "llvm.fabs", &a, 1), "");
    Ssa lost = LLVMBuildFCmp(g->b, LLVMRealONE, back, a, "");
    Ssa bits = LLVMBuildBitCast(g->b, near, t, "");
    bits = LLVMBuildSub(g->b, bits, LLVMBuildZExt(g->b, above, t, ""), "");
    bits = LLVMBuildOr(g->b, bits, LLVMBuildZExt(g->b, lost, t, ""), "");
    return LLVMBuildBitCast(g->b, bits, lanes_type(l, g->f32), "");
}

/* The double of an integer; what one of 64 bits loses lies in the last bit that is kept. */
static Ssa double_odd(const Lanes *l, DType from, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    bool is_signed = dtype_is_signed(from);
    if (from.bits == 64) {
        Ssa zero = lanes_int(l, l->g->i64, 0), unit = lanes_int(l, l->g->i64, 0x800);
        Ssa low = LLVMBuildAnd(b, a, lanes_int(l, l->g->i64, 0x7ff), "");
        Ssa lost = LLVMBuildICmp(b, LLVMIntNE, low, zero, "");
        Ssa odd = LLVMBuildOr(b, LLVMBuildSub(b, a, low, ""),
                              LLVMBuildSelect(b, lost, unit, zero, ""), "");
        Ssa above = is_signed ? intrinsic(l, "llvm.abs", (Ssa[]){a, gen_int(l->g->i1, 0)}, 2) : a;
        above = LLVMBuildLShr(b, above, lanes_int(l, l->g->i64, 53), "");
        a = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntEQ, above, zero, ""), a, odd, "");
    }
    LLVMTypeRef t = lanes_type(l, l->g->f64);
    return is_signed ? LLVMBuildSIToFP(b, a, t, "") : LLVMBuildUIToFP(b, a, t, "");
}

Ssa lanes_cast(const Lanes *l, DType to, DType from, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = lanes_type(l, gen_dtype(l->g, to));
    bool was_float = dtype_is_float(from);
    if (dtype_eq(to, from))
        return a;
    if (dtype_is_bool(to)) {
        Ssa zero = LLVMConstNull(LLVMTypeOf(a));
        return was_float ? LLVMBuildFCmp(b, LLVMRealUNE, a, zero, "")
                         : LLVMBuildICmp(b, LLVMIntNE, a, zero, "");
    }
    if (!dtype_is_float(to))
        return was_float ? int_of_float(l, to, a) : int_of_int(l, to, from, a);
    if (!was_float && to.code == DTYPE_CODE_BFLOAT && from.bits >= 32)
        a = float_odd(l, double_odd(l, from, a));
    else if (!was_float)
        a = dtype_is_signed(from) ? LLVMBuildSIToFP(b, a, t, "") : LLVMBuildUIToFP(b, a, t, "");
    else if (to.bits == 64)
        a = LLVMBuildFPExt(b, a, t, "");
    else if (from.bits == 64)
        a = to.bits == 16 ? float_odd(l, a) : LLVMBuildFPTrunc(b, a, t, "");
    return rounded(l, to, a);
}
