/* Running steps. Each function does one kind of step and returns the step to go on with; NULL ends the evaluation: a value stands in
 * `result`, or a diagnostic was reported. */
#include "base/memory.h"
#include "interp/internal.h"
#include "runtime/heap.h"

#include <stdlib.h>
#include <string.h>

INLINE const Step *finish(Frame *f, const Step *s, Value v)
{
    if (s->dest != NO_SLOT)
        value_put(&f->slots[s->dest], value_head(&v), v.bits);
    else
        value_release(v);
    return s->next;
}

/* The same for a value that is none after a diagnostic. */
static inline const Step *finish_or_fail(Interp *in, const Step *s, Value v)
{
    return value_is_none(v) ? NULL : finish(in->frame, s, v);
}

/* An operator may take long: the next call asks the limits. */
static const Step *step_op(Interp *in, Step *s)
{
    eval_ask_soon(in);
    interp_note_steps(in, 1);
    Value v = site_run(in, s);
    if (value_is_none(v))
        return NULL;
    for (uint32_t i = 0; i < s->n; i++)
        operand_done(in->frame, s->args[i]);
    return finish(in->frame, s, v);
}

/* ---- operations on two scalars ------------------------------------------------------------------ */

/* A frame is also words, two for a slot: what the second one holds of a scalar is its bits. */
INLINE uint64_t *words(Frame *f)
{
    return (uint64_t *)(void *)f->slots;
}

INLINE const Step *scalar_done(Frame *f, const Step *s, uint64_t bits)
{
    uint64_t *at = words(f) + s->out;
    at[-1] = s->head;
    at[0] = bits;
    return s->next;
}

/* A decision goes to the branch at once; the general way leaves its result for the IF. The result's bytes are put together in a
 * register: a word in memory that was written in parts is slow to read at once. */
#define SCALAR_STEP(name, T, R, a, b, declines, result, done)     \
    INLINE const Step *step_##name(Interp *in, Frame *f, Step *s) \
    {                                                             \
        uint64_t bits = 0;                                        \
        T x, y;                                                   \
        memcpy(&x, &(a), sizeof x);                               \
        memcpy(&y, &(b), sizeof y);                               \
        if (declines)                                             \
            return step_op(in, s);                                \
        R r = (R)(result);                                        \
        memcpy(&bits, &r, sizeof r);                              \
        return done;                                              \
    }
#define AT(where) words(f)[s->where]
#define IN_FORMS(name, T, R, declines, result, done)                             \
    SCALAR_STEP(name, T, R, AT(a), AT(b), declines, result, done)                \
    SCALAR_STEP(name##_SECOND, T, R, AT(a), s->constant, declines, result, done) \
    SCALAR_STEP(name##_FIRST, T, R, s->constant, AT(b), declines, result, done)
#define SCALAR(name, op, dtype, T, result) \
    IN_FORMS(name, T, T, false, result, scalar_done(f, s, bits))
#define DIVISION(name, op, dtype, T, result) \
    IN_FORMS(name, T, T, y == 0 || y == -1, result, scalar_done(f, s, bits))
#define DECISION(name, op, dtype, T, result)                           \
    IN_FORMS(name, T, uint8_t, false, result, scalar_done(f, s, bits)) \
    IN_FORMS(IF_##name, T, uint8_t, false, result, bits ? s->to[0] : s->to[1])
#include "interp/scalar.def"
#undef IN_FORMS
#undef SCALAR_STEP
#undef AT

/* ---- branches ------------------------------------------------------------------------------------ */

INLINE const Step *step_if(Frame *f, const Step *s)
{
    return s->blocks[frame_operand(f, s->args[0])->bits ? 0 : 1].first;
}

INLINE const Step *step_if_slot(Frame *f, const Step *s)
{
    return words(f)[s->a] ? s->to[0] : s->to[1];
}

INLINE const Step *step_join(Frame *f, const Step *s)
{
    return finish(f, s->join, operand_take(f, s->args[0]));
}

/* A field of an object, lent. */
INLINE Value field_at(const Object *o, const MatchField *at)
{
    Value v;
    value_put(&v, at->head ? at->head : object_form(o)->heads[at->field],
              o->fields[at->field].bits);
    return v;
}

INLINE void bind_field(Frame *f, const MatchField *at, Value v)
{
    value_put(&f->slots[at->slot], value_head(&v), v.bits);
}

INLINE void bind_scalars(Frame *f, const Object *o, const MatchPart *p)
{
    for (const MatchField *at = p->fields + p->parts, *end = p->fields + p->scalars; at < end; at++)
        value_put(&f->slots[at->slot], at->head, o->fields[at->field].bits);
}

/* Of an object that nobody else holds the fields move out. */
INLINE void take_apart(Frame *f, Object *o, const MatchPart *p)
{
    bind_scalars(f, o, p);
    const MatchField *at = p->fields + p->scalars, *bound = p->fields + p->bound;
    for (; at < bound; at++)
        bind_field(f, at, field_at(o, at));
    for (const MatchField *end = p->fields + p->n; at < end; at++)
        value_release(field_at(o, at));
    object_give(o, object_form(o));
}

INLINE void look_into(Frame *f, const Object *o, const MatchPart *p)
{
    bind_scalars(f, o, p);
    for (const MatchField *at = p->fields + p->scalars, *end = p->fields + p->bound; at < end; at++)
        bind_field(f, at, value_retain(field_at(o, at)));
}

/* Parts of the object wait until it is their turn. */
INLINE void hold_parts(Held *held, const Object *o, bool ours, const MatchPart *p)
{
    for (const MatchField *at = p->fields, *end = at + p->parts; at < end; at++)
        held[at->part] = (Held){o->fields[at->field].object, ours};
}

/* An object is done with all that lies in it before anything else is let go of, so what it lends is there as long as it is looked at. */
INLINE void take_part(Frame *f, Held *held, Object *o, bool ours, const MatchPart *p)
{
    bool alone = ours && o->refs == 1;
    hold_parts(held, o, alone, p);
    if (alone) {
        take_apart(f, o, p);
        return;
    }
    look_into(f, o, p);
    if (ours && o->refs != IMMORTAL)
        o->refs--;
}

INLINE void take_others(Frame *f, Held *held, const MatchCase *c)
{
    for (uint32_t i = 0; i < c->n_others; i++)
        take_part(f, held, held[i + 1].object, held[i + 1].ours, &c->others[i]);
}

/* What the tag at the end of the way says. */
INLINE const MatchCase *read_tag(const MatchCase *c, const Object *o)
{
    for (uint8_t i = 0; i < c->depth; i++)
        o = o->fields[c->path[i]].object;
    uint32_t tag = o->form >> FORM_TAG_SHIFT;
    const MatchCase *to = c->cases;
    if (c->by_tag)
        return to + tag;
    while (to->more && to->tag != tag)
        to++;
    return to;
}

/* The value as it is. */
static const Step *take_any(Frame *f, const MatchCase *c, Value v, bool ours)
{
    if (c->slot == NO_SLOT) {
        if (ours)
            value_release(v);
        return c->first;
    }
    if (!ours)
        value_retain(v);
    value_put(&f->slots[c->slot], value_head(&v), v.bits);
    return c->first;
}

INLINE const Step *step_match(Interp *in, Frame *f, const Step *s)
{
    uint64_t *at = words(f) + s->a;
    Object *o = (Object *)(uintptr_t)at[0];
    const MatchCase *c = s->cases;
    while (c->cases)
        c = read_tag(c, o);
    if (!c->first)
        return match_run(in, s);
    bool ours = s->args[0].last;
    if (c->any) {
        Value v;
        value_put(&v, at[-1], at[0]);
        at[-1] = ours ? VALUE_NONE : at[-1];
        return take_any(f, c, v, ours);
    }
    if (ours)
        at[-1] = VALUE_NONE;
    take_part(f, in->held, o, ours, &c->whole);
    take_others(f, in->held, c);
    return c->first;
}

/* ---- other steps --------------------------------------------------------------------------------- */

/* Whether the operands are such as the step had before. */
static inline bool has_form(Frame *f, const Step *s, uint32_t front)
{
    if (!s->made)
        return false;
    const uint64_t *head = s->made->heads + front;
    for (const Operand *o = s->args, *end = o + s->n; o < end; o++, head++)
        if (value_head(frame_operand(f, *o)) != *head)
            return false;
    return true;
}

#define FEW_FIELDS 16

/* The form of an object whose fields after the first ones are the operands. */
static const ObjectForm *find_form(Interp *in, const Step *s, const ObjectInfo *info,
                                   uint32_t front)
{
    const Value word = {.kind = VALUE_SCALAR, .dtype = dtype_of(DT_UINT64)};
    uint32_t n = front + s->n;
    uint64_t few[FEW_FIELDS], *heads = n > FEW_FIELDS ? memory_must(n * sizeof *heads) : few;
    for (uint32_t i = 0; i < n; i++)
        heads[i] = value_head(i < front ? &word : operand_at(in, s->args[i - front]));
    const ObjectForm *form = object_form_of(&in->cx->limits, info, n, heads);
    if (heads != few)
        memory_free(heads);
    return form;
}

/* A new object of the step's form with the operands behind the first fields, which are still to be set; NULL when memory is refused. */
INLINE Object *take_made(Interp *in, Frame *f, const Step *s, uint32_t front)
{
    Object *made = object_take(&in->cx->limits, s->made);
    if (!made)
        return NULL;
    Field *to = made->fields + front;
    for (const Operand *o = s->args, *end = o + s->n; o < end; o++, to++)
        to->bits = operand_take(f, *o).bits;
    return made;
}

static inline Object *take_object(Interp *in, Step *s, const ObjectInfo *info, uint32_t front)
{
    if (!has_form(in->frame, s, front))
        s->made = find_form(in, s, info, front);
    return take_made(in, in->frame, s, front);
}

/* The same whose form is the same each time. */
INLINE Object *take_known(Interp *in, Frame *f, Step *s, const ObjectInfo *info, uint32_t front)
{
    if (!s->made)
        s->made = find_form(in, s, info, front);
    return take_made(in, f, s, front);
}

INLINE Object *take_known_object(Interp *in, Frame *f, Step *s)
{
    return take_known(in, f, s, s->kind == STEP_CON ? s->con->info : &tuple_info, 0);
}

INLINE const Step *step_known_object(Interp *in, Frame *f, Step *s)
{
    Object *o = take_known_object(in, f, s);
    if (!o)
        return NULL;
    value_put(&f->slots[s->dest], s->head, (uint64_t)(uintptr_t)o);
    return s->next;
}

static const Step *step_object(Interp *in, Step *s, const ObjectInfo *info)
{
    Object *o = take_object(in, s, info, 0);
    return o ? finish(in->frame, s, (Value){.kind = info->kind, .object = o}) : NULL;
}

INLINE void set_function(Object *o, const Code *code)
{
    o->fields[FUNCTION_CODE].bits = 0;
    o->fields[FUNCTION_INFO].bits = (uint64_t)(uintptr_t)&code->info;
    code->unit->refs++;
}

static const Step *step_closure(Interp *in, Step *s)
{
    Object *o = take_object(in, s, &s->code->info, FUNCTION_CAPTURED);
    if (!o)
        return NULL;
    set_function(o, s->code);
    return finish(in->frame, s, (Value){.kind = VALUE_FUNCTION, .object = o});
}

INLINE const Step *step_known_closure(Interp *in, Frame *f, Step *s)
{
    Object *o = take_known(in, f, s, &s->code->info, FUNCTION_CAPTURED);
    if (!o)
        return NULL;
    set_function(o, s->code);
    value_put(&f->slots[s->dest], s->head, (uint64_t)(uintptr_t)o);
    return s->next;
}

static const Step *step_global(Interp *in, Step *s)
{
    const Code *code = global_code(in, s);
    if (!code)
        return NULL;
    if (!in->plain_function) {
        const Value word = {.kind = VALUE_SCALAR, .dtype = dtype_of(DT_UINT64)};
        const uint64_t heads[FUNCTION_CAPTURED] = {value_head(&word), value_head(&word)};
        in->plain_function = object_form_of(&in->cx->limits, &code->info, FUNCTION_CAPTURED, heads);
    }
    Object *o = object_take(&in->cx->limits, in->plain_function);
    if (!o)
        return NULL;
    set_function(o, code);
    return finish(in->frame, s, (Value){.kind = VALUE_FUNCTION, .object = o});
}

/* Reads a field of an object that is only looked at. */
static inline const Step *step_field(Interp *in, const Step *s, uint32_t index)
{
    Value v = value_retain(object_get(operand_at(in, s->args[0])->object, index));
    operand_done(in->frame, s->args[0]);
    return finish(in->frame, s, v);
}

INLINE const Step *step_known_field(Frame *f, const Step *s)
{
    const Operand tuple = s->args[0];
    Object *o = f->slots[tuple.at].object;
    Value v;
    value_put(&v, s->head, o->fields[s->index].bits);
    if (s->known < KNOWN_SCALAR)
        object_retain(v.object);
    if (tuple.last) {
        f->slots[tuple.at].kind = VALUE_NONE;
        object_release(o);
    }
    value_put(&f->slots[s->dest], s->head, v.bits);
    return s->next;
}

static const Step *step_ref_write(Interp *in, const Step *s)
{
    Value v = operand_take(in->frame, s->args[1]);
    Object *cell = operand_at(in, s->args[0])->object;
    Value old = object_get(cell, 0);
    object_set(cell, 0, v);
    value_release(old);
    operand_done(in->frame, s->args[0]);
    return finish(in->frame, s, value_unit());
}

/* Slots that hold something counted, or perhaps. */
INLINE const Step *step_drop(Frame *f, const Step *s)
{
    for (const Operand *o = s->args, *end = o + s->n; o < end; o++)
        operand_done(f, *o);
    return s->next;
}

/* ---- a tuple that is made to be matched --------------------------------------------------------------- */

/* All operands are read before a variable is bound, because its slot may be one of theirs. */
INLINE const Step *take_fields(Interp *in, Frame *f, const Step *s, const MatchCase *c)
{
    if (c->any) {
        step_drop(f, s);
        return c->first;
    }
    const MatchPart *p = &c->whole;
    const MatchField *at = p->fields, *bound = at + p->parts;
    for (; at < bound; at++) {
        const Operand o = s->args[at->field];
        Value *part = frame_operand(f, o);
        in->held[at->part] = (Held){part->object, o.last};
        if (o.last)
            part->kind = VALUE_NONE;
    }
    Value *values = in->args;
    for (const MatchField *end = p->fields + p->bound; at < end; at++, values++) {
        Value v = operand_take(f, s->args[at->field]);
        value_put(values, value_head(&v), v.bits);
    }
    for (const MatchField *end = p->fields + p->n; at < end; at++)
        operand_done(f, s->args[at->field]);
    values = in->args;
    for (const MatchField *end = p->fields + p->bound; bound < end; bound++, values++)
        value_put(&f->slots[bound->slot], value_head(values), values->bits);
    take_others(f, in->held, c);
    return c->first;
}

/* The match itself says what no clause takes. */
INLINE const Step *step_match_fields(Interp *in, Frame *f, Step *s)
{
    const MatchCase *c = s->cases;
    while (c->cases)
        c = read_tag(c, (const Object *)(uintptr_t)words(f)[c->from]);
    return c->first ? take_fields(in, f, s, c) : step_object(in, s, &tuple_info);
}

/* ---- calls ------------------------------------------------------------------------------------- */

/* The frame is to run: what its code has of the closure comes to its place, the closure itself without the frame's losing it. */
INLINE const Step *start(Interp *in, Frame *f)
{
    const Code *code = f->code;
    in->frame = f;
    if (f->closure) {
        Value *captured = f->slots + captured_at(code);
        const Field *fields = f->closure->fields + FUNCTION_CAPTURED;
        const uint64_t *heads = object_form(f->closure)->heads + FUNCTION_CAPTURED;
        for (const Value *end = captured + code->captured.n; captured < end; captured++)
            value_put(captured, *heads++, fields++->bits);
        if (code->self_slot != NO_SLOT)
            f->slots[code->self_slot] =
                value_retain((Value){.kind = VALUE_FUNCTION, .object = f->closure});
    }
    return code->body.first;
}

INLINE void take_args(Frame *from, const Step *s, Value *to)
{
    for (const Operand *o = s->args, *end = o + s->n; o < end; o++, to++) {
        Value v = operand_take(from, *o);
        value_put(to, value_head(&v), v.bits);
    }
}

INLINE const Step *call(Interp *in, Frame *from, const Step *s, const Code *code, Tally *tally,
                        bool closure)
{
    Frame *f = eval_frame_push(in, code);
    if (!f)
        return NULL;
    take_args(from, s, f->slots);
    f->closure = closure ? operand_take(from, s->args[s->n]).object : NULL;
    f->caller = from;
    f->call = s;
    f->tally = tally;
    return start(in, f);
}

/* A closure that nobody else holds: what it captured goes, and then it itself. */
static void end_closure(Object *o, const Code *code)
{
    if (code->unit->refs == 1) {
        object_end(o);
        return;
    }
    code->unit->refs--;
    const ObjectForm *form = object_form(o);
    for (uint32_t i = FUNCTION_CAPTURED; i < form->n; i++) {
        Value v;
        value_put(&v, form->heads[i], o->fields[i].bits);
        value_release(v);
    }
    object_give(o, form);
}

INLINE void release_closure(Object *closure, const Code *code)
{
    if (!closure)
        return;
    if (closure->refs == 1)
        end_closure(closure, code);
    else
        closure->refs--;
}

/* The frame, which is empty by now, calls its own code, without a closure, and begins anew. */
INLINE const Step *begin_again(Interp *in, Frame *f, const Step *s)
{
    if (eval_must_stop(in))
        return NULL;
    if (s->run == RUN_AGAIN) {
        for (const Move *m = s->moves, *end = m + s->a; m < end; m++) {
            Value v = operand_take(f, m->from);
            value_put(&f->slots[m->to], value_head(&v), v.bits);
        }
        return f->code->body.first;
    }
    Value *args = in->args;
    take_args(f, s, args);
    for (uint32_t i = 0; i < s->n; i++)
        value_put(&f->slots[i], value_head(&args[i]), args[i].bits);
    return f->code->body.first;
}

/* The frame has nothing left but what goes to the new one, which takes its place. */
INLINE const Step *tail_call(Interp *in, const Step *s, const Code *code, Tally *tally,
                             bool closure)
{
    Frame *f = in->frame, *caller = f->caller;
    const Step *waiting = f->call;
    const Code *ends = f->code;
    Object *held = f->closure;
    Value *args = in->args;
    take_args(f, s, args);
    Object *callee = closure ? operand_take(f, s->args[s->n]).object : NULL;
    f = eval_frame_replace(in, f, code);
    if (!f) {
        for (uint32_t i = 0; i < s->n; i++)
            value_release(args[i]);
        release_closure(callee, code);
        release_closure(held, ends);
        in->frame = caller;
        in->stopped = waiting == NULL;
        in->failed = s;
        return NULL;
    }
    for (uint32_t i = 0; i < s->n; i++)
        value_put(&f->slots[i], value_head(&args[i]), args[i].bits);
    f->closure = callee;
    f->tally = tally;
    release_closure(held, ends);
    return start(in, f);
}

INLINE const Step *return_value(Interp *in, Frame *f, Value v)
{
    const Step *waiting = f->call;
    release_closure(f->closure, f->code);
    in->frame = f->caller;
    eval_frame_pop(in, f);
    if (waiting)
        return finish(in->frame, waiting, v);
    in->result = v;
    in->stopped = true;
    return NULL;
}

/* An object that is made and returned. */
INLINE const Step *step_return_object(Interp *in, Frame *f, Step *s)
{
    Value v;
    value_put(&v, s->head, (uint64_t)(uintptr_t)take_known_object(in, f, s));
    return v.object ? return_value(in, f, v) : NULL;
}

INLINE const Step *step_return_closure(Interp *in, Frame *f, Step *s)
{
    Value v;
    value_put(&v, s->head,
              (uint64_t)(uintptr_t)take_known(in, f, s, &s->code->info, FUNCTION_CAPTURED));
    if (!v.object)
        return NULL;
    set_function(v.object, s->code);
    return return_value(in, f, v);
}

INLINE const Step *step_return(Interp *in, Frame *f, const Step *s)
{
    return return_value(in, f, operand_take(f, s->args[0]));
}

INLINE const Step *step_return_scalar(Interp *in, Frame *f, const Step *s)
{
    Value v;
    value_put(&v, s->head, words(f)[s->a]);
    return return_value(in, f, v);
}

/* Calls the tally's definition as the tier has it or, where there is no tally, a function of another engine. */
static Value call_outside(Interp *in, const Step *s, const Tally *tally)
{
    uint32_t n = tally ? s->n : s->n + 1;
    Value few[8] = {0}, *args = n <= 8 ? few : memory_zeroed(n, sizeof *args);
    if (!args) {
        limit_reach(&in->cx->limits, LIMIT_MEMORY);
        return value_none();
    }
    for (uint32_t i = 0; i < n; i++)
        args[i] = operand_take(in->frame, s->args[i]);
    Value v = tally ? tally_call(in, tally, n, args, s->span)
                    : foreign_call(in, args[s->n], s->n, args, s->span);
    if (!tally)
        values_release(n, args);
    if (args != few)
        free(args);
    return v;
}

/* The same in tail position. */
static const Step *end_outside(Interp *in, const Step *s, const Tally *tally)
{
    Value v = call_outside(in, s, tally);
    return value_is_none(v) ? NULL : return_value(in, in->frame, v);
}

/* NULL for a function of another engine, which whoever watches sees as one of this. */
static inline const Code *callee_code(Interp *in, const Step *s)
{
    Operand o = s->args[s->n];
    Value *callee = operand_at(in, o);
    const Code *code = closure_code(*callee);
    if (code || !in->observer)
        return code;
    adopt_function(in, callee);
    if (o.base == BASE_CAPTURED) /* it is the closure's, and lent to the frame */
        in->frame->closure->fields[FUNCTION_CAPTURED + o.at - captured_at(in->frame->code)].bits =
            callee->bits;
    return closure_code(*callee);
}

INLINE const Step *step_call(Interp *in, Frame *f, const Step *s)
{
    const Code *code = callee_code(in, s);
    if (!code)
        return finish_or_fail(in, s, call_outside(in, s, NULL));
    return call(in, f, s, code, tally_closure(in, code), true);
}

static inline const Step *step_tail_call(Interp *in, const Step *s)
{
    const Code *code = callee_code(in, s);
    return code ? tail_call(in, s, code, tally_closure(in, code), true) : end_outside(in, s, NULL);
}

static inline Tally *callee_tally(Interp *in, const Step *s, const Code *code)
{
    if (!s->typed)
        return code->tally;
    return in->tier_on ? tally_at(in, s, code) : NULL;
}

INLINE const Step *step_call_global(Interp *in, Frame *f, Step *s)
{
    const Code *code = s->epoch == in->epoch ? s->found : global_code(in, s);
    if (!code)
        return NULL;
    Tally *tally = callee_tally(in, s, code);
    if (tally_add(in, tally, code))
        return finish_or_fail(in, s, call_outside(in, s, tally));
    return call(in, f, s, code, tally, false);
}

INLINE const Step *step_tail_global(Interp *in, Frame *f, Step *s)
{
    const Code *code = s->epoch == in->epoch ? s->found : global_code(in, s);
    if (!code)
        return NULL;
    Tally *tally = callee_tally(in, s, code);
    if (tally_add(in, tally, code))
        return end_outside(in, s, tally);
    return code == f->code && tally == f->tally ? begin_again(in, f, s)
                                                : tail_call(in, s, code, tally, false);
}

/* ---- the loop ---------------------------------------------------------------------------------- */

/* What each kind of step does: with which it goes on in the same frame, or what may also fail or change the frame. */
#define KINDS(GOES, MAY)                                  \
    MAY(STEP_OP, step_op(in, s))                          \
    MAY(STEP_OP_IF, step_op(in, s))                       \
    GOES(STEP_IF, step_if(f, s))                          \
    MAY(STEP_CALL, step_call(in, f, s))                   \
    MAY(STEP_CALL_GLOBAL, step_call_global(in, f, s))     \
    MAY(STEP_TAIL_CALL, step_tail_call(in, s))            \
    MAY(STEP_TAIL_GLOBAL, step_tail_global(in, f, s))     \
    MAY(STEP_RETURN, step_return(in, f, s))               \
    GOES(STEP_JOIN, step_join(f, s))                      \
    MAY(STEP_MATCH, match_run(in, s))                     \
    MAY(STEP_CON, step_object(in, s, s->con->info))       \
    MAY(STEP_TUPLE, step_object(in, s, &tuple_info))      \
    GOES(STEP_GET, step_field(in, s, (uint32_t)s->index)) \
    MAY(STEP_CLOSURE, step_closure(in, s))                \
    MAY(STEP_GLOBAL, step_global(in, s))                  \
    MAY(STEP_REF_NEW, step_object(in, s, &ref_info))      \
    GOES(STEP_REF_READ, step_field(in, s, 0))             \
    GOES(STEP_REF_WRITE, step_ref_write(in, s))           \
    GOES(STEP_DROP, step_drop(f, s))
/* The same where more is known. */
#define RUNS(GOES, MAY)                                    \
    GOES(RUN_IF, step_if_slot(f, s))                       \
    MAY(RUN_MATCH, step_match(in, f, s))                   \
    MAY(RUN_MATCH_FIELDS, step_match_fields(in, f, s))     \
    MAY(RUN_OBJECT, step_known_object(in, f, s))           \
    MAY(RUN_CLOSURE, step_known_closure(in, f, s))         \
    MAY(RUN_RETURN_OBJECT, step_return_object(in, f, s))   \
    MAY(RUN_RETURN_CLOSURE, step_return_closure(in, f, s)) \
    GOES(RUN_GET, step_known_field(f, s))                  \
    MAY(RUN_AGAIN, step_tail_global(in, f, s))             \
    MAY(RUN_RETURN, step_return_scalar(in, f, s))
#define FORMS(X, name)                                     \
    X(RUN_##name, step_##name(in, f, s))                   \
    X(RUN_##name##_SECOND, step_##name##_SECOND(in, f, s)) \
    X(RUN_##name##_FIRST, step_##name##_FIRST(in, f, s))

const Step *eval_step(Interp *in, Step *s)
{
    Frame *f = in->frame;
    switch ((StepKind)s->kind) {
#define CASE(kind, next) \
    case kind: return next;
        KINDS(CASE, CASE)
#undef CASE
    case STEP_KINDS: break;
    }
    return NULL;
}

const Step *eval_frame_start(Interp *in, Frame *f)
{
    return start(in, f);
}

/* In builds for development: whether the operands are such as their types say. */
INLINE bool operands_hold(Interp *in, Frame *f, const Step *s)
{
#ifndef NDEBUG
    for (uint32_t i = 0; i < s->n; i++) {
        const Operand o = s->args[i];
        if (o.known == KNOWN_NOTHING || value_head(frame_operand(f, o)) == known_head(o.known))
            continue;
        diag_bug(in->cx->diags, s->span, "operand %u of a step is not of its type", i + 1);
        return false;
    }
#endif
    (void)in, (void)f, (void)s;
    return true;
}

/* Returns the step that failed; NULL when the evaluation has ended. Each step goes to the next by itself: from one place for all of them
 * a processor finds it hard to guess where to. */
static const Step *run_steps(Interp *in, const Step *first)
{
    static const void *const places[] = {
#define PLACE(which, next) [which] = &&do_##which,
#define SCALAR(name, op, dtype, T, result) FORMS(PLACE, name)
#define DIVISION(name, op, dtype, T, result) FORMS(PLACE, name)
#define DECISION(name, op, dtype, T, result) FORMS(PLACE, name) FORMS(PLACE, IF_##name)
        KINDS(PLACE, PLACE) RUNS(PLACE, PLACE)
#include "interp/scalar.def"
#undef PLACE
    };
    Step *s = (Step *)(uintptr_t)first;
    const Step *next;
    Frame *f = in->frame;
#define RUN_STEP                  \
    if (!operands_hold(in, f, s)) \
        goto end;                 \
    goto *places[s->run];
    RUN_STEP
#define GOES(which, to)                       \
    do_##which : s = (Step *)(uintptr_t)(to); \
    RUN_STEP
#define MAY(which, to)             \
    do_##which : next = to;        \
    if (!next)                     \
        goto end;                  \
    f = in->frame;                 \
    s = (Step *)(uintptr_t)(next); \
    RUN_STEP
#define SCALAR(name, op, dtype, T, result) FORMS(GOES, name)
#define DIVISION(name, op, dtype, T, result) FORMS(MAY, name)
#define DECISION(name, op, dtype, T, result) FORMS(GOES, name) FORMS(GOES, IF_##name)
    KINDS(GOES, MAY)
    RUNS(GOES, MAY)
#include "interp/scalar.def"
#undef GOES
#undef MAY
#undef RUN_STEP
end:
    return in->stopped ? in->failed : s;
}

#define CALLERS_SHOWN 3
#define CALLERS_LOOKED_AT 1000

/* Says which calls led to the failure. An endless recursion and an interrupt have no place but that of the step. */
static void explain(Interp *in, const Step *failed, Diag *d)
{
    if (span_is_none(d->span))
        d->span = failed->span;
    Span shown = d->span;
    int callers = 0, looked_at = 0;
    for (const Frame *f = in->frame; f && f->call && callers < CALLERS_SHOWN; f = f->caller) {
        if (looked_at++ == CALLERS_LOOKED_AT)
            return;
        Span at = f->call->span;
        bool again = at.source == shown.source && at.from == shown.from && at.to == shown.to;
        if (span_is_none(at) || again)
            continue;
        diag_label(d, at, "called from here");
        shown = at;
        callers++;
    }
}

/* After an error: lets go of everything down to the frame where the evaluation began. */
static void unwind(Interp *in)
{
    while (!in->stopped) {
        Frame *f = in->frame;
        for (uint32_t i = 0; i < f->code->n_counted; i++)
            value_release(f->slots[i]);
        release_closure(f->closure, f->code);
        in->stopped = !f->call;
        in->frame = f->caller;
        eval_frame_pop(in, f);
    }
}

Value eval_frame_run(Interp *in, Frame *f)
{
    Frame *below = in->frame;
    size_t reported = in->cx->diags->n;
    in->result = value_none();
    in->stopped = false;
    in->failed = NULL;
    const Step *failed = in->observer ? observe_frame(in, f) : run_steps(in, start(in, f));
    if (failed && in->cx->diags->n > reported && in->cx->diags->last)
        explain(in, failed, in->cx->diags->last);
    unwind(in);
    in->frame = below;
    Value v = in->result;
    in->result = value_none();
    in->stopped = false;
    return v;
}
