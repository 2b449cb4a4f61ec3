/* Short words for LLVM's builder, and how scalars stand in registers, in memory and in a Value. */
#include "jit/internal.h"

#include <stdio.h>
#include <string.h>

LLVMTypeRef gen_dtype(Gen *g, DType t)
{
    if (dtype_is_bool(t))
        return g->i1;
    if (t.code == DTYPE_CODE_FLOAT && t.bits == 64)
        return g->f64;
    if (t.code == DTYPE_CODE_FLOAT || t.code == DTYPE_CODE_BFLOAT)
        return g->f32;
    return LLVMIntTypeInContext(g->c, t.bits);
}

LLVMTypeRef gen_stored(Gen *g, DType t)
{
    if (dtype_is_bool(t))
        return g->i8;
    if (dtype_is_float(t) && t.bits == 16)
        return g->i16;
    return gen_dtype(g, t);
}

LLVMTypeRef gen_type(Gen *g, Repr r)
{
    return r.kind == REPR_SCALAR ? gen_dtype(g, r.dtype) : g->ptr;
}

Ssa gen_int(LLVMTypeRef t, int64_t v)
{
    return LLVMConstInt(t, (unsigned long long)v, true);
}

Ssa gen_offset(Gen *g, Ssa base, size_t bytes)
{
    if (bytes == 0)
        return base;
    Ssa at = gen_int(g->i64, (int64_t)bytes);
    return LLVMBuildInBoundsGEP2(g->b, g->i8, base, &at, 1, "");
}

Ssa gen_load(Gen *g, LLVMTypeRef t, Ssa base, size_t bytes)
{
    return LLVMBuildLoad2(g->b, t, gen_offset(g, base, bytes), "");
}

void gen_store(Gen *g, Ssa v, Ssa base, size_t bytes)
{
    LLVMBuildStore(g->b, v, gen_offset(g, base, bytes));
}

static LLVMTypeRef letter_type(Gen *g, char letter)
{
    switch (letter) {
    case 'i': return g->i32;
    case 'l': return g->i64;
    case 'f': return g->f32;
    case 'd': return g->f64;
    case 'p': return g->ptr;
    default: return g->nothing;
    }
}

/* The C function of this name. */
static Ssa abi_function(Gen *g, const char *name, LLVMTypeRef *type)
{
    const AbiRow *row = abi_table;
    while (row->name && strcmp(row->name, name) != 0)
        row++;
    LLVMTypeRef params[16], result = letter_type(g, row->signature[0]);
    unsigned n_params = (unsigned)strlen(row->signature) - 1;
    for (unsigned i = 0; i < n_params; i++)
        params[i] = letter_type(g, row->signature[i + 1]);
    *type = LLVMFunctionType(result, params, n_params, false);
    Ssa fn = ptrmap_find(&g->abi, row);
    if (!fn) {
        fn = LLVMAddFunction(g->m, row->name, *type);
        ptrmap_put(&g->abi, row, fn);
    }
    return fn;
}

Ssa gen_call_abi(Gen *g, const char *name, Ssa *args, unsigned n)
{
    LLVMTypeRef type;
    Ssa fn = abi_function(g, name, &type);
    return LLVMBuildCall2(g->b, type, fn, args, n, "");
}

/* A function of the module that calls the one of C and keeps all registers. */
static Ssa make_keeping(Gen *g, const char *name, LLVMTypeRef type, Ssa callee)
{
    Ssa fn = LLVMAddFunction(g->m, name, type), args[16];
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    LLVMSetFunctionCallConv(fn, KEEPCC);
    gen_attribute(g, fn, "nounwind");
    gen_attribute(g, fn, "noinline");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, fn, ""));
    LLVMGetParams(fn, args);
    Ssa v = LLVMBuildCall2(g->b, type, callee, args, LLVMCountParams(fn), "");
    if (LLVMGetReturnType(type) == g->nothing)
        LLVMBuildRetVoid(g->b);
    else
        LLVMBuildRet(g->b, v);
    LLVMPositionBuilderAtEnd(g->b, before);
    return fn;
}

Ssa gen_call_rare(Gen *g, const char *name, Ssa *args, unsigned n)
{
    LLVMTypeRef type;
    char keeping[64];
    snprintf(keeping, sizeof keeping, "keeping.%s", name);
    Ssa callee = abi_function(g, name, &type), fn = LLVMGetNamedFunction(g->m, keeping);
    if (!fn)
        fn = make_keeping(g, keeping, type, callee);
    Ssa call = LLVMBuildCall2(g->b, type, fn, args, n, "");
    LLVMSetInstructionCallConv(call, KEEPCC);
    return call;
}

Ssa gen_intrinsic(Gen *g, const char *name, LLVMTypeRef overload, Ssa *args, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    Ssa fn = LLVMGetIntrinsicDeclaration(g->m, id, &overload, overload ? 1 : 0);
    return LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
}

static const char *const import_words[] = {
    [IMPORT_HERE] = "here",       [IMPORT_FORM] = "form",         [IMPORT_UNIT] = "unit",
    [IMPORT_NULLARY] = "nullary", [IMPORT_CLOSURE] = "closure",   [IMPORT_TENSOR] = "constant",
    [IMPORT_PACKED] = "packed",   [IMPORT_SITE] = "site",         [IMPORT_SOURCE] = "source",
    [IMPORT_RUN] = "run",         [IMPORT_TYPE] = "type",         [IMPORT_INFO] = "info",
    [IMPORT_LATE] = "late",       [IMPORT_VARIANTS] = "variants", [IMPORT_CLOSED] = "closed",
};

/* Numbers of sources are no addresses of anything else; what a constructor is and the value it makes are two things. */
static const void *import_key(ImportKind kind, const void *at)
{
    if (kind == IMPORT_UNIT)
        return &import_words[kind];
    if (kind == IMPORT_FORM)
        return ((const FormUse *)at)->form;
    return kind == IMPORT_NULLARY ? (const void *)((const Constructor *)at)->info->nullary : at;
}

const void *import_address(Jit *jit, ImportKind kind, const void *at)
{
    switch (kind) {
    case IMPORT_FORM: return (const void *)(uintptr_t)((const FormUse *)at)->form->first;
    case IMPORT_UNIT: return value_unit().object;
    case IMPORT_NULLARY: return ((const Constructor *)at)->info->nullary;
    case IMPORT_CLOSURE: return closure_info(jit, at);
    case IMPORT_PACKED: return ((const Tensor *)at)->data;
    case IMPORT_CLOSED: return ((const Closed *)at)->value.object;
    case IMPORT_HERE:
    case IMPORT_SITE:
    case IMPORT_TENSOR:
    case IMPORT_SOURCE:
    case IMPORT_RUN:
    case IMPORT_TYPE:
    case IMPORT_INFO:
    case IMPORT_LATE:
    case IMPORT_VARIANTS: return at;
    case IMPORT_NOTHING: break;
    }
    return NULL;
}

const ObjectForm *import_form(Ctx *cx, ValueKind kind, const Constructor *con, uint32_t n,
                              const uint64_t *heads)
{
    const ObjectInfo *info = kind == VALUE_FUNCTION ? NULL
                             : kind == VALUE_TUPLE  ? &tuple_info
                             : kind == VALUE_REF    ? &ref_info
                                                    : con->info;
    return heap_form(heap_of(&cx->limits), info, n, heads);
}

Ssa gen_outside(Gen *g, ImportKind kind, const void *at)
{
    const void *key = import_key(kind, at);
    Ssa v = ptrmap_find(&g->outside, key);
    if (v)
        return v;
    char name[48];
    snprintf(name, sizeof name, IMPORT_PREFIX "%zu.%s", g->out->imports.n, import_words[kind]);
    Import import = {kind, at, import_address(g->jit, kind, at), false};
    vec_push(&g->out->imports, g->arena, import);
    v = LLVMAddGlobal(g->m, g->i8, name);
    ptrmap_put(&g->outside, key, v);
    return v;
}

Ssa gen_bytes(Gen *g, const void *bytes, size_t n)
{
    Ssa text = LLVMConstStringInContext2(g->c, bytes, n, true);
    Ssa v = LLVMAddGlobal(g->m, LLVMTypeOf(text), "");
    LLVMSetInitializer(v, text);
    LLVMSetGlobalConstant(v, true);
    LLVMSetLinkage(v, LLVMPrivateLinkage);
    LLVMSetAlignment(v, 8);
    return v;
}

void gen_span(Gen *g, Span span, Ssa out[3])
{
    const void *number = (const void *)(uintptr_t)span.source;
    Ssa source = number ? gen_outside(g, IMPORT_SOURCE, number) : NULL;
    out[0] = source ? LLVMBuildPtrToInt(g->b, source, g->i32, "") : gen_int(g->i32, 0);
    out[1] = gen_int(g->i32, span.from);
    out[2] = gen_int(g->i32, span.to);
}
LLVMBasicBlockRef gen_block(Gen *g, Ssa fn, const char *name)
{
    return LLVMAppendBasicBlockInContext(g->c, fn, name);
}

void gen_branch(Gen *g, Ssa cond, LLVMBasicBlockRef then, LLVMBasicBlockRef otherwise, bool likely)
{
    Ssa br = LLVMBuildCondBr(g->b, cond, then, otherwise);
    LLVMMetadataRef weights[3] = {
        LLVMMDStringInContext2(g->c, "branch_weights", 14),
        LLVMValueAsMetadata(gen_int(g->i32, likely ? 1000 : 1)),
        LLVMValueAsMetadata(gen_int(g->i32, likely ? 1 : 1000)),
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(g->c, weights, 3);
    LLVMSetMetadata(br, LLVMGetMDKindIDInContext(g->c, "prof", 4), LLVMMetadataAsValue(g->c, node));
}

Ssa gen_either(Gen *g, LLVMBasicBlockRef go, Ssa values[2], LLVMBasicBlockRef from[2])
{
    LLVMPositionBuilderAtEnd(g->b, go);
    Ssa phi = LLVMBuildPhi(g->b, LLVMTypeOf(values[0]), "");
    LLVMAddIncoming(phi, values, from, 2);
    return phi;
}

void gen_attribute(Gen *g, Ssa fn, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(g->c, kind, 0));
}

/* ---- scalars in memory ---------------------------------------------------------------------------------- */

/* A type like `shape` (a scalar or vector type) with another element. */
static LLVMTypeRef like(LLVMTypeRef shape, LLVMTypeRef element)
{
    if (LLVMGetTypeKind(shape) != LLVMVectorTypeKind)
        return element;
    return LLVMVectorType(element, LLVMGetVectorSize(shape));
}

static Ssa splat_int(LLVMTypeRef t, int64_t v)
{
    if (LLVMGetTypeKind(t) != LLVMVectorTypeKind)
        return gen_int(t, v);
    Ssa parts[64];
    unsigned n = LLVMGetVectorSize(t);
    for (unsigned i = 0; i < n; i++)
        parts[i] = gen_int(LLVMGetElementType(t), v);
    return LLVMConstVector(parts, n);
}

/* Rounds to nearest even by integer arithmetic; NaN stays NaN. */
static Ssa bfloat_bits(Gen *g, Ssa v)
{
    LLVMTypeRef wide = like(LLVMTypeOf(v), g->i32);
    Ssa bits = LLVMBuildBitCast(g->b, v, wide, "");
    Ssa top = LLVMBuildLShr(g->b, bits, splat_int(wide, 16), "");
    Ssa odd = LLVMBuildAnd(g->b, top, splat_int(wide, 1), "");
    Ssa up = LLVMBuildAdd(g->b, LLVMBuildAdd(g->b, bits, odd, ""), splat_int(wide, 0x7fff), "");
    Ssa nan = LLVMBuildOr(g->b, top, splat_int(wide, 0x40), "");
    Ssa is_nan = LLVMBuildFCmp(g->b, LLVMRealUNO, v, v, "");
    Ssa kept = LLVMBuildLShr(g->b, up, splat_int(wide, 16), "");
    kept = LLVMBuildSelect(g->b, is_nan, nan, kept, "");
    return LLVMBuildTrunc(g->b, kept, like(wide, g->i16), "");
}

Ssa gen_to_stored(Gen *g, DType t, Ssa v)
{
    LLVMTypeRef now = LLVMTypeOf(v);
    if (dtype_is_bool(t))
        return LLVMBuildZExt(g->b, v, like(now, g->i8), "");
    if (t.code == DTYPE_CODE_BFLOAT && g->device) {
        LLVMTypeRef brain = LLVMBFloatTypeInContext(g->c);
        return LLVMBuildBitCast(g->b, LLVMBuildFPTrunc(g->b, v, like(now, brain), ""),
                                like(now, g->i16), "");
    }
    if (t.code == DTYPE_CODE_BFLOAT)
        return bfloat_bits(g, v);
    if (dtype_is_float(t) && t.bits == 16) {
        Ssa half = LLVMBuildFPTrunc(g->b, v, like(now, LLVMHalfTypeInContext(g->c)), "");
        return LLVMBuildBitCast(g->b, half, like(now, g->i16), "");
    }
    return v;
}

Ssa gen_from_stored(Gen *g, DType t, Ssa v)
{
    LLVMTypeRef now = LLVMTypeOf(v);
    if (dtype_is_bool(t))
        return LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(now), "");
    if (t.code == DTYPE_CODE_BFLOAT) {
        LLVMTypeRef wide = like(now, g->i32);
        Ssa bits = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, v, wide, ""), splat_int(wide, 16), "");
        return LLVMBuildBitCast(g->b, bits, like(now, g->f32), "");
    }
    if (dtype_is_float(t) && t.bits == 16) {
        Ssa half = LLVMBuildBitCast(g->b, v, like(now, LLVMHalfTypeInContext(g->c)), "");
        return LLVMBuildFPExt(g->b, half, like(now, g->f32), "");
    }
    return v;
}

Ssa gen_bits(Gen *g, Repr r, Ssa v)
{
    if (r.kind != REPR_SCALAR)
        return v;
    Ssa stored = gen_to_stored(g, r.dtype, v);
    LLVMTypeRef as_int = LLVMIntTypeInContext(g->c, dtype_is_bool(r.dtype) ? 8 : r.dtype.bits);
    stored = LLVMBuildBitCast(g->b, stored, as_int, "");
    return LLVMBuildZExt(g->b, stored, g->i64, "");
}

Ssa gen_unbits(Gen *g, Repr r, Ssa bits)
{
    if (r.kind != REPR_SCALAR)
        return bits;
    LLVMTypeRef as_int = LLVMIntTypeInContext(g->c, dtype_is_bool(r.dtype) ? 8 : r.dtype.bits);
    Ssa v = LLVMBuildTrunc(g->b, bits, as_int, "");
    v = LLVMBuildBitCast(g->b, v, gen_stored(g, r.dtype), "");
    return gen_from_stored(g, r.dtype, v);
}

Ssa gen_head(Gen *g, Repr r)
{
    Value v = {.kind = r.value, .dtype = r.dtype};
    uint64_t head;
    memcpy(&head, &v, sizeof head);
    return gen_int(g->i64, (int64_t)head);
}

Ssa gen_interrupted(Gen *g, Ssa state)
{
    Ssa flag = gen_load(g, g->ptr, state, offsetof(JitState, interrupted));
    Ssa set = gen_load(g, g->i8, flag, 0);
    LLVMSetVolatile(set, true);
    return LLVMBuildICmp(g->b, LLVMIntNE, set, gen_int(g->i8, 0), "");
}

/* ---- between C and generated code -------------------------------------------------------------------------- */

Ssa gen_argument(Gen *g, Repr r, Ssa values, uint32_t i)
{
    LLVMTypeRef t = r.kind == REPR_SCALAR ? g->i64 : g->ptr;
    return gen_unbits(g, r, gen_load(g, t, values, i * sizeof(Value) + 8));
}

/* The state has a register of its own, which functions hand on as it is. */
static LLVMAttributeRef state_attribute(LLVMContextRef c)
{
    static const char name[] = "swiftself";
    return LLVMCreateEnumAttribute(c, LLVMGetEnumAttributeKindForName(name, sizeof name - 1), 0);
}

void gen_function_convention(Gen *g, Ssa fn, unsigned convention)
{
    LLVMSetFunctionCallConv(fn, convention);
    if (convention == TAILCC || convention == FASTCC)
        LLVMAddAttributeAtIndex(fn, 1, state_attribute(g->c));
}

/* AArch64 has none, and saves registers as ever. */
static const char saves_nothing[] = "no_callee_saved_registers";

static void text_attribute(Gen *g, Ssa fn, const char *name, const char *value)
{
    LLVMAttributeRef made = LLVMCreateStringAttribute(g->c, name, (unsigned)strlen(name), value,
                                                      (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, made);
}

/* All but one: where the caller has a pointer to its frame, LLVM takes it that calls keep that. */
void gen_save_nothing(Gen *g, Ssa fn)
{
    text_attribute(g, fn, saves_nothing, "");
    text_attribute(g, fn, "frame-pointer", "all");
}

void gen_compare_tags(Gen *g, Ssa fn)
{
    text_attribute(g, fn, "no-jump-tables", "true");
}

unsigned gen_set_convention(Ssa call)
{
    Ssa callee = LLVMIsAFunction(LLVMGetCalledValue(call));
    unsigned convention = callee ? LLVMGetFunctionCallConv(callee) : TAILCC;
    LLVMSetInstructionCallConv(call, convention);
    LLVMAttributeRef none =
        callee ? LLVMGetStringAttributeAtIndex(callee, LLVMAttributeFunctionIndex, saves_nothing,
                                               sizeof saves_nothing - 1)
               : NULL;
    if (none)
        LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, none);
    if (convention == TAILCC || convention == FASTCC)
        LLVMAddCallSiteAttribute(call, 1, state_attribute(LLVMGetTypeContext(LLVMTypeOf(call))));
    return convention;
}

void gen_give_back(Fn *f, LLVMTypeRef type, Ssa callee, Ssa *args, unsigned n, const Type *result)
{
    Gen *g = f->g;
    Ssa out = LLVMGetParam(f->fn, 2), v = LLVMBuildCall2(g->b, type, callee, args, n, "");
    gen_set_convention(v);
    Repr r = repr_of(result);
    gen_store(g, gen_head(g, r), out, 0);
    gen_store(g, gen_bits(g, r, v), out, 8);
    LLVMBuildRetVoid(g->b);
}
