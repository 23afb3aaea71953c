/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions as people name them: indices, labels, lines; and what they look like. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debug/debug.h"
#include "trivet/file.h"

bool debug_parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

/* ---- Showing ---- */

static const char *text_of(tv_debug *d, const tv_program *program, uint64_t index)
{
    if (!d->codec)
        return tv_program_print(program, index, &d->line) ? d->line.text : "";
    tv_codec_disassemble(d->codec, tv_program_word(program, index), d->word_text);
    return d->word_text;
}

bool debug_instruction_of(tv_debug *d, unsigned which, uint64_t index, tv_debug_location *out)
{
    const tv_program *program = d->programs[which];
    tv_symbol label;
    tv_source_line line;
    *out = (tv_debug_location){.index = index, .program = which, .text = ""};
    if (index >= tv_program_instruction_count(program))
        return false;
    if (tv_program_label(program, index, &label)) {
        out->label = label.name;
        out->offset = index - label.value;
    }
    if (tv_program_line(program, index, &line)) {
        out->file = line.file;
        out->line = line.line;
    }
    out->text = text_of(d, program, index);
    return true;
}

int tv_debug_instruction_location(tv_debug *d, uint64_t index, tv_debug_location *out)
{
    return debug_instruction_of(d, d->program, index, out);
}

void tv_debug_current_location(tv_debug *d, tv_debug_location *out)
{
    uint64_t next = tv_machine_next_index(d->machine);
    bool more = next < tv_program_instruction_count(d->programs[d->program]);
    if (!tv_debug_instruction_location(d, more ? tv_machine_nth_index(d->machine, next) : next, out))
        out->end = 1;
    out->position = debug_position(d);
}

void debug_print_address(const tv_debug *d, const char *space, uint64_t addr, tv_buf *out)
{
    tv_space s = {0};
    for (unsigned i = 0; tv_machine_space_at(d->machine, i, &s) && strcmp(s.name, space) != 0; i++)
        continue;
    if (s.bank_size)
        tv_buf_printf(out, "%s:%" PRIu64 ":0x%" PRIx64, space, addr / s.bank_size, addr % s.bank_size);
    else
        tv_buf_printf(out, "%s:0x%" PRIx64, space, addr);
}

void debug_print_place(const tv_debug_location *place, tv_buf *out)
{
    if (place->label)
        tv_buf_str(out, place->label);
    if (place->label && place->offset)
        tv_buf_printf(out, "+%" PRIu64, place->offset);
    if (place->file)
        tv_buf_printf(out, "%s%s:%u", place->label ? "  " : "", place->file, place->line);
}

/* ---- Reading ---- */

static tv_status fail_place(tv_debug *d, const char *text, const tv_diag_sink *sink)
{
    tv_nearest nearest = tv_nearest_to((tv_sv){text, strcspn(text, "+")});
    tv_symbol symbol;
    char hint[160] = "a place is an instruction's number, LABEL[+N] or FILE:LINE";
    for (uint64_t i = 0; tv_program_symbol_at(d->programs[d->program], i, &symbol); i++)
        if (symbol.kind == TV_SYMBOL_TEXT)
            tv_nearest_offer(&nearest, symbol.name);
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%.80s'?", nearest.best);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_PLACE), hint, "'%.60s' is no instruction of the program", text);
}

/* LABEL[+N] of any program, the loaded one first. */
static bool find_label(tv_debug *d, const char *text, unsigned *program, uint64_t *index)
{
    char name[128];
    size_t n = strcspn(text, "+");
    uint64_t offset = 0;
    tv_symbol symbol;
    if (n >= sizeof name || (text[n] && !debug_parse_number(text + n + 1, &offset)))
        return false;
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    for (unsigned i = 0; i < d->count; i++) {
        unsigned p = (d->program + i) % d->count;
        if (!tv_program_symbol(d->programs[p], name, &symbol) || symbol.kind != TV_SYMBOL_TEXT)
            continue;
        *program = p;
        *index = symbol.value + offset;
        return true;
    }
    return false;
}

/* "FILE:LINE", or ":LINE" of the file at hand. */
static bool split_line(tv_debug *d, const char *text, char *file, size_t size, uint64_t *line)
{
    const char *colon = strrchr(text, ':');
    tv_source_line at;
    if (!colon || !debug_parse_number(colon + 1, line) || *line == 0 || *line > UINT32_MAX ||
        (size_t)(colon - text) >= size)
        return false;
    snprintf(file, size, "%.*s", (int)(colon - text), text);
    uint64_t count = tv_program_instruction_count(d->programs[d->program]), next = tv_machine_next_index(d->machine);
    if (!*file && count && tv_program_line(d->programs[d->program], next < count ? next : count - 1, &at))
        snprintf(file, size, "%s", at.file);
    return *file != '\0';
}

tv_status debug_parse_index(tv_debug *d, const char *text, const tv_diag_sink *sink, uint64_t *index)
{
    char file[DEBUG_FILE_MAX];
    unsigned program = d->program, line;
    uint64_t number;
    uint64_t count = tv_program_instruction_count(d->programs[d->program]);
    bool found = debug_parse_number(text, index);
    if (!found && split_line(d, text, file, sizeof file, &number)) {
        line = (unsigned)number;
        found = tv_debug_find_line(d, file, &line, &program, index);
    } else if (!found)
        found = find_label(d, text, &program, index);
    if (found && program == d->program && *index < count)
        return TV_OK;
    if (found && program == d->program)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_PLACE), NULL,
                       "there is no instruction %" PRIu64 ": the program has %" PRIu64, *index, count);
    return fail_place(d, text, sink);
}

/* The text behind `word` and blanks, or NULL. */
static const char *behind(const char *text, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && text[n] == ' ' ? text + n + strspn(text + n, " ") : NULL;
}

/* `out` points into `text` or `file` where it has a text. */
tv_status debug_parse_break(tv_debug *d, const char *text, char file[DEBUG_FILE_MAX], const tv_diag_sink *sink,
                            tv_break *out)
{
    const char *rest;
    uint64_t number;
    out->where = text;
    out->program = d->program;
    if (strcmp(text, "fault") == 0) {
        out->kind = TV_BREAK_FAULT;
        return TV_OK;
    }
    if ((rest = behind(text, "opcode"))) {
        out->kind = TV_BREAK_OPCODE;
        out->text = rest;
        return TV_OK;
    }
    if ((rest = behind(text, "cycle"))) {
        out->kind = TV_BREAK_CYCLE;
        if (debug_parse_number(rest, &out->value))
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "for example: break cycle 1000",
                       "'%.40s' is not a cycle", rest);
    }
    out->kind = TV_BREAK_INDEX;
    if (debug_parse_number(text, &out->value))
        return TV_OK;
    if (strrchr(text, ':') && debug_parse_number(strrchr(text, ':') + 1, &number) &&
        split_line(d, text, file, DEBUG_FILE_MAX, &out->value)) {
        out->kind = TV_BREAK_LINE;
        out->text = file;
        return TV_OK;
    }
    return find_label(d, text, &out->program, &out->value) ? TV_OK : fail_place(d, text, sink);
}

/* ---- Source ---- */

bool debug_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

bool debug_read_source(const char *file, tv_buf *out)
{
    enum { MOST = 16 << 20 };
    tv_input input;
    if (!debug_is_file(file) || tv_input_open(file, NULL, &input) != TV_OK)
        return false;
    bool fits = input.size <= MOST;
    if (fits)
        tv_buf_append(out, input.data, input.size);
    tv_input_close(&input);
    return fits && !out->failed;
}
