/* An expression followed, as text and as JSON: expression after expression, each with its lines of all stages. */
#include "session/views/follow.h"

#include "base/utf8.h"

#include <string.h>

#define JSON_LINES 4000 /* of a stage */

/* Lines that compute something say more than loops around them, and addresses, moves and jumps between them. */
static bool is_head(FollowStageKind kind, const FollowLine *line)
{
    static const char *const words[FOLLOW_STAGES][12] = {
        [FOLLOW_LLVM] = {"getelementptr", "br ", "load ", " phi ", " i64 ", "icmp ", "ret ",
                         "alloca"},
        [FOLLOW_ASM] = {"\tmov", "\tlea", "\tpush", "\tpop", "\tj", "\tret", "\tshl", "\tcmp",
                        "\tadd", "\tvmov", "\tsub", "\txor"},
    };
    Str t = line->text;
    if (kind == FOLLOW_LOOPS)
        return t.len && t.ptr[t.len - 1] == ':';
    for (size_t i = 0; i < 12 && words[kind][i]; i++) {
        size_t n = strlen(words[kind][i]);
        for (size_t at = 0; at + n <= t.len; at++)
            if (memcmp(t.ptr + at, words[kind][i], n) == 0)
                return true;
    }
    return false;
}

static Str trimmed(Str text)
{
    while (text.len && strchr(" \t", *text.ptr))
        text.ptr++, text.len--;
    return text;
}

/* On a line of its own, with one blank for each tab. */
static void put_cut(Buf *out, Str text, int width)
{
    Buf plain = {0};
    for (size_t i = 0; i < text.len; i++)
        buf_char(&plain, text.ptr[i] == '\t' ? ' ' : text.ptr[i]);
    size_t n = plain.n;
    while (n && (int)utf8_text_width(buf_text(&plain), n) > width - (n < plain.n))
        for (n--; n && (buf_text(&plain)[n] & 0xC0) == 0x80;)
            n--;
    buf_bytes(out, buf_text(&plain), n);
    buf_str(out, n < plain.n ? "…\n" : "\n");
    buf_deinit(&plain);
}

static void put_stage(const Follow *f, Buf *out, FollowStageKind kind, uint32_t origin, size_t most,
                      int width)
{
    enum { INDENT = 10 };
    const FollowStage *stage = &f->stages[kind];
    size_t all = 0, shown = 0;
    bool heads = true; /* there is nothing else */
    const char *name = follow_stage_names[kind];
    for (size_t i = 0; i < stage->lines.n; i++)
        if (follow_is_of(&stage->lines.at[i], origin)) {
            all++;
            heads = heads && is_head(kind, &stage->lines.at[i]);
        }
    for (size_t i = 0, part = 0; i < stage->lines.n && shown < most; i++) {
        const FollowLine *line = &stage->lines.at[i];
        while (part + 1 < stage->parts.n && stage->parts.at[part].to <= i)
            part++;
        if (!follow_is_of(line, origin) || (!heads && is_head(kind, line)))
            continue;
        Buf text = {0};
        Str words = trimmed(line->text);
        if (kind == FOLLOW_PASSES)
            buf_printf(&text, "%.*s: ", (int)stage->parts.at[part].title.len,
                       stage->parts.at[part].title.ptr);
        buf_bytes(&text, words.ptr, words.len);
        if (!shown && f->origins.at[origin].merged >> kind & 1) {
            buf_printf(out, "  %-8spart of what is around it:\n", follow_stage_names[kind]);
            name = "";
        }
        buf_printf(out, "  %-8s", shown++ ? "" : name);
        put_cut(out, (Str){buf_text(&text), text.n}, width - INDENT);
        buf_deinit(&text);
    }
    if (all > shown)
        buf_printf(out, "%*s… and %zu more line%s\n", INDENT, "", all - shown,
                   all - shown == 1 ? "" : "s");
}

static void put_place(Follow *f, Buf *out, uint32_t origin, int width)
{
    Buf head = {0};
    follow_place(f, &head, origin);
    buf_str(&head, "  ");
    Str text = follow_text(f, origin);
    buf_bytes(&head, text.ptr, text.len);
    put_cut(out, (Str){buf_text(&head), head.n}, width);
    buf_deinit(&head);
}

void follow_as_text(Follow *f, Buf *out, size_t lines, bool parts)
{
    int width = session_width(f->s) - parts; /* a screen leaves its last column alone */
    buf_printf(out, "// JIT at level %d\n", f->s->opt_level);
    if (f->report.kernels.n)
        cost_needs_text(&f->costs, out);
    for (uint32_t i = 1, n = 0; parts && i < f->origins.n; i++)
        if (f->origins.at[i].lines) {
            buf_printf(out, "%3u  ", ++n);
            put_place(f, out, i, width - 5);
        }
    for (uint32_t i = 1; i < f->origins.n && !limit_hit(&f->s->cx.limits); i++) {
        if (!f->origins.at[i].lines)
            continue;
        if (parts)
            buf_char(out, '\f');
        put_place(f, out, i, width);
        for (FollowStageKind kind = 0; kind < FOLLOW_STAGES; kind++)
            put_stage(f, out, kind, i, lines, width);
    }
}

static void put_string(Buf *out, const char *key, Str text)
{
    buf_json_field(out, key, text.ptr, text.len);
}

static void put_origin(const Follow *f, Buf *out, uint32_t i)
{
    Buf place = {0};
    follow_place(f, &place, i);
    const FollowOrigin *o = &f->origins.at[i];
    buf_printf(out, "%s{\"id\": %u, \"around\": %u, \"lines\": %u, \"merged\": [",
               i > 1 ? ",\n" : "\n", (unsigned)i, (unsigned)o->around, (unsigned)o->lines);
    const char *between = "";
    for (FollowStageKind kind = 0; kind < FOLLOW_STAGES; kind++)
        if (o->merged >> kind & 1) {
            buf_printf(out, "%s\"%s\"", between, follow_stage_names[kind]);
            between = ", ";
        }
    buf_str(out, "], ");
    put_string(out, "place", (Str){buf_text(&place), place.n});
    buf_str(out, ", ");
    put_string(out, "text", follow_text(f, i));
    buf_char(out, '}');
    buf_deinit(&place);
}

static void put_json_line(Buf *out, const FollowLine *line, bool first)
{
    buf_str(out, first ? "{" : ",\n{");
    put_string(out, "text", line->text);
    buf_str(out, ", \"of\": [");
    for (uint32_t k = 0; k < line->n; k++)
        buf_printf(out, "%s%u", k ? ", " : "", (unsigned)line->of[k]);
    buf_str(out, "]}");
}

static void put_json_stage(const Follow *f, Buf *out, FollowStageKind kind)
{
    const FollowStage *stage = &f->stages[kind];
    buf_printf(out, "%s{\"stage\": \"%s\", \"parts\": [", kind ? ",\n" : "\n",
               follow_stage_names[kind]);
    size_t left = JSON_LINES;
    for (size_t i = 0; i < stage->parts.n && left; i++) {
        const FollowPart *part = &stage->parts.at[i];
        buf_str(out, i ? ",\n{" : "\n{");
        put_string(out, "part", part->title);
        buf_str(out, ", \"lines\": [");
        for (size_t k = part->from; k < part->to && left; k++, left--)
            put_json_line(out, &stage->lines.at[k], k == part->from);
        buf_str(out, "]}");
    }
    buf_printf(out, "], \"lines\": %zu}", stage->lines.n);
}

void follow_json(Follow *f, Buf *out)
{
    buf_printf(out, "{\"level\": %d, \"origins\": [", f->s->opt_level);
    for (uint32_t i = 1; i < f->origins.n; i++)
        put_origin(f, out, i);
    buf_str(out, "],\n\"stages\": [");
    for (FollowStageKind kind = 0; kind < FOLLOW_STAGES; kind++)
        put_json_stage(f, out, kind);
    buf_str(out, "],\n\"needs\": ");
    cost_json(&f->costs, out);
    buf_str(out, "}\n");
}
