#include "exchange/onnx_import.h"

#include "base/memory.h"
#include "exchange/onnx_internal.h"
#include "ir/print.h"
#include "parser/parser.h"
#include "stdlib/prelude.h"
#include "typecheck/typecheck.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Refusals that are listed. */
#define REFUSALS_MOST 60
/* Elements of a tensor. */
#define EXTENTS_MOST ((Dim)1 << 47)
/* Functions that call each other, and graphs in graphs. */
#define CALLS_MOST 100

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

/* What is left of a name of the model when only letters, digits and `_` may stay. */
const Name *import_name(OnnxImport *im, const char *name, const char *hint)
{
    Buf b = {0};
    for (size_t i = 0, n = name ? strlen(name) : 0; i < n; i++) {
        bool word = isalnum((unsigned char)name[i]) || name[i] == '_';
        if (word || (b.n > 0 && b.at[b.n - 1] != '_'))
            buf_char(&b, word ? name[i] : '_');
    }
    while (b.n > 0 && b.at[b.n - 1] == '_')
        buf_cut(&b, b.n - 1);
    size_t from = 0;
    while (from < b.n && b.at[from] == '_')
        from++;
    Buf first = {0};
    bool letter = from < b.n && isalpha((unsigned char)b.at[from]);
    buf_printf(&first, "%s%s", letter ? "" : hint, from < b.n ? buf_text(&b) + from : "");
    const Name *found = ctx_name(im->cx, buf_text(&first));
    for (unsigned k = 1; ptrmap_has(&im->taken, found); k++) {
        Buf other = {0};
        buf_printf(&other, "%s_%u", buf_text(&first), k);
        found = ctx_name(im->cx, buf_text(&other));
        buf_deinit(&other);
    }
    ptrmap_put(&im->taken, found, im);
    buf_deinit(&first);
    buf_deinit(&b);
    return found;
}

OnnxValue *import_value(OnnxImport *im, const char *name)
{
    const Name *key = ctx_name(im->cx, name);
    for (const OnnxBlock *b = im->block; b; b = b->call ? NULL : b->outer) {
        OnnxValue *v = ptrmap_find(&b->values, key);
        if (v)
            return v;
    }
    return NULL;
}

OnnxValue *import_value_new(OnnxImport *im, const char *name)
{
    OnnxValue *v = arena_new(&im->out->arena, OnnxValue);
    name = name ? name : ""; /* a graph's input may be without one */
    *v = (OnnxValue){.name = name, .number = im->numbers++};
    ptrmap_put(&im->block->values, ctx_name(im->cx, name), v);
    return v;
}

const char *import_text(OnnxImport *im, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&im->out->arena, format, args);
    va_end(args);
    return text;
}

const char *import_var(OnnxImport *im, const Name *name, const Type *type)
{
    Var *v = expr_var(&im->vars->arena, (Span){0}, name, NULL);
    v->base.type = type;
    ptrmap_put(&im->locals, name, v);
    return import_text(im, "%%%s", name->text);
}

void import_push_block(OnnxImport *im, const OnnxNode *call, int64_t version)
{
    OnnxBlock *b = arena_new(&im->out->arena, OnnxBlock);
    *b = (OnnxBlock){.outer = im->block, .call = call, .version = version};
    im->block = b;
}

/* The names in it mean nothing any more; its lines remain. */
OnnxBlock *import_pop_block(OnnxImport *im)
{
    OnnxBlock *b = im->block;
    im->block = b->outer;
    ptrmap_deinit(&b->values);
    return b;
}

/* ---- refusals --------------------------------------------------------------------------------------------------------------- */

void import_refuse(OnnxImport *im, const char *what)
{
    if (!im->refused)
        im->refused = diag_error(im->cx->diags, E0406_IMPORT, (Span){0},
                                 "%s has operators that Relay cannot say", im->wish->path);
    if (im->refusals++ < REFUSALS_MOST)
        diag_note(im->refused, "%s", what);
}

/* ---- types ------------------------------------------------------------------------------------------------------------------ */

/* A symbolic extent is one of the metadata; what is computed from such is left open. */
static void print_extent(void *data, Buf *b, Dim d)
{
    OnnxImport *im = data;
    for (size_t i = 0; i < im->symbols.n; i++)
        if (im->symbols.at[i] == d) {
            buf_printf(b, "meta[tir.SizeVar][%zu]", i);
            return;
        }
    buf_char(b, '?');
}

const char *import_type_text(OnnxImport *im, const Type *t)
{
    Buf b = {0};
    type_print_as(&b, t, (TypeStyle){print_extent, NULL, im});
    return buf_keep(&b, &im->out->arena);
}

/* Behind a text that mentions symbolic extents. */
static void put_metadata(OnnxImport *im, Buf *b)
{
    if (im->symbols.n == 0)
        return;
    buf_str(
        b, "\n#[metadata]\n{\"root\": 1, \"nodes\": [{\"type_key\": \"\"}, {\"type_key\": \"Map\", "
           "\"keys\": [\"tir.SizeVar\"], \"data\": [2]}, {\"type_key\": \"Array\", \"data\": [");
    for (size_t i = 0; i < im->symbols.n; i++)
        buf_printf(b, "%s%zu", i ? ", " : "", i + 3);
    buf_str(b, "]}");
    for (size_t i = 0; i < im->symbols.n; i++) {
        buf_str(b,
                ", {\"type_key\": \"tir.SizeVar\", \"attrs\": {\"dtype\": \"int64\", \"name\": \"");
        buf_str(b, dim_symbol_get(im->cx, im->symbols.at[i])->name->text);
        buf_str(b, "\", \"span\": \"0\"}}");
    }
    buf_str(b, "], \"b64ndarrays\": [], \"attrs\": {\"tvm_version\": \"0.9.0\"}}\n");
}

/* The extent that the model calls so. */
static Dim symbol_of(OnnxImport *im, const char *param)
{
    Buf clean = {0};
    for (const char *p = param; *p; p++)
        buf_char(&clean, isalnum((unsigned char)*p) ? *p : '_');
    DimSymbol symbol = {
        .name = ctx_name(im->cx, buf_text(&clean)), .dtype = dtype_of(DT_INT64), .is_size = true};
    buf_deinit(&clean);
    for (size_t i = 0; i < im->symbols.n; i++)
        if (dim_symbol_get(im->cx, im->symbols.at[i])->name == symbol.name)
            return im->symbols.at[i];
    Dim d = dim_symbol(im->cx, symbol);
    vec_push(&im->symbols, &im->out->arena, d);
    return d;
}

static const ImportShape *shape_wish(const OnnxImport *im, const char *name)
{
    for (size_t i = 0; i < im->wish->n_shapes; i++)
        if (str_eq(im->wish->shapes[i].name, str_of(name)))
            return &im->wish->shapes[i];
    return NULL;
}

static Dim extent_of(OnnxImport *im, const Onnx__TensorShapeProto__Dimension *d)
{
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
        return d->dim_value >= 0 ? d->dim_value : DIM_ANY;
    if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM || !d->dim_param ||
        !*d->dim_param)
        return DIM_ANY;
    const ImportShape *wish = shape_wish(im, d->dim_param);
    return wish && wish->rank == 1 ? wish->dims[0] : symbol_of(im, d->dim_param);
}

static void need_prelude(OnnxImport *im);

/* `List[A]`, `Option[A]`. */
static const Type *container(OnnxImport *im, const char *name, const Type *inner)
{
    need_prelude(im);
    for (size_t i = 0; inner && im->prelude && i < im->prelude->types.n; i++)
        if (!strcmp(im->prelude->types.at[i]->name->text, name))
            return type_adt(im->cx, im->prelude->types.at[i], 1, &inner);
    return NULL;
}

/* Elements of a sequence may differ in what the model gives one name. */
static const Type *without_symbols(OnnxImport *im, const Type *t)
{
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; t && t->kind == TYPE_TENSOR && i < t->n; i++)
        dims[i] = t->dims[i] < 0 ? DIM_ANY : t->dims[i];
    return t && t->kind == TYPE_TENSOR ? type_tensor(im->cx, t->dtype, t->n, dims) : t;
}

const Type *import_type(OnnxImport *im, const Onnx__TypeProto *t, const char *name,
                        const char **why)
{
    *why = "Relay has no such type";
    if (t && t->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE)
        return container(
            im, "List", without_symbols(im, import_type(im, t->sequence_type->elem_type, "", why)));
    if (t && t->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE)
        return container(im, "Option", import_type(im, t->optional_type->elem_type, "", why));
    if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        return NULL;
    const Onnx__TensorShapeProto *shape = t->tensor_type->shape;
    DType dtype = onnx_dtype(t->tensor_type->elem_type);
    if (dtype_size(dtype) == 0) {
        *why = import_text(im, "Relay has no element type `%s`",
                           onnx_dtype_name(t->tensor_type->elem_type));
        return NULL;
    }
    const ImportShape *wish = shape_wish(im, name);
    size_t rank = wish ? (size_t)wish->rank : shape ? shape->n_dim : 0;
    if (rank > TENSOR_RANK_MOST || (!shape && !wish)) {
        *why = "its rank is not known (`--shape` can say it)";
        return NULL;
    }
    Dim dims[TENSOR_RANK_MOST], size = 1;
    for (size_t i = 0; i < rank; i++) {
        dims[i] = wish ? wish->dims[i] : extent_of(im, shape->dim[i]);
        if (dims[i] > 1 && size > EXTENTS_MOST / dims[i]) {
            *why = "its shape is none that a tensor can have";
            return NULL;
        }
        size *= dims[i] > 1 ? dims[i] : 1;
    }
    return type_tensor(im->cx, dtype, (uint32_t)rank, dims);
}

/* ---- parameters and constants ----------------------------------------------------------------------------------------------- */

static const char *add_array(OnnxImport *im, const OnnxValue *v)
{
    const Name *var = import_name(im, v->name, "w_");
    vec_push(&im->out->arrays, &im->out->arena,
             ((ImportedArray){var->text, v->number, tensor_retain(v->constant), v->name}));
    return import_var(im, var, v->type);
}

const char *import_literal(OnnxImport *im, Value v)
{
    Buf b = {0};
    ir_print_expr(&b, expr_constant(&im->vars->arena, (Span){0}, v), (PrintStyle){0});
    const char *text = buf_keep(&b, &im->out->arena);
    return strncmp(text, "meta", 4) ? text : NULL;
}

const char *import_program_text(OnnxImport *im, OnnxValue *v)
{
    if (!v->text && v->constant->rank == 0)
        v->text = import_literal(im, value_scalar(v->constant->dtype, v->constant->data));
    if (!v->text)
        v->text = add_array(im, v);
    return v->text;
}

const char *import_here_text(OnnxImport *im, OnnxValue *v)
{
    if (v->here)
        return v->here;
    const Name *name = import_name(im, "constant", "");
    v->here = import_var(im, name, v->type);
    Value *value = arena_new(&im->out->arena, Value);
    *value = value_tensor(tensor_retain(v->constant));
    vec_push(&im->held, &im->out->arena, *value);
    ptrmap_put(&im->known, ptrmap_find(&im->locals, name), value);
    return v->here;
}

void import_constant(OnnxImport *im, OnnxValue *v, Tensor *t)
{
    v->constant = t;
    v->type = type_of_tensor(im->cx, t);
    v->open = false;
    vec_push(&im->arrays, &im->out->arena, t);
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------ */

static void need_prelude(OnnxImport *im)
{
    for (const PreludeFile *f = prelude_files; !im->prelude && f->name; f++)
        if (!strcmp(f->name, "prelude.rly")) {
            uint32_t source = sources_add(&im->cx->sources, f->name, f->text, f->len);
            im->prelude = source ? parse_text(im->cx, source, &(ParseEnv){0}) : NULL;
            if (im->prelude)
                typecheck_module(im->cx, im->prelude, NULL);
        }
}

void onnx_need_prelude(OnnxNode *n)
{
    need_prelude(n->im);
}

static const char *op_of(const OnnxNode *n)
{
    return n->proto->op_type ? n->proto->op_type : "";
}

/* The expression with its type; NULL after a refusal. */
static Module *read_line(OnnxNode *n, const char *text, const Name *name)
{
    OnnxImport *im = n->im;
    Ctx *cx = im->cx;
    DiagsMark mark = diags_mark(cx->diags);
    ParseEnv env = {.locals = &im->locals, .globals = im->prelude};
    Buf b = {0};
    if (!strncmp(text, "fn (", 4)) /* it may call itself */
        buf_printf(&b, "let %%%s = %s; %%%s", name->text, text, name->text);
    else
        buf_str(&b, text);
    if (strstr(text, "meta["))
        put_metadata(im, &b);
    uint32_t source = sources_add(&cx->sources, op_of(n), buf_text(&b), b.n);
    buf_deinit(&b);
    Module *m = source ? parse_text(cx, source, &env) : NULL;
    if (m && m->expr && typecheck_module(cx, m, im->prelude))
        return m;
    const Diag *why = mark.last ? mark.last->next : cx->diags->first;
    const char *message = why ? import_text(im, "%s", why->message) : "it has no type";
    module_release(m);
    if (!limit_hit(&cx->limits)) {
        diags_back(cx->diags, mark);
        onnx_refuse(n, "%s, in %.200s", message, text);
    }
    n->failed = true;
    return NULL;
}

/* The value of the line, which depends on constants alone. */
static Tensor *compute(OnnxNode *n, Module *m)
{
    OnnxImport *im = n->im;
    Value v = interp_eval(im->in, im->vars, m, m->expr, &im->known);
    Tensor *t = value_to_tensor(&im->cx->limits, v);
    value_release(v);
    if (!t)
        onnx_refuse(n, "it cannot be computed");
    return t;
}

/* Whether the import keeps the value rather than the line that computes it. */
static bool is_small(const Type *t)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->dims[i] > FOLD_MOST)
            return false;
        size *= t->dims[i] < 0 ? 1 : t->dims[i];
        if (size > FOLD_MOST)
            return false;
    }
    return true;
}

bool import_line(OnnxNode *n, const char *text, const Name *name, OnnxValue *out)
{
    OnnxImport *im = n->im;
    Module *m = n->failed || n->large ? NULL : read_line(n, text, name);
    if (!m)
        return false;
    out->type = m->expr->type;
    if (n->constant && out->type->kind == TYPE_TENSOR) {
        n->large = !is_small(out->type);
        Tensor *t = n->large ? NULL : compute(n, m);
        if (t)
            import_constant(im, out, t);
    } else {
        vec_push(&im->block->lines, &im->out->arena, ((OnnxLine){name, text, im->call}));
        out->text = import_var(im, name, out->type);
    }
    module_release(m);
    return !n->failed && !n->large;
}

/* ---- the graph -------------------------------------------------------------------------------------------------------------- */

static const OnnxRule *rule_of(const Onnx__NodeProto *node)
{
    const char *domain = node->domain ? node->domain : "";
    bool usual = !strncmp(domain, "ai.onnx", strlen("ai.onnx")) || !*domain;
    for (const OnnxRule *r = onnx_rules; usual && node->op_type && r->op; r++)
        if (!strcmp(r->op, node->op_type))
            return r;
    return NULL;
}

/* Whether the outputs are to be computed now: everything that they need is known, and small. */
static bool is_constant(OnnxImport *im, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->g)
            return false;
    for (size_t i = 0; i < node->n_input; i++) {
        const OnnxValue *v = *node->input[i] ? import_value(im, node->input[i]) : NULL;
        if (*node->input[i] && (!v || !v->constant || v->constant->size > FOLD_MOST))
            return false;
    }
    return true;
}

/* Whether something that the node needs could not be said: then that was said. */
static bool lacks_input(OnnxImport *im, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_input; i++) {
        const OnnxValue *v = *node->input[i] ? import_value(im, node->input[i]) : NULL;
        if (*node->input[i] && (!v || (!v->type && !v->constant && !v->open)))
            return true;
    }
    return false;
}

static void count_op(OnnxImport *im, const OnnxNode *n)
{
    const Name *name = ctx_name(im->cx, op_of(n));
    size_t at = (size_t)(uintptr_t)ptrmap_find(&im->ops, name);
    if (at == 0) {
        vec_push(&im->out->ops, &im->out->arena, ((ImportedOp){.name = name->text}));
        at = im->out->ops.n;
        ptrmap_put(&im->ops, name, (void *)(uintptr_t)at);
    }
    im->out->ops.at[at - 1].nodes++;
    im->out->ops.at[at - 1].folded += n->constant;
}

static int64_t version_in(size_t n, Onnx__OperatorSetIdProto *const *sets, int64_t otherwise)
{
    for (size_t i = 0; i < n; i++)
        if (!sets[i]->domain || !*sets[i]->domain || !strcmp(sets[i]->domain, "ai.onnx"))
            otherwise = sets[i]->version;
    return otherwise;
}

static const Onnx__FunctionProto *function_of(const OnnxImport *im, const Onnx__NodeProto *node)
{
    const Onnx__ModelProto *m = im->model.model;
    for (size_t i = 0; node->op_type && i < m->n_functions; i++) {
        const Onnx__FunctionProto *f = m->functions[i];
        if (f->name && !strcmp(f->name, node->op_type) &&
            !strcmp(f->domain ? f->domain : "", node->domain ? node->domain : "") &&
            str_eq(onnx_later_text(&f->base, ONNX_FUNCTION_OVERLOAD),
                   onnx_later_text(&node->base, ONNX_NODE_OVERLOAD)))
            return f;
    }
    return NULL;
}

/* The nodes of a function of the model are read where it is called, with names of their own; their lines are put together later. */
static void import_call(OnnxNode *n, const Onnx__FunctionProto *f)
{
    OnnxImport *im = n->im;
    PtrMap given = {0};
    const OnnxCall *outer = im->call;
    if (!outer) {
        OnnxCall *call = arena_new(&im->out->arena, OnnxCall);
        *call = (OnnxCall){import_text(im, "%s", f->name)};
        im->call = call;
    }
    for (size_t i = 0; i < f->n_input && i < n->proto->n_input; i++)
        if (*n->proto->input[i])
            ptrmap_put(&given, ctx_name(im->cx, f->input[i]), import_value(im, n->proto->input[i]));
    import_push_block(im, n, version_in(f->n_opset_import, f->opset_import, n->version));
    im->block->function = f;
    for (size_t i = 0; i < given.n; i++)
        ptrmap_put(&im->block->values, given.entries[i].key, given.entries[i].value);
    ptrmap_deinit(&given);
    for (size_t i = 0; i < f->n_node && !limit_hit(&im->cx->limits); i++)
        import_node(im, f->node[i]);
    const OnnxValue *results[ONNX_INTS_MOST] = {0};
    for (size_t i = 0; i < f->n_output && i < ONNX_INTS_MOST; i++)
        results[i] = import_value(im, f->output[i]);
    onnx_block_splice(n);
    im->call = outer;
    for (size_t i = 0; i < n->proto->n_output && i < ONNX_INTS_MOST; i++)
        if (results[i])
            onnx_give_value(n, results[i]);
}

static void apply(OnnxNode *n, const OnnxRule *rule)
{
    if (rule->rule)
        rule->rule(n);
    else
        onnx_recipe(n, rule->text);
}

/* A constant that is too large to be kept is computed by the program. */
static void run_rule(OnnxNode *n, const OnnxRule *rule)
{
    n->constant = is_constant(n->im, n->proto);
    n->word = rule->text;
    apply(n, rule);
    if (n->large) {
        n->constant = n->large = false;
        n->given = 0;
        apply(n, rule);
    }
    if (!n->failed)
        import_extents(n);
}

void import_node(OnnxImport *im, const Onnx__NodeProto *proto)
{
    OnnxNode n = {.im = im, .proto = proto, .version = im->block->version};
    const Onnx__FunctionProto *f = function_of(im, proto);
    const OnnxRule *rule = f ? NULL : rule_of(proto);
    if (++im->depth > CALLS_MOST) {
        onnx_refuse(&n, "functions call each other more than %d deep", CALLS_MOST);
    } else if (lacks_input(im, proto)) {
        n.failed = true;
    } else if (f) {
        import_call(&n, f);
    } else if (!rule) {
        bool usual = !proto->domain || !*proto->domain;
        onnx_refuse(&n, "version %lld of `%s%s%s` has no counterpart", (long long)n.version,
                    usual ? "" : proto->domain, usual ? "" : ".", op_of(&n));
    } else {
        run_rule(&n, rule);
        count_op(im, &n);
    }
    im->depth--;
    for (uint32_t i = 0; i < proto->n_output; i++) {
        const char *name = proto->output[i];
        if (*name && !n.failed && i >= n.given)
            onnx_refuse(&n, "its output %u has no counterpart", i);
        if (*name && (n.failed || i >= n.given))
            import_value_new(im, name);
    }
}

static bool read_arrays(OnnxImport *im, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++) {
        Onnx__TensorProto *t = g->initializer[i];
        Buf why = {0};
        OnnxValue *v = t->name ? import_value_new(im, t->name) : NULL;
        Tensor *array = v ? onnx_tensor(&im->model, t, &why) : NULL;
        if (v)
            v->bits = (uint8_t)onnx_dtype_bits(t->data_type);
        if (array)
            import_constant(im, v, array);
        else if (v && !limit_hit(&im->cx->limits))
            import_refuse(im, import_text(im, "the array `%s`: %s", t->name, buf_text(&why)));
        buf_deinit(&why);
        if (limit_hit(&im->cx->limits))
            return false;
    }
    return true;
}

void import_graph_body(OnnxImport *im, const Onnx__GraphProto *g)
{
    if (!read_arrays(im, g))
        return;
    if (g->n_sparse_initializer > 0)
        import_refuse(im, "sparse arrays");
    unsigned outer = progress_enter(im->cx->progress, "reading", "nodes", g->n_node);
    for (size_t i = 0; i < g->n_node && !limit_hit(&im->cx->limits); i++) {
        import_node(im, g->node[i]);
        progress_step(im->cx->progress, i + 1);
    }
    progress_leave(im->cx->progress, outer);
}

/* The names of the model stay beside those of the program, as far as they had to be changed. */
static void note_name(OnnxImport *im, const char *name, const char *from)
{
    AttrValue text = {.kind = ATTR_STRING, .s = str_of(from)};
    buf_str(&im->names, im->names.n ? ", " : "");
    ir_print_attr(&im->names, &text);
    im->renamed |= strcmp(name, from) != 0;
}

const char *import_origins(OnnxImport *im, const char *lines)
{
    Buf b = {0};
    for (const char *p = strstr(lines, "let %"); p; p = strstr(p, "let %")) {
        size_t n = 0;
        p += strlen("let %");
        while (isalnum((unsigned char)p[n]) || p[n] == '_')
            n++;
        const Name *name = ctx_name_str(im->cx, (Str){p, n});
        const char *from = ptrmap_find(&im->origins, name);
        if (!from || !strcmp(from, name->text))
            continue;
        const char *said = import_text(im, "%s = %s", name->text, from);
        AttrValue text = {.kind = ATTR_STRING, .s = str_of(said)};
        buf_str(&b, b.n ? ", " : ", values=[");
        ir_print_attr(&b, &text);
    }
    buf_str(&b, b.n ? "]" : "");
    return buf_keep(&b, &im->out->arena);
}

static void read_input(OnnxImport *im, const Onnx__ValueInfoProto *in)
{
    const char *why;
    OnnxValue *v = import_value_new(im, in->name);
    v->type = import_type(im, in->type, v->name, &why);
    if (!v->type) {
        import_refuse(im, import_text(im, "the input `%s`: %s", v->name, why));
        return;
    }
    if (in->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        v->bits = (uint8_t)onnx_dtype_bits(in->type->tensor_type->elem_type);
    const Name *name = import_name(im, v->name, "x_");
    buf_printf(&im->params, "%s%%%s: %s", im->params.n ? ", " : "", name->text,
               import_type_text(im, v->type));
    note_name(im, name->text, v->name);
    v->text = import_var(im, name, v->type);
    vec_push(&im->inputs, &im->out->arena, name);
    im->out->inputs++;
}

/* ---- the program ------------------------------------------------------------------------------------------------------------ */

/* The variables that a text mentions. */
static void mark_used(OnnxImport *im, PtrMap *used, const char *text)
{
    for (const char *p = strchr(text, '%'); p; p = strchr(p, '%')) {
        size_t n = 0;
        p++;
        while (isalnum((unsigned char)p[n]) || p[n] == '_')
            n++;
        if (n > 0)
            ptrmap_put(used, ctx_name_str(im->cx, (Str){p, n}), im);
    }
}

/* The lines that the result needs. */
static size_t needed_lines(OnnxImport *im, const OnnxBlock *b, const char *result, PtrMap *used,
                           OnnxLine **out)
{
    bool *needed = memory_zeroed(b->lines.n + 1, sizeof *needed);
    OnnxLine *lines = arena_new_array(&im->out->arena, OnnxLine, b->lines.n + 1);
    size_t n = 0;
    mark_used(im, used, result);
    for (size_t i = b->lines.n; needed && i-- > 0;) {
        needed[i] = ptrmap_has(used, b->lines.at[i].name);
        if (needed[i])
            mark_used(im, used, b->lines.at[i].text);
    }
    for (size_t i = 0; needed && i < b->lines.n; i++)
        if (needed[i])
            lines[n++] = b->lines.at[i];
    memory_free(needed);
    *out = lines;
    return n;
}

static const char *lines_text(OnnxImport *im, const OnnxLine *lines, size_t n, const char *result)
{
    Buf text = {0};
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "  let %%%s = %s;\n", lines[i].name->text, lines[i].text);
    buf_printf(&text, "  %s", result);
    return buf_keep(&text, &im->out->arena);
}

OnnxBlock *onnx_block_begin(OnnxNode *n)
{
    import_push_block(n->im, NULL, n->im->block->version);
    return n->im->block;
}

void onnx_block_bind(OnnxNode *n, const char *name, OnnxValue value)
{
    OnnxValue *v = import_value_new(n->im, name);
    value.name = v->name;
    value.number = v->number;
    *v = value;
}

const char *onnx_param(OnnxNode *n, const char *hint, const Type *type)
{
    return import_var(n->im, import_name(n->im, hint, "v_"), type);
}

bool onnx_block_graph(OnnxNode *n, const Onnx__GraphProto *g)
{
    OnnxImport *im = n->im;
    size_t before = im->refusals;
    import_graph_body(im, g);
    n->failed |= im->refusals != before || limit_hit(&im->cx->limits);
    return !n->failed;
}

OnnxValue *onnx_block_result(OnnxNode *n, const char *name)
{
    OnnxValue *v = name ? import_value(n->im, name) : NULL;
    if (!v || (!v->type && !v->constant && !v->open)) {
        onnx_refuse(n, "the result `%s` of its graph is given by no node", name ? name : "");
        return NULL;
    }
    if (v->constant)
        import_program_text(n->im, v);
    return v;
}

const Type *onnx_join(OnnxNode *n, const Type *a, const Type *b)
{
    Dim dims[TENSOR_RANK_MOST];
    if (type_equal(a, b))
        return a;
    if (a->kind == TYPE_ADT && b->kind == TYPE_ADT && a->def == b->def && a->n == 1) {
        const Type *inner = onnx_join(n, a->parts[0], b->parts[0]);
        return inner ? type_adt(n->im->cx, a->def, 1, &inner) : NULL;
    }
    if (a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || a->n != b->n ||
        !dtype_eq(a->dtype, b->dtype))
        return NULL;
    for (uint32_t i = 0; i < a->n; i++)
        dims[i] = a->dims[i] == b->dims[i] ? a->dims[i] : DIM_ANY;
    return type_tensor(n->im->cx, a->dtype, a->n, dims);
}

const char *onnx_block_end(OnnxNode *n, const char *result)
{
    PtrMap used = {0};
    OnnxLine *lines;
    size_t count = needed_lines(n->im, import_pop_block(n->im), result, &used, &lines);
    const char *text = lines_text(n->im, lines, count, result);
    ptrmap_deinit(&used);
    return text;
}

void onnx_block_splice(OnnxNode *n)
{
    const OnnxBlock *b = import_pop_block(n->im);
    for (size_t i = 0; i < b->lines.n; i++)
        vec_push(&n->im->block->lines, &n->im->out->arena, b->lines.at[i]);
}

void onnx_block_drop(OnnxNode *n)
{
    OnnxImport *im = n->im;
    const OnnxBlock *b = import_pop_block(im);
    for (size_t i = 0; i < b->lines.n; i++)
        ptrmap_remove(&im->taken, b->lines.at[i].name);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = ((const ImportedArray *)a)->number, y = ((const ImportedArray *)b)->number;
    return (x > y) - (x < y);
}

/* Behind the inputs, in the model's order and not in that of their use; those that no line needs are left out. */
static void put_arrays(OnnxImport *im, const PtrMap *used)
{
    Imported *out = im->out;
    size_t kept = 0;
    for (size_t i = 0; i < out->arrays.n; i++) {
        if (ptrmap_has(used, ctx_name(im->cx, out->arrays.at[i].name)))
            out->arrays.at[kept++] = out->arrays.at[i];
        else
            tensor_release(out->arrays.at[i].value);
    }
    out->arrays.n = kept;
    if (kept)
        qsort(out->arrays.at, kept, sizeof *out->arrays.at, by_number);
    for (size_t i = 0; i < kept; i++) {
        const ImportedArray *a = &out->arrays.at[i];
        buf_printf(&im->params, "%s%%%s: ", im->params.n ? ", " : "", a->name);
        type_print(&im->params, type_of_tensor(im->cx, a->value));
        note_name(im, a->name, a->from ? a->from : a->name);
    }
    if (im->renamed)
        buf_printf(&im->params, ", names=[%s]", buf_text(&im->names));
}

static bool agrees(const Type *a, const Type *b)
{
    bool same = a->kind == b->kind;
    if (!same || a->kind != TYPE_TENSOR)
        return same;
    same = a->n == b->n && dtype_eq(a->dtype, b->dtype);
    for (uint32_t i = 0; same && i < a->n; i++)
        same = a->dims[i] == b->dims[i] || a->dims[i] < 0 || b->dims[i] < 0;
    return same;
}

/* What the model states of a value, as far as it states anything, beside what was found. */
static void compare_type(OnnxImport *im, const Onnx__ValueInfoProto *stated)
{
    const char *why;
    const OnnxValue *v = stated->name ? import_value(im, stated->name) : NULL;
    const Onnx__TypeProto *t = stated->type;
    bool shaped = t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                  t->tensor_type->shape && v && v->type;
    const Type *type = shaped ? import_type(im, t, "", &why) : NULL;
    if (!type)
        return;
    im->out->compared++;
    if (agrees(type, v->type))
        return;
    if (!im->differ)
        im->differ = diag_error(im->cx->diags, E0406_IMPORT, (Span){0},
                                "%s states types that its operators do not give", im->wish->path);
    diag_note(im->differ, "`%s`: the model states %s, its operators give %s", stated->name,
              import_type_text(im, type), import_type_text(im, v->type));
}

static void compare_types(OnnxImport *im, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_value_info; i++)
        compare_type(im, g->value_info[i]);
    for (size_t i = 0; i < g->n_output; i++)
        compare_type(im, g->output[i]);
}

static const char *entry_of(const OnnxImport *im)
{
    return im->wish->entry ? im->wish->entry : "main";
}

/* Functions of blocks are called otherwise than those that are there. */
static void take_function_names(OnnxImport *im)
{
    ptrmap_put(&im->taken, ctx_name(im->cx, entry_of(im)), im);
    for (size_t i = 0; im->prelude && i < im->prelude->defs.n; i++)
        ptrmap_put(&im->taken, im->prelude->defs.at[i].name, im);
}

/* A list or an option without elements as a result: the model states which. */
static const char *open_result(OnnxImport *im, const OnnxValue *v,
                               const Onnx__ValueInfoProto *stated)
{
    const char *why, *type = !strcmp(v->text, "None") ? "Option" : "List";
    const Type *t = import_type(im, stated->type, v->name, &why);
    if (!t || t->kind != TYPE_ADT || strcmp(t->def->name->text, type) != 0) {
        import_refuse(im, import_text(im, "nothing says the type of the result `%s`", v->name));
        return v->text;
    }
    const char *name = import_name(im, v->name, "v_")->text;
    return import_text(im, "(let %%%s: %s = %s; %%%s)", name, import_type_text(im, t), v->text,
                       name);
}

static void write_program(OnnxImport *im)
{
    const Onnx__GraphProto *g = im->model.model->graph;
    Buf results = {0};
    for (size_t i = 0; i < g->n_output; i++) {
        OnnxValue *v = g->output[i]->name ? import_value(im, g->output[i]->name) : NULL;
        bool known = v && (v->type || v->constant || v->open);
        if (known)
            buf_printf(&results, "%s%s", i ? ", " : "",
                       v->constant ? import_program_text(im, v)
                       : v->open   ? open_result(im, v, g->output[i])
                                   : v->text);
        else if (!v || !im->refused)
            import_refuse(im, import_text(im, "the result `%s` is given by no node",
                                          g->output[i]->name ? g->output[i]->name : ""));
    }
    PtrMap used = {0};
    const char *result = import_text(im, "%s%s%s", g->n_output == 1 ? "" : "(", buf_text(&results),
                                     g->n_output == 1 ? "" : ")");
    OnnxLine *lines;
    size_t n = needed_lines(im, im->block, result, &used, &lines);
    put_arrays(im, &used);
    ptrmap_deinit(&used);
    take_function_names(im);
    import_outline(im, &lines, &n, result);
    const char *text = lines_text(im, lines, n, result), *origins = import_origins(im, text);
    buf_printf(&im->out->text, "#[version = \"0.0.5\"]\n%s%sdef @%s(%s%s) {\n%s\n}\n",
               im->prelude ? "import \"prelude.rly\"\n" : "", buf_text(&im->defs), entry_of(im),
               buf_text(&im->params), im->params.n ? origins : origins + (*origins ? 2 : 0), text);
    put_metadata(im, &im->out->text);
    buf_deinit(&results);
}

static void import_graph(OnnxImport *im)
{
    const Onnx__ModelProto *m = im->model.model;
    const Onnx__GraphProto *g = m->graph;
    import_push_block(im, NULL, version_in(m->n_opset_import, m->opset_import, 0));
    PtrMap arrays = {0};
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name)
            ptrmap_put(&arrays, ctx_name(im->cx, g->initializer[i]->name), im);
    for (size_t i = 0; i < g->n_input; i++)
        if (g->input[i]->name && !ptrmap_has(&arrays, ctx_name(im->cx, g->input[i]->name)))
            read_input(im, g->input[i]);
    ptrmap_deinit(&arrays);
    import_scopes(im, g);
    import_graph_body(im, g);
    if (!limit_hit(&im->cx->limits) && im->wish->check)
        compare_types(im, g);
    if (!limit_hit(&im->cx->limits))
        write_program(im);
    if (im->refusals > REFUSALS_MOST)
        diag_note(im->refused, "and %zu more", im->refusals - REFUSALS_MOST);
    while (im->block)
        import_pop_block(im);
}

bool onnx_import(Ctx *cx, Interp *in, const ImportWish *wish, Imported *out)
{
    OnnxImport im = {.cx = cx, .in = in, .wish = wish, .out = out};
    *out = (Imported){0};
    arena_init(&out->arena, &cx->limits);
    im.vars = module_new(cx);
    if (im.vars && onnx_read(&im.model, cx, wish->path))
        import_graph(&im);
    for (size_t i = 0; i < im.held.n; i++)
        value_release(im.held.at[i]);
    for (size_t i = 0; i < im.arrays.n; i++)
        tensor_release(im.arrays.at[i]);
    onnx_free(&im.model);
    module_release(im.vars);
    module_release(im.prelude);
    ptrmap_deinit(&im.taken);
    ptrmap_deinit(&im.locals);
    ptrmap_deinit(&im.known);
    ptrmap_deinit(&im.ops);
    ptrmap_deinit(&im.origins);
    ptrmap_deinit(&im.scopes);
    buf_deinit(&im.params);
    buf_deinit(&im.names);
    buf_deinit(&im.defs);
    return !im.refused && !im.differ && !limit_hit(&cx->limits) && out->text.n > 0 &&
           !out->text.failed;
}
