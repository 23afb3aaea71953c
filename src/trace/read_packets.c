/* SPDX-License-Identifier: Apache-2.0 */
/* Reads Perfetto's packets one at a time. Numbers stand for texts of earlier packets, until one clears that state; how
 * many and how long they may be is limited. Packets and fields that the writer does not use are for viewers. */
#include "trace/read_packets.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/wire.h"
#include "trace/perfetto.h"

/* JSON_MAX: a member of the document, whose text may have escapes that were not in the file that it comes from.
 * TEXT_COST: of a short text, besides its bytes. */
enum {
    JSON_MAX = 6 * CAPTURE_MAX,
    PACKET_MAX = 8 << 20,
    IDS_MAX = 1 << 17,
    TEXTS_MAX = 64 << 20,
    TEXT_COST = 32,
    TRACK_IDS_MAX = 4096,
    ANNOTATIONS_MAX = 64
};

_Static_assert(TEXTS_MAX > 2 * PACKET_INTERNED_MAX, "what the writer interns is read");

enum { MAP_CATEGORY, MAP_NAME, MAP_ANNOTATION, MAP_SOURCE, MAP_TEXT, MAPS };

/* A text, and the line of a source location. None has the number unless `state` is that of the reader. */
typedef struct entry {
    const char *text;
    uint64_t line, state;
} entry;

/* The engine of a track: the latest that its events name. "": not known yet. */
typedef struct track {
    char engine[TRACK_NAME];
    uint64_t engine_id;
} track;

typedef TV_VEC(entry) entry_list;

struct tv_packet_reader {
    trace_reader *r;
    tv_buf pending;    /* of a packet that has not come whole */
    tv_arena texts;    /* of the maps … */
    size_t text_bytes; /* … and their length */
    entry_list maps[MAPS];
    uint64_t state; /* how often it was cleared, and 1 */
    TV_VEC(track) tracks;
    tv_sv annotations[ANNOTATIONS_MAX]; /* of the event under way */
    unsigned annotation_count;
    bool has_samples;
};

/* An event, as its fields are found. */
typedef struct event_fields {
    uint64_t type, track, name, category, source;
    tv_sv name_text;
} event_fields;

bool tv_begins_packets(const uint8_t *bytes, size_t size)
{
    return size >= 2 && bytes[0] == (TRACE_PACKET << 3 | TV_WIRE_LENGTH) && bytes[1] < ' ' &&
           !strchr("\t\n\r", bytes[1]);
}

tv_packet_reader *tv_packet_reader_new(trace_reader *r)
{
    tv_packet_reader *reader = calloc(1, sizeof *reader);
    if (reader) {
        reader->r = r;
        reader->state = 1;
        r->has_packets = true;
        r->section = SECTION_CHROME; /* whose args are the annotations */
    }
    return reader;
}

void tv_packet_reader_free(tv_packet_reader *p)
{
    if (!p)
        return;
    for (unsigned m = 0; m < MAPS; m++)
        TV_VEC_FINI(&p->maps[m]);
    TV_VEC_FINI(&p->tracks);
    tv_arena_fini(&p->texts);
    tv_buf_fini(&p->pending);
    free(p);
}

static bool form_error(tv_packet_reader *p, const char *problem)
{
    return tv_trace_error(p->r, TV_CODE(TRACE_FORM), NULL, "%s", problem);
}

/* A message has ended: false if something was wrong with it. */
static bool is_whole(tv_packet_reader *p, const tv_wire *wire)
{
    return !wire->problem || tv_trace_error(p->r, TV_CODE(TRACE_PACKET), NULL, "%s", wire->problem);
}

/* ---- Interned texts ---- */

static void clear_maps(tv_packet_reader *p)
{
    p->state++;
    tv_arena_fini(&p->texts);
    p->texts = (tv_arena){0};
    p->text_bytes = 0;
}

static bool set_entry(tv_packet_reader *p, unsigned map, uint64_t id, tv_sv text, uint64_t line)
{
    entry_list *list = &p->maps[map];
    if (id >= IDS_MAX || text.len > TEXT_MAX || p->text_bytes + text.len > TEXTS_MAX)
        return tv_trace_error(p->r, TV_CODE(TRACE_LIMIT), NULL, "the interned texts are longer or more than are read");
    if (memchr(text.ptr, '\0', text.len))
        return form_error(p, "an interned text contains a NUL");
    while (list->count <= id)
        if (!TV_VEC_PUSH(list, ((entry){NULL, 0, 0})))
            return tv_trace_no_memory(p->r);
    const char *copy = tv_arena_str(&p->texts, text);
    if (!copy)
        return tv_trace_no_memory(p->r);
    p->text_bytes += text.len + TEXT_COST;
    list->data[id] = (entry){copy, line, p->state};
    return true;
}

static bool read_entry(tv_packet_reader *p, unsigned map, tv_sv message)
{
    tv_wire wire = tv_wire_of(message);
    tv_wire_field f;
    uint64_t id = 0, line = 0;
    tv_sv text = {"", 0};
    while (tv_wire_next(&wire, &f))
        if (f.number == ENTRY_ID && f.kind == TV_WIRE_NUMBER)
            id = f.value;
        else if (f.number == ENTRY_TEXT && f.kind == TV_WIRE_LENGTH)
            text = f.bytes;
        else if (f.number == SOURCE_LINE && f.kind == TV_WIRE_NUMBER && map == MAP_SOURCE)
            line = f.value;
    return is_whole(p, &wire) && set_entry(p, map, id, text, line);
}

static bool read_interned(tv_packet_reader *p, tv_sv message)
{
    static const uint8_t fields[MAPS] = {INTERNED_CATEGORY, INTERNED_NAME, INTERNED_ANNOTATION, INTERNED_SOURCE,
                                         INTERNED_TEXT};
    tv_wire wire = tv_wire_of(message);
    tv_wire_field f;
    while (tv_wire_next(&wire, &f))
        for (unsigned m = 0; m < MAPS; m++)
            if (f.number == fields[m] && f.kind == TV_WIRE_LENGTH && !read_entry(p, m, f.bytes))
                return false;
    return is_whole(p, &wire);
}

/* NULL: no packet has defined it, which is reported. */
static const entry *find_entry(tv_packet_reader *p, unsigned map, uint64_t id)
{
    if (id < p->maps[map].count && p->maps[map].data[id].state == p->state)
        return &p->maps[map].data[id];
    tv_trace_error(p->r, TV_CODE(TRACE_FORM), NULL, "no packet before defines the text %" PRIu64, id);
    return NULL;
}

/* ---- Annotations ---- */

typedef struct annotation {
    uint64_t name, value;
    unsigned value_field;
    tv_sv name_text, text; /* name_text.ptr is NULL if the name is interned */
} annotation;

static bool is_value(unsigned number)
{
    return number == ANNOTATION_UNSIGNED || number == ANNOTATION_REAL || number == ANNOTATION_TEXT ||
           number == ANNOTATION_POINTER || number == ANNOTATION_JSON || number == ANNOTATION_INTERNED;
}

static bool read_annotation(tv_packet_reader *p, tv_sv message, annotation *out)
{
    tv_wire wire = tv_wire_of(message);
    tv_wire_field f;
    *out = (annotation){0};
    while (tv_wire_next(&wire, &f))
        if (f.number == ANNOTATION_NAME && f.kind == TV_WIRE_NUMBER) {
            out->name = f.value;
        } else if (f.number == ANNOTATION_NAME_TEXT && f.kind == TV_WIRE_LENGTH) {
            out->name_text = f.bytes;
        } else if (is_value(f.number)) {
            out->value_field = f.number;
            out->value = f.value;
            out->text = f.bytes;
        }
    if (!is_whole(p, &wire))
        return false;
    if (out->name_text.ptr)
        return true;
    const entry *name = find_entry(p, MAP_ANNOTATION, out->name);
    if (name)
        out->name_text = tv_sv_of(name->text);
    return name != NULL;
}

/* The text of a value: interned, as it is, or a pointer in hexadecimal. `buffer` has room for a pointer. */
static bool find_text(tv_packet_reader *p, const annotation *a, char buffer[24], tv_sv *out)
{
    if (a->value_field == ANNOTATION_POINTER && !a->text.ptr) {
        snprintf(buffer, 24, "0x%02" PRIx64, a->value);
        *out = tv_sv_of(buffer);
        return true;
    }
    if (a->value_field == ANNOTATION_INTERNED && !a->text.ptr) {
        const entry *text = find_entry(p, MAP_TEXT, a->value);
        if (text)
            *out = tv_sv_of(text->text);
        return text != NULL;
    }
    *out = a->text;
    if (a->value_field != ANNOTATION_TEXT || !a->text.ptr)
        return form_error(p, "an annotation has a number where a text is expected");
    return true;
}

static bool fill_annotation(tv_packet_reader *p, tv_sv message)
{
    annotation a;
    char buffer[24];
    tv_sv text;
    if (!read_annotation(p, message, &a))
        return false;
    const field *f = tv_trace_find_field(p->r, a.name_text);
    if (!f)
        return true;
    if (tv_trace_is_given(p->r, f))
        return false;
    if (f->type == T_TEXT || f->type == T_TEXT_OR_NULL)
        return find_text(p, &a, buffer, &text) && tv_trace_fill_text(p->r, f, text);
    if (a.value_field != ANNOTATION_UNSIGNED || a.text.ptr || a.value >= INTEGER_LIMIT)
        return tv_trace_error(p->r, TV_CODE(TRACE_FORM), NULL, "'%s' is not a whole number from 0 up", f->name.ptr);
    return tv_trace_fill_integer(p->r, f, a.value);
}

/* ---- Members of the document ---- */

static bool read_member(tv_packet_reader *p)
{
    annotation a;
    tv_json_error error;
    trace_reader *r = p->r;
    if (p->annotation_count != 1)
        return form_error(p, "a member of the document has not one value");
    if (!read_annotation(p, p->annotations[0], &a))
        return false;
    if (a.value_field != ANNOTATION_JSON || !a.text.ptr)
        return form_error(p, "a member of the document is not in JSON");
    if (!tv_sv_is_whole_utf8(a.name_text))
        return tv_trace_error(r, TV_CODE(TRACE_PACKET), NULL, "a member's name is not UTF-8");
    if (!tv_trace_begin_section(r, a.name_text))
        return false;
    if (r->section == SECTION_EVENTS || r->section == SECTION_CHROME || r->section == SECTION_SAMPLES)
        return tv_trace_error(r, TV_CODE(TRACE_FORM), NULL, "'%s' is not among packets", r->section_name);
    if (a.text.len > JSON_MAX)
        return tv_trace_error(r, TV_CODE(TRACE_LIMIT), NULL, "'%s' is larger than %d MiB", r->section_name,
                              JSON_MAX >> 20);
    const tv_json_value *value = tv_json_parse(&r->arena, a.text, CAPTURE_TREE_MAX, &error);
    if (!value && error.kind == TV_JSON_MEMORY)
        return tv_trace_no_memory(r);
    if (!value)
        return tv_trace_error(r, TV_CODE(TRACE_JSON), NULL, "'%s' is not JSON here: %s", r->section_name,
                              error.message);
    bool good = r->section == SECTION_TIME_UNIT || tv_trace_end_section(r, value);
    r->section = SECTION_CHROME;
    return good;
}

/* ---- Samples ---- */

static bool read_sample(tv_packet_reader *p)
{
    trace_reader *r = p->r;
    tv_trace_sample s = {0};
    annotation a;
    struct {
        const char *name;
        uint64_t *integer;
        double *real;
    } const members[] = {{"cycle", &s.cycle, NULL},
                         {"window_cycles", &s.window_cycles, NULL},
                         {"dram_read_bytes", NULL, &s.read},
                         {"dram_write_bytes", NULL, &s.written},
                         {"stall_cycles", NULL, &s.stalled}};
    for (unsigned i = 0; i < p->annotation_count; i++) {
        if (!read_annotation(p, p->annotations[i], &a))
            return false;
        for (unsigned m = 0; m < TV_COUNTOF(members); m++) {
            double real;
            if (!tv_sv_is(a.name_text, members[m].name))
                continue;
            memcpy(&real, &a.value, sizeof real);
            bool is_real = a.value_field == ANNOTATION_REAL && isfinite(real);
            bool is_integer = a.value_field == ANNOTATION_UNSIGNED && !a.text.ptr && a.value < INTEGER_LIMIT;
            if (members[m].integer ? !is_integer : !is_real)
                return tv_trace_error(p->r, TV_CODE(TRACE_FORM), NULL,
                                      "'%s' of a bandwidth sample is not such a number", members[m].name);
            if (members[m].integer)
                *members[m].integer = a.value;
            else
                *members[m].real = real;
        }
    }
    if (p->annotation_count == 0) /* a zero between samples, or a counter that has no members */
        return true;
    p->has_samples = true;
    return !r->handler->sample || r->handler->sample(r->handler->user, &s) || tv_trace_no_memory(r);
}

/* ---- Events ---- */

static const field *field_of(const tv_packet_reader *p, const char *name)
{
    return tv_trace_find_field(p->r, tv_sv_of(name));
}

static bool is_given(const tv_packet_reader *p, slot s) { return (p->r->given >> s & 1) != 0; }

static bool fill_text(tv_packet_reader *p, level of, const char *name, tv_sv text)
{
    p->r->level = of;
    const field *f = field_of(p, name);
    p->r->level = L_ARGS;
    return tv_trace_fill_text(p->r, f, text);
}

/* The name is that of the operation, or the reason of a stall. */
static bool fill_name(tv_packet_reader *p, const event_fields *e, const char *kind)
{
    static const char stall[] = "stall: ";
    tv_sv name = e->name_text;
    if (e->name) {
        const entry *text = find_entry(p, MAP_NAME, e->name);
        if (!text)
            return false;
        name = tv_sv_of(text->text);
    }
    if (!name.ptr || strcmp(kind, tv_trace_kind_names[TV_EVENT_STATUS]) == 0)
        return true;
    if (strcmp(kind, tv_trace_kind_names[TV_EVENT_STALL]) != 0)
        return is_given(p, S_OP) || fill_text(p, L_ARGS, "op", name);
    if (is_given(p, S_REASON) || !tv_sv_starts_with(name, stall))
        return true;
    name = (tv_sv){name.ptr + strlen(stall), name.len - strlen(stall)};
    return fill_text(p, L_ARGS, "reason", name);
}

static bool fill_source(tv_packet_reader *p, const event_fields *e)
{
    if (!e->source)
        return true;
    const entry *source = find_entry(p, MAP_SOURCE, e->source);
    if (source && (tv_trace_is_given(p->r, field_of(p, "file")) || tv_trace_is_given(p->r, field_of(p, "line"))))
        return false;
    if (source && source->line > UINT32_MAX)
        return form_error(p, "the line of a source location is larger than 2^32");
    return source && fill_text(p, L_ARGS, "file", tv_sv_of(source->text)) &&
           tv_trace_fill_integer(p->r, field_of(p, "line"), source->line);
}

/* The engine of later events of the track, unless its name is too long for one. */
static bool keep_engine(tv_packet_reader *p, uint64_t id)
{
    const trace_reader *r = p->r;
    const char *engine = (const char *)r->texts.data + r->values[S_ENGINE].text;
    if (id >= TRACK_IDS_MAX)
        return tv_trace_error(p->r, TV_CODE(TRACE_LIMIT), NULL, "a track's id is larger than is read");
    while (p->tracks.count <= id)
        if (!TV_VEC_PUSH(&p->tracks, ((track){"", 0})))
            return tv_trace_no_memory(p->r);
    track *t = &p->tracks.data[id];
    snprintf(t->engine, sizeof t->engine, "%s", strlen(engine) < TRACK_NAME ? engine : "");
    t->engine_id = is_given(p, S_ENGINE_ID) ? r->values[S_ENGINE_ID].integer : 0;
    return true;
}

/* An event that names no engine has that of the track's event before. */
static bool fill_engine(tv_packet_reader *p, const event_fields *e, const char *kind)
{
    if (e->track == TRACK_MACHINE || strcmp(kind, tv_trace_kind_names[TV_EVENT_TOKEN]) == 0)
        return true;
    if (is_given(p, S_ENGINE))
        return keep_engine(p, e->track);
    if (e->track >= p->tracks.count || !p->tracks.data[e->track].engine[0])
        return true;
    const track *t = &p->tracks.data[e->track];
    return fill_text(p, L_ARGS, "engine", tv_sv_of(t->engine)) &&
           (is_given(p, S_ENGINE_ID) || tv_trace_fill_integer(p->r, field_of(p, "engine_id"), t->engine_id));
}

static bool send_event(tv_packet_reader *p, const event_fields *e, const char *kind)
{
    trace_reader *r = p->r;
    if (p->has_samples)
        return form_error(p, "an event comes after the bandwidth samples");
    tv_trace_begin_event(r);
    r->level = L_ARGS;
    for (unsigned i = 0; i < p->annotation_count; i++)
        if (!fill_annotation(p, p->annotations[i]))
            return false;
    if (is_given(p, S_START) && !is_given(p, S_END)) {
        bool issue = strcmp(kind, tv_trace_kind_names[TV_EVENT_COMMAND]) == 0;
        uint64_t end = r->values[S_START].integer + issue;
        if (end >= INTEGER_LIMIT)
            return form_error(p, "an event ends after cycle 2^62");
        tv_trace_fill_integer(r, field_of(p, "end_cycle"), end);
    }
    return fill_name(p, e, kind) && fill_source(p, e) && fill_engine(p, e, kind) &&
           fill_text(p, L_CHROME, "cat", tv_sv_of(kind)) && tv_trace_send_event(r);
}

static bool read_event(tv_packet_reader *p, tv_sv message)
{
    tv_wire wire = tv_wire_of(message);
    tv_wire_field f;
    event_fields e = {0};
    p->annotation_count = 0;
    while (tv_wire_next(&wire, &f)) {
        if (f.number == EVENT_ANNOTATION && f.kind == TV_WIRE_LENGTH) {
            if (p->annotation_count == ANNOTATIONS_MAX)
                return tv_trace_error(p->r, TV_CODE(TRACE_LIMIT), NULL, "more than %d annotations", ANNOTATIONS_MAX);
            p->annotations[p->annotation_count++] = f.bytes;
        } else if (f.number == EVENT_NAME_TEXT && f.kind == TV_WIRE_LENGTH) {
            e.name_text = f.bytes;
        } else if (f.kind == TV_WIRE_NUMBER) {
            uint64_t ignored, *to = f.number == EVENT_TYPE       ? &e.type
                                    : f.number == EVENT_TRACK    ? &e.track
                                    : f.number == EVENT_NAME     ? &e.name
                                    : f.number == EVENT_CATEGORY ? &e.category
                                    : f.number == EVENT_SOURCE   ? &e.source
                                                                 : &ignored;
            *to = f.value;
        }
    }
    if (!is_whole(p, &wire) || e.type == TYPE_END)
        return !wire.problem;
    if (e.type == TYPE_COUNTER)
        return (p->r->begun || tv_trace_begin_events(p->r)) && read_sample(p);
    if (!e.category)
        return tv_trace_error(p->r, TV_CODE(TRACE_FORM), "`trivet run --trace FILE.pftrace` writes them",
                              "the event has no category: it is not one of a machine");
    const entry *kind = find_entry(p, MAP_CATEGORY, e.category);
    if (!kind)
        return false;
    return strcmp(kind->text, TV_PACKET_MEMBER) == 0 ? read_member(p) : send_event(p, &e, kind->text);
}

/* ---- Packets ---- */

static bool read_packet(tv_packet_reader *p, tv_sv message)
{
    tv_wire wire = tv_wire_of(message);
    tv_wire_field f;
    tv_sv event = {NULL, 0};
    while (tv_wire_next(&wire, &f)) {
        if (f.number == PACKET_FLAGS && f.kind == TV_WIRE_NUMBER && f.value & FLAG_CLEARED)
            clear_maps(p);
        else if (f.number == PACKET_TRACK_EVENT && f.kind == TV_WIRE_LENGTH)
            event = f.bytes;
    }
    for (wire = tv_wire_of(message); tv_wire_next(&wire, &f);) /* wherever the flags are */
        if (f.number == PACKET_INTERNED_DATA && f.kind == TV_WIRE_LENGTH && !read_interned(p, f.bytes))
            return false;
    return is_whole(p, &wire) && (!event.ptr || read_event(p, event));
}

/* Reads the first packet of the bytes, and how many bytes it has; 0: it is not whole. */
static bool read_first(tv_packet_reader *p, const uint8_t *bytes, size_t size, size_t *used)
{
    enum { HEAD_MAX = 1 + 10 };
    tv_wire wire = tv_wire_of((tv_sv){(const char *)bytes, tv_min_u64(size, HEAD_MAX)});
    uint64_t tag, length;
    *used = 0;
    if (!tv_wire_number(&wire, &tag) || !tv_wire_number(&wire, &length))
        return size < HEAD_MAX || is_whole(p, &wire);
    if (tag != (TRACE_PACKET << 3 | TV_WIRE_LENGTH))
        return tv_trace_error(p->r, TV_CODE(TRACE_PACKET), NULL, "no packet begins here");
    if (length > PACKET_MAX)
        return tv_trace_error(p->r, TV_CODE(TRACE_LIMIT), NULL, "the packet has more than %d MiB", PACKET_MAX >> 20);
    if (length > size - (size_t)(wire.at - bytes))
        return true;
    *used = (size_t)(wire.at - bytes + (ptrdiff_t)length);
    return read_packet(p, (tv_sv){(const char *)wire.at, (size_t)length});
}

/* Reads the whole packets of the bytes; `*left` receives how many bytes are left over. */
static bool read_packets(tv_packet_reader *p, const uint8_t *bytes, size_t size, size_t *left)
{
    size_t used;
    *left = size;
    do {
        if (!read_first(p, bytes + size - *left, *left, &used))
            return false;
        *left -= used;
        p->r->base += used;
    } while (used && *left);
    return true;
}

/* Completes the packet that is pending, and reads it. */
static bool complete_pending(tv_packet_reader *p, const uint8_t **bytes, size_t *size)
{
    enum { STEP = 4096 };
    while (p->pending.len && *size) {
        size_t before = p->pending.len, n = tv_min_u64(*size, tv_max_u64(STEP, before)), left;
        tv_buf_append(&p->pending, *bytes, n);
        if (p->pending.failed)
            return tv_trace_no_memory(p->r);
        if (!read_packets(p, p->pending.data, p->pending.len, &left))
            return false;
        if (left == p->pending.len) { /* still not whole */
            *bytes += n;
            *size -= n;
            continue;
        }
        size_t taken = p->pending.len - left - before; /* of the new bytes */
        *bytes += taken;
        *size -= taken;
        p->pending.len = 0;
    }
    return true;
}

bool tv_packet_reader_feed(tv_packet_reader *p, const uint8_t *bytes, size_t size)
{
    size_t left;
    if (!complete_pending(p, &bytes, &size))
        return false;
    if (size == 0)
        return true;
    if (!read_packets(p, bytes, size, &left))
        return false;
    tv_buf_append(&p->pending, bytes + size - left, left);
    return !p->pending.failed || tv_trace_no_memory(p->r);
}

bool tv_packet_reader_finish(tv_packet_reader *p)
{
    if (p->pending.len == 0)
        p->r->has_packets = false; /* errors from here on are of no packet */
    else
        return tv_trace_error(p->r, TV_CODE(TRACE_PACKET), "a run that was stopped leaves no whole trace",
                              "the file ends too early");
    return p->r->begun || tv_trace_begin_events(p->r);
}
