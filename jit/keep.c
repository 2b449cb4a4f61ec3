/* Units in files (cache.h).
 *
 *     head     what it is, its size, the digest of all that follows, the contents that it was made of
 *     body     words: how the unit is called, for each of its modules the objects and what is imported
 *     pieces   objects and elements of tensors, each at a multiple of 64 bytes, where the body says
 *
 * What is imported is said by things that every process has: the contents of the program give data types and texts an order. A unit of
 * which more code is made while it runs is written when a call of it has ended, and again with its end when there is more. */
#include "base/memory.h"
#include "base/plugin.h"
#include "base/thread.h"
#include "jit/gpu/run.h"
#include "jit/keep.h"
#include "runtime/cpu.h"
#include "runtime/pool.h"

#include <llvm/Config/llvm-config.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define PIECE_ALIGN ((size_t)64)

typedef struct Head {
    char what[16];
    uint64_t size; /* of the file */
    uint64_t body; /* of the words behind the head, in bytes */
    uint64_t check[2];
    uint64_t key[2];
} Head;

static const char what_it_is[16] = "relay code 1\n";

/* ---- what the code was made for ---------------------------------------------------------------------------------------------- */

/* The processor, without LLVM: what it says of itself, and what the system lets programs use. */
static void add_processor(Buf *out)
{
#if defined(__x86_64__)
    static const unsigned leaves[][2] = {{0, 0}, {1, 0},   {7, 0},
                                         {7, 1}, {0xd, 1}, {0x80000001u, 0}};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (!__get_cpuid_count(leaves[i][0], leaves[i][1], &a, &b, &c, &d))
            continue;
        if (leaves[i][0] == 1) /* which core this is */
            b = 0;
        if (leaves[i][0] == 0xd) /* the room that this process takes just now */
            b = 0;
        buf_printf(out, "%x %x %x %x;", a, b, c, d);
    }
    unsigned low = 0, high = 0;
    if (__builtin_cpu_supports("avx"))
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    /* Code that uses matrices is run by processes that asked for them. */
    buf_printf(out, "%x %x %d;", low, high, cpu_has_matrices());
#else
    (void)out;
#endif
}

/* What compiled code may use beyond what every processor of the architecture has, by the compiler's names. */
void keep_features(Buf *out)
{
#if defined(__x86_64__)
#define FEATURE(name) {name, __builtin_cpu_supports(name) != 0}
    const struct {
        const char *name;
        bool there;
    } all[] = {
        FEATURE("sse3"),       FEATURE("ssse3"),        FEATURE("sse4.1"),
        FEATURE("sse4.2"),     FEATURE("popcnt"),       FEATURE("avx"),
        FEATURE("avx2"),       FEATURE("fma"),          FEATURE("bmi"),
        FEATURE("bmi2"),       FEATURE("f16c"),         FEATURE("lzcnt"),
        FEATURE("gfni"),       FEATURE("vaes"),         FEATURE("vpclmulqdq"),
        FEATURE("avxvnni"),    FEATURE("avx512f"),      FEATURE("avx512bw"),
        FEATURE("avx512cd"),   FEATURE("avx512dq"),     FEATURE("avx512vl"),
        FEATURE("avx512ifma"), FEATURE("avx512vbmi"),   FEATURE("avx512vbmi2"),
        FEATURE("avx512vnni"), FEATURE("avx512bitalg"), FEATURE("avx512vpopcntdq"),
        FEATURE("avx512bf16"), FEATURE("avx512fp16"),
    };
#undef FEATURE
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].there && !(cpu_is_limited("avx2") && !strncmp(all[i].name, "avx512", 6)))
            buf_printf(out, "%s%s", out->n ? " " : "", all[i].name);
#else
    (void)out;
#endif
}

bool keep_build(Buf *out)
{
    return plugin_build(what_it_is, out);
}

JitKey *keep_key(Jit *jit, Module *env, const Def *def)
{
    Buf how = {0};
    JitKey *key = NULL;
    bool ok = cache_open(&jit->cache, jit->cx->diags);
    /* The program or library that has the operators, and this one. */
    ok = ok && plugin_build(jit->cx->ops, &how) && plugin_build(what_it_is, &how);
    buf_printf(&how, LLVM_VERSION_STRING " %d %d %d;", jit->level, jit->exact,
               pool_threads(jit->cx->pool));
    add_processor(&how);
    if (cpu_limit())
        buf_str(&how, cpu_limit());
    if (jit->gpu)
        buf_printf(&how, ";%s %d %d", jit->gpu, jit->tf32, jit->gpu_boxes);
    if (ok) {
        key = memory_must(sizeof *key);
        *key = (JitKey){.refs = 1, .written = module_retain(env)};
        content_init(&key->content, env, def, &how);
    }
    buf_deinit(&how);
    return key;
}

void keep_free_key(JitKey *key)
{
    if (!key || --key->refs > 0)
        return;
    content_deinit(&key->content);
    module_release(key->written);
    memory_free(key);
}

JitKey *keep_waiting(Jit *jit, const Function *fn)
{
    return ptrmap_find(&jit->waiting, fn);
}

void keep_as(Unit *u, JitKey *key, const Type *const *shapes, uint32_t n)
{
    keep_not(u);
    if (!key)
        return;
    Buf text = {0};
    for (uint32_t i = 0; shapes && i < n; i++)
        buf_printf(&text, "%s;", type_str(u->jit->cx, shapes[i]));
    memcpy(u->key_for, key->content.key, sizeof u->key_for);
    if (shapes)
        content_key_with(&key->content, buf_text(&text), u->key_for);
    buf_deinit(&text);
    u->key = key;
    key->refs++;
}

void keep_not(Unit *u)
{
    keep_free_key(u->key);
    u->key = NULL;
}

void keep_wait(Jit *jit, Module *env, const Function *fn, JitKey *key)
{
    keep_free_key(ptrmap_find(&jit->waiting, fn));
    if (key) {
        key->env = env;
        ptrmap_put(&jit->waiting, fn, key);
    } else {
        ptrmap_remove(&jit->waiting, fn);
    }
}

void keep_forget(Jit *jit, const Module *env)
{
    for (size_t i = 0; i < jit->waiting.n; i++) {
        PtrEntry *e = &jit->waiting.entries[i];
        JitKey *key = e->key ? e->value : NULL;
        if (!key || (env && key->env != env))
            continue;
        ptrmap_remove(&jit->waiting, e->key);
        keep_free_key(key);
    }
    if (!env)
        ptrmap_deinit(&jit->waiting);
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

void keep_put(Writing *w, uint64_t v)
{
    buf_bytes(&w->body, (const char *)&v, sizeof v);
}

void keep_put_text(Writing *w, const char *text)
{
    size_t n = strlen(text);
    static const char zeros[8];
    keep_put(w, n);
    buf_bytes(&w->body, text, n);
    buf_bytes(&w->body, zeros, -n % 8);
}

static void put_piece(Writing *w, const void *bytes, size_t n)
{
    static const char zeros[PIECE_ALIGN];
    keep_put(w, w->at);
    keep_put(w, n);
    vec_push(&w->pieces, &w->arena, ((Str){bytes, n}));
    if (-n % PIECE_ALIGN)
        vec_push(&w->pieces, &w->arena, ((Str){zeros, -n % PIECE_ALIGN}));
    w->at += (n + PIECE_ALIGN - 1) & ~(PIECE_ALIGN - 1);
}

void keep_put_device_text(Writing *w, const char *text, size_t n)
{
    if (w->device_text != text) {
        w->device_text = text;
        keep_put(w, 1);
        put_piece(w, text, n + 1);
        return;
    }
    keep_put(w, 0);
}

void keep_put_source(Writing *w, uint32_t source)
{
    for (size_t i = 0; i < w->c->sources.n; i++)
        if (w->c->sources.at[i] == source) {
            keep_put(w, i);
            return;
        }
    w->here = true;
}

void keep_put_constructor(Writing *w, const Constructor *con)
{
    keep_put_def(w, con->type);
    keep_put(w, con->index);
}

void keep_put_tensor(Writing *w, const Tensor *t)
{
    w->here |= !tensor_is_contiguous(t);
    keep_put(w, dtype_pack(t->dtype));
    keep_put(w, (uint64_t)t->rank);
    for (int32_t i = 0; i < t->rank; i++)
        keep_put(w, (uint64_t)t->shape[i]);
    put_piece(w, t->data, (size_t)t->size * dtype_size(t->dtype));
}

static void put_form(Writing *w, const FormUse *use)
{
    keep_put(w, use->kind);
    if (use->kind == VALUE_CON)
        keep_put_constructor(w, use->con);
    keep_put(w, use->form->n);
    for (uint32_t i = 0; i < use->form->n; i++)
        keep_put(w, use->form->heads[i]);
}

/* Weights of which kernels read others that were made of them are not kept. */
static void put_import(Writing *w, const Import *im)
{
    ImportKind kind = im->used ? im->kind : IMPORT_NOTHING;
    keep_put(w, kind);
    switch (kind) {
    case IMPORT_NOTHING: return;
    case IMPORT_HERE: w->here = true; return;
    case IMPORT_FORM: put_form(w, im->at); return;
    case IMPORT_UNIT: return;
    case IMPORT_NULLARY: keep_put_constructor(w, im->at); return;
    case IMPORT_CLOSURE: keep_put_text(w, ((const Name *)im->at)->text); return;
    case IMPORT_TENSOR: keep_put_tensor(w, im->at); return;
    case IMPORT_CLOSED: keep_put_closed(w, im->at); return;
    case IMPORT_PACKED: {
        const Tensor *t = im->at;
        put_piece(w, t->data, (size_t)t->size * dtype_size(t->dtype));
        return;
    }
    case IMPORT_SOURCE: keep_put_source(w, (uint32_t)(uintptr_t)im->at); return;
    case IMPORT_SITE: keep_put_site(w, im->at); return;
    case IMPORT_RUN: keep_put_run(w, im->at); return;
    case IMPORT_TYPE: keep_put_type(w, im->at); return;
    case IMPORT_INFO: keep_put(w, ((const FunctionInfo *)im->at)->number); return;
    case IMPORT_LATE: keep_put(w, ((const LateSite *)im->at)->number); return;
    case IMPORT_VARIANTS: keep_put(w, ((const VariantSite *)im->at)->number); return;
    }
}

static void put_code(Writing *w, const Unit *u, const Code *code)
{
    w->here |= code->objects.n == 0;
    keep_put(w, code->objects.n);
    for (size_t i = 0; i < code->objects.n; i++)
        put_piece(w, code->objects.at[i].ptr, code->objects.at[i].len);
    keep_put(w, code->imports.n);
    for (size_t i = 0; i < code->imports.n && !w->here; i++)
        put_import(w, &code->imports.at[i]);
    if (!w->here)
        keep_put_made(w, u, code);
}

static void check_pieces(size_t n, const Str *pieces, uint64_t out[2])
{
    Digest d;
    digest_begin(&d);
    for (size_t i = 0; i < n; i++)
        digest_add(&d, pieces[i].ptr, pieces[i].len);
    digest_end(&d, out);
}

/* The whole file, of which `head` is the first piece. */
static const Str *all_pieces(Writing *w, Head *head, size_t *n)
{
    Str *all = arena_new_array(&w->arena, Str, *n = w->pieces.n + 2);
    static const char zeros[PIECE_ALIGN];
    buf_bytes(&w->body, zeros, -w->body.n % PIECE_ALIGN);
    *head = (Head){.size = sizeof *head + w->body.n + w->at, .body = w->body.n};
    memcpy(head->what, what_it_is, sizeof head->what);
    memcpy(head->key, w->key, sizeof head->key);
    all[0] = (Str){(const char *)head, sizeof *head};
    all[1] = (Str){w->body.at, w->body.n};
    for (size_t i = 0; i < w->pieces.n; i++)
        all[i + 2] = w->pieces.at[i];
    check_pieces(*n - 1, all + 1, head->check);
    return all;
}

static void write_file(void *data)
{
    Writing *w = data;
    Head head;
    size_t n;
    const Str *all = all_pieces(w, &head, &n);
    if (!w->body.failed)
        cache_write(w->cache, w->key, n, all);
}

/* Without memory there is no file. */
static void *write_beside(void *data)
{
    memory_guard(write_file, data);
    return NULL;
}

/* A file of weights takes as long as making the code did, so that is done beside, behind the call that the code was made for: that one
 * wants all cores. */
#define BESIDE_LEAST ((uint64_t)1 << 20)

static void write_unit(Unit *u);

void keep_begin(Unit *u)
{
    if (u->key && u->kept == 0)
        write_unit(u);
    Writing *w = u->keeping;
    if (w && !w->beside)
        w->beside = thread_begin(&w->thread, write_beside, w);
}

static void end_writing(Unit *u, Writing *w)
{
    for (size_t i = 0; i < u->codes.n && !u->key; i++)
        code_drop_objects(u->codes.at[i]);
    buf_deinit(&w->body);
    arena_deinit(&w->arena);
    memory_free(w);
}

void keep_end(Unit *u)
{
    if (!u->keeping)
        return;
    if (u->keeping->beside)
        pthread_join(u->keeping->thread, NULL);
    else
        write_beside(u->keeping);
    end_writing(u, u->keeping);
    u->keeping = NULL;
}

void keep_last(Unit *u)
{
    keep_end(u);
    if (u->key && u->codes.n > u->kept)
        write_unit(u);
    keep_not(u);
    keep_end(u);
}

void keep_store(Unit *u)
{
    if (u->key && !late_grows(u))
        write_unit(u);
}

/* Says what the unit is made of; `here` when that cannot be said to others. */
static Writing *begin_writing(const Unit *u, const Content *c)
{
    Writing *w = memory_must(sizeof *w);
    *w = (Writing){.c = c,
                   .cx = u->jit->cx,
                   .here = !u->entry_name,
                   .key = {u->key_for[0], u->key_for[1]},
                   .cache = &u->jit->cache};
    arena_init(&w->arena, NULL);
    keep_put_sites(w, u);
    keep_put(w, u->nests);
    keep_put(w, u->counts.calls);
    keep_put(w, u->counts.kernels);
    keep_put_text(w, u->entry_name ? u->entry_name : "");
    keep_put(w, u->batches.n + u->codes.n);
    for (size_t i = 0; i < u->batches.n && !w->here; i++)
        put_code(w, u, batch_code(u->batches.at[i]));
    for (size_t i = 0; i < u->codes.n && !w->here; i++)
        put_code(w, u, u->codes.at[i]);
    return w;
}

static void write_unit(Unit *u)
{
    Writing *w = begin_writing(u, &u->key->content);
    u->kept = u->codes.n;
    if (w->here || !late_grows(u))
        keep_not(u);
    if (!w->here && w->at >= BESIDE_LEAST) {
        u->keeping = w;
        return;
    }
    if (!w->here)
        write_file(w);
    end_writing(u, w);
}

bool keep_save(Unit *u, const Content *c, Buf *out)
{
    if (late_grows(u))
        return false;
    Writing *w = begin_writing(u, c);
    bool ok = !w->here;
    Head head;
    size_t n = 0;
    const Str *all = ok ? all_pieces(w, &head, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        buf_bytes(out, all[i].ptr, all[i].len);
    out->failed |= w->body.failed;
    end_writing(u, w);
    return ok;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------- */

uint64_t keep_take(Taking *t)
{
    uint64_t v = 0;
    t->wrong |= (size_t)(t->end - t->at) < sizeof v;
    if (t->wrong)
        return 0;
    memcpy(&v, t->at, sizeof v);
    t->at += sizeof v;
    return v;
}

uint64_t keep_take_count(Taking *t)
{
    uint64_t n = keep_take(t);
    t->wrong |= n > (size_t)(t->end - t->at) / 8;
    return t->wrong ? 0 : n;
}

const char *keep_take_text(Taking *t)
{
    uint64_t n = keep_take(t);
    t->wrong |= n > (size_t)(t->end - t->at) || memchr(t->at, 0, t->wrong ? 0 : n);
    if (t->wrong)
        return "";
    const char *text = arena_copy_text(&t->u->arena, t->at, n);
    t->at += (n + 7) & ~(uint64_t)7;
    t->wrong |= t->at > t->end;
    return text;
}

static Str take_piece(Taking *t)
{
    uint64_t from = keep_take(t), n = keep_take(t);
    t->wrong |= from % PIECE_ALIGN || from > t->n_pieces || n > t->n_pieces - from;
    return t->wrong ? (Str){"", 0} : (Str){t->pieces + from, n};
}

struct DeviceCode *keep_take_device_text(Taking *t, const char **text, size_t *n)
{
    if (keep_take(t)) {
        Str piece = take_piece(t);
        t->wrong |= piece.len == 0 || piece.ptr[piece.len - 1];
        t->device_text = piece;
        t->device_code = device_code_make(t->u->jit, &t->u->arena);
    }
    t->wrong |= !t->device_code;
    *text = t->device_text.ptr;
    *n = t->wrong ? 0 : t->device_text.len - 1;
    return t->device_code;
}

static void release_tensor(void *t)
{
    tensor_release(t);
}

static void release_file(void *file)
{
    cache_release(file);
}

/* Its elements stay in the file: what the function returns may lie there for longer than the unit lives. */
const Tensor *keep_take_tensor(Taking *t)
{
    DType dtype = dtype_unpack(keep_take(t));
    uint64_t rank = keep_take(t);
    int64_t shape[TENSOR_RANK_MOST];
    t->wrong |= rank > TENSOR_RANK_MOST || dtype_id(dtype) == DTYPE_IDS;
    for (uint64_t i = 0; i < rank && !t->wrong; i++)
        shape[i] = (int64_t)keep_take(t);
    Str piece = take_piece(t);
    int64_t size;
    t->wrong |= !t->wrong && (!shape_size((int32_t)rank, shape, &size) ||
                              (uint64_t)size > piece.len / dtype_size(dtype));
    CacheFile *file = t->u->file;
    Tensor *out =
        t->wrong ? NULL : tensor_over(dtype, (int32_t)rank, shape, piece.ptr, release_file, file);
    t->wrong |= !out;
    if (t->wrong)
        return NULL;
    file->refs++;
    arena_on_free(&t->u->arena, release_tensor, out);
    return out;
}

/* Nobody asks for more than its elements. */
static const Tensor *take_packed(Taking *t)
{
    Str piece = take_piece(t);
    int64_t n = (int64_t)piece.len;
    Tensor *out = t->wrong ? NULL
                           : tensor_over(dtype_of(DT_UINT8), 1, &n, (void *)(uintptr_t)piece.ptr,
                                         release_file, t->u->file);
    t->wrong |= !out;
    if (!out)
        return NULL;
    t->u->file->refs++;
    arena_on_free(&t->u->arena, release_tensor, out);
    return out;
}

const Constructor *keep_take_constructor(Taking *t, bool nullary)
{
    const TypeDef *def = keep_take_def(t);
    uint64_t index = keep_take(t);
    t->wrong |= !def || index >= def->n_cons;
    const Constructor *con = t->wrong ? NULL : def->cons[index];
    t->wrong |= !con || (nullary && !con->info->nullary);
    return t->wrong ? NULL : con;
}

/* Kind and dtype of a field. */
static uint64_t take_head(Taking *t)
{
    uint64_t head = keep_take(t);
    Value v = {0};
    value_put(&v, head, 0);
    bool has_dtype = v.kind == VALUE_SCALAR || v.kind == VALUE_TENSOR;
    t->wrong |= v.kind == VALUE_NONE || v.kind > VALUE_FUNCTION ||
                (has_dtype && dtype_id(v.dtype) == DTYPE_IDS);
    return head;
}

static const FormUse *take_form(Taking *t)
{
    uint64_t kind = keep_take(t);
    t->wrong |= kind < VALUE_TUPLE || kind > VALUE_FUNCTION;
    const Constructor *con = kind == VALUE_CON ? keep_take_constructor(t, false) : NULL;
    uint64_t n = keep_take_count(t);
    t->wrong |= n > UINT32_MAX / sizeof(Field) || (con && n != con->n);
    uint64_t *heads = arena_new_array(&t->u->arena, uint64_t, t->wrong ? 1 : n + 1);
    for (uint64_t i = 0; i < n && !t->wrong; i++)
        heads[i] = take_head(t);
    if (t->wrong)
        return NULL;
    FormUse *use = arena_new(&t->u->arena, FormUse);
    *use = (FormUse){(ValueKind)kind, con,
                     import_form(t->u->jit->cx, (ValueKind)kind, con, (uint32_t)n, heads)};
    return use;
}

static const Type *take_import_type(Taking *t)
{
    const Type *type = keep_take_type(t);
    if (type)
        vec_push(&t->u->types, &t->u->arena, type);
    return type;
}

#define TAKE_NUMBERED(t, list) numbered(t, (list)->n, (const void *const *)(const void *)(list)->at)

static const void *numbered(Taking *t, size_t n, const void *const *all)
{
    uint64_t number = keep_take(t);
    t->wrong |= number >= n;
    return t->wrong ? NULL : all[number];
}

/* What it is, as gen_outside has it. */
static const void *take_imported(Taking *t, ImportKind kind)
{
    Unit *u = t->u;
    Ctx *cx = u->jit->cx;
    uint64_t number;
    switch (kind) {
    case IMPORT_FORM: return take_form(t);
    case IMPORT_UNIT:
    case IMPORT_NOTHING: return NULL;
    case IMPORT_NULLARY: return keep_take_constructor(t, true);
    case IMPORT_CLOSURE: return ctx_name(cx, keep_take_text(t));
    case IMPORT_TENSOR: return keep_take_tensor(t);
    case IMPORT_CLOSED: return keep_take_closed(t);
    case IMPORT_PACKED: return take_packed(t);
    case IMPORT_SOURCE:
        number = keep_take(t);
        t->wrong |= number >= t->c->sources.n;
        return t->wrong ? NULL : (const void *)(uintptr_t)t->c->sources.at[number];
    case IMPORT_SITE: return keep_take_site(t);
    case IMPORT_RUN: return keep_take_run(t);
    case IMPORT_TYPE: return take_import_type(t);
    case IMPORT_INFO: return TAKE_NUMBERED(t, &u->infos);
    case IMPORT_LATE: return TAKE_NUMBERED(t, &u->lates);
    case IMPORT_VARIANTS: return TAKE_NUMBERED(t, &u->variants);
    case IMPORT_HERE: break;
    }
    t->wrong = true;
    return NULL;
}

static Import take_import(Taking *t)
{
    uint64_t kind = keep_take(t);
    t->wrong |= kind > IMPORT_NOTHING;
    Import im = {.kind = t->wrong ? IMPORT_NOTHING : (ImportKind)kind};
    im.at = take_imported(t, im.kind);
    im.used = im.kind != IMPORT_NOTHING;
    im.address = t->wrong ? NULL : import_address(t->u->jit, im.kind, im.at);
    return im;
}

/* Links the objects where they lie. */
static void take_code(Taking *t)
{
    Unit *u = t->u;
    Code *code = arena_new(&u->arena, Code);
    for (uint64_t n = keep_take_count(t); n > 0 && !t->wrong; n--)
        vec_push(&code->objects, &u->arena, take_piece(t));
    for (uint64_t n = keep_take_count(t); n > 0 && !t->wrong; n--) {
        Import im = take_import(t);
        vec_push(&code->imports, &u->arena, im);
    }
    if (!t->wrong)
        keep_take_made(t, code);
    code->lent = true;
    Buf why = {0};
    t->wrong = t->wrong || !code_link(u, code, &why);
    buf_deinit(&why);
    if (t->wrong)
        return;
    vec_push(&u->codes, &u->arena, code);
    t->wrong = !closure_addresses(u, code);
}

/* Of such contents; `key` NULL: of any. */
static bool is_whole(const CacheFile *f, const uint64_t *key)
{
    const Head *head = (const Head *)(const void *)f->at;
    uint64_t check[2];
    if (f->n < sizeof *head || memcmp(head->what, what_it_is, sizeof head->what) != 0 ||
        head->size != f->n || head->body > f->n - sizeof *head || head->body % PIECE_ALIGN ||
        (key && memcmp(head->key, key, sizeof head->key) != 0))
        return false;
    check_pieces(1, &(Str){f->at + sizeof *head, f->n - sizeof *head}, check);
    return !memcmp(check, head->check, sizeof check);
}

static void take_unit(Taking *t)
{
    Unit *u = t->u;
    keep_take_sites(t);
    if (t->wrong || t->other)
        return;
    u->nests = keep_take(t);
    u->counts.calls = (uint32_t)keep_take(t);
    u->counts.kernels = (uint32_t)keep_take(t);
    u->counts.kept = true;
    u->entry_name = keep_take_text(t);
    for (uint64_t n = keep_take_count(t); n > 0 && !t->wrong; n--)
        take_code(t);
    for (size_t i = 0; i < u->codes.n && !u->entry; i++)
        u->entry = (UnitEntry *)(uintptr_t)code_find(u->codes.at[i], u->entry_name);
    t->wrong |= !u->entry;
    u->kept = u->codes.n;
}

/* Fills the unit from its file, if that is whole and of such contents. */
static void take_file(Taking *t, const uint64_t *key)
{
    CacheFile *f = t->u->file;
    t->wrong = !is_whole(f, key);
    if (t->wrong)
        return;
    const Head *head = (const Head *)(const void *)f->at;
    t->at = f->at + sizeof *head;
    t->end = t->pieces = f->at + sizeof *head + head->body;
    t->n_pieces = f->n - sizeof *head - head->body;
    take_unit(t);
}

bool keep_load(Unit *u, bool compiled)
{
    Cache *cache = &u->jit->cache;
    u->file = cache_read(cache, u->key_for);
    if (!u->file)
        return false;
    Taking t = {.u = u, .c = &u->key->content, .compiled = compiled};
    take_file(&t, u->key_for);
    if (t.wrong)
        cache_remove(cache, u->key_for);
    if (t.wrong || t.other || !late_grows(u))
        keep_not(u);
    return !t.wrong && !t.other;
}

bool keep_open(Unit *u, const Content *c, Str bytes)
{
    Taking t = {.u = u, .c = c};
    u->file = cache_lent(bytes);
    if ((uintptr_t)bytes.ptr % PIECE_ALIGN != 0)
        return false;
    take_file(&t, NULL);
    return !t.wrong && !t.other;
}
