/* SPDX-License-Identifier: Apache-2.0 */
/* Orders the instructions of a network so that engines work at the same time.
 *
 * The machine issues in program order: an instruction that waits stalls all that follow. Instructions are recorded with
 * the L2 words that they read and write. Each engine keeps their order; of the next ones of all engines the one that
 * can start first, by the latencies of the machine, is appended to the program, if no earlier one that is not appended
 * yet conflicts with it. So results are those of the recorded order. Copies form two queues, so that the input of the
 * next tile does not wait for the output of the current one. */
#include <stdlib.h>

#include "lower/pccx/network_state.h"

enum { WINDOW = 8192, STREAMS_MAX = 16384, QUEUES = 5, NONE = -1 };

/* ACP executes the copies of both queues. */
typedef enum queue { ACP, GEMM, GEMV, SFU, ACP_OUT } queue;

typedef struct range {
    uint32_t from, to;
} range;

/* Accesses other than of L2. */
enum { READS_MAX = 1, WRITES_MAX = 2, LOADS = 4, STORES = 8 };

/* What decides whether two entries conflict; compact, because each entry is compared with many. */
typedef struct footprint {
    range read, write; /* L2 words */
    uint32_t flags;
    int entry;
} footprint;

typedef struct entry {
    pccx_lower_op op;
    uint32_t streams, stream_count;
    int after[QUEUES]; /* the last earlier entry of each queue that conflicts; NONE: none */
    queue queue;
    uint64_t cycles;
} entry;

struct pccx_net_schedule {
    entry entries[WINDOW];
    pccx_lower_op streams[STREAMS_MAX];
    footprint footprints[QUEUES][WINDOW];       /* of the entries of each queue … */
    uint32_t recorded[QUEUES];                  /* … in their number */
    uint32_t count, stream_count, stream_first; /* the first one of the next product */
    uint64_t ends[WINDOW], free_at[QUEUES], now;
};

/* ---- Recording ---- */

static queue queue_of(pccx_insn insn)
{
    switch (insn) {
    case PCCX_GEMM:
        return GEMM;
    case PCCX_GEMV:
        return GEMV;
    case PCCX_MEMCPY_LOAD:
    case PCCX_MEMCPY_STORE:
    case PCCX_MEMCPY_MOVE:
        return ACP;
    default:
        return SFU;
    }
}

static queue engine_of(const entry *e) { return e->queue == ACP_OUT ? ACP : e->queue; }

static range range_of(uint32_t addr, uint64_t words) { return (range){addr, addr + (uint32_t)words}; }

static bool overlaps_in_host(const pccx_lower_op *a, const pccx_lower_op *b)
{
    uint64_t size_a = (uint64_t)pccx_lower_l2_size(a->k) * PCCX_LOWER_WORD_BYTES,
             size_b = (uint64_t)pccx_lower_l2_size(b->k) * PCCX_LOWER_WORD_BYTES;
    return a->host < b->host + size_b && b->host < a->host + size_a;
}

static footprint footprint_of(const entry *e, int number)
{
    const pccx_lower_op *op = &e->op;
    const uint32_t words = pccx_lower_l2_size(op->k);
    const bool loads = op->insn == PCCX_MEMCPY_LOAD, stores = op->insn == PCCX_MEMCPY_STORE;
    switch (e->queue) {
    case GEMM:
    case GEMV:
        return (footprint){.read = range_of(op->from, (uint64_t)op->m * words),
                           .write = range_of(op->to, (uint64_t)op->m * pccx_lower_l2_size(op->n)),
                           .flags = op->flags & PCCX_LOWER_FINDEMAX ? WRITES_MAX : 0,
                           .entry = number};
    case ACP:
    case ACP_OUT:
        return (footprint){.read = range_of(op->from, loads ? 0 : words),
                           .write = range_of(op->to, stores ? 0 : words),
                           .flags = loads    ? LOADS
                                    : stores ? STORES
                                             : 0,
                           .entry = number};
    case SFU:
        break;
    }
    return (footprint){.read = range_of(op->from, words + (op->insn == PCCX_CVO_SCALE)),
                       .write = range_of(op->to, op->insn == PCCX_CVO_REDUCE_SUM ? 1 : words),
                       .flags = op->flags & PCCX_LOWER_SUB_EMAX ? READS_MAX : 0,
                       .entry = number};
}

static uint64_t count_cycles(const pccx_network *w, const entry *e)
{
    enum { CVO = 12, MOVE = 8, GEMV_SETUP = 12, GEMV_CORES = 4 };
    const pccx_lower_op *op = &e->op;
    uint32_t words = pccx_lower_l2_size(op->k);
    uint64_t steps = (op->k + w->tile_k - 1) / w->tile_k;
    double bytes = 0;
    switch (e->queue) {
    case GEMM:
        return w->gemm_setup +
               steps * ((op->n + w->tile_n - 1) / w->tile_n) * (op->m > w->min_rows ? op->m : w->min_rows);
    case GEMV:
        return GEMV_SETUP + steps * ((op->n + GEMV_CORES - 1) / GEMV_CORES);
    case ACP:
    case ACP_OUT:
        bytes = (double)words * PCCX_LOWER_WORD_BYTES;
        return op->insn == PCCX_MEMCPY_MOVE ? MOVE + words : w->copy_setup + (uint64_t)(bytes / w->copy_rate);
    case SFU:
        return CVO + op->k;
    }
    return 0;
}

/* 1 or 0; without branches, because it is computed for each pair of entries in the window. */
static unsigned overlaps(range a, range b) { return (unsigned)(a.from < b.to) & (unsigned)(b.from < a.to); }

static bool conflicts(const struct pccx_net_schedule *s, const footprint *a, const footprint *b)
{
    const uint32_t either = a->flags | b->flags;
    if (overlaps(a->write, b->write) | overlaps(a->write, b->read) | overlaps(a->read, b->write))
        return true;
    if ((a->flags & WRITES_MAX && b->flags & (WRITES_MAX | READS_MAX)) ||
        (a->flags & READS_MAX && b->flags & WRITES_MAX))
        return true;
    return (either & (LOADS | STORES)) == (LOADS | STORES) &&
           overlaps_in_host(&s->entries[a->entry].op, &s->entries[b->entry].op);
}

/* What the previous entry of its queue is after, an entry is after, too. */
static void find_conflicts(struct pccx_net_schedule *s, entry *e)
{
    const uint32_t own = s->recorded[e->queue];
    const entry *before = own ? &s->entries[s->footprints[e->queue][own - 1].entry] : NULL;
    const footprint at = footprint_of(e, (int)s->count);
    for (unsigned k = 0; k < QUEUES; k++) {
        const int known = before ? before->after[k] : NONE;
        const footprint *first = s->footprints[k], *f = first + (k == e->queue ? 0 : s->recorded[k]);
        while (f > first && f[-1].entry > known && !conflicts(s, &at, &f[-1]))
            f--;
        e->after[k] = f > first && f[-1].entry > known ? f[-1].entry : known;
    }
    s->footprints[e->queue][s->recorded[e->queue]++] = at;
}

static void clear(struct pccx_net_schedule *s)
{
    s->count = s->stream_count = s->stream_first = 0;
    memset(s->recorded, 0, sizeof s->recorded);
}

/* ---- Ordering ---- */

static void append(pccx_network *w, const entry *e)
{
    pccx_lowering *l = &w->l;
    const pccx_lower_op *op = &e->op;
    for (uint32_t i = 0; i < e->stream_count; i++) {
        const pccx_lower_op *s = &w->schedule->streams[e->streams + i];
        pccx_lower_stream(l, s->m, s->host, s->bytes);
    }
    switch (op->insn) {
    case PCCX_MEMCPY_LOAD:
        pccx_lower_load(l, op->to, op->host, op->k);
        return;
    case PCCX_MEMCPY_STORE:
        pccx_lower_store(l, op->host, op->from, op->k);
        return;
    case PCCX_MEMCPY_MOVE:
        pccx_lower_move(l, op->to, op->from, op->k);
        return;
    case PCCX_GEMM:
        pccx_lower_gemm(l, op->to, op->from, op->m, op->n, op->k, op->flags);
        return;
    case PCCX_GEMV:
        pccx_lower_gemv(l, op->to, op->from, op->n, op->k, op->flags);
        return;
    default:
        pccx_lower_cvo(l, op->insn, op->to, op->from, op->k, op->flags);
        return;
    }
}

/* The next entry of queue `which` from `from` on; `count` at the end. */
static uint32_t next_of(const struct pccx_net_schedule *s, unsigned which, uint32_t from)
{
    while (from < s->count && s->entries[from].queue != which)
        from++;
    return from;
}

/* The cycle at which an entry can start; UINT64_MAX: it is after one that is not appended yet. */
static uint64_t start_of(const struct pccx_net_schedule *s, const entry *e, const uint32_t heads[QUEUES])
{
    uint64_t start = s->free_at[engine_of(e)] > s->now ? s->free_at[engine_of(e)] : s->now;
    for (unsigned k = 0; k < QUEUES; k++) {
        if (e->after[k] == NONE)
            continue;
        if ((uint32_t)e->after[k] >= heads[k])
            return UINT64_MAX;
        start = s->ends[e->after[k]] > start ? s->ends[e->after[k]] : start;
    }
    return start;
}

void pccx_net_flush(pccx_network *w)
{
    struct pccx_net_schedule *s = w->schedule;
    uint32_t heads[QUEUES];
    void (*record)(pccx_lowering *, const pccx_lower_op *) = w->l.record;
    w->l.record = NULL;
    for (unsigned k = 0; k < QUEUES; k++)
        heads[k] = next_of(s, k, 0);
    for (uint32_t done = 0; done < s->count; done++) {
        uint32_t best = s->count;
        uint64_t start = UINT64_MAX;
        for (unsigned k = 0; k < QUEUES; k++) {
            uint64_t at = heads[k] < s->count ? start_of(s, &s->entries[heads[k]], heads) : UINT64_MAX;
            if (at < start || (at == start && at != UINT64_MAX && heads[k] < best)) {
                start = at;
                best = heads[k];
            }
        }
        const entry *e = &s->entries[best];
        append(w, e);
        s->ends[best] = s->free_at[engine_of(e)] = start + e->cycles;
        s->now = start + 1;
        heads[e->queue] = next_of(s, e->queue, best + 1);
    }
    clear(s);
    w->l.record = record;
}

void pccx_net_record(pccx_lowering *l, const pccx_lower_op *op)
{
    pccx_network *w = (pccx_network *)(void *)l; /* its first member */
    struct pccx_net_schedule *s = w->schedule;
    if (op->insn == PCCX_INSNS) {
        s->streams[s->stream_count++] = *op;
        return;
    }
    entry *e = &s->entries[s->count];
    *e = (entry){.op = *op, .queue = queue_of(op->insn), .streams = s->stream_first};
    if (e->queue == ACP && w->outgoing)
        e->queue = ACP_OUT;
    e->stream_count = s->stream_count - s->stream_first;
    s->stream_first = s->stream_count;
    e->cycles = count_cycles(w, e);
    find_conflicts(s, e);
    s->count++;
    if (s->count == WINDOW || s->stream_count + 8 > STREAMS_MAX)
        pccx_net_flush(w);
}

tv_status pccx_net_run(pccx_network *w, const tv_diag_sink *sink)
{
    struct pccx_net_schedule *s = w->schedule;
    pccx_net_flush(w);
    s->now = 0;
    memset(s->free_at, 0, sizeof s->free_at);
    if (tv_builder_is_empty(&w->l.program))
        return TV_OK;
    if (w->l.emit && w->l.steps == 0)
        TV_TRY(pccx_net_list_program(w, sink));
    return pccx_lower_run(&w->l, sink);
}

void pccx_net_clear(pccx_network *w)
{
    tv_builder_clear(&w->l.program);
    clear(w->schedule);
}

bool pccx_net_schedule_new(pccx_network *w)
{
    w->schedule = calloc(1, sizeof *w->schedule);
    if (w->schedule)
        clear(w->schedule);
    w->l.record = pccx_net_record;
    return w->schedule != NULL;
}
