/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction references, sources and disassembly.
 *
 * A program without readable source files is shown as a generated listing, one instruction per line, in which the
 * client can also set breakpoints. The client requests it by a source reference: the program's index + 1. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "debug/dap/dap.h"

enum { INSTRUCTIONS_MAX = 10000, LISTED_MAX = 200000, LISTING_BYTES = 32 << 20, INDEX_BITS = 40 };

/* ---- References ---- */

void tv_dap_print_reference(unsigned program, uint64_t index, char text[DAP_REFERENCE_TEXT])
{
    snprintf(text, DAP_REFERENCE_TEXT, "0x%" PRIx64, (uint64_t)program << INDEX_BITS | index);
}

bool tv_dap_parse_reference(const dap *s, const char *text, int64_t offset, unsigned *program, int64_t *index)
{
    const int64_t limit = INT64_C(1) << INDEX_BITS;
    uint64_t value;
    if (!text || !tv_debug_parse_number(text, &value) || value >> INDEX_BITS >= s->program_count || offset > limit ||
        offset < -limit)
        return false;
    *program = (unsigned)(value >> INDEX_BITS);
    *index = (int64_t)(value & (uint64_t)(limit - 1)) + offset;
    return true;
}

/* ---- Sources ---- */

static bool has_listing(const dap *s, unsigned program)
{
    return tv_program_instruction_count(s->programs[program]) <= LISTED_MAX;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The absolute path of a source file, from the working directory or the launch's directory. The caller frees it. NULL:
 * not readable. */
static char *find_source_file(dap *s, const char *file)
{
    errno = 0;
    char *path = realpath(file, NULL);
    if (!path && s->directory) {
        char *resolved = tv_dap_resolve_path(s, file);
        path = resolved ? realpath(resolved, NULL) : NULL;
        free(resolved);
    }
    if (path && tv_debug_is_readable_file(path))
        return path;
    tv_dap_check_host(s, errno);
    free(path);
    return NULL;
}

static void write_file_source(const dap *s, const char *key, const char *path, unsigned line, tv_json_writer *w)
{
    tv_json_key(w, key);
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", base_name(path));
    tv_json_string_member(w, "path", path);
    tv_json_end_object(w);
    tv_json_integer_member(w, "line", (int64_t)line - 1 + s->first_line);
}

static void write_listing_source(dap *s, const tv_debug_location *location, tv_json_writer *w)
{
    tv_buf name = {0};
    tv_buf_printf(&name, "%s (instructions)", base_name(s->paths[location->program]));
    tv_json_key(w, "source");
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", tv_dap_text(s, &name));
    tv_json_integer_member(w, "sourceReference", (int64_t)location->program + 1);
    tv_json_end_object(w);
    tv_json_integer_member(w, "line", (int64_t)location->index + s->first_line);
    tv_buf_fini(&name);
}

bool tv_dap_write_source(dap *s, const tv_debug_location *location, tv_json_writer *w)
{
    char *path = location->file ? find_source_file(s, location->file) : NULL;
    bool listed = !path && !location->end && has_listing(s, location->program);
    if (path)
        write_file_source(s, "source", path, location->line, w);
    else if (listed)
        write_listing_source(s, location, w);
    bool found = path || listed;
    free(path);
    return found;
}

bool tv_dap_parse_listing(const dap *s, const tv_json_value *source, unsigned *program)
{
    int64_t reference = tv_json_integer(tv_json_get(source, "sourceReference"));
    if (reference < 1 || reference > (int64_t)s->program_count || !has_listing(s, (unsigned)reference - 1))
        return false;
    *program = (unsigned)reference - 1;
    return true;
}

void tv_dap_source(dap *s, const dap_request *request)
{
    tv_debug_location location;
    unsigned program;
    tv_buf text = {0};
    dap_output out;
    if (!tv_dap_parse_listing(s, tv_dap_argument(request, "source"), &program) &&
        !tv_dap_parse_listing(s, tv_json_get(request, "arguments"), &program)) {
        tv_dap_reject(s, request, "unknown source reference; files are read by their path");
        return;
    }
    for (uint64_t i = 0; text.len < LISTING_BYTES && tv_debug_get_location(s->debug, program, i, &location); i++) {
        bool named = location.label && location.offset == 0;
        char label[64];
        snprintf(label, sizeof label, named ? "%.60s:" : "%s", named ? location.label : "");
        tv_buf_printf(&text, "%-15s %s\n", label, location.text);
    }
    tv_json_string_member(tv_dap_begin_response(&out, request), "content", tv_dap_text(s, &text));
    tv_dap_send(s, &out);
    tv_buf_fini(&text);
}

/* ---- Disassembly ---- */

static void write_instruction(dap *s, unsigned program, int64_t index, tv_json_writer *w)
{
    tv_debug_location location = {.text = ""};
    char address[DAP_REFERENCE_TEXT];
    bool valid = index >= 0 && tv_debug_get_location(s->debug, program, (uint64_t)index, &location);
    if (valid)
        tv_dap_print_reference(program, location.index, address);
    tv_json_begin_object(w);
    tv_json_string_member(w, "address", valid ? address : "-1");
    tv_json_string_member(w, "instruction", valid ? location.text : "(none)");
    if (!valid)
        tv_json_string_member(w, "presentationHint", "invalid");
    if (location.label && location.offset == 0)
        tv_json_string_member(w, "symbol", location.label);
    char *path = location.file ? find_source_file(s, location.file) : NULL;
    if (path)
        write_file_source(s, "location", path, location.line, w);
    free(path);
    tv_json_end_object(w);
}

void tv_dap_disassemble(dap *s, const dap_request *request)
{
    int64_t first;
    unsigned program;
    dap_output out;
    int64_t count = tv_dap_integer(request, "instructionCount", 0),
            skip = tv_dap_integer(request, "instructionOffset", 0);
    if (!tv_dap_parse_reference(s, tv_dap_string(request, "memoryReference"), tv_dap_integer(request, "offset", 0),
                                &program, &first) ||
        count < 0 || count > INSTRUCTIONS_MAX || skip > INT64_MAX / 4 || skip < -(INT64_MAX / 4)) {
        tv_dap_reject(s, request, "not an instruction reference, or too many instructions");
        return;
    }
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_key(w, "instructions");
    tv_json_begin_array(w);
    for (int64_t i = first + skip; i < first + skip + count; i++)
        write_instruction(s, program, i, w);
    tv_json_end_array(w);
    tv_dap_send(s, &out);
}
