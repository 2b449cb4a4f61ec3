/* What could stand at the cursor: what fits best comes first. */
#include "passes/analysis.h"
#include "passes/pass.h"
#include "base/memory.h"
#include "session/commands.h"
#include "session/internal.h"
#include "stdlib/stdlib.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* How a name fits what was typed. Only those of the best way that there is are offered, but those that hold it somewhere together. */
typedef enum Nearness { MATCH_PREFIX, MATCH_WORD, MATCH_SCATTERED, MATCH_NONE } Nearness;

/* What is likely there, whatever was typed: the lower comes first. */
typedef enum Fit { FIT_WANTED, FIT_LIKELY, FIT_POSSIBLE } Fit;

enum { KEYWORDS = 8, UNUSUAL = 1000, SCATTERED_MOST = 30 };

/* Ranks of what has the type that is wanted: variables of the text before those of the session, functions, constructors. */
enum { WANTED_SESSION = 100, WANTED_GLOBAL = 1 << 20, WANTED_CON = 1 << 21 };

typedef struct Offer {
    RelayCompletion item;
    Nearness match;
    int gaps; /* between the characters that were typed */
    Fit fit;
    int rank; /* among those of one fit: the order in which they are usual, or declared */
} Offer;

typedef struct Completer {
    RelaySession *s;
    const char *text;
    size_t cursor;
    Str prefix; /* what stands before the cursor, sigil included */
    bool hole; /* instead of it a hole stands there, which is to be filled */
    Offer *offers;
    size_t n, cap;
    Fit fit; /* of what is offered now */
    int rank;
    PtrMap seen;
    Wanted wanted; /* where the cursor stands */
} Completer;

static char *copy(const char *text, size_t n)
{
    char *p = memory_alloc(n + 1);
    if (p) {
        memcpy(p, text, n);
        p[n] = 0;
    }
    return p;
}

static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || strchr("_./", ch) != NULL;
}

/* ---- matching --------------------------------------------------------------------------------------------------------------- */

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static bool begins(const char *text, Str prefix)
{
    for (size_t i = 0; i < prefix.len; i++)
        if (!text[i] || !same_letter(text[i], prefix.ptr[i]))
            return false;
    return true;
}

/* Whether the characters stand in the text in this order; the signs between words may be left out. */
static bool scattered(const char *text, Str wanted, int *gaps)
{
    const char *at = text, *last = NULL;
    *gaps = 0;
    for (size_t i = 0; i < wanted.len; i++) {
        if (strchr("._", wanted.ptr[i]))
            continue;
        while (*at && !same_letter(*at, wanted.ptr[i]))
            at++;
        if (!*at)
            return false;
        *gaps += last && at > last + 1 && !strchr("._", at[-1]);
        last = at++;
    }
    return true;
}

static Nearness match_of(Str prefix, const char *text, int *gaps)
{
    *gaps = 0;
    if (begins(text, prefix))
        return MATCH_PREFIX;
    size_t sigil = prefix.len > 0 && strchr("@%:.", prefix.ptr[0]) ? 1 : 0;
    if (prefix.len < sigil + 2 || (sigil && text[0] != prefix.ptr[0]))
        return MATCH_NONE;
    Str bare = {prefix.ptr + sigil, prefix.len - sigil};
    for (const char *p = text + sigil; *p; p++)
        if ((p == text + sigil || strchr("._/", p[-1])) && begins(p, bare))
            return MATCH_WORD;
    return scattered(text + sigil, bare, gaps) ? MATCH_SCATTERED : MATCH_NONE;
}

/* ---- offers ----------------------------------------------------------------------------------------------------------------- */

/* Takes the two texts. */
static void add(Completer *c, Offer offer)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64;
        Offer *grown = memory_resize(c->offers, cap * sizeof *grown);
        if (!grown) {
            free((char *)(uintptr_t)offer.item.text);
            free((char *)(uintptr_t)offer.item.detail);
            return;
        }
        c->offers = grown;
        c->cap = cap;
    }
    c->offers[c->n++] = offer;
}

/* Offers `sigil` and `name`, unless they do not match; the type is printed when there is one, else `detail`. */
static void offer(Completer *c, const char *sigil, const char *name, const char *kind,
                  const Type *type, const char *detail)
{
    Buf text = {0}, more = {0};
    int gaps;
    buf_printf(&text, "%s%s", sigil, name);
    Nearness match = match_of(c->prefix, buf_text(&text), &gaps);
    const Name *key = match == MATCH_NONE ? NULL : ctx_name(&c->s->cx, buf_text(&text));
    if (key && !ptrmap_has(&c->seen, key)) {
        ptrmap_put(&c->seen, key, NULL);
        if (type)
            type_print(&more, type);
        else
            buf_str(&more, detail ? detail : "");
        add(c, (Offer){.item = {buf_take(&text), kind, buf_take(&more)},
                       .match = match,
                       .gaps = gaps,
                       .fit = c->fit,
                       .rank = c->rank});
    }
    buf_deinit(&text);
    buf_deinit(&more);
}

static const char *const usual[] = {
#define USUAL(name) name,
#include "session/usual.def"
#undef USUAL
};

enum { N_USUAL = sizeof usual / sizeof *usual };

static int rank_of(const char *name)
{
    for (int i = 0; i < N_USUAL; i++)
        if (strcmp(usual[i], name) == 0)
            return i;
    return strstr(name, "contrib") ? UNUSUAL + 1 : UNUSUAL;
}

/* What this session has used comes first, the most used before all. */
static int rank_of_op(const Completer *c, const Op *op)
{
    uintptr_t uses = (uintptr_t)ptrmap_find(&c->s->uses, op);
    return uses ? -(int)uses : rank_of(op->name);
}

typedef struct Uses {
    RelaySession *s;
    const char *text;
    size_t len;
} Uses;

static void note_use(void *data, const LexedToken *t)
{
    enum { MOST = 1000 };
    const Uses *u = data;
    size_t to = t->to;
    /* The tokens of `nn.relu` are its words: the first of them stands for it. */
    bool first = !strcmp(t->kind, "operator") && (t->from == 0 || u->text[t->from - 1] != '.');
    while (first && to < u->len && (is_word(u->text[to]) && u->text[to] != '/'))
        to++;
    const Op *op = first ? op_find(&u->s->cx, (Str){u->text + t->from, to - t->from}) : NULL;
    uintptr_t uses = op ? (uintptr_t)ptrmap_find(&u->s->uses, op) : MOST;
    if (uses < MOST)
        ptrmap_put(&u->s->uses, op, (void *)(uses + 1));
}

void complete_note_uses(RelaySession *s, const char *text, size_t len)
{
    enum { TYPED_MOST = 1 << 14 };
    Uses u = {s, text, len};
    /* What is longer nobody typed. */
    if (len <= TYPED_MOST)
        lex_each(text, len, note_use, &u);
}

static bool offer_op(void *data, const Op *op)
{
    Completer *c = data;
    c->rank = rank_of_op(c, op);
    offer(c, "", op->name, "operator", NULL, op->doc);
    c->rank = 0;
    return true;
}

/* Those of the session stand before those of the libraries. */
static void offer_globals(Completer *c)
{
    const Module *env = c->s->env;
    for (size_t i = 0; i < env->defs.n; i++) {
        const Def *d = &env->defs.at[i];
        if (!d->fn || strchr(d->name->text, '.'))
            continue;
        c->rank = d->imported;
        offer(c, "@", d->name->text, "global", d->fn->base.type, NULL);
    }
    c->rank = 0;
}

/* The newest first. */
static void offer_locals(Completer *c)
{
    for (size_t i = c->s->n_locals; i-- > 0;) {
        const Local *l = &c->s->locals[i];
        c->rank = (int)(c->s->n_locals - i);
        /* Results are named by who wants one. */
        if (l->result && (c->prefix.len < 2 || c->prefix.ptr[1] != '_'))
            continue;
        offer(c, "%", l->var->name->text, "local", l->var->base.type, NULL);
    }
    c->rank = 0;
}

typedef struct TokenOffer {
    Completer *c;
    char sigil; /* '%', '@', or 0 for both */
} TokenOffer;

/* Variables and functions that the text itself names. */
static void offer_token(void *data, const LexedToken *t)
{
    TokenOffer *to = data;
    Completer *c = to->c;
    bool local = !strcmp(t->kind, "local"), global = !strcmp(t->kind, "global");
    char sigil = local ? '%' : '@';
    if ((!local && !global) || t->to == c->cursor || t->to <= t->from + 1 ||
        (to->sigil && to->sigil != sigil))
        return;
    char *name = copy(c->text + t->from + 1, t->to - t->from - 1);
    if (name)
        offer(c, local ? "%" : "@", name, t->kind, NULL, "");
    free(name);
}

static void offer_tokens(Completer *c, size_t len, char sigil)
{
    TokenOffer to = {c, sigil};
    lex_each(c->text, len, offer_token, &to);
}

static void offer_dtypes(Completer *c)
{
    for (int i = 0; i < DTYPE_IDS; i++) {
        c->rank = i;
        offer(c, "", dtype_row((DTypeId)i)->name, "dtype", NULL, "element type");
    }
    c->rank = 0;
}

static void offer_constructors(Completer *c)
{
    const Module *env = c->s->env;
    for (size_t i = 0; i < env->types.n; i++) {
        const TypeDef *def = env->types.at[i];
        for (uint32_t k = 0; k < def->n_cons; k++)
            offer(c, "", def->cons[k]->name->text, "constructor",
                  type_of_constructor(&c->s->cx, def->cons[k]), NULL);
    }
}

static void offer_types(Completer *c)
{
    const Module *env = c->s->env;
    for (size_t i = 0; i < env->types.n; i++)
        offer(c, "", env->types.at[i]->name->text, "type", NULL, "data type");
    offer_constructors(c);
    offer(c, "", "Tensor", "type", NULL, "Tensor[(2, 3), float32]");
    offer_dtypes(c);
}

static void offer_keywords(Completer *c)
{
    c->rank = KEYWORDS;
    for (const char *const *k = relay_keywords; *k; k++)
        offer(c, "", *k, "keyword", NULL, "");
    offer(c, "", "True", "keyword", NULL, "bool");
    offer(c, "", "False", "keyword", NULL, "bool");
}

static void offer_words(Completer *c)
{
    offer_keywords(c);
    c->rank = UNUSUAL - 1;
    offer_types(c);
    op_each(c->s->cx.ops, offer_op, c);
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------ */

/* The call whose parentheses the cursor stands in. */
typedef struct Around {
    Str callee; /* empty: there is none */
    size_t open; /* behind the bracket */
    int argument; /* commas before the cursor */
} Around;

static Around find_call(const char *text, size_t cursor)
{
    Around a = {.callee = {"", 0}};
    int depth = 0;
    size_t i = cursor;
    while (i > 0) {
        char ch = text[--i];
        if (strchr(")]}", ch))
            depth++;
        else if (ch == ',' && depth == 0)
            a.argument++;
        else if (strchr("([{", ch) && depth-- == 0) {
            size_t to = i;
            a.open = i + 1;
            while (ch == '(' && i > 0 &&
                   (isalnum((unsigned char)text[i - 1]) || strchr("_.@%", text[i - 1])))
                i--;
            a.callee = (Str){text + i, to - i};
            return a;
        }
    }
    return a;
}

static bool is_given(const Completer *c, size_t from, const char *attr)
{
    size_t n = strlen(attr);
    for (size_t i = from; i + n < c->cursor; i++)
        if (!memcmp(c->text + i, attr, n) && c->text[i + n] == '=' &&
            !isalnum((unsigned char)c->text[i - 1]) && c->text[i - 1] != '_')
            return true;
    return false;
}

/* Those that must be given, then the others, as the operator declares them. */
static void offer_attributes(Completer *c, const Op *op, size_t from)
{
    for (const OpAttr *a = op->attrs; a && a->name; a++) {
        Buf b = {0};
        buf_printf(&b, "%s=", a->name);
        c->rank = (int)(a - op->attrs) + (a->required ? 0 : UNUSUAL);
        if (!is_given(c, from, a->name))
            offer(c, "", buf_text(&b), "attribute", NULL, a->doc);
        buf_deinit(&b);
    }
    c->rank = 0;
}

static bool wants_tuple(const Op *op, int argument)
{
    return argument < op_arity(op) && op->args[argument].doc &&
           strstr(op->args[argument].doc, "tuple") != NULL;
}

/* Whether a value of the type may be the argument; a function says so itself, of an operator its documentation does. */
static bool may_be_argument(const Type *t, const Op *op, const Type *f, int argument)
{
    if (op)
        return t->kind == (wants_tuple(op, argument) ? TYPE_TUPLE : TYPE_TENSOR);
    if (!f || f->kind != TYPE_FUNC || (uint32_t)argument >= f->n)
        return true;
    const Type *needed = type_find(f->parts[argument]);
    return needed->kind == TYPE_VAR || type_equal(t, needed) ||
           (needed->kind == t->kind && (f->n_params > 0 || t->kind == TYPE_TENSOR));
}

static void offer_arguments(Completer *c, const Op *op, const Type *f, int argument)
{
    const RelaySession *s = c->s;
    for (size_t i = s->n_locals; i-- > 0;) {
        const Local *l = &s->locals[i];
        const Type *t = type_find(l->var->base.type);
        if (l->result)
            continue;
        const Var *now = ptrmap_find(l->graph ? &s->graph_names : &s->local_names, l->var->name);
        c->rank = (int)(s->n_locals - i);
        if (now == l->var && may_be_argument(t, op, f, argument))
            offer(c, "%", l->var->name->text, "local", t, NULL);
    }
    c->rank = 0;
}

static const Type *type_of_callee(const Completer *c, Str callee)
{
    const RelaySession *s = c->s;
    if (callee.len < 2)
        return NULL;
    const Name *name = ctx_name_str(&c->s->cx, (Str){callee.ptr + 1, callee.len - 1});
    const Def *def = callee.ptr[0] == '@' ? module_find(s->env, name) : NULL;
    const Var *var = callee.ptr[0] == '%' ? ptrmap_find(&s->local_names, name) : NULL;
    return def && def->fn ? def->fn->base.type : var ? type_find(var->base.type) : NULL;
}

/* ---- what is wanted --------------------------------------------------------------------------------------------------------- */

/* Patterns go in as they are written. What other clauses take is there for who asks for it by its name. */
static void offer_pattern(Completer *c, const char *text, Fits how)
{
    RelaySession *s = c->s;
    Str name = {text, strcspn(text, "(")};
    const Constructor *con = module_find_con(s->env, ctx_name_str(&s->cx, name));
    static const Fit fits[] = {
        [FITS_NOW] = FIT_WANTED, [FITS_ALL] = FIT_LIKELY, [FITS_ELSEWHERE] = FIT_POSSIBLE};
    c->fit = fits[how];
    c->rank = (int)c->n;
    bool typed = c->prefix.len > 0;
    if (how == FITS_ALL && !typed)
        offer(c, "", text, "clauses", NULL, "all that is missing");
    else if (how == FITS_NOW || (how == FITS_ELSEWHERE && typed))
        offer(c, "", text, "constructor", con ? type_of_constructor(&s->cx, con) : NULL, "tuple");
    c->rank = 0;
}

static void offer_fitting(void *data, const char *text, Fits how)
{
    Completer *c = data;
    RelaySession *s = c->s;
    if (c->wanted.place != PATTERN_NOWHERE) {
        offer_pattern(c, text, how);
        return;
    }
    size_t n = strcspn(text, "(");
    bool sigil = strchr("@%", text[0]) != NULL;
    const Name *name = ctx_name_str(&s->cx, (Str){text + sigil, n - sigil});
    const Def *def = text[0] == '@' ? module_find(s->env, name) : NULL;
    const Constructor *con = sigil ? NULL : module_find_con(s->env, name);
    const Type *type = def && def->fn   ? def->fn->base.type
                       : con            ? type_of_constructor(&s->cx, con)
                       : text[0] == '%' ? c->wanted.type
                                        : NULL;
    char first[] = {text[0], 0};
    c->rank = (int)c->n + (text[0] == '%' ? 0 : text[0] == '@' ? WANTED_GLOBAL : WANTED_CON);
    /* What fills a hole has holes for its own arguments. */
    offer(c, sigil ? first : "", c->hole ? text + sigil : name->text,
          text[0] == '@'   ? "global"
          : text[0] == '%' ? "local"
                           : "constructor",
          type, "");
}

/* Of the type that is wanted there, and what gives it. False: nobody knows which that is. */
static bool offer_wanted(Completer *c, size_t len, int more)
{
    const RelaySession *s = c->s;
    size_t from = (size_t)(c->prefix.ptr - c->text);
    const Wanted *w = &c->wanted;
    c->wanted = (Wanted){.fits = offer_fitting, .data = c};
    c->fit = FIT_WANTED;
    find_wanted(c->s, &c->wanted, (Str){c->text, len}, (RelayRange){from, c->cursor}, more);
    c->rank = 0;
    if (!w->type || w->type->open || type_is_poison(w->type))
        return false;
    if (w->place != PATTERN_NOWHERE)
        return true;
    for (size_t i = s->n_locals; i-- > 0;) {
        const Local *l = &s->locals[i];
        const Var *now = ptrmap_find(l->graph ? &s->graph_names : &s->local_names, l->var->name);
        c->rank = WANTED_SESSION + (int)(s->n_locals - i);
        if (!l->result && now == l->var && type_equal(type_find(l->var->base.type), w->type))
            offer(c, "%", l->var->name->text, "local", w->type, NULL);
    }
    c->rank = 0;
    return true;
}

/* What stands first in a call, before anything was typed: variables that fit, attributes when the arguments are there. */
static void offer_call(Completer *c, size_t len, const Around *a, const Op *op, bool known)
{
    bool full = op && a->argument >= op_arity(op);
    c->fit = full ? FIT_POSSIBLE : known ? FIT_LIKELY : FIT_WANTED;
    if (!full)
        offer_arguments(c, op, op ? NULL : type_of_callee(c, a->callee), a->argument);
    c->fit = FIT_LIKELY;
    if (!full)
        offer_tokens(c, len, '%');
    c->fit = full ? FIT_WANTED : FIT_POSSIBLE;
    bool nothing = c->n == 0;
    if (op)
        offer_attributes(c, op, a->open);
    for (int i = 0; i < N_USUAL && nothing && !full; i++)
        offer_op(c, op_find(&c->s->cx, str_of(usual[i])));
}

/* ---- fields ----------------------------------------------------------------------------------------------------------------- */

/* `%t.0.` of a tuple. */
static void offer_fields(Completer *c)
{
    const char *dot = memchr(c->prefix.ptr, '.', c->prefix.len),
               *end = c->prefix.ptr + c->prefix.len;
    Str word = {c->prefix.ptr + 1, (size_t)(dot - c->prefix.ptr) - 1};
    const Var *v = ptrmap_find(&c->s->local_names, ctx_name_str(&c->s->cx, word));
    const Type *t = v ? type_find(v->base.type) : NULL;
    while (t && t->kind == TYPE_TUPLE) {
        const char *next = memchr(dot + 1, '.', (size_t)(end - dot - 1));
        if (!next)
            break;
        size_t i = (size_t)strtoul(dot + 1, NULL, 10);
        t = i < t->n ? type_find(t->parts[i]) : NULL;
        dot = next;
    }
    for (uint32_t i = 0; t && t->kind == TYPE_TUPLE && i < t->n; i++) {
        Buf b = {0};
        buf_printf(&b, "%.*s%u", (int)(dot + 1 - c->prefix.ptr), c->prefix.ptr, i);
        c->rank = (int)i;
        offer(c, "", buf_text(&b), "field", t->parts[i], NULL);
        buf_deinit(&b);
    }
    c->rank = 0;
}

/* ---- paths ------------------------------------------------------------------------------------------------------------------ */

static void offer_entry(Completer *c, Str folder, const char *real, const char *name)
{
    Buf path = {0}, full = {0};
    struct stat st;
    buf_printf(&full, "%s/%s", real, name);
    bool dir = stat(buf_text(&full), &st) == 0 && S_ISDIR(st.st_mode);
    buf_printf(&path, "%.*s%s%s", (int)folder.len, folder.ptr, name, dir ? "/" : "");
    size_t n = c->prefix.len;
    if (path.n >= n && !memcmp(buf_text(&path), c->prefix.ptr, n))
        offer(c, "", buf_text(&path), "path", NULL, dir ? "folder" : "file");
    buf_deinit(&path);
    buf_deinit(&full);
}

/* Files and folders that continue the path; hidden ones when their point was typed. `~/` is the home folder. */
static void offer_paths(Completer *c)
{
    size_t n = c->prefix.len;
    while (n > 0 && c->prefix.ptr[n - 1] != '/')
        n--;
    Str folder = {c->prefix.ptr, n};
    Buf real = {0};
    const char *home = getenv("HOME");
    if (n >= 2 && folder.ptr[0] == '~' && folder.ptr[1] == '/' && home)
        buf_printf(&real, "%s%.*s", home, (int)n - 1, folder.ptr + 1);
    else
        buf_printf(&real, "%.*s", (int)n, n ? folder.ptr : "");
    DIR *dir = opendir(real.n ? buf_text(&real) : ".");
    bool hidden = c->prefix.len > n && c->prefix.ptr[n] == '.';
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        if (hidden ? strcmp(e->d_name, ".") && strcmp(e->d_name, "..") : e->d_name[0] != '.')
            offer_entry(c, folder, real.n ? buf_text(&real) : ".", e->d_name);
    if (dir)
        closedir(dir);
    buf_deinit(&real);
}

/* ---- commands --------------------------------------------------------------------------------------------------------------- */

static void offer_commands(Completer *c, const char *sigil)
{
    size_t n;
    const RelayCommand *rows = relay_commands(&n);
    for (size_t i = 0; i < n; i++) {
        c->rank = (int)i;
        offer(c, sigil, rows[i].name, "command", NULL, rows[i].doc);
    }
    c->rank = 0;
}

static void offer_topics(Completer *c)
{
    offer_commands(c, "");
    for (const Pass *const *p = passes; *p; p++)
        offer(c, "", (*p)->name, "pass", NULL, (*p)->doc);
}

static void offer_codes(Completer *c)
{
    for (int i = 0; i < DIAG_CODES; i++) {
        const DiagInfo *info = diag_info((DiagCode)i);
        offer(c, "", info->code, "diagnostic", NULL, info->title);
    }
}

static void offer_analyses(Completer *c)
{
    for (const AnalysisRow *a = analyses; a->name; a++)
        offer(c, "", a->name, "analysis", NULL, a->doc);
}

static void offer_passes(Completer *c)
{
    for (const Pass *const *p = passes; *p; p++)
        offer(c, "", (*p)->name, "pass", NULL, (*p)->doc);
}

/* What the words of commands.def in capitals stand for; those in small letters stand for themselves. */
static const struct {
    const char *word;
    void (*offer)(Completer *c);
} kinds[] = {
    {"FILE", offer_paths},        {"PASS", offer_passes}, {"CODE", offer_codes},
    {"ANALYSIS", offer_analyses}, {"NAME", offer_topics}, {"@f", offer_globals},
    {"%x", offer_locals},
};

/* The word that stands for itself: `split` of `split LOOP N`, `steps=` of `steps=N`. */
static Str own_word(const char *form)
{
    size_t n = strcspn(form, " =");
    return (Str){form, n + (form[n] == '=')};
}

/* The choice of the command whose word this is; without one the steps: those that its arguments do not name. */
static void offer_choices(Completer *c, const RelayCommand *row, Str wanted)
{
    size_t n;
    const RelayCommandPart *parts = relay_command_parts(&n);
    for (size_t i = 0; i < n; i++) {
        Str word = own_word(parts[i].word);
        char *name = memory_text(word.ptr, word.len);
        bool mine = name && word.len && !strcmp(parts[i].command, row->name);
        if (mine && (wanted.len ? str_is(wanted, name) : !strstr(row->args, name)))
            offer(c, "", name, "argument", NULL, parts[i].text);
        c->rank += mine && !wanted.len;
        free(name);
    }
}

static void offer_argument_word(Completer *c, const RelayCommand *row, Str word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (word.len >= strlen(kinds[i].word) &&
            !memcmp(word.ptr, kinds[i].word, strlen(kinds[i].word))) {
            kinds[i].offer(c);
            return;
        }
    Str own = own_word(word.ptr);
    own.len = own.len < word.len ? own.len : word.len;
    if (str_is(word, "on")) { /* `on|off` */
        offer(c, "", "on", "argument", NULL, NULL);
        c->rank++;
        offer(c, "", "off", "argument", NULL, NULL);
    } else if (islower((unsigned char)word.ptr[0])) {
        offer_choices(c, row, own);
    } else if (str_is(word, "STEP")) {
        offer_choices(c, row, (Str){"", 0});
    }
}

/* Whether what the word of a row stands for begins where an expression may. */
static bool is_expression(Str word)
{
    return str_is(word, "EXPR") || str_is(word, "A") || str_is(word, "B") || str_is(word, "NAME");
}

/* Where in the arguments of a command the cursor is. */
typedef struct RowPlace {
    int words; /* how many stand before it */
    bool leading; /* nothing but settings, `steps=3` */
    bool
        behind; /* a value ends before it, and no choice of the command stands there since the last `;` */
} RowPlace;

/* Offers the words of the row that may stand at this place of the arguments: `[time SECONDS | memory MIB]` has `time` and `memory` first,
 * and `asm @f | EXPR` either of the last two behind `asm`. True when an expression may stand there. */
static bool offer_by_row(Completer *c, const RelayCommand *row, const RowPlace *place)
{
    int at = 0, last = 0, base = 0, order = 0; /* `base`: where the words in brackets begin */
    bool expression = false,
         after = false; /* `after`: an expression stands before, of any length */
    for (const char *p = row->args; *p;) {
        size_t n = strcspn(p, " |[]();…,");
        Str word = {p, n};
        bool option = memchr(p, '=', n) != NULL;
        at = is_expression(word) ? last : at;
        c->rank = order++;
        expression |= is_expression(word) && at <= place->words;
        bool here = option  ? place->leading
                    : after ? place->behind && at <= place->words
                            : at == place->words;
        if (n && here)
            offer_argument_word(c, row, word);
        after |= is_expression(word);
        p += n;
        for (; *p == ']'; p++)
            base = 0;
        bool other = *p == '|' || (*p == ' ' && p[1] == '|');
        after &= !other || base > 0; /* `types [EXPR] | pass PASS`: from the beginning */
        last = n ? at : last;
        at = other ? base : at + (n && !option && *p == ' ');
        last = other ? last : at;
        for (; *p && strchr(" |[();,", *p); p++)
            base = *p == '[' ? at : base;
        while ((unsigned char)*p >= 0x80)
            p++;
    }
    c->rank = 0;
    return expression;
}

static bool is_choice(const RelayCommand *row, Str word)
{
    size_t n;
    const RelayCommandPart *parts = relay_command_parts(&n);
    for (size_t i = 0; i < n && word.len; i++)
        if (!strcmp(parts[i].command, row->name) &&
            strncmp(parts[i].word, word.ptr, word.len) == 0 &&
            own_word(parts[i].word).len == word.len)
            return true;
    return false;
}

static bool ends_value(char c)
{
    return isalnum((unsigned char)c) || strchr("_)]}\"", c) != NULL;
}

/* The place at the end of the arguments. */
static RowPlace place_of(const RelayCommand *row, Str args)
{
    RowPlace place = {.leading = true};
    const char *end = args.ptr + args.len;
    bool chosen = false;
    for (const char *p = args.ptr; p < end; p++) {
        size_t n = 0;
        while (p + n < end && p[n] != ' ')
            n++;
        const char *equals = memchr(p, '=', n);
        place.leading &= !n || (equals && is_choice(row, (Str){p, (size_t)(equals - p) + 1}));
        place.words += n && p + n < end && !place.leading;
        chosen = n && (chosen || is_choice(row, (Str){p, n})) && p[n - 1] != ';';
        place.behind = n ? !chosen && (p[n - 1] == ';' || ends_value(p[n - 1])) : place.behind;
        p += n;
    }
    return place;
}

/* The command of the line that the cursor stands in, and where in its arguments it stands. */
static const RelayCommand *command_of(const char *text, size_t line, size_t from, RowPlace *place)
{
    size_t end = line + 1;
    while (end < from && (isalnum((unsigned char)text[end]) || text[end] == '_'))
        end++;
    const RelayCommand *row =
        end < from ? command_find((Str){text + line + 1, end - line - 1}) : NULL;
    if (row)
        *place = place_of(row, (Str){text + end, from - end});
    return row;
}

/* ---- the cursor ------------------------------------------------------------------------------------------------------------- */

/* In a string: where its text begins; else SIZE_MAX. */
static size_t string_start(const char *text, size_t line, size_t cursor)
{
    size_t start = SIZE_MAX;
    for (size_t i = line; i < cursor; i++)
        if (text[i] == '"')
            start = start == SIZE_MAX ? i + 1 : SIZE_MAX;
    return start;
}

/* The strings of a program name libraries and files, or element types. */
static void complete_string(Completer *c, size_t line)
{
    size_t end = (size_t)(c->prefix.ptr - c->text) - 1;
    while (end > line && strchr(" =", c->text[end - 1]))
        end--;
    size_t from = end;
    while (from > line && (isalnum((unsigned char)c->text[from - 1]) || c->text[from - 1] == '_'))
        from--;
    Str word = {c->text + from, end - from};
    if (str_is(word, "import")) {
        for (const PreludeFile *f = prelude_files; f->name; f++)
            offer(c, "", f->name, "path", NULL, "library");
        c->rank = 1;
        offer_paths(c);
    } else if (word.len >= 5 && !memcmp(word.ptr + word.len - 5, "dtype", 5)) {
        offer_dtypes(c);
    }
}

/* True when an expression may stand there, too. */
static bool complete_command(Completer *c, const RelayCommand *row, const RowPlace *place,
                             size_t line)
{
    bool file = strstr(row->args, "FILE") != NULL;
    size_t from = c->cursor;
    while (file && from > line && !strchr(" \"", c->text[from - 1]))
        from--;
    if (file)
        c->prefix = (Str){c->text + from, c->cursor - from};
    c->fit = FIT_WANTED;
    bool expression = offer_by_row(c, row, place);
    c->fit = FIT_LIKELY;
    return expression;
}

static void complete_expression(Completer *c, size_t len)
{
    char sigil = c->prefix.len && strchr("@%", c->prefix.ptr[0]) ? c->prefix.ptr[0] : 0;
    Around a = find_call(c->text, (size_t)(c->prefix.ptr - c->text));
    const Op *op = a.callee.len ? op_find(&c->s->cx, a.callee) : NULL;
    const Type *f = op ? NULL : type_of_callee(c, a.callee);
    if (sigil == '%' && memchr(c->prefix.ptr, '.', c->prefix.len)) {
        offer_fields(c);
        return;
    }
    int arity = op ? op_arity(op) : f && f->kind == TYPE_FUNC ? (int)f->n : 0;
    bool known = offer_wanted(c, len, arity > a.argument ? arity - a.argument - 1 : 0);
    if (c->wanted.place != PATTERN_NOWHERE) {
        c->fit = FIT_POSSIBLE;
        if (c->n == 0 && !sigil && !c->wanted.type)
            offer_constructors(c);
        return;
    }
    /* Which instance of a polymorphic function it is the argument decides. */
    known = known && !(f && f->n_params);
    if (c->prefix.len == 0) {
        if (op || f)
            offer_call(c, len, &a, op, known);
        return;
    }
    c->fit = FIT_WANTED;
    if (op && !sigil)
        offer_attributes(c, op, a.open);
    c->fit = known ? FIT_LIKELY : FIT_WANTED;
    if (sigil == '%' && (op || f))
        offer_arguments(c, op, f, a.argument);
    c->fit = FIT_LIKELY;
    if (sigil == '%')
        offer_locals(c);
    else if (sigil == '@')
        offer_globals(c);
    else
        offer_words(c);
    if (sigil)
        offer_tokens(c, len, sigil);
}

static int by_fit(const void *a, const void *b)
{
    const Offer *x = a, *y = b;
    if (x->match != y->match)
        return (int)x->match - (int)y->match;
    if (x->fit != y->fit)
        return (int)x->fit - (int)y->fit;
    if (x->match == MATCH_SCATTERED && x->gaps != y->gaps)
        return x->gaps - y->gaps;
    if (x->rank != y->rank)
        return x->rank - y->rank;
    size_t a_long = strlen(x->item.text), b_long = strlen(y->item.text);
    if (x->match != MATCH_PREFIX && a_long != b_long)
        return a_long < b_long ? -1 : 1;
    return strcmp(x->item.text, y->item.text);
}

/* The best first; where something begins as was typed, nothing else. */
static void give(Completer *c, RelayCompletions *out)
{
    if (c->n)
        qsort(c->offers, c->n, sizeof *c->offers, by_fit);
    out->items = c->n ? memory_alloc(c->n * sizeof *out->items) : NULL;
    for (size_t i = 0; i < c->n; i++) {
        const Offer *o = &c->offers[i];
        bool near = o->match == MATCH_PREFIX || c->offers[0].match != MATCH_PREFIX;
        if (out->items && near && (o->match != MATCH_SCATTERED || out->n < SCATTERED_MOST)) {
            out->items[out->n++] = o->item;
            continue;
        }
        free((char *)(uintptr_t)o->item.text);
        free((char *)(uintptr_t)o->item.detail);
    }
    free(c->offers);
    ptrmap_deinit(&c->seen);
}

void complete_at(RelaySession *s, const char *text, size_t len, size_t cursor,
                 RelayCompletions *out)
{
    cursor = cursor > len ? len : cursor;
    size_t from = cursor, line = cursor;
    while (from > 0 && is_word(text[from - 1]))
        from--;
    if (from > 0 && strchr("@%:", text[from - 1]))
        from--;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    Completer c = {.s = s, .text = text, .cursor = cursor, .fit = FIT_LIKELY};
    RowPlace place = {0};
    const RelayCommand *row =
        text[line] == ':' && line < cursor ? command_of(text, line, from, &place) : NULL;
    size_t string = string_start(text, line, cursor);
    bool quoted = string != SIZE_MAX && !row;
    if (quoted)
        from = string;
    /* A hole is what is to be filled. */
    c.hole = cursor == from + 1 && text[from] == '_' && !quoted;
    c.prefix = (Str){text + from, c.hole ? 0 : cursor - from};
    if (from == line && from < cursor && text[from] == ':')
        offer_commands(&c, ":");
    else if (quoted)
        complete_string(&c, line);
    else {
        if (!row || complete_command(&c, row, &place, line))
            complete_expression(&c, len);
    }
    out->from = (size_t)(c.prefix.ptr - text);
    out->to = cursor;
    give(&c, out);
}

typedef struct CompleteCall {
    RelaySession *s;
    const char *text;
    size_t len, cursor;
    RelayCompletions *out;
} CompleteCall;

static void complete(void *data)
{
    const CompleteCall *call = data;
    session_load_prelude(call->s);
    complete_at(call->s, call->text, call->len, call->cursor, call->out);
}

RelayCompletions *relay_session_complete(RelaySession *s, const char *text, size_t len,
                                         size_t cursor)
{
    CompleteCall call = {s, text, len, cursor, memory_zeroed(1, sizeof *call.out)};
    if (call.out)
        session_guard(s, (RelaySink){0}, complete, &call);
    return call.out;
}

void relay_completions_free(RelayCompletions *c)
{
    for (size_t i = 0; c && i < c->n; i++) {
        free((char *)(uintptr_t)c->items[i].text);
        free((char *)(uintptr_t)c->items[i].detail);
    }
    if (c)
        free(c->items);
    free(c);
}
