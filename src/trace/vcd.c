/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a waveform. The events of a trace are not ordered by time, those of a waveform are: their begins and ends
 * are sorted (edges.h), then replayed on the state of each engine, and what differs after a cycle is written. */
#include "trace/vcd.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/sv.h"
#include "trace/edges.h"

/* LANES: engines, the last one for those beyond. ACTIVE: events of an engine at a time that have names; others are only
 * counted. TEXTS: operations and stall reasons, a power of two; later ones are "others". */
enum { LANES = 256, ACTIVE = 16, TEXTS = 1 << 14, NAME_SIZE = 48, NO_TEXT = 0, OTHER_TEXTS = 1 };

typedef char vcd_name[NAME_SIZE];

typedef struct active_event {
    int64_t index;
    uint32_t text;
} active_event;

/* The events of one kind that an engine has at a time. */
typedef struct active_set {
    active_event list[ACTIVE];
    unsigned listed;
    uint64_t count;
} active_set;

enum { BUSY, OP, INSN, STALL, QUEUE, ISSUE, STATUS, SIGNALS };

static const struct {
    const char *name, *type;
    unsigned bits;
} signals[SIGNALS] = {
    [BUSY] = {"busy", "wire", 1},     [OP] = {"op", "string", 1},      [INSN] = {"insn", "wire", 64},
    [STALL] = {"stall", "string", 1}, [QUEUE] = {"queue", "wire", 32}, [ISSUE] = {"issue", "wire", 64},
    [STATUS] = {"status", "wire", 64}};

#define NO_INDEX UINT64_MAX /* of INSN, ISSUE and STATUS: written as z */

typedef struct lane_state {
    vcd_name name;
    active_set work, stall, issue, status;
    uint64_t values[SIGNALS];
    bool changed; /* in this cycle, so that its values may differ */
} lane_state;

struct tv_vcd {
    edge_sorter edges;
    lane_state lanes[LANES];
    unsigned lane_count;
    vcd_name *texts; /* [text_room] */
    uint32_t text_count, text_room;
    uint32_t *slots; /* [2 * TEXTS] hash table: number of a text, 0: none */
    vcd_name target;
    double clock_hz;
};

/* ---- Names and texts ---- */

/* Copies a text with `_` for what a waveform does not allow: in names everything but letters, digits and `_`, in values
 * white space, backslashes and bytes that are not ASCII. */
static void copy_name(const char *text, bool identifier, vcd_name out)
{
    size_t n = 0;
    if (identifier && (*text == '\0' || (*text >= '0' && *text <= '9')))
        out[n++] = '_';
    for (; *text && n + 1 < NAME_SIZE; text++) {
        char c = *text;
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        out[n++] = letter || (!identifier && c > ' ' && c <= '~' && c != '\\') ? c : '_';
    }
    out[n] = '\0';
}

/* Adds a text whose name has been copied; false: out of memory, which tv_vcd_write reports. */
static bool add_text(tv_vcd *v, const char *name)
{
    if (v->text_count == v->text_room) {
        uint32_t room = v->text_room ? 2 * v->text_room : 16;
        vcd_name *texts = realloc(v->texts, room * sizeof *texts);
        if (!texts) {
            v->edges.status = TV_ERR_MEMORY;
            return false;
        }
        v->texts = texts;
        v->text_room = room;
    }
    memcpy(v->texts[v->text_count++], name, NAME_SIZE);
    return true;
}

static uint32_t find_text(tv_vcd *v, const char *text)
{
    vcd_name name;
    if (!text || !*text)
        return NO_TEXT;
    copy_name(text, false, name);
    size_t slot = tv_sv_hash(tv_sv_of(name)) & (2 * TEXTS - 1);
    for (; v->slots[slot]; slot = (slot + 1) & (2 * TEXTS - 1))
        if (strcmp(v->texts[v->slots[slot]], name) == 0)
            return v->slots[slot];
    if (v->text_count == TEXTS)
        return OTHER_TEXTS;
    if (!add_text(v, name))
        return OTHER_TEXTS;
    return v->slots[slot] = v->text_count - 1;
}

static unsigned find_lane(tv_vcd *v, const char *text)
{
    vcd_name name;
    unsigned i = 0;
    copy_name(text, true, name);
    while (i < v->lane_count && strcmp(v->lanes[i].name, name) != 0)
        i++;
    if (i == LANES)
        return LANES - 1;
    if (i == v->lane_count) {
        copy_name(i == LANES - 1 ? "others" : name, true, v->lanes[i].name);
        v->lane_count++;
    }
    return i;
}

/* ---- Reading ---- */

tv_vcd *tv_vcd_new(void)
{
    tv_vcd *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->slots = calloc((size_t)2 * TEXTS, sizeof *v->slots);
    tv_edges_init(&v->edges, EDGES_IN_MEMORY);
    if (!v->slots || !add_text(v, (vcd_name){"-"}) || !add_text(v, (vcd_name){"others"})) {
        tv_vcd_free(v);
        return NULL;
    }
    return v;
}

void tv_vcd_free(tv_vcd *vcd)
{
    if (!vcd)
        return;
    tv_edges_fini(&vcd->edges);
    free(vcd->texts);
    free(vcd->slots);
    free(vcd);
}

bool tv_vcd_begin(void *user, const tv_trace_head *head)
{
    tv_vcd *v = user;
    copy_name(head->target, true, v->target);
    v->clock_hz = head->clock_hz;
    for (unsigned i = 0; i < head->engine_count; i++)
        find_lane(v, head->engines[i]);
    return true;
}

/* Adds the begin and the end of an event, unless it takes no time. */
static void add_event(tv_vcd *v, const tv_event *e, edge_kind begin, edge_kind end, uint64_t end_time)
{
    if (!e->engine || e->start >= end_time)
        return;
    const char *text = begin == EDGE_STALL ? e->reason : e->op;
    trace_edge edge = {
        .index = e->index, .text = find_text(v, text), .engine = (uint16_t)find_lane(v, e->lane ? e->lane : e->engine)};
    edge.time = e->start;
    edge.kind = (uint16_t)begin;
    tv_edges_add(&v->edges, edge);
    edge.time = end_time;
    edge.kind = (uint16_t)end;
    tv_edges_add(&v->edges, edge);
}

bool tv_vcd_event(void *user, const tv_event *event, const tv_trace_extras *extras)
{
    (void)extras;
    switch (event->kind) {
    case TV_EVENT_ENGINE:
        add_event(user, event, EDGE_WORK, EDGE_END_WORK, event->end);
        break;
    case TV_EVENT_STALL:
        add_event(user, event, EDGE_STALL, EDGE_END_STALL, event->end);
        break;
    case TV_EVENT_COMMAND:
        add_event(user, event, EDGE_ISSUE, EDGE_END_ISSUE, event->start + 1);
        break;
    case TV_EVENT_STATUS:
        add_event(user, event, EDGE_STATUS, EDGE_END_STATUS, event->start + 1);
        break;
    case TV_EVENT_MARKER:
    case TV_EVENT_TRANSFER:
    case TV_EVENT_TOKEN:
    case TV_EVENT_LOAD:
    case TV_EVENT_ACCESS:
    case TV_EVENT_CONTROL:
        break;
    }
    return true;
}

/* ---- The state of an engine ---- */

static void begin_active(active_set *s, const trace_edge *edge)
{
    if (s->listed < ACTIVE)
        s->list[s->listed++] = (active_event){edge->index, edge->text};
    s->count++;
}

static void end_active(active_set *s, const trace_edge *edge)
{
    unsigned i = s->listed;
    while (i > 0 && (s->list[i - 1].index != edge->index || s->list[i - 1].text != edge->text))
        i--;
    if (i > 0) {
        memmove(&s->list[i - 1], &s->list[i], (s->listed - i) * sizeof s->list[0]);
        s->listed--;
    }
    s->count--;
}

static void apply_edge(lane_state *lane, const trace_edge *edge)
{
    lane->changed = true;
    switch ((edge_kind)edge->kind) {
    case EDGE_END_WORK:
        end_active(&lane->work, edge);
        break;
    case EDGE_END_STALL:
        end_active(&lane->stall, edge);
        break;
    case EDGE_END_ISSUE:
        end_active(&lane->issue, edge);
        break;
    case EDGE_END_STATUS:
        end_active(&lane->status, edge);
        break;
    case EDGE_WORK:
        begin_active(&lane->work, edge);
        break;
    case EDGE_STALL:
        begin_active(&lane->stall, edge);
        break;
    case EDGE_ISSUE:
        begin_active(&lane->issue, edge);
        break;
    case EDGE_STATUS:
        begin_active(&lane->status, edge);
        break;
    }
}

static uint64_t index_of(const active_set *s)
{
    return s->listed && s->list[s->listed - 1].index >= 0 ? (uint64_t)s->list[s->listed - 1].index : NO_INDEX;
}

static uint64_t text_of(const active_set *s) { return s->listed ? s->list[s->listed - 1].text : NO_TEXT; }

/* True if the instruction that is stalled is not at work, but waits for the engine. */
static bool is_waiting(const lane_state *lane)
{
    uint64_t index = index_of(&lane->stall);
    for (unsigned i = 0; i < lane->work.listed; i++)
        if ((uint64_t)lane->work.list[i].index == index)
            return false;
    return index != NO_INDEX;
}

static void compute_values(const lane_state *lane, uint64_t values[SIGNALS])
{
    values[BUSY] = lane->work.count != 0;
    values[OP] = text_of(&lane->work);
    values[INSN] = index_of(&lane->work);
    values[STALL] = text_of(&lane->stall);
    values[QUEUE] = lane->work.count + is_waiting(lane);
    values[ISSUE] = index_of(&lane->issue);
    values[STATUS] = index_of(&lane->status);
}

/* ---- Writing ---- */

/* The identifier of a variable: digits in base 94, the characters from '!' on. */
static void write_identifier(unsigned lane, unsigned s, FILE *out)
{
    unsigned number = lane * SIGNALS + s;
    do
        putc('!' + (int)(number % 94), out);
    while (number /= 94);
}

static void write_binary(uint64_t value, FILE *out)
{
    unsigned bit = 63;
    while (bit && !(value >> bit & 1))
        bit--;
    for (bit++; bit-- > 0;)
        putc('0' + (int)(value >> bit & 1), out);
}

static void write_value(const tv_vcd *v, unsigned lane, unsigned s, FILE *out)
{
    uint64_t value = v->lanes[lane].values[s];
    if (s == BUSY) {
        putc('0' + (int)value, out);
    } else if (s == OP || s == STALL) {
        fprintf(out, "s%s ", v->texts[value]);
    } else {
        putc('b', out);
        if (value == NO_INDEX)
            putc('z', out);
        else
            write_binary(value, out);
        putc(' ', out);
    }
    write_identifier(lane, s, out);
    putc('\n', out);
}

static void write_header(const tv_vcd *v, FILE *out)
{
    fprintf(out,
            "$version trivet $end\n$comment one unit of time is one cycle, the clock has %.0f Hz $end\n"
            "$timescale 1 ns $end\n$scope module %s $end\n",
            v->clock_hz, v->target);
    for (unsigned i = 0; i < v->lane_count; i++) {
        fprintf(out, "$scope module %s $end\n", v->lanes[i].name);
        for (unsigned s = 0; s < SIGNALS; s++) {
            const char *range = signals[s].bits == 64 ? " [63:0]" : signals[s].bits == 32 ? " [31:0]" : "";
            fprintf(out, "$var %s %u ", signals[s].type, signals[s].bits);
            write_identifier(i, s, out);
            fprintf(out, " %s%s $end\n", signals[s].name, range);
        }
        fputs("$upscope $end\n", out);
    }
    fputs("$upscope $end\n$enddefinitions $end\n", out);
}

/* Writes the values at the beginning, or those that changed. */
static void write_cycle(tv_vcd *v, uint64_t time, bool first, FILE *out)
{
    bool any = first;
    if (first)
        fputs("#0\n$dumpvars\n", out);
    for (unsigned i = 0; i < v->lane_count; i++) {
        lane_state *lane = &v->lanes[i];
        uint64_t values[SIGNALS];
        if (!first && !lane->changed)
            continue;
        lane->changed = false;
        compute_values(lane, values);
        for (unsigned s = 0; s < SIGNALS; s++) {
            if (!first && values[s] == lane->values[s])
                continue;
            lane->values[s] = values[s];
            if (!any)
                fprintf(out, "#%" PRIu64 "\n", time);
            any = true;
            write_value(v, i, s, out);
        }
    }
    if (first)
        fputs("$end\n", out);
}

tv_status tv_vcd_write(tv_vcd *vcd, FILE *out, const tv_diag_sink *sink)
{
    trace_edge edge;
    uint64_t time = 0;
    bool first = true;
    if (tv_edges_sort(&vcd->edges) != TV_OK)
        return tv_edges_report(&vcd->edges, sink);
    write_header(vcd, out);
    while (tv_edges_next(&vcd->edges, &edge)) {
        if (edge.time != time) {
            write_cycle(vcd, time, first, out);
            first = false;
        }
        time = edge.time;
        apply_edge(&vcd->lanes[edge.engine], &edge);
    }
    write_cycle(vcd, time, first, out);
    return tv_edges_report(&vcd->edges, sink);
}
