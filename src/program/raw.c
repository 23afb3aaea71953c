/* SPDX-License-Identifier: Apache-2.0 */
/* Raw words: .bin is little endian; .hex has one word per line, and comments that begin with `//` or `#`; .memh is what
 * $readmemh of Verilog reads. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/memh.h"
#include "program/program.h"

tv_status tv_raw_read_bin(const char *name, tv_input *input, const tv_isa *isa, const tv_diag_sink *sink,
                          tv_program **out)
{
    unsigned word_bytes = isa->word_bits / 8;
    if (input->size % word_bytes != 0)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(OBJ_WORD), "check the target and that the file is complete",
                       "'%s' has %zu bytes, not a multiple of %s's %u-byte words", name, input->size, isa->target,
                       word_bytes);
    tv_program *program;
    TV_TRY(tv_program_new(isa, sink, &program));
    program->input = *input;
    *input = (tv_input){0};
    program->text = program->input.data;
    program->instruction_count = program->input.size / word_bytes;
    *out = program;
    return TV_OK;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses one line. 1: a word; 0: an empty line; -1: malformed, at *column. */
static int parse_line(tv_sv line, unsigned digits, uint64_t *word, unsigned *column)
{
    size_t i = 0, start;
    while (i < line.len && (line.ptr[i] == ' ' || line.ptr[i] == '\t'))
        i++;
    if (i + 1 < line.len && line.ptr[i] == '0' && (line.ptr[i + 1] | 0x20) == 'x')
        i += 2;
    bool prefixed = i >= 2 && (line.ptr[i - 1] | 0x20) == 'x';
    *column = (unsigned)i + 1;
    start = i;
    for (*word = 0; i < line.len && hex_digit((uint8_t)line.ptr[i]) >= 0; i++)
        *word = *word << 4 | (uint64_t)hex_digit((uint8_t)line.ptr[i]);
    size_t count = i - start;
    while (i < line.len && (line.ptr[i] == ' ' || line.ptr[i] == '\t' || line.ptr[i] == '\r'))
        i++;
    bool comment =
        i < line.len && (line.ptr[i] == '#' || (line.ptr[i] == '/' && i + 1 < line.len && line.ptr[i + 1] == '/'));
    if (i < line.len && !comment) {
        *column = (unsigned)i + 1;
        return -1;
    }
    return count == digits ? 1 : count == 0 && !prefixed ? 0 : -1;
}

/* Completes a program whose words are in its buffer, or frees it after an error. */
static tv_status finish_text(tv_program *program, tv_status status, const tv_diag_sink *sink, tv_program **out)
{
    if (status == TV_OK && program->text_buf.failed)
        status = tv_fail_memory(sink);
    if (status != TV_OK) {
        tv_program_free(program);
        return status;
    }
    program->text = program->text_buf.data;
    program->instruction_count = program->text_buf.len / program->word_bytes;
    *out = program;
    return TV_OK;
}

tv_status tv_raw_read_hex(const char *name, const tv_input *input, const tv_isa *isa, const tv_diag_sink *sink,
                          tv_program **out)
{
    enum { MAX_ERRORS = 20 };
    tv_program *program;
    TV_TRY(tv_program_new(isa, sink, &program));
    unsigned digits = isa->word_bits / 4, errors = 0;
    tv_source_loc loc = {.file = name, .index = -1};
    const char *p = (const char *)input->data, *end = p + input->size;
    while (p < end && errors < MAX_ERRORS) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        tv_sv line = {p, (size_t)((newline ? newline : end) - p)};
        p += line.len + (newline != NULL);
        loc.line++;
        uint64_t word;
        int found = parse_line(line, digits, &word, &loc.column);
        if (found < 0) {
            tv_report(sink, TV_ERROR, TV_CODE(OBJ_WORD), &loc, "comments begin with '//' or '#'",
                      "expected one word of %u hexadecimal digits", digits);
            errors++;
        } else if (found > 0) {
            tv_buf_le(&program->text_buf, word, program->word_bytes);
        }
    }
    return finish_text(program, errors ? TV_ERR_INPUT : TV_OK, sink, out);
}

/* Appends the next word of a .memh file, which must be word `count` of the program and have all its bits. */
static tv_status append_word(tv_program *program, tv_memh_reader *reader, uint64_t count, bool *found)
{
    tv_memh_word word;
    uint64_t mask = program->word_bytes < 8 ? (UINT64_C(1) << 8 * program->word_bytes) - 1 : UINT64_MAX;
    tv_status status = tv_memh_next(reader, &word, found);
    if (status != TV_OK || !*found)
        return status;
    tv_source_loc loc = {.file = reader->name, .line = word.line, .column = word.column, .index = -1};
    if (word.addr != count)
        tv_report(reader->sink, TV_ERROR, TV_CODE(OBJ_WORD), &loc, "a program has its words in order, without gaps",
                  "the word is for address 0x%" PRIx64 ", expected 0x%" PRIx64, word.addr, count);
    else if (word.known != mask)
        tv_report(reader->sink, TV_ERROR, TV_CODE(OBJ_WORD), &loc, NULL, "an instruction word has undefined digits");
    else
        tv_buf_le(&program->text_buf, word.value, program->word_bytes);
    return word.addr == count && word.known == mask ? TV_OK : TV_ERR_INPUT;
}

tv_status tv_raw_read_memh(const char *name, const tv_input *input, const tv_isa *isa, const tv_diag_sink *sink,
                           tv_program **out)
{
    tv_program *program;
    tv_memh_reader reader;
    bool found = true;
    TV_TRY(tv_program_new(isa, sink, &program));
    tv_memh_init(&reader, name, (tv_sv){(const char *)input->data, input->size}, isa->word_bits, sink);
    tv_status status = TV_OK;
    for (uint64_t count = 0; status == TV_OK && found; count++)
        status = append_word(program, &reader, count, &found);
    return finish_text(program, status, sink, out);
}
