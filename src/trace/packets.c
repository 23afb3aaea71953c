/* SPDX-License-Identifier: Apache-2.0 */
/* Writes Perfetto's packets in the wire format of Protocol Buffers. Each traced instruction has several, so that this
 * is written by hand: a text is written once and then referred to by a number (interned), and no packet is allocated.
 *
 * Texts that are too long for the table are written where they are used. When a table is full, the packets' state is
 * cleared, as the format allows, and begins again: the writer's and the readers' memory stay bounded. */
#include "trace/packets.h"

#include "base/wire.h"
#include "trace/perfetto.h"

enum { SEQUENCE = 1, PID = 1 };

/* Where a text was written; a stall has a name of its own, which begins with "stall: ". */
enum { ROLE_NAME = 1, ROLE_STALL = 2, ROLE_VALUE = 4 };

enum { SOURCES_MAX = 1 << 16, TEXTS_MAX = PACKET_TEXTS / 2, STALL_NAMES = PACKET_TEXTS };

/* HEAD_BYTES: the head of a message or of a packet, of at most four numbers. ANNOTATION_BYTES: a tag, a length, and the
 * numbers of the name and the value, or a real value. FIELDS_BYTES: an event's fields besides its annotations. */
enum { HEAD_BYTES = 64, ANNOTATION_BYTES = 2 + 2 + 2 + 10, FIELDS_BYTES = 64, EVENT_BYTES = 512 };

/* The annotations, as the args of Chrome trace events name them. */
typedef enum annotation {
    A_ENGINE = 1,
    A_ENGINE_ID,
    A_OP,
    A_LAYER,
    A_BYTES,
    A_MACS,
    A_ROUTE_IN,
    A_ROUTE_OUT,
    A_POSITION,
    A_TOKENS,
    A_REASON,
    A_WAITS_FOR,
    A_ROLE,
    A_MODE,
    A_INSTRUCTION,
    A_START,
    A_END,
    A_CYCLE,
    A_WINDOW,
    A_READ,
    A_WRITTEN,
    A_STALLED,
    ANNOTATIONS
} annotation;

static const char *const annotation_names[ANNOTATIONS] = {
    [A_ENGINE] = "engine",        [A_ENGINE_ID] = "engine_id",  [A_OP] = "op",
    [A_LAYER] = "layer",          [A_BYTES] = "bytes",          [A_MACS] = "macs",
    [A_ROUTE_IN] = "route_in",    [A_ROUTE_OUT] = "route_out",  [A_POSITION] = "position",
    [A_TOKENS] = "tokens",        [A_REASON] = "reason",        [A_WAITS_FOR] = "waits_for",
    [A_ROLE] = "tensor_role",     [A_MODE] = "op_mode",         [A_INSTRUCTION] = "instruction",
    [A_START] = "start_cycle",    [A_END] = "end_cycle",        [A_CYCLE] = "cycle",
    [A_WINDOW] = "window_cycles", [A_READ] = "dram_read_bytes", [A_WRITTEN] = "dram_write_bytes",
    [A_STALLED] = "stall_cycles",
};

_Static_assert(ANNOTATIONS *ANNOTATION_BYTES + FIELDS_BYTES <= EVENT_BYTES, "every annotation once");

/* Categories are numbered as the kinds, from 1, and one more. */
enum { MEMBER_CATEGORY = TV_EVENT_ACCESS + 2 };

/* ---- The wire format ---- */

static inline uint8_t *put_number(uint8_t *p, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *p++ = (uint8_t)(value | 0x80);
    *p++ = (uint8_t)value;
    return p;
}

static inline uint8_t *put_field(uint8_t *p, unsigned field, uint64_t value)
{
    return put_number(put_number(p, field << 3 | TV_WIRE_NUMBER), value);
}

/* The tag and the length of a field; its bytes follow. */
static inline uint8_t *put_length(uint8_t *p, unsigned field, size_t length)
{
    return put_number(put_number(p, field << 3 | TV_WIRE_LENGTH), length);
}

static uint8_t *put_real(uint8_t *p, unsigned field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    p = put_number(p, field << 3 | TV_WIRE_8_BYTES);
    tv_store_le(p, bits, sizeof bits);
    return p + sizeof bits;
}

static void append_bytes(tv_buf *buf, unsigned field, tv_sv bytes)
{
    uint8_t head[HEAD_BYTES];
    tv_buf_append(buf, head, (size_t)(put_length(head, field, bytes.len) - head));
    tv_buf_append(buf, bytes.ptr, bytes.len);
}

/* A text is UTF-8: of another one the bytes above ASCII become '?', as in JSON. */
static void append_text(tv_buf *buf, unsigned field, tv_sv text)
{
    append_bytes(buf, field, text);
    if (buf->failed || tv_sv_is_whole_utf8(text))
        return;
    for (uint8_t *p = buf->data + buf->len - text.len; p < buf->data + buf->len; p++)
        *p = *p < 0x80 ? *p : '?';
}

static void append_number(tv_buf *buf, unsigned field, uint64_t value)
{
    uint8_t bytes[HEAD_BYTES];
    tv_buf_append(buf, bytes, (size_t)(put_field(bytes, field, value) - bytes));
}

/* Appends `message` to `buf`, and empties it. */
static void append_message(tv_buf *buf, unsigned field, tv_buf *message)
{
    if (message->failed)
        buf->failed = true;
    else
        append_bytes(buf, field, (tv_sv){(const char *)message->data, message->len});
    message->len = 0;
}

/* ---- Packets ---- */

static void flush(tv_packets *t)
{
    fwrite(t->stage, 1, t->staged, t->out); /* an error sticks to the stream */
    t->staged = 0;
}

static inline void append(tv_packets *t, const void *bytes, size_t n)
{
    if (n == 0) /* `bytes` may be NULL */
        return;
    if (n > PACKET_STAGE - t->staged) {
        flush(t);
        if (n > PACKET_STAGE) {
            fwrite(bytes, 1, n, t->out);
            return;
        }
    }
    memcpy(t->stage + t->staged, bytes, n);
    t->staged += n;
}

/* A packet's last fields: bytes of a fixed array and of a buffer, both of field `field`; the packet's interned data. */
typedef struct packet_rest {
    unsigned field;
    const uint8_t *bytes;
    size_t count;
    const tv_buf *more;
} packet_rest;

static inline uint8_t *put_sequence(uint8_t *p, unsigned flags)
{
    p = put_field(p, PACKET_SEQUENCE, SEQUENCE);
    return put_field(p, PACKET_FLAGS, flags);
}

/* Writes a packet that begins with the `count` bytes of `head`, which has room for 24 more. */
static inline void write_packet(tv_packets *t, uint8_t *head, size_t count, const packet_rest *rest)
{
    uint8_t front[HEAD_BYTES], data[HEAD_BYTES];
    size_t more = rest->more ? rest->more->len : 0, interned = t->interned.len;
    size_t headed = (size_t)(put_length(head + count, rest->field, rest->count + more) - head);
    size_t data_head = interned ? (size_t)(put_length(data, PACKET_INTERNED_DATA, interned) - data) : 0;
    size_t total = headed + rest->count + more + data_head + interned;
    append(t, front, (size_t)(put_length(front, TRACE_PACKET, total) - front));
    append(t, head, headed);
    append(t, rest->bytes, rest->count);
    if (more)
        append(t, rest->more->data, more);
    if (interned) {
        append(t, data, data_head);
        append(t, t->interned.data, interned);
        t->interned.len = 0;
    }
}

/* ---- Interned texts ---- */

static void intern(tv_packets *t, unsigned map, uint64_t id, tv_sv text)
{
    tv_buf entry = {0};
    append_number(&entry, ENTRY_ID, id);
    append_text(&entry, ENTRY_TEXT, text);
    append_message(&t->interned, map, &entry);
    tv_buf_fini(&entry);
    t->interned_bytes += text.len;
}

/* Clears the state of the packets, and interns what is the same in each. */
static void clear_state(tv_packets *t)
{
    uint8_t head[HEAD_BYTES], *p = put_sequence(head, FLAG_CLEARED);
    memset(t->found, 0, sizeof t->found);
    memset(t->texts, 0, sizeof t->texts);
    memset(t->sources, 0, sizeof t->sources);
    t->text_count = 0;
    t->source_count = 0;
    t->interned_bytes = 0;
    for (unsigned k = 0; k < TV_COUNTOF(tv_trace_kind_names); k++)
        if (tv_trace_kind_names[k])
            intern(t, INTERNED_CATEGORY, k + 1, tv_sv_of(tv_trace_kind_names[k]));
    intern(t, INTERNED_CATEGORY, MEMBER_CATEGORY, tv_sv_of(TV_PACKET_MEMBER));
    for (unsigned a = 1; a < ANNOTATIONS; a++)
        intern(t, INTERNED_ANNOTATION, a, tv_sv_of(annotation_names[a]));
    size_t headed = (size_t)(put_length(p, PACKET_INTERNED_DATA, t->interned.len) - head);
    uint8_t front[HEAD_BYTES];
    append(t, front, (size_t)(put_length(front, TRACE_PACKET, headed + t->interned.len) - front));
    append(t, head, headed);
    append(t, t->interned.data, t->interned.len);
    t->interned.len = 0;
}

/* Finds the text by its hash, or adds it, and notes at `slot` where it is. NULL: it is too long. */
static tv_packet_text *add_text(tv_packets *t, const char *text, unsigned slot)
{
    size_t length = strlen(text);
    if (length >= PACKET_TEXT)
        return NULL;
    unsigned i = (unsigned)(tv_sv_hash((tv_sv){text, length}) % PACKET_TEXTS);
    while (t->texts[i].text[0] && strcmp(t->texts[i].text, text) != 0)
        i = (i + 1) % PACKET_TEXTS;
    if (!t->texts[i].text[0]) {
        memcpy(t->texts[i].text, text, length + 1);
        t->text_count++;
    }
    t->found[slot].from = text;
    t->found[slot].index = (uint16_t)i;
    return &t->texts[i];
}

/* The text in the table, which gets it if necessary; NULL: it is too long, or empty. A constant one is not compared. */
static inline tv_packet_text *find_text(tv_packets *t, const char *text, bool constant)
{
    if (!*text)
        return NULL;
    unsigned slot = tv_packet_slot(text, PACKET_FOUND);
    tv_packet_text *found = &t->texts[t->found[slot].index];
    if (t->found[slot].from == text && (constant || strcmp(found->text, text) == 0))
        return found;
    return add_text(t, text, slot);
}

static uint32_t id_of(const tv_packets *t, const tv_packet_text *text) { return (uint32_t)(text - t->texts) + 1; }

/* The text's number in this role; 0: it is not in the table. */
static inline uint32_t text_id(tv_packets *t, const char *text, unsigned role, bool constant)
{
    tv_packet_text *entry = find_text(t, text, constant);
    if (!entry)
        return 0;
    uint32_t id = id_of(t, entry) + (role == ROLE_STALL ? STALL_NAMES : 0);
    if (entry->roles & role)
        return id;
    entry->roles |= (uint8_t)role;
    char name[PACKET_TEXT + 8];
    snprintf(name, sizeof name, "%s%s", role == ROLE_STALL ? "stall: " : "", text);
    intern(t, role == ROLE_VALUE ? INTERNED_TEXT : INTERNED_NAME, id, tv_sv_of(name));
    return id;
}

/* The number of a source location. */
static uint32_t source_id(tv_packets *t, const char *file, unsigned line, bool is_live)
{
    const tv_packet_text *text = find_text(t, file, is_live);
    uint32_t known = text ? id_of(t, text) : 0;
    tv_packet_source *s = &t->sources[(line + known * 61) % PACKET_SOURCES];
    if (known && s->id && s->line == line && s->file == known)
        return s->id;
    *s = (tv_packet_source){++t->source_count, line, known};
    tv_buf entry = {0};
    append_number(&entry, ENTRY_ID, s->id);
    append_text(&entry, ENTRY_TEXT, tv_sv_of(file));
    append_number(&entry, SOURCE_LINE, line);
    append_message(&t->interned, INTERNED_SOURCE, &entry);
    tv_buf_fini(&entry);
    t->interned_bytes += strlen(file);
    return s->id;
}

/* ---- Annotations ---- */

/* The event under way. */
typedef struct event_writer {
    tv_packets *t;
    uint8_t *packet, *head, *event; /* where the packet's fields begin, end before the event, and where its own begin */
    uint8_t *at;
    tv_buf more;  /* its long texts */
    bool is_live; /* of a machine */
} event_writer;

/* An annotation is shorter than 128 bytes: its length is one. */
static inline void annotate(event_writer *w, annotation name, unsigned field, uint64_t value)
{
    uint8_t *p = put_number(w->at, EVENT_ANNOTATION << 3 | TV_WIRE_LENGTH), *length = p++;
    p = put_field(p, ANNOTATION_NAME, name);
    p = put_field(p, field, value);
    *length = (uint8_t)(p - length - 1);
    w->at = p;
}

static void annotate_real(event_writer *w, annotation name, double value)
{
    uint8_t *p = put_number(w->at, EVENT_ANNOTATION << 3 | TV_WIRE_LENGTH), *length = p++;
    p = put_field(p, ANNOTATION_NAME, name);
    p = put_real(p, ANNOTATION_REAL, value);
    *length = (uint8_t)(p - length - 1);
    w->at = p;
}

static void annotate_text(event_writer *w, annotation name, const char *text, bool constant)
{
    uint32_t id = text_id(w->t, text, ROLE_VALUE, constant);
    if (id) {
        annotate(w, name, ANNOTATION_INTERNED, id);
        return;
    }
    tv_buf entry = {0};
    append_number(&entry, ANNOTATION_NAME, name);
    append_text(&entry, ANNOTATION_TEXT, tv_sv_of(text));
    append_message(&w->more, EVENT_ANNOTATION, &entry);
    tv_buf_fini(&entry);
}

/* ---- Events ---- */

static uint64_t time_of(const tv_packets *t, uint64_t cycle)
{
    if (cycle > INT64_MAX)
        return INT64_MAX;
    double ns = (double)(int64_t)cycle * t->ns_per_cycle + 0.5; /* conversions of signed numbers have no branch */
    return ns < 0x1p63 ? (uint64_t)(int64_t)ns : INT64_MAX;
}

static uint64_t track_id(unsigned track) { return track ? TRACK_FIRST + track : TRACK_MACHINE; }

/* Begins the packet of an event in the stage, whose two lengths come last. */
static inline void begin_event(event_writer *w, uint64_t cycle, unsigned flags)
{
    tv_packets *t = w->t;
    if (PACKET_STAGE - t->staged < HEAD_BYTES + EVENT_BYTES)
        flush(t);
    uint8_t *p = put_number(t->stage + t->staged, TRACE_PACKET << 3 | TV_WIRE_LENGTH);
    w->packet = ++p; /* after a length of one byte */
    p = put_field(p, PACKET_TIMESTAMP, time_of(t, cycle));
    p = put_field(p, PACKET_SEQUENCE, SEQUENCE);
    if (flags)
        p = put_field(p, PACKET_FLAGS, flags);
    w->head = p;
    p = put_number(p, PACKET_TRACK_EVENT << 3 | TV_WIRE_LENGTH);
    w->event = w->at = ++p;
}

/* Writes the packet, of which the stage has the beginning, with what does not fit there. */
static void write_long_event(event_writer *w)
{
    uint8_t head[HEAD_BYTES], event[EVENT_BYTES];
    size_t headed = (size_t)(w->head - w->packet), count = (size_t)(w->at - w->event);
    memcpy(head, w->packet, headed);
    memcpy(event, w->event, count);
    write_packet(w->t, head, headed, &(packet_rest){PACKET_TRACK_EVENT, event, count, &w->more});
    w->t->interned.failed |= w->more.failed;
    tv_buf_fini(&w->more);
}

static inline void end_event(event_writer *w)
{
    tv_packets *t = w->t;
    size_t packet = (size_t)(w->at - w->packet);
    if (packet < 0x80 && t->interned.len == 0 && w->more.len == 0 && !w->more.failed) {
        w->packet[-1] = (uint8_t)packet;
        w->event[-1] = (uint8_t)(w->at - w->event);
        t->staged = (size_t)(w->at - t->stage);
    } else {
        write_long_event(w);
    }
}

static void put_name(event_writer *w, const char *name, bool constant)
{
    uint32_t id = text_id(w->t, name, ROLE_NAME, constant);
    if (id)
        w->at = put_field(w->at, EVENT_NAME, id);
    else
        append_text(&w->more, EVENT_NAME_TEXT, tv_sv_of(name));
}

/* What viewers show of the event, and `op` and `reason` if they are not that. */
static void name_event(event_writer *w, const tv_event *e)
{
    const bool stall = e->kind == TV_EVENT_STALL, status = e->kind == TV_EVENT_STATUS;
    uint32_t id = stall && e->reason ? text_id(w->t, e->reason, ROLE_STALL, w->is_live) : 0;
    if (id)
        w->at = put_field(w->at, EVENT_NAME, id);
    else if (status)
        put_name(w, tv_trace_kind_names[e->kind], true);
    else if (e->op && !stall)
        put_name(w, e->op, w->is_live && tv_trace_has_constant_op(e));
    if (e->reason && !id)
        annotate_text(w, A_REASON, e->reason, w->is_live);
    if (e->op && (stall || status))
        annotate_text(w, A_OP, e->op, w->is_live && tv_trace_has_constant_op(e));
}

/* A CMD_EVENT takes a cycle, the other instants none. */
static void annotate_event(event_writer *w, const tv_event *e, bool names_engine)
{
    if (names_engine) {
        annotate_text(w, A_ENGINE, e->engine, w->is_live);
        annotate(w, A_ENGINE_ID, ANNOTATION_UNSIGNED, e->engine_id);
    } else if (!e->engine && e->engine_id) {
        annotate(w, A_ENGINE_ID, ANNOTATION_UNSIGNED, e->engine_id);
    }
    if (e->index >= 0)
        annotate(w, e->kind == TV_EVENT_TOKEN ? A_POSITION : A_INSTRUCTION, ANNOTATION_UNSIGNED, (uint64_t)e->index);
    annotate(w, A_START, ANNOTATION_UNSIGNED, e->start);
    if (e->end != e->start + (e->kind == TV_EVENT_COMMAND))
        annotate(w, A_END, ANNOTATION_UNSIGNED, e->end);
    if (e->bytes)
        annotate(w, A_BYTES, ANNOTATION_UNSIGNED, e->bytes);
    if (e->macs)
        annotate(w, A_MACS, ANNOTATION_UNSIGNED, e->macs);
    for (unsigned i = 0; i < 2; i++)
        if (e->routes[i])
            annotate(w, i ? A_ROUTE_OUT : A_ROUTE_IN, ANNOTATION_POINTER, e->routes[i]);
    if (e->tokens)
        annotate(w, A_TOKENS, ANNOTATION_UNSIGNED, e->tokens);
    if (e->waits_for >= 0 && e->kind == TV_EVENT_STALL)
        annotate(w, A_WAITS_FOR, ANNOTATION_UNSIGNED, (uint64_t)e->waits_for);
    if (e->layer)
        annotate_text(w, A_LAYER, e->layer, w->is_live);
    if (e->role)
        annotate_text(w, A_ROLE, e->role, w->is_live);
    if (e->mode)
        annotate_text(w, A_MODE, e->mode, w->is_live);
}

static void write_slice_end(tv_packets *t, uint64_t cycle, unsigned track)
{
    event_writer w = {.t = t};
    begin_event(&w, cycle, 0);
    w.at = put_field(w.at, EVENT_TYPE, TYPE_END);
    w.at = put_field(w.at, EVENT_TRACK, track_id(track));
    end_event(&w);
}

void tv_packets_event(tv_packets *t, const tv_event *e, unsigned track, bool names_engine, bool is_live)
{
    if (t->text_count >= TEXTS_MAX || t->source_count >= SOURCES_MAX || t->interned_bytes >= PACKET_INTERNED_MAX)
        clear_state(t);
    event_writer w = {.t = t, .is_live = is_live};
    bool slice = e->kind == TV_EVENT_ENGINE || e->kind == TV_EVENT_STALL || e->kind == TV_EVENT_TOKEN;
    begin_event(&w, e->start, FLAG_USES_INTERNED);
    w.at = put_field(w.at, EVENT_TYPE, slice ? TYPE_BEGIN : TYPE_INSTANT);
    w.at = put_field(w.at, EVENT_TRACK, track_id(track));
    w.at = put_field(w.at, EVENT_CATEGORY, (uint64_t)e->kind + 1);
    if (e->file)
        w.at = put_field(w.at, EVENT_SOURCE, source_id(t, e->file, e->line, is_live));
    name_event(&w, e);
    annotate_event(&w, e, names_engine);
    end_event(&w);
    if (slice)
        write_slice_end(t, e->end, track);
}

/* ---- Bandwidth ---- */

static void write_counter(tv_packets *t, unsigned track, const tv_trace_sample *s, double value, bool annotated)
{
    event_writer w = {.t = t};
    begin_event(&w, s->cycle, FLAG_USES_INTERNED);
    w.at = put_field(w.at, EVENT_TYPE, TYPE_COUNTER);
    w.at = put_field(w.at, EVENT_TRACK, track);
    w.at = put_real(w.at, EVENT_COUNTER, value);
    if (annotated) {
        annotate(&w, A_CYCLE, ANNOTATION_UNSIGNED, s->cycle);
        annotate(&w, A_WINDOW, ANNOTATION_UNSIGNED, s->window_cycles);
        annotate_real(&w, A_READ, s->read);
        annotate_real(&w, A_WRITTEN, s->written);
        annotate_real(&w, A_STALLED, s->stalled);
    }
    end_event(&w);
}

void tv_packets_sample(tv_packets *t, const tv_trace_sample *s, bool is_zero)
{
    double cycles = s->window_cycles ? (double)s->window_cycles : 1;
    write_counter(t, TRACK_READ, s, s->read / cycles, !is_zero);
    write_counter(t, TRACK_WRITTEN, s, s->written / cycles, false);
}

/* ---- The document ---- */

static void write_track(tv_packets *t, uint64_t id, unsigned kind, tv_buf *description, const char *name)
{
    uint8_t head[HEAD_BYTES];
    tv_buf track = {0};
    append_number(&track, TRACK_ID, id);
    if (id != TRACK_MACHINE)
        append_number(&track, TRACK_PARENT, TRACK_MACHINE);
    if (name)
        append_text(&track, TRACK_NAME_TEXT, tv_sv_of(name));
    append_message(&track, kind, description);
    size_t count = track.failed ? 0 : track.len, headed = (size_t)(put_field(head, PACKET_SEQUENCE, SEQUENCE) - head);
    write_packet(t, head, headed, &(packet_rest){PACKET_TRACK_DESCRIPTOR, track.data, count, NULL});
    t->interned.failed |= track.failed;
    tv_buf_fini(&track);
    tv_buf_fini(description);
}

void tv_packets_machine(tv_packets *t, const char *name)
{
    static const char *const counters[] = {"memory read", "memory written"};
    tv_buf process = {0};
    append_number(&process, PROCESS_PID, PID);
    append_text(&process, PROCESS_NAME, tv_sv_of(name));
    write_track(t, TRACK_MACHINE, TRACK_PROCESS, &process, NULL);
    for (unsigned i = 0; i < TV_COUNTOF(counters); i++) {
        tv_buf counter = {0};
        append_text(&counter, COUNTER_UNIT, tv_sv_of("bytes/cycle"));
        write_track(t, TRACK_READ + i, TRACK_COUNTER, &counter, counters[i]);
    }
}

void tv_packets_track(tv_packets *t, unsigned number, const char *name)
{
    tv_buf thread = {0};
    append_number(&thread, THREAD_PID, PID);
    append_number(&thread, THREAD_TID, number + PID);
    append_text(&thread, THREAD_NAME, tv_sv_of(name));
    write_track(t, track_id(number), TRACK_THREAD, &thread, NULL);
}

void tv_packets_member(tv_packets *t, const char *name, tv_sv json)
{
    event_writer w = {.t = t};
    begin_event(&w, 0, FLAG_USES_INTERNED);
    w.at = put_field(w.at, EVENT_TYPE, TYPE_INSTANT);
    w.at = put_field(w.at, EVENT_TRACK, TRACK_MACHINE);
    w.at = put_field(w.at, EVENT_CATEGORY, MEMBER_CATEGORY);
    append_text(&w.more, EVENT_NAME_TEXT, tv_sv_of(name));
    tv_buf entry = {0};
    append_text(&entry, ANNOTATION_NAME_TEXT, tv_sv_of(name));
    append_text(&entry, ANNOTATION_JSON, json);
    append_message(&w.more, EVENT_ANNOTATION, &entry);
    tv_buf_fini(&entry);
    end_event(&w);
}

void tv_packets_init(tv_packets *t, FILE *out, double clock_hz)
{
    uint8_t head[HEAD_BYTES];
    memset(t, 0, offsetof(tv_packets, stage));
    t->out = out;
    t->ns_per_cycle = 1e9 / clock_hz;
    /* seven bytes, so that the file does not begin as one in JSON can: with white space and a bracket */
    uint8_t *p = put_field(put_sequence(head, FLAG_CLEARED), PACKET_IS_FIRST, true);
    uint8_t front[HEAD_BYTES];
    append(t, front, (size_t)(put_length(front, TRACE_PACKET, (size_t)(p - head)) - front));
    append(t, head, (size_t)(p - head));
    clear_state(t);
}

void tv_packets_invalidate_texts(tv_packets *t) { memset(t->found, 0, sizeof t->found); }

void tv_packets_fini(tv_packets *t) { tv_buf_fini(&t->interned); }

bool tv_packets_finish(tv_packets *t)
{
    flush(t);
    return !t->interned.failed;
}
