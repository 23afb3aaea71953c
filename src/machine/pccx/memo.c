/* SPDX-License-Identifier: Apache-2.0 */
/* A memo of the timing of programs, of which the layers of a model have few different ones.
 *
 * What a program changes in the timing model and the counters depends on its words, on the constants, FIFOs and weights
 * that it finds, and on the state of the timing model when it begins. If nothing is in flight then, which is checked,
 * that state is the same but for the cycle: the engines are free, the flows have moved what was taken, and everything
 * else is a difference of cycles or bytes, whose fractions are exact independently of their whole part. Of the
 * addresses of weights only their overlaps with the program's writes to host memory matter, where they must be the
 * same. So a program that agrees in all this takes the same cycles, and its change is applied at once. */
#include <stdlib.h>

#include "machine/pccx/internal.h"

enum {
    SLOTS = 512,
    INSTRUCTIONS_MIN = 16,
    INSTRUCTIONS_MAX = 16384,
    DESCRIPTORS_MAX = 65536,
    INPUTS_MAX = 2 * PCCX_CACHE_ENTRIES,
    STORES_MAX = 64,
    BYTES_MAX = 32 << 20,
    OP_BYTES = offsetof(pccx_op, ranges)
};

typedef struct constant_value {
    pccx_constant constant;
    uint16_t values[3];
} constant_value;

struct pccx_memo_entry {
    /* what must be the same */
    uint64_t hash; /* of the words */
    tv_buf words;
    tv_buf weights[PCCX_STREAMS]; /* tv_descriptor */
    uint32_t fifo_before[PCCX_FIFOS];
    unsigned input_count, store_count;
    constant_value inputs[INPUTS_MAX]; /* constants that the program reads and has not written */
    pccx_range stores[STORES_MAX];     /* to host memory */

    tv_buf ops;         /* if data are computed: the operations without their lists, whose `weights` is NULL … */
    tv_buf descriptors; /* … and uint32_t: which descriptor is the first of each */

    /* what it changes */
    pccx_timing_change timing;
    pccx_counters counters;
    uint32_t fifo_after[PCCX_FIFOS];
    bool written[2][PCCX_CACHE_ENTRIES];
    uint16_t constants[2][PCCX_CACHE_ENTRIES][3]; /* those that are written */
    uint64_t completions;                         /* their number … */
    tv_buf latest; /* … and, pccx_completion, the latest ones, as many as STAT_OUT keeps at most */
};

struct pccx_memo {
    pccx_memo_entry *slots[SLOTS];
    uint64_t hashes[SLOTS], last_uses[SLOTS], lookups; /* of the slots: the hash, and the lookup that last found it */
    size_t bytes;                                      /* of the buffers in the slots */
    pccx_memo_entry *recording;                        /* NULL: no program is */
    bool failed;                                       /* the recorded program exceeds a limit */
    bool keeps_ops;                                    /* data are computed */
    uint64_t index, noted;                             /* number of its first instruction; instructions so far */
    size_t first_descriptors[PCCX_STREAMS];
    pccx_timing before;
    pccx_counters counters_before;
};

/* ---- Entries ---- */

enum { BUFFERS = 4 + PCCX_STREAMS };

static tv_buf *buffer_of(pccx_memo_entry *e, unsigned i)
{
    tv_buf *const buffers[BUFFERS - PCCX_STREAMS] = {&e->words, &e->ops, &e->descriptors, &e->latest};
    return i < PCCX_STREAMS ? &e->weights[i] : buffers[i - PCCX_STREAMS];
}

static size_t bytes_of(pccx_memo_entry *e)
{
    size_t bytes = sizeof *e;
    for (unsigned i = 0; i < BUFFERS; i++)
        bytes += buffer_of(e, i)->cap;
    return bytes;
}

static void free_entry(pccx_memo_entry *e)
{
    for (unsigned i = 0; e && i < BUFFERS; i++)
        tv_buf_fini(buffer_of(e, i));
    free(e);
}

/* Empties an entry, which keeps its memory. */
static void clear_entry(pccx_memo_entry *e)
{
    pccx_memo_entry cleared = {0};
    for (unsigned i = 0; i < BUFFERS; i++)
        tv_buf_reuse(buffer_of(&cleared, i), buffer_of(e, i));
    *e = cleared;
}

/* The slot that is free, or was not used for the longest time. */
static unsigned choose_slot(const pccx_memo *memo)
{
    unsigned at = 0;
    for (unsigned i = 0; i < SLOTS && memo->slots[at]; i++)
        if (!memo->slots[i] || memo->last_uses[i] < memo->last_uses[at])
            at = i;
    return at;
}

static pccx_memo_entry *take_entry(pccx_memo *memo, unsigned slot)
{
    pccx_memo_entry *e = memo->slots[slot];
    memo->slots[slot] = NULL;
    memo->hashes[slot] = 0;
    memo->bytes -= e ? bytes_of(e) : 0;
    return e;
}

static void put_entry(pccx_memo *memo, pccx_memo_entry *e)
{
    size_t bytes = bytes_of(e);
    while (memo->bytes > 0 && memo->bytes + bytes > BYTES_MAX) {
        unsigned oldest = SLOTS;
        for (unsigned i = 0; i < SLOTS; i++)
            if (memo->slots[i] && (oldest == SLOTS || memo->last_uses[i] < memo->last_uses[oldest]))
                oldest = i;
        assert(oldest < SLOTS);
        free_entry(take_entry(memo, oldest));
    }
    unsigned slot = choose_slot(memo);
    free_entry(take_entry(memo, slot));
    memo->slots[slot] = e;
    memo->hashes[slot] = e->hash;
    memo->last_uses[slot] = memo->lookups;
    memo->bytes += bytes;
}

pccx_memo *pccx_memo_new(void) { return calloc(1, sizeof(pccx_memo)); }

void pccx_memo_free(pccx_memo *memo)
{
    for (unsigned i = 0; memo && i < SLOTS; i++)
        free_entry(memo->slots[i]);
    if (memo)
        free_entry(memo->recording);
    free(memo);
}

/* ---- Lookup ---- */

static size_t text_bytes(const pccx_machine *m) { return (size_t)m->count * PCCX_INSN_BYTES; }

static uint64_t hash_words(const pccx_machine *m)
{
    uint64_t hash = m->count;
    for (size_t i = 0; i < text_bytes(m); i += PCCX_INSN_BYTES) {
        hash = (hash ^ tv_load_le64(m->program->text + i)) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash;
}

/* The descriptors that no instruction has taken, NULL if there never was one; and their number. */
static const tv_descriptor *waiting_list(const pccx_weights *w)
{
    return w->list.data ? (const tv_descriptor *)(const void *)w->list.data + w->next : NULL;
}

static size_t waiting_count(const pccx_weights *w) { return w->list.len / sizeof(tv_descriptor) - w->next; }

static bool is_stored_to(const pccx_memo_entry *e, const tv_descriptor *d)
{
    for (unsigned i = 0; i < e->store_count; i++)
        if (d->addr < e->stores[i].to && e->stores[i].from < d->addr + d->bytes)
            return true;
    return false;
}

/* Whether weights at `now` take the same cycles as those at `then`. */
static bool is_same_descriptor(const pccx_machine *m, const pccx_memo_entry *e, const tv_descriptor *then,
                               const tv_descriptor *now)
{
    if (then->bytes != now->bytes)
        return false;
    return then->addr == now->addr ||
           (tv_memory_contains(&m->host, now->addr, now->bytes) && !is_stored_to(e, then) && !is_stored_to(e, now));
}

static bool same_weights(const pccx_machine *m, const pccx_memo_entry *e, unsigned stream)
{
    const pccx_weights *now = &m->control.weights[stream];
    const tv_descriptor *then = (const tv_descriptor *)(const void *)e->weights[stream].data;
    size_t count = waiting_count(now);
    if (count != e->weights[stream].len / sizeof *then)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!is_same_descriptor(m, e, &then[i], &waiting_list(now)[i]))
            return false;
    return true;
}

static bool is_same(const pccx_machine *m, const pccx_memo_entry *e, uint64_t hash)
{
    const pccx_control *c = &m->control;
    if (!e || e->hash != hash || e->words.len != text_bytes(m) ||
        memcmp(e->words.data, m->program->text, text_bytes(m)) != 0 ||
        memcmp(e->fifo_before, c->fifo_count, sizeof e->fifo_before) != 0)
        return false;
    for (unsigned i = 0; i < e->input_count; i++) {
        const constant_value *in = &e->inputs[i];
        if (memcmp(in->values, c->constants[in->constant.bank][in->constant.entry], sizeof in->values) != 0)
            return false;
    }
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        if (!same_weights(m, e, k))
            return false;
    return true;
}

/* Whether the whole program runs, from a state in which nothing is in flight. */
static bool is_repeatable(pccx_machine *m, uint64_t end, uint64_t max_cycles)
{
    const pccx_control *c = &m->control;
    size_t descriptors = 0;
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        if (c->weights[k].offset)
            return false;
        descriptors += waiting_count(&c->weights[k]);
    }
    return m->mode != TV_MODE_FUNCTIONAL && pccx_can_time_apart(m, max_cycles) && m->next == 0 && end == m->count &&
           end == pccx_pending_end(m) && end >= INSTRUCTIONS_MIN && end <= INSTRUCTIONS_MAX &&
           descriptors <= DESCRIPTORS_MAX && m->timing.issued == 0 && m->timing.base == m->timing.latest_end &&
           pccx_timing_reach_rest(&m->timing);
}

/* Makes room, so that an entry does not grow step by step to twice its size. */
static void reserve_bytes(tv_buf *buf, size_t bytes)
{
    tv_buf_extend(buf, bytes);
    buf->len = 0;
}

/* Starts recording the program; without memory, it is not. */
static void begin_recording(pccx_machine *m, uint64_t hash)
{
    pccx_memo *memo = m->memo;
    pccx_memo_entry *e = take_entry(memo, choose_slot(memo));
    if (e)
        clear_entry(e);
    else if (!(e = calloc(1, sizeof *e)))
        return;
    memo->recording = e;
    memo->failed = false;
    e->hash = hash;
    tv_buf_append(&e->words, m->program->text, text_bytes(m));
    memcpy(e->fifo_before, m->control.fifo_count, sizeof e->fifo_before);
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        const pccx_weights *w = &m->control.weights[k];
        tv_buf_append(&e->weights[k], waiting_list(w), waiting_count(w) * sizeof(tv_descriptor));
        memo->first_descriptors[k] = w->next;
    }
    memo->keeps_ops = m->mode == TV_MODE_FULL;
    if (memo->keeps_ops) {
        reserve_bytes(&e->ops, m->count * OP_BYTES);
        reserve_bytes(&e->descriptors, m->count * sizeof(uint32_t));
    }
    memo->index = m->instructions;
    memo->noted = 0;
    memo->before = m->timing;
    memo->counters_before = m->counters;
}

static void drop_recording(pccx_memo *memo)
{
    free_entry(memo->recording);
    memo->recording = NULL;
}

const pccx_memo_entry *pccx_memo_find(pccx_machine *m, uint64_t end, uint64_t max_cycles)
{
    pccx_memo *memo = m->memo;
    if (!memo)
        return NULL;
    drop_recording(memo);
    if (!is_repeatable(m, end, max_cycles))
        return NULL;
    uint64_t hash = hash_words(m);
    memo->lookups++;
    for (unsigned i = 0; i < SLOTS; i++)
        if (memo->hashes[i] == hash && is_same(m, memo->slots[i], hash)) {
            memo->last_uses[i] = memo->lookups;
            return memo->slots[i];
        }
    begin_recording(m, hash);
    return NULL;
}

/* ---- Recording ---- */

static void add_input(pccx_memo *memo, const pccx_control *control, const pccx_constant *c)
{
    pccx_memo_entry *e = memo->recording;
    for (unsigned i = 0; i < e->input_count; i++)
        if (e->inputs[i].constant.bank == c->bank && e->inputs[i].constant.entry == c->entry)
            return;
    if (e->input_count == INPUTS_MAX) {
        memo->failed = true;
        return;
    }
    constant_value *in = &e->inputs[e->input_count++];
    in->constant = *c;
    memcpy(in->values, control->constants[c->bank][c->entry], sizeof in->values);
}

/* Keeps what executing an operation takes. */
static void keep_op(pccx_memo *memo, const pccx_control *control, const pccx_op *op)
{
    pccx_memo_entry *e = memo->recording;
    uint32_t descriptor =
        op->stream_bytes ? (uint32_t)(control->weights[op->flow].next - memo->first_descriptors[op->flow]) : 0;
    pccx_op *own = tv_buf_extend(&e->ops, OP_BYTES);
    tv_buf_append(&e->descriptors, &descriptor, sizeof descriptor);
    if (!own)
        return;
    memcpy(own, op, OP_BYTES);
    own->range_count = own->constant_count = 0;
    own->weights = NULL;
}

void pccx_memo_note(pccx_memo *memo, const pccx_control *control, const pccx_op *op)
{
    pccx_memo_entry *e = memo ? memo->recording : NULL;
    if (!e || memo->failed)
        return;
    memo->noted++;
    if (memo->keeps_ops)
        keep_op(memo, control, op);
    for (unsigned i = 0; i < op->constant_count; i++) {
        const pccx_constant *c = &op->constants[i];
        if (c->write)
            e->written[c->bank][c->entry] = true;
        else if (!e->written[c->bank][c->entry])
            add_input(memo, control, c);
    }
    for (unsigned i = 0; i < op->range_count; i++) {
        if (op->ranges[i].storage != PCCX_STORAGE_HOST || !op->ranges[i].write)
            continue;
        if (e->store_count < STORES_MAX)
            e->stores[e->store_count++] = op->ranges[i];
        else
            memo->failed = true;
    }
    e->completions += op->asynchronous;
}

/* The completions of the program that STAT_OUT has. */
static void keep_completions(const pccx_machine *m, uint64_t index, pccx_memo_entry *e)
{
    const pccx_stat *s = &m->stat;
    uint32_t count = (uint32_t)tv_min_u64(e->completions, s->count);
    for (uint32_t i = s->count - count; i < s->count; i++) {
        const pccx_completion *c = &s->ring[(s->head + i) % s->depth];
        const pccx_completion relative = {c->index - index, c->cycle - m->memo->before.base};
        tv_buf_append(&e->latest, &relative, sizeof relative);
    }
}

/* Whether all was recorded, and nothing is left for a later program. */
static bool is_complete(pccx_machine *m, pccx_memo_entry *e)
{
    bool complete = !m->memo->failed && m->memo->noted == m->count;
    for (unsigned i = 0; i < BUFFERS; i++)
        complete = complete && !buffer_of(e, i)->failed;
    for (unsigned k = 0; k < PCCX_STREAMS; k++)
        complete = complete && m->control.weights[k].left == 0;
    return complete && pccx_timing_reach_rest(&m->timing);
}

void pccx_memo_end(pccx_machine *m, bool ended)
{
    pccx_memo *memo = m->memo;
    pccx_memo_entry *e = memo ? memo->recording : NULL;
    if (!e)
        return;
    if (ended)
        keep_completions(m, memo->index, e);
    if (!ended || !is_complete(m, e)) {
        drop_recording(memo);
        return;
    }
    pccx_timing_find_change(&memo->before, &m->timing, (int64_t)memo->index, &e->timing);
    e->counters = m->counters;
    pccx_counters_subtract(&e->counters, &memo->counters_before);
    memcpy(e->fifo_after, m->control.fifo_count, sizeof e->fifo_after);
    memcpy(e->constants, m->control.constants, sizeof e->constants);
    memo->recording = NULL;
    put_entry(memo, e);
}

/* ---- Application ---- */

void pccx_memo_op(const pccx_machine *m, const pccx_memo_entry *e, uint64_t i, pccx_op *op)
{
    memcpy(op, e->ops.data + i * OP_BYTES, OP_BYTES);
    if (op->stream_bytes)
        op->weights = waiting_list(&m->control.weights[op->flow]) + tv_load_le32(e->descriptors.data + 4 * i);
}

static void apply_control(pccx_control *c, const pccx_memo_entry *e)
{
    memcpy(c->fifo_count, e->fifo_after, sizeof c->fifo_count);
    for (unsigned bank = 0; bank < TV_COUNTOF(e->written); bank++)
        for (unsigned i = 0; i < PCCX_CACHE_ENTRIES; i++)
            if (e->written[bank][i]) {
                memcpy(c->constants[bank][i], e->constants[bank][i], sizeof c->constants[bank][i]);
                c->written[bank][i] = true;
            }
    for (unsigned k = 0; k < PCCX_STREAMS; k++) {
        c->weights[k].next = c->weights[k].list.len / sizeof(tv_descriptor);
        c->weights[k].left = 0;
    }
}

void pccx_memo_apply(pccx_machine *m, const pccx_memo_entry *e, uint64_t index)
{
    uint64_t base = m->timing.base;
    pccx_timing_apply_change(&m->timing, &e->timing, (int64_t)index);
    pccx_counters_add(&m->counters, &e->counters);
    apply_control(&m->control, e);
    if (e->completions > m->stat.depth)
        m->status |= TV_WINDOW_LOST;
    const pccx_completion *latest = (const pccx_completion *)(const void *)e->latest.data;
    for (size_t i = 0; i < e->latest.len / sizeof *latest; i++)
        pccx_window_complete(m, (int64_t)(latest[i].index + index), latest[i].cycle + base);
}
