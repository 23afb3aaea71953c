/* SPDX-License-Identifier: Apache-2.0 */
/* Breakpoints: the list, the instructions they stand on, conditions, and what the next instruction touches. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "debug/debug.h"
#include "machine/target.h"

/* ---- The list ---- */

static void free_break(debug_break *b)
{
    free(b->text);
    free(b->where);
    free(b->condition);
}

static debug_break *find(tv_debug *d, unsigned number)
{
    for (unsigned i = 0; i < d->break_count; i++)
        if (d->breaks[i].info.number == number)
            return &d->breaks[i];
    return NULL;
}

static tv_status fail_number(unsigned number, const tv_diag_sink *sink)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_BREAKPOINT), "`info break` lists them",
                   "there is no breakpoint %u", number);
}

static void remove_at(tv_debug *d, unsigned i)
{
    free_break(&d->breaks[i]);
    d->break_count--;
    memmove(&d->breaks[i], &d->breaks[i + 1], (d->break_count - i) * sizeof *d->breaks);
    d->marked = false;
}

tv_status tv_debug_break_delete(tv_debug *d, unsigned number, const tv_diag_sink *sink)
{
    debug_break *b = find(d, number);
    if (!b)
        return fail_number(number, sink);
    remove_at(d, (unsigned)(b - d->breaks));
    return TV_OK;
}

tv_status tv_debug_break_enable(tv_debug *d, unsigned number, int on, const tv_diag_sink *sink)
{
    debug_break *b = find(d, number);
    if (!b)
        return fail_number(number, sink);
    b->info.disabled = !on;
    d->marked = false;
    return TV_OK;
}

tv_status tv_debug_break_skip(tv_debug *d, unsigned number, uint64_t skip, const tv_diag_sink *sink)
{
    debug_break *b = find(d, number);
    if (!b)
        return fail_number(number, sink);
    b->info.skip = skip;
    return TV_OK;
}

int tv_debug_break_at(const tv_debug *d, unsigned i, tv_break *out)
{
    if (i >= d->break_count)
        return 0;
    *out = d->breaks[i].info;
    return 1;
}

void debug_forget_passed(tv_debug *d)
{
    for (unsigned i = 0; i < d->break_count; i++)
        d->breaks[i].passed = 0;
}

void debug_breaks_fini(tv_debug *d)
{
    for (unsigned i = 0; i < d->break_count; i++)
        free_break(&d->breaks[i]);
    free(d->breaks);
    free(d->marks);
}

/* ---- Making one ---- */

static bool copy_text(const char *from, char **to)
{
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

/* "SPACE:ADDR[:TYPE] OP NUMBER" */
static tv_status parse_condition(tv_debug *d, const char *text, const tv_diag_sink *sink, debug_break *b)
{
    static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">="};
    char left[160], op[4], right[64], extra;
    const char *rest;
    tv_space space;
    if (sscanf(text, " %159s %3s %63s %c", left, op, right, &extra) != 3)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "for example: if l2:8:bf16 > 1.5",
                       "a condition is SPACE:ADDR[:TYPE] OP NUMBER, not '%.80s'", text);
    TV_TRY(tv_machine_parse_address(d->machine, d->programs, d->count, left, sink, &space, &b->cond_addr, &rest));
    TV_TRY(tv_dtype_parse(rest ? rest : tv_dtype_name(space.type), sink, &b->cond_type));
    unsigned i = 0;
    while (i < TV_COUNTOF(operators) && strcmp(operators[i], op) != 0)
        i++;
    char *end;
    tv_c_locale locale = tv_c_locale_begin();
    b->cond_value = strncmp(right, "0x", 2) == 0 ? (double)strtoull(right, &end, 16) : strtod(right, &end);
    tv_c_locale_end(locale);
    if (i == TV_COUNTOF(operators) || *end || end == right)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT),
                       "OP is one of == != < <= > >=", "'%.20s %.20s' compares with no number", op, right);
    uint8_t bytes[16];
    TV_TRY(tv_machine_read(d->machine, space.name, b->cond_addr, bytes, (size_t)tv_dtype_bytes(b->cond_type, 1), sink));
    snprintf(b->cond_space, sizeof b->cond_space, "%s", space.name);
    b->cond_op = (debug_operator)i;
    return TV_OK;
}

static bool find_space(const tv_debug *d, const char *name, tv_space *space)
{
    for (unsigned i = 0; tv_machine_space_at(d->machine, i, space); i++)
        if (strcmp(space->name, name) == 0)
            return true;
    return false;
}

static tv_status place_watch(tv_debug *d, const tv_break *wanted, const tv_diag_sink *sink, debug_break *b)
{
    tv_space space;
    uint64_t bytes = wanted->bytes;
    if (!find_space(d, wanted->text, &space) || wanted->value >= space.size ||
        bytes > (space.size - wanted->value) * space.unit_bytes) {
        uint8_t byte; /* the machine words it best */
        return tv_machine_read(d->machine, wanted->text, wanted->value, &byte, wanted->bytes ? (size_t)bytes : 1, sink);
    }
    b->space = space.alias_of ? space.alias_of : space.name;
    b->from = wanted->value * space.unit_bytes;
    b->to = b->from + (bytes ? bytes : space.unit_bytes);
    b->info.bytes = b->to - b->from;
    return TV_OK;
}

static bool has_opcode(const tv_debug *d, const char *name)
{
    tv_insn_info info;
    tv_codec *codec = d->codec, *own = NULL;
    bool found = false;
    if (!codec && tv_codec_new_for(tv_machine_get_target(d->machine)->isa, NULL, &own) == TV_OK)
        codec = own;
    for (unsigned i = 0; !found && codec && tv_codec_insn_at(codec, i, &info); i++)
        found = tv_sv_is_nocase(tv_sv_of(info.mnemonic), name) || tv_sv_is_nocase(tv_sv_of(info.id), name);
    tv_codec_free(own);
    return found;
}

static tv_status place_break(tv_debug *d, const tv_break *wanted, const tv_diag_sink *sink, debug_break *b)
{
    unsigned line = (unsigned)wanted->value;
    uint64_t count = wanted->kind == TV_BREAK_INDEX && wanted->program < d->count
                         ? tv_program_instruction_count(d->programs[wanted->program])
                         : 0;
    switch (wanted->kind) {
    case TV_BREAK_INDEX:
        if (wanted->value < count)
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_PLACE), NULL,
                       "there is no instruction %" PRIu64 ": the program has %" PRIu64, wanted->value, count);
    case TV_BREAK_LINE:
        if (tv_debug_find_line(d, wanted->text, &line, &b->info.program, &b->from)) {
            b->info.value = line;
            return TV_OK;
        }
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_PLACE), "`info program` lists the files",
                       "no instruction was written at or behind %.80s:%u", wanted->text, line);
    case TV_BREAK_OPCODE:
        if (has_opcode(d, wanted->text))
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_PLACE), "`trivet isa` lists them",
                       "%s has no instruction '%.40s'", tv_machine_target(d->machine), wanted->text);
    case TV_BREAK_CYCLE:
        if (d->options.mode != TV_MODE_FUNCTIONAL)
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_STATE), NULL, "a functional run has no cycles");
    case TV_BREAK_FAULT:
        return TV_OK;
    case TV_BREAK_WATCH:
        return place_watch(d, wanted, sink, b);
    }
    return TV_ERR_INPUT;
}

tv_status tv_debug_break_add(tv_debug *d, const tv_break *wanted, const tv_diag_sink *sink, unsigned *number)
{
    debug_break b = {.info = *wanted};
    if (d->break_count >= DEBUG_BREAKS_MAX)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_BREAKPOINT), "delete some", "there are %d breakpoints",
                       DEBUG_BREAKS_MAX);
    if (d->break_count == d->break_cap) {
        unsigned cap = d->break_cap ? 2 * d->break_cap : 8;
        debug_break *breaks = realloc(d->breaks, cap * sizeof *breaks);
        if (!breaks)
            return tv_fail_memory(sink);
        d->breaks = breaks;
        d->break_cap = cap;
    }
    tv_status status = place_break(d, wanted, sink, &b);
    if (status == TV_OK && wanted->condition)
        status = parse_condition(d, wanted->condition, sink, &b);
    if (status == TV_OK && !(copy_text(wanted->text, &b.text) && copy_text(wanted->where, &b.where) &&
                             copy_text(wanted->condition, &b.condition)))
        status = tv_fail_memory(sink);
    if (status != TV_OK) {
        free_break(&b);
        return status;
    }
    b.info.text = b.text;
    b.info.where = b.where;
    b.info.condition = b.condition;
    b.info.hits = 0;
    b.info.number = *number = d->next_number++;
    d->breaks[d->break_count++] = b;
    d->marked = false;
    return TV_OK;
}

/* ---- Marks ---- */

static void mark(tv_debug *d, uint64_t index) { d->marks[index / 64] |= UINT64_C(1) << (index % 64); }

static bool ends_with_file(const char *path, const char *file)
{
    size_t n = strlen(path), m = strlen(file);
    return n >= m && strcmp(path + n - m, file) == 0 && (n == m || path[n - m - 1] == '/' || file[0] == '/');
}

/* An instruction of that line that does not follow another of it. */
static bool begins_line(const tv_program *program, uint64_t index, const char *file, uint64_t line)
{
    tv_source_line at, before;
    if (!tv_program_line(program, index, &at) || at.line != line || !ends_with_file(at.file, file))
        return false;
    return index == 0 || !tv_program_line(program, index - 1, &before) || before.line != at.line ||
           strcmp(before.file, at.file) != 0;
}

static bool is_opcode(tv_debug *d, const tv_program *program, uint64_t index, const char *name, const char **names,
                      tv_text_buffer *text)
{
    tv_insn_info info;
    if (!d->codec) {
        size_t n = tv_program_print(program, index, text) ? strcspn(text->text, " ") : 0;
        return n == strlen(name) && tv_sv_is_nocase((tv_sv){text->text, n}, name);
    }
    int insn = tv_codec_decode(d->codec, tv_program_word(program, index), NULL);
    if (insn < 0 || insn >= 1024)
        return false;
    if (!names[insn] && tv_codec_insn_at(d->codec, (unsigned)insn, &info)) /* its text is slow to make */
        names[insn] =
            tv_sv_is_nocase(tv_sv_of(info.mnemonic), name) || tv_sv_is_nocase(tv_sv_of(info.id), name) ? "yes" : "no";
    return names[insn] && names[insn][0] == 'y';
}

static void mark_break(tv_debug *d, const debug_break *b)
{
    const tv_program *program = d->programs[d->program];
    uint64_t count = tv_program_instruction_count(program);
    const char *names[1024] = {NULL};
    tv_text_buffer text = {0};
    if (b->info.kind == TV_BREAK_INDEX && b->info.program == d->program && b->info.value < count)
        mark(d, b->info.value);
    for (uint64_t i = 0; b->info.kind == TV_BREAK_LINE && i < count; i++)
        if (begins_line(program, i, b->text, b->info.value))
            mark(d, i);
    for (uint64_t i = 0; b->info.kind == TV_BREAK_OPCODE && i < count; i++)
        if (is_opcode(d, program, i, b->text, names, &text))
            mark(d, i);
    free(text.text);
}

bool debug_mark(tv_debug *d)
{
    uint64_t words = tv_program_instruction_count(d->programs[d->program]) / 64 + 1;
    if (d->marked)
        return true;
    uint64_t *marks = realloc(d->marks, words * sizeof *marks);
    if (!marks)
        return false;
    d->marks = marks;
    d->mark_words = words;
    memset(marks, 0, words * sizeof *marks);
    for (unsigned i = 0; i < d->break_count; i++)
        if (!d->breaks[i].info.disabled)
            mark_break(d, &d->breaks[i]);
    d->marked = true;
    return true;
}

static bool marked_at(const tv_debug *d, uint64_t n)
{
    if (n >= tv_program_instruction_count(d->programs[d->program]))
        return false;
    uint64_t index = d->ordered ? n : tv_machine_nth_index(d->machine, n);
    return d->marks[index / 64] >> (index % 64) & 1;
}

uint64_t debug_next_mark(const tv_debug *d, uint64_t from, uint64_t to)
{
    uint64_t n = from;
    while (n < to) {
        if (d->ordered && n % 64 == 0 && (n / 64 >= d->mark_words || d->marks[n / 64] == 0)) {
            n += 64;
            continue;
        }
        if (marked_at(d, n))
            return n;
        n++;
    }
    return to;
}

/* ---- Hits ---- */

static bool condition_holds(tv_debug *d, const debug_break *b)
{
    uint8_t bytes[16] = {0};
    if (!b->condition)
        return true;
    if (tv_machine_read(d->machine, b->cond_space, b->cond_addr, bytes, (size_t)tv_dtype_bytes(b->cond_type, 1),
                        NULL) != TV_OK)
        return true;
    double x = tv_dtype_value(b->cond_type, bytes, 0);
    switch (b->cond_op) {
    case DEBUG_EQ:
        return x == b->cond_value;
    case DEBUG_NE:
        return x != b->cond_value;
    case DEBUG_LT:
        return x < b->cond_value;
    case DEBUG_LE:
        return x <= b->cond_value;
    case DEBUG_GT:
        return x > b->cond_value;
    default:
        return x >= b->cond_value;
    }
}

bool debug_has_watches(const tv_debug *d)
{
    for (unsigned i = 0; i < d->break_count; i++)
        if (d->breaks[i].info.kind == TV_BREAK_WATCH && !d->breaks[i].info.disabled)
            return true;
    return false;
}

/* A hit that does not stop yet. It counts once, however often an instruction touches what is watched. */
static bool passes(tv_debug *d, debug_break *b, bool count)
{
    uint64_t here = debug_position(d) + 1;
    if (!count || (b->passed != here && b->info.skip == 0))
        return false;
    if (b->passed != here) {
        b->passed = here;
        b->info.skip--;
        b->info.hits++;
    }
    return true;
}

/* The first watch that what an instruction touches is for. */
typedef struct touched {
    tv_debug *d;
    bool count;
    unsigned found; /* index + 1 */
    tv_access access;
} touched;

static void take_access(void *user, const tv_access *access)
{
    touched *t = user;
    tv_space space;
    if (t->found || !find_space(t->d, access->space, &space))
        return;
    const char *name = space.alias_of ? space.alias_of : space.name;
    uint64_t from = access->addr * space.unit_bytes, to = from + access->bytes;
    for (unsigned i = 0; i < t->d->break_count; i++) {
        debug_break *b = &t->d->breaks[i];
        if (b->info.kind != TV_BREAK_WATCH || b->info.disabled || strcmp(b->space, name) != 0 || from >= b->to ||
            b->from >= to || !(access->write ? b->info.writes : b->info.reads) || !condition_holds(t->d, b) ||
            passes(t->d, b, t->count))
            continue;
        t->found = i + 1;
        t->access = *access;
        return;
    }
}

static void count_hit(tv_debug *d, unsigned i, bool count)
{
    if (!count)
        return;
    d->breaks[i].info.hits++;
    if (d->breaks[i].info.once)
        remove_at(d, i);
}

static bool stands_on(tv_debug *d, const debug_break *b, uint64_t index)
{
    const tv_program *program = d->programs[d->program];
    const char *names[1024] = {NULL};
    tv_text_buffer text = {0};
    bool found = false;
    if (b->info.kind == TV_BREAK_INDEX)
        found = b->info.program == d->program && b->info.value == index;
    else if (b->info.kind == TV_BREAK_LINE)
        found = begins_line(program, index, b->text, b->info.value);
    else if (b->info.kind == TV_BREAK_OPCODE)
        found = is_opcode(d, program, index, b->text, names, &text);
    free(text.text);
    return found;
}

bool debug_hit_here(tv_debug *d, bool count, tv_debug_stop *stop)
{
    uint64_t next = tv_machine_next_index(d->machine);
    if (marked_at(d, next)) {
        uint64_t index = tv_machine_nth_index(d->machine, next);
        for (unsigned i = 0; i < d->break_count; i++) {
            debug_break *b = &d->breaks[i];
            if (b->info.disabled || !stands_on(d, b, index) || !condition_holds(d, b) || passes(d, b, count))
                continue;
            *stop = (tv_debug_stop){.reason = TV_DEBUG_BREAKPOINT, .breakpoint = b->info.number};
            count_hit(d, i, count);
            return true;
        }
    }
    if (!debug_has_watches(d))
        return false;
    touched t = {.d = d, .count = count};
    tv_machine_accesses(d->machine, &(tv_access_sink){take_access, &t});
    if (!t.found)
        return false;
    *stop =
        (tv_debug_stop){.reason = TV_DEBUG_WATCH, .breakpoint = d->breaks[t.found - 1].info.number, .access = t.access};
    count_hit(d, t.found - 1, count);
    return true;
}

uint64_t debug_next_cycle(tv_debug *d, uint64_t clock)
{
    uint64_t next = UINT64_MAX;
    for (unsigned i = 0; i < d->break_count; i++)
        if (d->breaks[i].info.kind == TV_BREAK_CYCLE && !d->breaks[i].info.disabled && d->breaks[i].info.value > clock)
            next = tv_min_u64(next, d->breaks[i].info.value);
    return next;
}

bool debug_hit_cycle(tv_debug *d, uint64_t cycle, bool count, tv_debug_stop *stop)
{
    for (unsigned i = 0; i < d->break_count; i++) {
        debug_break *b = &d->breaks[i];
        if (b->info.kind != TV_BREAK_CYCLE || b->info.disabled || b->info.value != cycle || !condition_holds(d, b) ||
            passes(d, b, count))
            continue;
        *stop = (tv_debug_stop){.reason = TV_DEBUG_BREAKPOINT, .breakpoint = b->info.number};
        count_hit(d, i, count);
        return true;
    }
    return false;
}

void debug_hit_fault(tv_debug *d, tv_debug_stop *stop)
{
    for (unsigned i = 0; i < d->break_count; i++)
        if (d->breaks[i].info.kind == TV_BREAK_FAULT && !d->breaks[i].info.disabled) {
            stop->breakpoint = d->breaks[i].info.number;
            count_hit(d, i, true);
            return;
        }
}

/* ---- Lines ---- */

int tv_debug_find_line(const tv_debug *d, const char *file, unsigned *line, unsigned *program, uint64_t *index)
{
    unsigned best = UINT32_MAX;
    for (unsigned p = 0; p < d->count; p++)
        for (uint64_t i = 0, n = tv_program_instruction_count(d->programs[p]); i < n; i++) {
            tv_source_line at;
            if (!tv_program_line(d->programs[p], i, &at) || at.line < *line || at.line >= best ||
                !ends_with_file(at.file, file))
                continue;
            best = at.line;
            *program = p;
            *index = i;
        }
    if (best == UINT32_MAX)
        return 0;
    *line = best;
    return 1;
}
