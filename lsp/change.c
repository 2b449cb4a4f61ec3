/* Changes of a text: its layout, other names, and what a diagnostic suggests. */
#include "lsp/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *edit_bytes(Server *s, Open *o, RelayRange range, const char *text, size_t n)
{
    return json_pack("{s:o, s:o}", "range", range_json(o, range, s->utf8), "newText",
                     text_json(text, n));
}

static json_t *edit(Server *s, Open *o, RelayRange range, const char *text)
{
    return edit_bytes(s, o, range, text, strlen(text));
}

/* Takes the list of edits. */
static json_t *workspace_edit(Open *o, json_t *edits)
{
    return json_pack("{s:{s:o}}", "changes", o->uri, edits);
}

Answer formatting(Server *s, const json_t *params)
{
    Open *o = open_of(s, params);
    json_t *edits = json_array();
    size_t n = 0;
    char *laid = o ? relay_layout(buf_text(&o->text), o->text.n, &n) : NULL;
    if (laid && (n != o->text.n || memcmp(laid, buf_text(&o->text), n) != 0))
        json_array_append_new(edits, edit_bytes(s, o, (RelayRange){0, o->text.n}, laid, n));
    free(laid);
    return answer_with(edits);
}

/* ---- rename ---------------------------------------------------------------------------------------------------------- */

static RelayUses *renamed(Server *s, const json_t *params, Open **o)
{
    size_t offset;
    *o = open_at(s, params, &offset);
    RelayUses *uses = *o ? relay_document_uses((*o)->document, offset) : NULL;
    if (uses && uses->defined)
        return uses;
    relay_uses_free(uses);
    return NULL;
}

Answer prepare_rename(Server *s, const json_t *params)
{
    Open *o;
    RelayUses *uses = renamed(s, params, &o);
    json_t *range = uses ? range_json(o, uses->at, s->utf8) : json_null();
    relay_uses_free(uses);
    return answer_with(range);
}

/* A text that is one token, of the kind that is wanted. */
typedef struct OneToken {
    size_t n, len;
    const char *kind;
    bool good;
} OneToken;

static void see_token(void *data, const RelayToken *t)
{
    OneToken *one = data;
    one->n++;
    one->good = t->from == 0 && t->to == one->len && !strcmp(t->kind, one->kind);
}

/* A type begins as a constructor does: by its spelling, it is one. */
static bool is_name(const char *name, const char *kind)
{
    OneToken one = {.len = strlen(name), .kind = !strcmp(kind, "type") ? "constructor" : kind};
    relay_highlight(NULL, name, one.len, see_token, &one);
    return one.n == 1 && one.good;
}

typedef struct Search {
    const char *text, *name;
    bool found;
} Search;

static void search_token(void *data, const RelayToken *t)
{
    Search *f = data;
    f->found |= t->to - t->from == strlen(f->name) &&
                memcmp(f->text + t->from, f->name, t->to - t->from) == 0;
}

/* The new name with the sigil of the old one, given with it or without. */
static void spell(Buf *b, char sigil, const char *name)
{
    if ((sigil == '%' || sigil == '@') && name[0] != sigil)
        buf_char(b, sigil);
    buf_str(b, name);
}

Answer rename_all(Server *s, const json_t *params)
{
    Open *o;
    const json_t *new = json_object_get(params, "newName");
    const char *given = json_string_value(new);
    RelayUses *uses = given ? renamed(s, params, &o) : NULL;
    if (!uses)
        return answer_error(ERROR_FAILED, "nothing here can have another name");
    Buf name = {0};
    spell(&name, buf_text(&o->text)[uses->at.from], given);
    Search used = {buf_text(&o->text), buf_text(&name), false};
    relay_highlight(NULL, used.text, o->text.n, search_token, &used);
    Answer a;
    if (!is_name(buf_text(&name), uses->kind) || strlen(given) != json_string_length(new))
        a = answer_error(ERROR_FAILED, "this is no name of that kind");
    else if (used.found)
        a = answer_error(ERROR_FAILED, "the text has this name already");
    else {
        json_t *edits = json_array();
        for (size_t i = 0; i < uses->n; i++)
            json_array_append_new(edits, edit(s, o, uses->uses[i].range, buf_text(&name)));
        a = answer_with(workspace_edit(o, edits));
    }
    buf_deinit(&name);
    relay_uses_free(uses);
    return a;
}

/* ---- code actions ---------------------------------------------------------------------------------------------------- */

typedef struct Actions {
    Server *s;
    Open *o;
    RelayRange range;
    json_t *list;
} Actions;

static bool meets(RelayRange a, RelayRange b)
{
    return a.from <= b.to && b.from <= a.to;
}

static void add_fix(Actions *a, const json_t *about, const RelayFix *fix, bool only)
{
    Buf title = {0};
    RelayRange r = fix->range;
    /* What is put behind something begins with what parts the two. */
    const char *text = fix->text + strspn(fix->text, ", \n");
    text = *text ? text : fix->text;
    int shown = (int)strcspn(text, "\n");
    if (r.to > r.from)
        buf_printf(&title, "Replace `%.*s` by `%.*s`", (int)(r.to - r.from),
                   buf_text(&a->o->text) + r.from, shown, text);
    else
        buf_printf(&title, "Write `%.*s`", shown, text);
    json_t *edits = json_array();
    json_array_append_new(edits, edit(a->s, a->o, fix->range, fix->text));
    json_array_append_new(a->list,
                          json_pack("{s:s, s:s, s:[O], s:b, s:o}", "title", buf_text(&title),
                                    "kind", "quickfix", "diagnostics", (json_t *)(uintptr_t)about,
                                    "isPreferred", only, "edit", workspace_edit(a->o, edits)));
    buf_deinit(&title);
}

static void add_fixes(Actions *a)
{
    size_t n = 0;
    const RelayFinding *found = relay_document_findings(a->o->document, &n);
    json_t *all = diagnostics(a->s, a->o);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < found[i].n_fixes && meets(found[i].range, a->range); k++)
            add_fix(a, json_array_get(all, i), &found[i].fixes[k], found[i].n_fixes == 1);
    json_decref(all);
}

/* At a name that was bound without its type. */
static void add_type(void *data, size_t offset, const char *type)
{
    Actions *a = data;
    Buf title = {0};
    bool graph = false;
    for (size_t i = offset; i > 0 && strchr("0123456789", buf_text(&a->o->text)[i - 1]); i--)
        graph = i > 1 && buf_text(&a->o->text)[i - 2] == '%';
    /* A graph variable cannot say its type, and what is named there may have no text. */
    if (graph || strchr(type, '?'))
        return;
    buf_printf(&title, "Write its type, `%s`", type + strspn(type, ":-> "));
    json_t *edits = json_array();
    json_array_append_new(edits, edit(a->s, a->o, (RelayRange){offset, offset}, type));
    json_array_append_new(a->list,
                          json_pack("{s:s, s:s, s:o}", "title", buf_text(&title), "kind",
                                    "refactor.rewrite", "edit", workspace_edit(a->o, edits)));
    buf_deinit(&title);
}

static void take_text(void *data, const RelayOutput *out)
{
    const RelayMime *m = relay_output_find(out, "text/plain");
    if (out->kind == RELAY_OUTPUT_TEXT && m)
        buf_bytes(data, m->data, m->size);
}

/* What `relay fmt` makes of a module. */
static void add_canonical(Actions *a)
{
    Buf text = {0};
    RelayRequest request = {
        .stage = "fmt", .text = buf_text(&a->o->text), .len = a->o->text.n, .name = a->o->path};
    RelayStatus status =
        relay_session_stage(a->s->session, &request, (RelaySink){take_text, &text});
    if (status == RELAY_OK && text.n && strcmp(buf_text(&text), request.text) != 0) {
        json_t *edits = json_array();
        json_array_append_new(edits,
                              edit(a->s, a->o, (RelayRange){0, a->o->text.n}, buf_text(&text)));
        json_array_append_new(a->list,
                              json_pack("{s:s, s:s, s:o}", "title",
                                        "Rewrite in canonical text, without comments", "kind",
                                        "refactor.rewrite", "edit", workspace_edit(a->o, edits)));
    }
    buf_deinit(&text);
}

/* Whether the editor asks for actions of the kind. */
static bool wants(const json_t *params, const char *kind)
{
    const json_t *only = json_object_get(json_object_get(params, "context"), "only"), *one;
    size_t i;
    if (!json_is_array(only))
        return true;
    json_array_foreach(only, i, one)
    {
        const char *text = json_string_value(one);
        if (text && !strncmp(kind, text, strlen(text)))
            return true;
    }
    return false;
}

Answer code_actions(Server *s, const json_t *params)
{
    Open *o = open_of(s, params);
    const json_t *range = json_object_get(params, "range");
    Actions a = {.s = s, .o = o, .list = json_array()};
    if (!o)
        return answer_with(a.list);
    a.range = (RelayRange){offset_of(o, json_object_get(range, "start"), s->utf8),
                           offset_of(o, json_object_get(range, "end"), s->utf8)};
    if (wants(params, "quickfix"))
        add_fixes(&a);
    if (wants(params, "refactor.rewrite")) {
        RelayUses *name = relay_document_uses(o->document, a.range.from);
        if (name)
            relay_document_types(o->document, (RelayRange){name->at.from, name->at.from}, add_type,
                                 &a);
        relay_uses_free(name);
        if (relay_document_is_module(o->document))
            add_canonical(&a);
    }
    return answer_with(a.list);
}
