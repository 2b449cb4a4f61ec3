/* Lines that two scopes need.
 *
 * A line is written in the scope that needs its node first, and scopes are made in the order of the program. But a scope that is a
 * value, as an `if` in an operand, has its place where the value is written, and another line with the same node may come before it.
 * Then the node is written one scope further out, before what opened the scope, and the text is made again. That is seldom so: a text
 * is only looked over, and made with the scopes of its lines noted when the look found something. Where this goes on and on, because
 * scopes are nested deeply, each node goes to the innermost scope of all its uses at once. */
#include "ir/print_internal.h"

#include <string.h>

enum { ROUNDS_BEFORE_USES = 8 };

typedef struct Early {
    const Expr *node;
    struct Early *next;
} Early;

void order_init(PrintOrder *order)
{
    *order = (PrintOrder){0};
    arena_init(&order->arena, NULL);
}

void order_deinit(PrintOrder *order)
{
    ptrmap_deinit(&order->early);
    ptrmap_deinit(&order->scopes);
    ptrmap_deinit(&order->around);
    ptrmap_deinit(&order->open);
    arena_deinit(&order->arena);
}

bool order_again(PrintOrder *order)
{
    bool again = order->again;
    order->again = false;
    order->uses = ++order->rounds >= ROUNDS_BEFORE_USES;
    ptrmap_clear(&order->scopes);
    ptrmap_clear(&order->around);
    ptrmap_clear(&order->open);
    return again;
}

void order_open(Printer *p, const Expr *opened_by, const Expr *inside)
{
    if (!p->order->uses || !opened_by)
        return;
    ptrmap_put(&p->order->around, opened_by, (void *)(uintptr_t)inside);
    ptrmap_put(&p->order->open, opened_by, NULL);
}

void order_close(Printer *p, const Expr *opened_by)
{
    if (p->order->uses && opened_by)
        ptrmap_remove(&p->order->open, opened_by);
}

void order_use(Printer *p, const Expr *e)
{
    PrintOrder *order = p->order;
    if (!order->uses)
        return;
    const Expr *scope = ptrmap_find(&order->scopes, e), *closed = NULL;
    while (scope && !ptrmap_has(&order->open, scope)) {
        closed = scope;
        scope = ptrmap_find(&order->around, scope);
    }
    if (closed)
        ptrmap_put(&order->scopes, e, (void *)(uintptr_t)closed);
}

void order_line(Printer *p, const Expr *e)
{
    if (p->order->watched)
        ptrmap_put(&p->order->scopes, e, (void *)(uintptr_t)vec_last(&p->docs).opened_by);
}

bool order_before(Printer *p, const Expr *e, void (*write)(Printer *p, const Expr *e))
{
    bool any = false;
    for (const Early *early = ptrmap_find(&p->order->early, e); early; early = early->next)
        if (node_get(p, early->node)->number < 0) {
            write(p, early->node);
            any = true;
        }
    return any;
}

/* ---- looking a text over */

static const Expr *numbered(const Printer *p, int32_t number)
{
    for (size_t i = 0; i < p->nodes.nodes.n; i++)
        if (p->nodes.nodes.at[i].number == number && !is_atom(p->nodes.nodes.at[i].e))
            return p->nodes.nodes.at[i].e;
    return NULL;
}

/* `%number` was used before its line. */
static void move_out(Printer *p, int32_t number)
{
    PrintOrder *order = p->order;
    const Expr *node = order->watched ? numbered(p, number) : NULL;
    const Expr *scope = node ? ptrmap_find(&order->scopes, node) : NULL;
    order->again |= !order->watched || scope;
    order->watched = true;
    if (!scope)
        return;
    Early *early = arena_new(&order->arena, Early);
    *early = (Early){node, ptrmap_find(&order->early, scope)};
    ptrmap_put(&order->early, scope, early);
    ptrmap_remove(&order->scopes, node);
}

static bool is_bound(Printer *p, int32_t number, bool bind)
{
    size_t at = (size_t)number / 8;
    unsigned char bit = (unsigned char)(1u << number % 8);
    while (p->bound.n <= at && !p->bound.failed)
        buf_char(&p->bound, 0);
    bool bound = p->bound.failed || (p->bound.at[at] & bit);
    if (bind && !p->bound.failed)
        p->bound.at[at] |= (char)bit;
    return bound;
}

void order_check(Printer *p, const char *text, size_t n)
{
    const char *end = text + n, *at = text;
    while (at < end && (at = memchr(at, '%', (size_t)(end - at)))) {
        int32_t number = 0;
        const char *digits = ++at;
        while (at < end && *at >= '0' && *at <= '9' && number < p->next_number)
            number = number * 10 + (*at++ - '0');
        if (at == digits || number >= p->next_number)
            continue;
        bool bind = end - at > 3 && !memcmp(at, " = ", 3);
        if (!is_bound(p, number, bind) && !bind)
            move_out(p, number);
    }
}
