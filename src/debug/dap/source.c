/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions and sources: how a client names an instruction, where that was written, and disassembly.
 *
 * A program that was emitted, or whose source is not at hand, still has something to show and to set breakpoints in:
 * the list of its instructions, one a line, which the client asks for by a source reference (the program's number + 1).
 */
#include "debug/dap/dap.h"

#include <inttypes.h>
#include <stdlib.h>

enum { INSTRUCTIONS_MAX = 10000, LISTED_MAX = 200000, LISTING_BYTES = 32 << 20, INDEX_BITS = 40 };

/* ---- References ---- */

void dap_print_reference(unsigned program, uint64_t index, char text[DAP_REFERENCE_TEXT])
{
    snprintf(text, DAP_REFERENCE_TEXT, "0x%" PRIx64, (uint64_t)program << INDEX_BITS | index);
}

bool dap_reference(const dap *s, const char *text, json_int_t offset, unsigned *program, int64_t *index)
{
    const json_int_t most = (json_int_t)1 << INDEX_BITS;
    uint64_t value;
    if (!text || !debug_parse_number(text, &value) || value >> INDEX_BITS >= s->program_count || offset > most ||
        offset < -most)
        return false;
    *program = (unsigned)(value >> INDEX_BITS);
    *index = (int64_t)(value & (uint64_t)(most - 1)) + offset;
    return true;
}

/* ---- Sources ---- */

static bool can_list(const dap *s, unsigned program)
{
    return tv_program_instruction_count(s->programs[program]) <= LISTED_MAX;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static char *readable_file(const dap *s, const char *file)
{
    char *path = realpath(file, NULL);
    if (!path && s->folder) {
        char *inside = dap_path(s, file);
        path = inside ? realpath(inside, NULL) : NULL;
        free(inside);
    }
    if (path && debug_is_file(path))
        return path;
    free(path);
    return NULL;
}

json_t *dap_place_source(const dap *s, const tv_debug_location *place, json_int_t *line)
{
    char *path = place->file ? readable_file(s, place->file) : NULL;
    json_t *source = NULL;
    if (path) {
        source = json_pack("{s:o, s:o}", "name", debug_json_text(base_name(path)), "path", debug_json_text(path));
        *line = (json_int_t)place->line - 1 + s->first_line;
    } else if (!place->end && can_list(s, place->program)) {
        const char *program = json_string_value(json_array_get(s->paths, place->program));
        tv_buf name = {0};
        tv_buf_printf(&name, "%s (instructions)", program ? base_name(program) : "program");
        source = json_pack("{s:o, s:I}", "name", debug_json_text(tv_buf_cstr(&name)), "sourceReference",
                           (json_int_t)place->program + 1);
        *line = (json_int_t)place->index + s->first_line;
        tv_buf_fini(&name);
    }
    free(path);
    return source;
}

bool dap_listed_program(const dap *s, const json_t *source, unsigned *program)
{
    json_int_t reference = json_integer_value(json_object_get(source, "sourceReference"));
    if (reference < 1 || reference > (json_int_t)s->program_count || !can_list(s, (unsigned)reference - 1))
        return false;
    *program = (unsigned)reference - 1;
    return true;
}

void dap_source_request(dap *s, const json_t *request)
{
    tv_debug_location place;
    unsigned program;
    tv_buf text = {0};
    if (!dap_listed_program(s, dap_argument(request, "source"), &program) &&
        !dap_listed_program(s, json_object_get(request, "arguments"), &program)) {
        dap_refuse(s, request, "sources that are files are read by their path; there is no other of that number");
        return;
    }
    for (uint64_t i = 0; text.len < LISTING_BYTES && debug_instruction_of(s->debug, program, i, &place); i++) {
        bool named = place.label && place.offset == 0;
        char label[64];
        snprintf(label, sizeof label, named ? "%.60s:" : "%s", named ? place.label : "");
        tv_buf_printf(&text, "%-15s %s\n", label, place.text);
    }
    dap_respond(s, request, json_pack("{s:o}", "content", debug_json_text(tv_buf_cstr(&text))));
    tv_buf_fini(&text);
}

/* ---- Disassembly ---- */

static json_t *instruction_json(dap *s, unsigned program, int64_t index)
{
    tv_debug_location place = {.text = ""};
    char address[DAP_REFERENCE_TEXT];
    if (index < 0 || !debug_instruction_of(s->debug, program, (uint64_t)index, &place))
        return json_pack("{s:s, s:s, s:s}", "address", "-1", "instruction", "(none)", "presentationHint", "invalid");
    dap_print_reference(program, place.index, address);
    json_t *one = json_pack("{s:s, s:o}", "address", address, "instruction", debug_json_text(place.text));
    if (place.label && place.offset == 0)
        json_object_set_new(one, "symbol", debug_json_text(place.label));
    json_int_t line;
    json_t *source = place.file ? dap_place_source(s, &place, &line) : NULL;
    if (json_object_get(source, "path")) {
        json_object_set(one, "location", source);
        json_object_set_new(one, "line", json_integer(line));
    }
    json_decref(source);
    return one;
}

void dap_disassemble(dap *s, const json_t *request)
{
    int64_t first;
    unsigned program;
    json_int_t count = dap_integer(request, "instructionCount", 0), skip = dap_integer(request, "instructionOffset", 0);
    if (!dap_reference(s, dap_text(request, "memoryReference"), dap_integer(request, "offset", 0), &program, &first) ||
        count < 0 || count > INSTRUCTIONS_MAX || skip > INT64_MAX / 4 || skip < -(INT64_MAX / 4)) {
        dap_refuse(s, request, "that is no instruction, or too many are asked for");
        return;
    }
    json_t *list = json_array();
    for (int64_t i = first + skip; i < first + skip + count; i++)
        json_array_append_new(list, instruction_json(s, program, i));
    dap_respond(s, request, json_pack("{s:o}", "instructions", list));
}
