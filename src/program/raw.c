/* SPDX-License-Identifier: Apache-2.0 */
/* Raw words: .bin is little endian; .hex has one word per line and `#` comments. */
#include <stdlib.h>

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
    if (i < line.len && line.ptr[i] != '#') {
        *column = (unsigned)i + 1;
        return -1;
    }
    return count == digits ? 1 : count == 0 && !prefixed ? 0 : -1;
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
            tv_report(sink, TV_ERROR, TV_CODE(OBJ_WORD), &loc, "comments begin with '#'",
                      "expected one word of %u hexadecimal digits", digits);
            errors++;
        } else if (found > 0) {
            tv_buf_le(&program->text_buf, word, program->word_bytes);
        }
    }
    tv_status status = errors ? TV_ERR_INPUT : program->text_buf.failed ? tv_fail_memory(sink) : TV_OK;
    if (status != TV_OK) {
        tv_program_free(program);
        return status;
    }
    program->text = program->text_buf.data;
    program->instruction_count = program->text_buf.len / program->word_bytes;
    *out = program;
    return TV_OK;
}
