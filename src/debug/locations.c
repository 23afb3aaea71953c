/* SPDX-License-Identifier: Apache-2.0 */
/* Locations: instruction indices, labels and source lines, parsed and looked up. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debug/debug.h"
#include "trivet/file.h"

bool tv_debug_parse_number(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *out = strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

bool tv_debug_find_space(const tv_debug *d, const char *name, tv_space *space)
{
    for (unsigned i = 0; tv_machine_space_at(d->machine, i, space); i++)
        if (strcmp(space->name, name) == 0)
            return true;
    return false;
}

uint64_t tv_debug_position(const tv_debug *d)
{
    return d->instruction_base[d->program] + tv_machine_next_index(d->machine);
}

/* ---- Lookup ---- */

static const char *instruction_text(tv_debug *d, const tv_program *program, uint64_t index)
{
    if (!d->codec) {
        bool printed = tv_program_print(program, index, &d->line);
        d->out_of_memory |= !printed;
        return printed ? d->line.text : "";
    }
    tv_codec_disassemble(d->codec, tv_program_word(program, index), d->word_text);
    return d->word_text;
}

bool tv_debug_get_location(tv_debug *d, unsigned which, uint64_t index, tv_debug_location *out)
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
    out->text = instruction_text(d, program, index);
    return true;
}

int tv_debug_instruction_location(tv_debug *d, uint64_t index, tv_debug_location *out)
{
    return tv_debug_get_location(d, d->program, index, out);
}

void tv_debug_current_location(tv_debug *d, tv_debug_location *out)
{
    uint64_t next = tv_machine_next_index(d->machine);
    bool more = next < tv_program_instruction_count(d->programs[d->program]);
    if (!tv_debug_instruction_location(d, more ? tv_machine_nth_index(d->machine, next) : next, out))
        out->end = 1;
    out->position = tv_debug_position(d);
}

bool tv_debug_path_has_suffix(const char *path, const char *file)
{
    size_t n = strlen(path), m = strlen(file);
    return n >= m && strcmp(path + n - m, file) == 0 && (n == m || path[n - m - 1] == '/' || file[0] == '/');
}

int tv_debug_find_line(const tv_debug *d, const char *file, unsigned *line, unsigned *program, uint64_t *index)
{
    unsigned best = UINT32_MAX;
    for (unsigned p = 0; p < d->count; p++)
        for (uint64_t i = 0, n = tv_program_instruction_count(d->programs[p]); i < n; i++) {
            tv_source_line at;
            if (!tv_program_line(d->programs[p], i, &at) || at.line < *line || at.line >= best ||
                !tv_debug_path_has_suffix(at.file, file))
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

/* ---- Parsing ---- */

static tv_status fail_location(tv_debug *d, const char *text, const tv_diag_sink *sink)
{
    tv_nearest nearest = tv_nearest_to((tv_sv){text, strcspn(text, "+")});
    tv_symbol symbol;
    char hint[160] = "a location is an instruction index, LABEL[+N] or FILE:LINE";
    for (uint64_t i = 0; tv_program_symbol_at(d->programs[d->program], i, &symbol); i++)
        if (symbol.kind == TV_SYMBOL_TEXT)
            tv_nearest_offer(&nearest, symbol.name);
    if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean '%.80s'?", nearest.best);
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_LOCATION), hint, "'%.60s' is not an instruction of the program",
                   text);
}

/* LABEL[+N] of any program, the loaded one first. */
static bool find_label(tv_debug *d, const char *text, unsigned *program, uint64_t *index)
{
    char name[128];
    size_t n = strcspn(text, "+");
    uint64_t offset = 0;
    tv_symbol symbol;
    if (n >= sizeof name || (text[n] && !tv_debug_parse_number(text + n + 1, &offset)))
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

/* Splits "FILE:LINE"; ":LINE" means the file of the current location. */
static bool split_file_line(tv_debug *d, const char *text, char file[DEBUG_FILE_MAX], uint64_t *line)
{
    const char *colon = strrchr(text, ':');
    tv_source_line at;
    if (!colon || !tv_debug_parse_number(colon + 1, line) || *line == 0 || *line > UINT32_MAX ||
        (size_t)(colon - text) >= DEBUG_FILE_MAX)
        return false;
    snprintf(file, DEBUG_FILE_MAX, "%.*s", (int)(colon - text), text);
    uint64_t count = tv_program_instruction_count(d->programs[d->program]), next = tv_machine_next_index(d->machine);
    if (!*file && count && tv_program_line(d->programs[d->program], next < count ? next : count - 1, &at))
        snprintf(file, DEBUG_FILE_MAX, "%s", at.file);
    return *file != '\0';
}

tv_status tv_debug_parse_index(tv_debug *d, const char *text, const tv_diag_sink *sink, uint64_t *index)
{
    char file[DEBUG_FILE_MAX];
    unsigned program = d->program, line;
    uint64_t number;
    uint64_t count = tv_program_instruction_count(d->programs[d->program]);
    bool found = tv_debug_parse_number(text, index);
    if (!found && split_file_line(d, text, file, &number)) {
        line = (unsigned)number;
        found = tv_debug_find_line(d, file, &line, &program, index);
    } else if (!found) {
        found = find_label(d, text, &program, index);
    }
    if (found && program == d->program && *index < count)
        return TV_OK;
    if (found && program == d->program)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_LOCATION), NULL,
                       "there is no instruction %" PRIu64 ": the program has %" PRIu64, *index, count);
    return fail_location(d, text, sink);
}

/* The text after `word` and spaces, or NULL if `text` does not start with them. */
static const char *skip_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    return strncmp(text, word, n) == 0 && text[n] == ' ' ? text + n + strspn(text + n, " ") : NULL;
}

tv_status tv_debug_parse_break(tv_debug *d, const char *text, char file[DEBUG_FILE_MAX], const tv_diag_sink *sink,
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
    if ((rest = skip_word(text, "opcode"))) {
        out->kind = TV_BREAK_OPCODE;
        out->text = rest;
        return TV_OK;
    }
    if ((rest = skip_word(text, "cycle"))) {
        out->kind = TV_BREAK_CYCLE;
        if (tv_debug_parse_number(rest, &out->value))
            return TV_OK;
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(DEBUG_ARGUMENT), "for example: break cycle 1000",
                       "'%.40s' is not a cycle", rest);
    }
    out->kind = TV_BREAK_INDEX;
    if (tv_debug_parse_number(text, &out->value))
        return TV_OK;
    if (strrchr(text, ':') && tv_debug_parse_number(strrchr(text, ':') + 1, &number) &&
        split_file_line(d, text, file, &out->value)) {
        out->kind = TV_BREAK_LINE;
        out->text = file;
        return TV_OK;
    }
    return find_label(d, text, &out->program, &out->value) ? TV_OK : fail_location(d, text, sink);
}

/* ---- Source files ---- */

bool tv_debug_is_readable_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

tv_status tv_debug_read_source(const char *file, tv_buf *out)
{
    enum { SOURCE_MAX = 16 << 20 };
    tv_input input;
    if (!tv_debug_is_readable_file(file))
        return TV_ERR_INPUT;
    TV_TRY(tv_input_open(file, NULL, &input));
    bool fits = input.size <= SOURCE_MAX;
    if (fits)
        tv_buf_append(out, input.data, input.size);
    tv_input_close(&input);
    return out->failed ? TV_ERR_MEMORY : fits ? TV_OK : TV_ERR_INPUT;
}
