/* Cells: objects' memory, taken and given back by generated code itself.
 *
 * A cell whose fields were moved out is kept when the block at hand makes an object of its size: that object takes its place. Which way
 * the program goes decides, so a kept cell may be NULL, when the value was shared; and where ways part, those that make no such object
 * give it back at once. Each kept cell ends in one block: by an object or, at its end, by going back; or it goes along with the call that
 * ends the block, to a function that makes such objects (Terms.spare). */
#include "ir/walk.h"
#include "jit/internal.h"

static size_t object_bytes(uint32_t n)
{
    return offsetof(Object, fields) + (size_t)n * sizeof(Field);
}

/* Where the list of free cells for objects of so many bytes begins. */
static Ssa free_list(Fn *f, size_t bytes)
{
    size_t at = offsetof(LimitWords, cells) + bytes / HEAP_UNIT * sizeof(FreeCell *);
    return gen_offset(f->g, f->state, at);
}

static Ssa called_cell(Fn *f, Ssa word)
{
    Ssa args[2] = {f->state, word}, fresh = gen_call_rare(f->g, "relay_object", args, 2);
    fn_fail_if_null(f, fresh);
    return fresh;
}

/* The first free cell; when there is none the runtime makes more. */
static Ssa listed_cell(Fn *f, size_t bytes, Ssa word)
{
    Gen *g = f->g;
    LLVMBasicBlockRef take = gen_block(g, f->fn, "take"), more = gen_block(g, f->fn, "more");
    LLVMBasicBlockRef go = gen_block(g, f->fn, "cell");
    Ssa list = free_list(f, bytes), first = gen_load(g, g->ptr, list, 0);
    gen_branch(g, LLVMBuildIsNull(g->b, first, ""), more, take, false);
    LLVMPositionBuilderAtEnd(g->b, more);
    Ssa fresh = called_cell(f, word);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, take);
    gen_store(g, gen_load(g, g->ptr, first, offsetof(FreeCell, next)), list, 0);
    LLVMBuildBr(g->b, go);
    return gen_either(g, go, (Ssa[]){first, fresh}, (LLVMBasicBlockRef[]){take, end});
}

bool fn_cell_is_listed(uint32_t n)
{
    return heap_is_listed(object_bytes(n));
}

static Ssa new_cell(Fn *f, uint32_t n, Ssa word)
{
    Ssa cell = fn_cell_is_listed(n) ? listed_cell(f, object_bytes(n), word) : called_cell(f, word);
    own_make(f, cell);
    return cell;
}

/* One that was kept, which leaves the list; without a cell when there is none of the size. */
static KeptCell kept_cell(Fn *f, uint32_t n)
{
    for (size_t i = f->kept.n; i-- > 0;) {
        KeptCell k = f->kept.at[i];
        if (k.n != n || k.block != f->block || k.held)
            continue;
        f->kept.at[i] = vec_last(&f->kept);
        f->kept.n--;
        return k;
    }
    return (KeptCell){0};
}

static Ssa kept_or_new(Fn *f, Ssa kept, uint32_t n, Ssa word)
{
    Gen *g = f->g;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b), make = gen_block(g, f->fn, "make");
    LLVMBasicBlockRef go = gen_block(g, f->fn, "place");
    gen_branch(g, LLVMBuildIsNull(g->b, kept, ""), make, go, false);
    LLVMPositionBuilderAtEnd(g->b, make);
    Ssa fresh = new_cell(f, n, word);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    Ssa cell = gen_either(g, go, (Ssa[]){kept, fresh}, (LLVMBasicBlockRef[]){here, end});
    own_phi(f, cell);
    return cell;
}

/* The first word, which the linker finds. */
static Ssa first_word(Gen *g, const Constructor *con, ValueKind kind, uint32_t n,
                      const Repr *fields)
{
    FormUse *use = arena_new(g->arena, FormUse);
    uint64_t *heads = arena_new_array(g->arena, uint64_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        Value v = {.kind = fields[i].value, .dtype = fields[i].dtype};
        heads[i] = value_head(&v);
    }
    *use = (FormUse){kind, con, import_form(g->cx, kind, con, n, heads)};
    return LLVMBuildPtrToInt(g->b, gen_outside(g, IMPORT_FORM, use), g->i64, "");
}

Ssa fn_object(Fn *f, ValueKind kind, const Constructor *con, uint32_t n, const Repr *fields)
{
    Gen *g = f->g;
    Ssa word = first_word(g, con, kind, n, fields);
    frame_fill_much(f);
    if (kind == VALUE_REF) { /* it stands in a list of references */
        Ssa o = called_cell(f, word);
        own_make(f, o);
        return o;
    }
    KeptCell kept = kept_cell(f, n);
    Ssa o = kept.sure   ? kept.cell
            : kept.cell ? kept_or_new(f, kept.cell, n, word)
                        : new_cell(f, n, word);
    gen_store(g, word, o, 0);
    return o;
}

/* NULL too. */
static void free_cell_cold(Fn *f, Ssa cell)
{
    gen_call_rare(f->g, "relay_free_cell", &cell, 1);
    own_lose(f, cell);
}

void fn_free_cell(Fn *f, Ssa object, uint32_t n)
{
    Gen *g = f->g;
    if (!fn_cell_is_listed(n)) {
        free_cell_cold(f, object);
        return;
    }
    Ssa list = free_list(f, object_bytes(n));
    gen_store(g, gen_load(g, g->ptr, list, 0), object, offsetof(FreeCell, next));
    gen_store(g, object, list, 0);
    own_lose(f, object);
}

/* ---- kept cells ------------------------------------------------------------------------------------------------ */

static void free_kept(Fn *f, const KeptCell *k)
{
    Gen *g = f->g;
    if (k->sure) {
        fn_free_cell(f, k->cell, k->n);
        return;
    }
    LLVMBasicBlockRef give = gen_block(g, f->fn, "give"), go = gen_block(g, f->fn, "go");
    LLVMBuildCondBr(g->b, LLVMBuildIsNull(g->b, k->cell, ""), go, give);
    LLVMPositionBuilderAtEnd(g->b, give);
    fn_free_cell(f, k->cell, k->n);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
}

static uint64_t size_bit(uint32_t n)
{
    return n > 0 && n < 64 ? (uint64_t)1 << n : 0;
}

static void count_captured(void *data, Var *v)
{
    (void)v;
    ++*(uint32_t *)data;
}

/* The size of the object that the expression makes, as a bit; of what a closure captures some may go without saying. */
static uint64_t size_of_object(const Expr *e)
{
    const Call *call = expr_as_call(e);
    uint32_t n = 0;
    if (call && call->callee->kind == EXPR_CON)
        n = call->args.n;
    else if (e->kind == EXPR_TUPLE)
        n = expr_as_tuple(e)->fields.n;
    else if (e->kind == EXPR_FUNCTION)
        ir_free_vars(e, count_captured, &n);
    return size_bit(e->kind == EXPR_FUNCTION && n > 0 ? FUNCTION_CAPTURED + n : n);
}

typedef struct Sizes {
    const Name *self;
    uint64_t made;
    bool goes_around;
} Sizes;

static WalkNext note_size(void *data, const Expr *e)
{
    Sizes *s = data;
    const Call *call = expr_as_call(e);
    const GlobalVar *callee = call ? expr_as_global(call->callee) : NULL;
    s->made |= size_of_object(e);
    s->goes_around |= callee && callee->name == s->self;
    return e->kind == EXPR_FUNCTION || s->goes_around ? WALK_SKIP : WALK_ON;
}

uint64_t cell_sizes(Gen *g, const Function *fn, const Name *self)
{
    uint64_t *known = ptrmap_find(&g->unit->makes, fn);
    if (known)
        return *known;
    Sizes s = {.self = self};
    ir_walk(fn->body, note_size, NULL, &s);
    known = arena_new(g->arena, uint64_t);
    *known = s.goes_around ? 0 : s.made;
    ptrmap_put(&g->unit->makes, fn, known);
    return *known;
}

/* The sizes of the objects that the code may make, as bits; in tail position those too that a call makes by which it ends. */
static uint64_t sizes_made(Fn *f, const Expr *body, bool tail);

static uint64_t sizes_of(Fn *f, const Expr *e, bool tail)
{
    const Call *call = tail ? expr_as_call(e) : NULL;
    const If *branch = expr_as_if(e);
    const Match *match = expr_as_match(e);
    uint64_t sizes = size_of_object(e);
    if (call && call->callee->kind == EXPR_GLOBAL)
        sizes |= definition_takes_spare(f->g, f->in, expr_as_global(call->callee)->name);
    if (branch)
        sizes |= sizes_made(f, branch->then, tail) | sizes_made(f, branch->otherwise, tail);
    for (uint32_t i = 0; match && i < match->clauses.n; i++)
        sizes |= sizes_made(f, match->clauses.at[i].body, tail);
    return sizes;
}

/* Blocks nest no deeper than live.c allows. */
static uint64_t sizes_made(Fn *f, const Expr *body, bool tail)
{
    PtrMap *of = tail ? &f->last_sizes : &f->sizes;
    uint64_t *known = ptrmap_find(of, body);
    if (known)
        return *known;
    known = arena_new(f->g->arena, uint64_t);
    for (const Let *let = expr_as_let(body); let; let = expr_as_let(let->body))
        *known |= sizes_of(f, let->value, tail && let_is_last(let));
    ptrmap_put(of, body, known);
    return *known;
}

bool fn_wants_cell(Fn *f, uint32_t n)
{
    return (sizes_made(f, f->block->body, f->tail) & size_bit(n)) != 0;
}

void fn_keep_cell(Fn *f, Ssa cell, uint32_t n, bool sure)
{
    KeptCell k = {.cell = cell, .n = n, .sure = sure, .block = f->block};
    vec_push(&f->kept, f->g->arena, k);
}

void fn_keep_moved(Fn *f, Ssa object, uint32_t n, LLVMBasicBlockRef alone, LLVMBasicBlockRef shared)
{
    Gen *g = f->g;
    Ssa cell = gen_either(g, LLVMGetInsertBlock(g->b), (Ssa[]){object, LLVMConstNull(g->ptr)},
                          (LLVMBasicBlockRef[]){alone, shared});
    own_phi(f, cell);
    fn_keep_cell(f, cell, n, false);
}

uint64_t fn_spare_sizes(const Fn *f)
{
    uint64_t sizes = 0;
    for (size_t i = 0; i < f->kept.n; i++) {
        const KeptCell *k = &f->kept.at[i];
        sizes |= k->block == f->block && !k->held ? size_bit(k->n) : 0;
    }
    return sizes;
}

Ssa fn_spare(Fn *f, uint32_t n)
{
    Ssa cell = kept_cell(f, n).cell;
    return cell ? cell : LLVMConstNull(f->g->ptr);
}

void fn_hold_value(Fn *f, const Type *type, Ssa v)
{
    KeptCell k = {.cell = v, .held = type, .block = f->block};
    vec_push(&f->kept, f->g->arena, k);
}

void fn_cells_branch(Fn *f, const Expr *e, bool tail)
{
    uint64_t sizes = sizes_of(f, e, tail);
    for (size_t i = 0; i < f->kept.n; i++) {
        KeptCell *k = &f->kept.at[i];
        k->ends_inside = tail || (!k->held && (sizes & size_bit(k->n)) != 0);
    }
}

void fn_cells_enter(Fn *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->kept.n; i++) {
        KeptCell k = f->kept.at[i];
        if (k.ends_inside && !k.held && !fn_wants_cell(f, k.n)) {
            free_kept(f, &k);
            continue;
        }
        if (k.ends_inside)
            k.block = f->block;
        k.ends_inside = false;
        f->kept.at[n++] = k;
    }
    f->kept.n = n;
}

void fn_cells_join(Fn *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->kept.n; i++)
        if (!f->kept.at[i].ends_inside)
            f->kept.at[n++] = f->kept.at[i];
    f->kept.n = n;
}

void fn_cells_end(Fn *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->kept.n; i++) {
        KeptCell k = f->kept.at[i];
        if (k.block != f->block)
            f->kept.at[n++] = k;
        else if (k.held)
            fn_release_as(f, k.held, k.cell);
        else
            free_kept(f, &k);
    }
    f->kept.n = n;
}

void fn_cells_leave(Fn *f)
{
    for (size_t i = 0; i < f->kept.n; i++) {
        KeptCell k = f->kept.at[i];
        if (k.held)
            fn_release_cold(f, repr_of(k.held), k.cell);
        else
            free_cell_cold(f, k.cell);
    }
}
