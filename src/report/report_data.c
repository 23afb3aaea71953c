/* SPDX-License-Identifier: Apache-2.0 */
/* The containers of a report: strings, tables, windows, groups. A table row costs about ten bytes, so that two million
 * events stay within tens of megabytes, and a string costs its length once. */
#include "report/report_data.h"

#include <stdlib.h>

/* ---- Texts ---- */

enum { TEXTS_MAX = 1 << 21, TEXT_BYTES_MAX = 96 << 20, TEXT_LENGTH_MAX = 400 };

/* Doubles the hash table, which is at most half full. */
static bool grow_slots(tv_texts *t)
{
    size_t count = t->slot_count ? 2 * t->slot_count : 512;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return false;
    free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    for (uint32_t n = 1; n < t->starts.count; n++) {
        size_t at = tv_sv_hash(tv_sv_of(tv_texts_at(t, n))) & (count - 1);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = n;
    }
    return true;
}

/* Appends a string; its number is the previous count. */
static bool append_text(tv_texts *t, tv_sv text)
{
    size_t start = t->bytes.len;
    tv_buf_append(&t->bytes, text.ptr, text.len);
    tv_buf_append(&t->bytes, "", 1);
    return !t->bytes.failed && TV_VEC_PUSH(&t->starts, start);
}

const char *tv_texts_at(const tv_texts *t, uint32_t number)
{
    return number < t->starts.count ? (const char *)t->bytes.data + t->starts.data[number] : "";
}

uint32_t tv_texts_add(tv_texts *t, const char *text)
{
    if (!text || !*text || t->failed)
        return 0;
    if ((t->starts.count == 0 && !append_text(t, (tv_sv){"", 0})) ||
        (2 * t->starts.count >= t->slot_count && !grow_slots(t))) {
        t->failed = true;
        return 0;
    }
    tv_sv sv = {text, strnlen(text, TEXT_LENGTH_MAX)};
    size_t mask = t->slot_count - 1, at = tv_sv_hash(sv) & mask;
    for (; t->slots[at]; at = (at + 1) & mask)
        if (tv_sv_is(sv, tv_texts_at(t, t->slots[at])))
            return t->slots[at];
    if (t->starts.count >= TEXTS_MAX || t->bytes.len + sv.len + 1 > TEXT_BYTES_MAX) {
        t->full = true;
        return 0;
    }
    uint32_t number = (uint32_t)t->starts.count;
    if (!append_text(t, sv)) {
        t->failed = true;
        return 0;
    }
    t->slots[at] = number;
    return number;
}

void tv_texts_fini(tv_texts *t)
{
    tv_buf_fini(&t->bytes);
    free(t->slots);
    TV_VEC_FINI(&t->starts);
    *t = (tv_texts){0};
}

/* ---- Tables ---- */

/* Lanes, ops, stall reasons, paths, layers and spaces are texts. An instruction is its number in table `insn` + 1; 0:
 * none. */
const tv_table_spec tv_table_specs[TV_TABLES] = {
    [TV_TABLE_WORK] = {"work",
                       {"lane", "+insn", "+start", "cycles", "bytes", "macs", "energy_low", "energy", "energy_high"}},
    [TV_TABLE_STALL] = {"stall", {"lane", "+insn", "+start", "cycles", "reason", "+waits_for", "scheduler"}},
    [TV_TABLE_ISSUE] = {"issue", {"lane", "+insn", "+start", "cycles", "energy_low", "energy", "energy_high"}},
    [TV_TABLE_STATUS] = {"status", {"lane", "+insn", "+start"}},
    [TV_TABLE_MARKER] = {"marker", {"text", "+start"}},
    [TV_TABLE_TRANSFER] = {"transfer", {"path", "+insn", "+start", "cycles", "bytes", "write", "kv"}},
    [TV_TABLE_TOKEN] = {"token", {"op", "+position", "tokens", "+start", "cycles"}},
    [TV_TABLE_ACCESS] = {"access", {"space", "+insn", "+addr", "bytes", "extent", "write"}},
    [TV_TABLE_INSN] = {"insn", {"op", "text", "file", "+line", "layer", "source"}},
    [TV_TABLE_GROUP] = {"group",
                        {"layer", "op", "lane", "count", "busy", "stalled", "bytes", "macs", "energy_low", "energy",
                         "energy_high"}},
    [TV_TABLE_WINDOW] = {"window", {"kind", "name", "reason", "+window", "amount"}},
};

static void append_leb128(tv_buf *buf, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    do {
        bytes[n] = (uint8_t)(value & 0x7f);
        value >>= 7;
        bytes[n++] |= value ? 0x80 : 0;
    } while (value);
    tv_buf_append(buf, bytes, n);
}

void tv_table_put(tv_table *table, tv_table_id id, const uint64_t values[TV_TABLE_COLUMNS])
{
    const tv_table_spec *spec = &tv_table_specs[id];
    for (unsigned c = 0; c < TV_TABLE_COLUMNS && spec->columns[c]; c++) {
        uint64_t value = values[c];
        if (spec->columns[c][0] == '+') {
            uint64_t difference = value - table->last[c];
            table->last[c] = value;
            value = difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
        }
        append_leb128(&table->columns[c], value);
    }
    table->rows++;
}

bool tv_table_failed(const tv_table *table)
{
    for (unsigned c = 0; c < TV_TABLE_COLUMNS; c++)
        if (table->columns[c].failed)
            return true;
    return false;
}

void tv_table_fini(tv_table *table)
{
    for (unsigned c = 0; c < TV_TABLE_COLUMNS; c++)
        tv_buf_fini(&table->columns[c]);
}

/* ---- Windows ---- */

enum { FIRST_WIDTH = 4 };

static tv_channel *find_channel(tv_windows *w, uint32_t kind, uint32_t name, uint32_t reason)
{
    for (unsigned i = 0; i < w->count; i++) {
        tv_channel *c = w->channels[i];
        if (c->kind == kind && c->name == name && c->reason == reason)
            return c;
    }
    if (w->count == TV_CHANNELS_MAX)
        return NULL;
    tv_channel *c = calloc(1, sizeof *c);
    if (!c) {
        w->failed = true;
        return NULL;
    }
    c->kind = kind;
    c->name = name;
    c->reason = reason;
    return w->channels[w->count++] = c;
}

static void double_width(tv_windows *w)
{
    for (unsigned i = 0; i < w->count; i++) {
        float *a = w->channels[i]->amounts;
        for (unsigned k = 0; k < TV_WINDOWS / 2; k++)
            a[k] = a[2 * k] + a[2 * k + 1];
        memset(a + TV_WINDOWS / 2, 0, TV_WINDOWS / 2 * sizeof *a);
    }
    w->width *= 2;
}

void tv_windows_add(tv_windows *w, tv_channel_kind kind, uint32_t name, uint32_t reason, uint64_t start, uint64_t end,
                    double amount)
{
    tv_channel *c = find_channel(w, kind, name, reason);
    if (!c)
        return;
    if (w->width == 0)
        w->width = FIRST_WIDTH;
    if (end <= start)
        end = start + 1;
    while ((end - 1) / w->width >= TV_WINDOWS)
        double_width(w);
    double each = amount / (double)(end - start);
    for (uint64_t at = start; at < end;) {
        uint64_t i = at / w->width, stop = tv_min_u64((i + 1) * w->width, end);
        c->amounts[i] += (float)(each * (double)(stop - at));
        at = stop;
    }
}

void tv_windows_fini(tv_windows *w)
{
    for (unsigned i = 0; i < w->count; i++)
        free(w->channels[i]);
    *w = (tv_windows){0};
}

/* ---- Groups ---- */

tv_group *tv_groups_find(tv_groups *g, uint32_t layer, uint32_t op, uint32_t lane)
{
    enum { SLOTS = 2 * TV_GROUPS_MAX };
    if (!g->slots && !(g->slots = calloc(SLOTS, sizeof *g->slots))) {
        g->failed = true;
        return NULL;
    }
    uint32_t key[3] = {layer, op, lane};
    size_t at = tv_sv_hash((tv_sv){(const char *)key, sizeof key}) % SLOTS;
    for (; g->slots[at]; at = (at + 1) % SLOTS) {
        tv_group *group = &g->list.data[g->slots[at] - 1];
        if (group->layer == layer && group->op == op && group->lane == lane)
            return group;
    }
    if (g->list.count >= TV_GROUPS_MAX - 64 && (layer || op)) { /* room is reserved for the others of each lane */
        g->full = true;
        return tv_groups_find(g, 0, 0, lane);
    }
    if (g->list.count >= TV_GROUPS_MAX)
        return NULL;
    if (!TV_VEC_PUSH(&g->list, (tv_group){.layer = layer, .op = op, .lane = lane})) {
        g->failed = true;
        return NULL;
    }
    g->slots[at] = (uint32_t)g->list.count;
    return TV_VEC_LAST(&g->list);
}

void tv_groups_fini(tv_groups *g)
{
    TV_VEC_FINI(&g->list);
    free(g->slots);
    *g = (tv_groups){0};
}
