/* SPDX-License-Identifier: Apache-2.0 */
/* Breakpoint hits: which instructions a breakpoint may stop at, and whether it stops now.
 *
 * The break map has one bit per instruction of the loaded program, so that a run skips quickly over instructions that
 * no breakpoint matches. A set bit is only a candidate: condition and skip count are checked at the instruction.
 * Watchpoints are not in the map; the machine reports the accesses of the next instruction instead. */
#include <stdlib.h>

#include "debug/debug.h"

enum { OPCODES_MAX = 1024 };

/* ---- Matching an instruction ---- */

/* An instruction of that line whose predecessor belongs to another line. */
static bool is_line_start(const tv_program *program, uint64_t index, const char *file, uint64_t line)
{
    tv_source_line at, before;
    if (!tv_program_line(program, index, &at) || at.line != line || !tv_debug_path_has_suffix(at.file, file))
        return false;
    return index == 0 || !tv_program_line(program, index - 1, &before) || before.line != at.line ||
           strcmp(before.file, at.file) != 0;
}

/* Compares opcodes with one name; results per opcode are cached because building the text is slow. */
typedef struct opcode_matcher {
    const char *name;
    enum { UNKNOWN, SAME, DIFFERENT } cache[OPCODES_MAX];
    tv_text_buffer text; /* for queues */
} opcode_matcher;

static bool match_opcode(tv_debug *d, const tv_program *program, uint64_t index, opcode_matcher *m)
{
    tv_insn_info info;
    if (!d->codec) {
        size_t n = tv_program_print(program, index, &m->text) ? strcspn(m->text.text, " ") : 0;
        return n == strlen(m->name) && tv_sv_is_nocase((tv_sv){m->text.text, n}, m->name);
    }
    int insn = tv_codec_decode(d->codec, tv_program_word(program, index), NULL);
    if (insn < 0 || insn >= OPCODES_MAX)
        return false;
    if (m->cache[insn] == UNKNOWN && tv_codec_insn_at(d->codec, (unsigned)insn, &info))
        m->cache[insn] =
            tv_sv_is_nocase(tv_sv_of(info.mnemonic), m->name) || tv_sv_is_nocase(tv_sv_of(info.id), m->name)
                ? SAME
                : DIFFERENT;
    return m->cache[insn] == SAME;
}

/* True if the location of `b` matches instruction `index` of the loaded program. */
static bool matches_instruction(tv_debug *d, const debug_break *b, uint64_t index, opcode_matcher *m)
{
    const tv_program *program = d->programs[d->program];
    switch (b->info.kind) {
    case TV_BREAK_INDEX:
        return b->info.program == d->program && b->info.value == index;
    case TV_BREAK_LINE:
        return is_line_start(program, index, b->text, b->info.value);
    case TV_BREAK_OPCODE:
        return match_opcode(d, program, index, m);
    case TV_BREAK_CYCLE:
    case TV_BREAK_FAULT:
    case TV_BREAK_WATCH:
        return false;
    }
    return false;
}

/* ---- The break map ---- */

static void set_map_bit(tv_debug *d, uint64_t index) { d->break_map.data[index / 64] |= UINT64_C(1) << (index % 64); }

static void add_to_map(tv_debug *d, const debug_break *b)
{
    uint64_t count = tv_program_instruction_count(d->programs[d->program]);
    opcode_matcher m = {.name = b->text};
    if (b->info.kind == TV_BREAK_INDEX && b->info.program == d->program && b->info.value < count)
        set_map_bit(d, b->info.value);
    for (uint64_t i = 0; (b->info.kind == TV_BREAK_LINE || b->info.kind == TV_BREAK_OPCODE) && i < count; i++)
        if (matches_instruction(d, b, i, &m))
            set_map_bit(d, i);
    free(m.text.text);
}

bool tv_debug_update_break_map(tv_debug *d)
{
    uint64_t words = tv_program_instruction_count(d->programs[d->program]) / 64 + 1;
    if (d->break_map_valid)
        return true;
    d->break_map.count = 0;
    uint64_t *map = TV_VEC_EXTEND(&d->break_map, words);
    if (!map)
        return false;
    memset(map, 0, words * sizeof *map);
    for (unsigned i = 0; i < d->breaks.count; i++)
        if (!d->breaks.data[i].info.disabled)
            add_to_map(d, &d->breaks.data[i]);
    d->break_map_valid = true;
    return true;
}

static bool is_in_map(const tv_debug *d, uint64_t n)
{
    if (n >= tv_program_instruction_count(d->programs[d->program]))
        return false;
    uint64_t index = d->in_program_order ? n : tv_machine_nth_index(d->machine, n);
    return d->break_map.data[index / 64] >> (index % 64) & 1;
}

uint64_t tv_debug_next_in_break_map(const tv_debug *d, uint64_t from, uint64_t to)
{
    uint64_t n = from;
    while (n < to) {
        if (d->in_program_order && n % 64 == 0 && (n / 64 >= d->break_map.count || d->break_map.data[n / 64] == 0)) {
            n += 64;
            continue;
        }
        if (is_in_map(d, n))
            return n;
        n++;
    }
    return to;
}

/* ---- Conditions and skip counts ---- */

/* An unreadable operand counts as true. */
static bool is_condition_true(tv_debug *d, const debug_break *b)
{
    const debug_condition *c = &b->condition;
    uint8_t bytes[16] = {0};
    if (!b->condition_text ||
        tv_machine_read(d->machine, c->space, c->addr, bytes, (size_t)tv_dtype_bytes(c->type, 1), NULL) != TV_OK)
        return true;
    double x = tv_dtype_value(c->type, bytes, 0);
    switch (c->op) {
    case DEBUG_EQ:
        return x == c->value;
    case DEBUG_NE:
        return x != c->value;
    case DEBUG_LT:
        return x < c->value;
    case DEBUG_LE:
        return x <= c->value;
    case DEBUG_GT:
        return x > c->value;
    case DEBUG_GE:
        return x >= c->value;
    }
    return true;
}

/* True if this hit is skipped. An instruction counts as one hit, however many of its accesses match. */
static bool skip_hit(tv_debug *d, debug_break *b, bool count)
{
    uint64_t here = tv_debug_position(d) + 1;
    if (!count || (b->skipped_at != here && b->info.skip == 0))
        return false;
    if (b->skipped_at != here) {
        b->skipped_at = here;
        b->info.skip--;
        b->info.hits++;
    }
    return true;
}

void tv_debug_reset_skipped(tv_debug *d)
{
    for (unsigned i = 0; i < d->breaks.count; i++)
        d->breaks.data[i].skipped_at = 0;
}

static void count_hit(tv_debug *d, unsigned i, bool count)
{
    if (!count)
        return;
    d->breaks.data[i].info.hits++;
    if (d->breaks.data[i].info.once)
        tv_debug_delete_break_at(d, i);
}

/* ---- Checks ---- */

bool tv_debug_has_watches(const tv_debug *d)
{
    for (unsigned i = 0; i < d->breaks.count; i++)
        if (d->breaks.data[i].info.kind == TV_BREAK_WATCH && !d->breaks.data[i].info.disabled)
            return true;
    return false;
}

/* Search for the watchpoints that accesses of the next instruction hit. */
typedef struct watch_search {
    tv_debug *d;
    bool count;
    tv_debug_stop *stop;
} watch_search;

static void match_access(void *user, const tv_access *access)
{
    watch_search *s = user;
    tv_space space;
    if (!tv_debug_find_space(s->d, access->space, &space))
        return;
    const char *name = space.alias_of ? space.alias_of : space.name;
    uint64_t from = access->addr * space.unit_bytes, to = from + access->bytes;
    for (unsigned i = 0; i < s->d->breaks.count; i++) {
        debug_break *b = &s->d->breaks.data[i];
        if (b->hit || b->info.kind != TV_BREAK_WATCH || b->info.disabled || strcmp(b->space, name) != 0 ||
            from >= b->to || b->from >= to || !(access->write ? b->info.writes : b->info.reads) ||
            !is_condition_true(s->d, b) || skip_hit(s->d, b, s->count))
            continue;
        b->hit = true;
        if (s->stop->watchpoint)
            continue;
        s->stop->watchpoint = b->info.number;
        s->stop->access = *access;
    }
}

/* Marks breakpoint `i`, whose location matches, unless its condition or skip count says otherwise. */
static bool mark_hit(tv_debug *d, unsigned i, bool count)
{
    debug_break *b = &d->breaks.data[i];
    b->hit = is_condition_true(d, b) && !skip_hit(d, b, count);
    return b->hit;
}

static bool mark_instruction_hits(tv_debug *d, uint64_t index, bool count)
{
    bool hit = false;
    for (unsigned i = 0; i < d->breaks.count; i++) {
        const debug_break *b = &d->breaks.data[i];
        opcode_matcher m = {.name = b->text};
        bool matched = !b->info.disabled && matches_instruction(d, b, index, &m);
        free(m.text.text);
        hit |= matched && mark_hit(d, i, count);
    }
    return hit;
}

/* Moves the marked breakpoints, of watchpoints or of the others, into *stop, and counts them. */
static void take_hits(tv_debug *d, bool watchpoints, bool count, tv_debug_stop *stop)
{
    for (unsigned i = 0; i < d->breaks.count;) {
        debug_break *b = &d->breaks.data[i];
        bool once = b->info.once;
        if (!b->hit || (b->info.kind == TV_BREAK_WATCH) != watchpoints) {
            i++;
            continue;
        }
        b->hit = false;
        if (stop->hit_count < TV_DEBUG_HITS_MAX)
            stop->hits[stop->hit_count] = b->info.number;
        stop->hit_count++;
        count_hit(d, i, count);
        i += !count || !once;
    }
    stop->breakpoint = stop->hit_count ? stop->hits[0] : 0;
}

bool tv_debug_hit_here(tv_debug *d, bool count, tv_debug_stop *stop)
{
    uint64_t next = tv_machine_next_index(d->machine);
    tv_debug_stop found = {.reason = TV_DEBUG_WATCH};
    if (is_in_map(d, next) && mark_instruction_hits(d, tv_machine_nth_index(d->machine, next), count)) {
        found.reason = TV_DEBUG_BREAKPOINT;
        take_hits(d, false, count, &found);
    }
    if (tv_debug_has_watches(d)) {
        watch_search s = {.d = d, .count = count, .stop = &found};
        tv_machine_accesses(d->machine, &(tv_access_sink){match_access, &s});
        take_hits(d, true, count, &found);
    }
    if (!found.hit_count)
        return false;
    *stop = found;
    return true;
}

uint64_t tv_debug_next_break_cycle(const tv_debug *d, uint64_t from)
{
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < d->breaks.count; i++)
        if (d->breaks.data[i].info.kind == TV_BREAK_CYCLE && !d->breaks.data[i].info.disabled &&
            d->breaks.data[i].info.value >= from)
            next = tv_min_u64(next, d->breaks.data[i].info.value);
    return next;
}

bool tv_debug_hit_cycle(tv_debug *d, uint64_t cycle, bool count, tv_debug_stop *stop)
{
    bool hit = false;
    for (unsigned i = 0; i < d->breaks.count; i++) {
        const tv_break *b = &d->breaks.data[i].info;
        hit |= b->kind == TV_BREAK_CYCLE && !b->disabled && b->value == cycle && mark_hit(d, i, count);
    }
    if (hit) {
        *stop = (tv_debug_stop){.reason = TV_DEBUG_BREAKPOINT};
        take_hits(d, false, count, stop);
    }
    return hit;
}

void tv_debug_hit_fault(tv_debug *d, tv_debug_stop *stop)
{
    for (unsigned i = 0; i < d->breaks.count; i++)
        if (d->breaks.data[i].info.kind == TV_BREAK_FAULT && !d->breaks.data[i].info.disabled) {
            stop->breakpoint = stop->hits[0] = d->breaks.data[i].info.number;
            stop->hit_count = 1;
            count_hit(d, i, true);
            return;
        }
}
