/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the trace reader, with the line and column that the parser has reached. */
#include "trace/parse.h"

#include <inttypes.h>

bool tv_trace_error(trace_reader *r, const tv_code *code, const char *hint, const char *format, ...)
{
    if (r->status != TV_OK)
        return false;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    r->status = TV_ERR_INPUT;
    if (r->has_packets) {
        const tv_source_loc loc = {.file = r->path, .index = -1};
        tv_report(r->sink, TV_ERROR, code, &loc, hint, "%s, in the packet at byte %" PRIu64, message, r->base);
        return false;
    }
    uint64_t offset = r->json.error.kind != TV_JSON_OK ? r->json.error.offset : tv_json_reader_offset(&r->json);
    size_t consumed = r->chunk && offset > r->base ? (size_t)(offset - r->base) : 0;
    uint64_t line = r->line, line_start = r->line_start;
    for (size_t i = 0; i < consumed; i++)
        if (r->chunk[i] == '\n') {
            line++;
            line_start = r->base + i + 1;
        }
    uint64_t end = r->base + consumed, column = end > line_start ? end - line_start : 1;
    tv_source_loc loc = {.file = r->path,
                         .line = (unsigned)tv_min_u64(line, UINT32_MAX),
                         .column = (unsigned)tv_min_u64(column, UINT32_MAX),
                         .index = -1};
    tv_report(r->sink, TV_ERROR, code, &loc, hint, "%s", message);
    return false;
}

bool tv_trace_no_memory(trace_reader *r)
{
    if (r->status == TV_OK)
        r->status = tv_fail_memory(r->sink);
    return false;
}

bool tv_trace_builder_error(trace_reader *r, const tv_json_builder *builder)
{
    if (builder->error == TV_JSON_MEMORY)
        return tv_trace_no_memory(r);
    return tv_trace_error(r, builder->error == TV_JSON_SIZE ? TV_CODE(TRACE_LIMIT) : TV_CODE(TRACE_FORM), NULL,
                          "'%.200s' cannot be used: %s", r->section_name, tv_json_error_text(builder->error));
}
