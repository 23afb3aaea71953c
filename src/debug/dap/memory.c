/* SPDX-License-Identifier: Apache-2.0 */
/* readMemory and writeMemory, with data in base64. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/dap/dap.h"

enum { MEMORY_MAX = 4 << 20 };

/* ---- Base64 (RFC 4648) ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode_base64(const uint8_t *bytes, size_t size, tv_buf *out)
{
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t v = (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (n > 2 ? bytes[i + 2] : 0);
        char text[5] = {alphabet[v >> 18], alphabet[v >> 12 & 63], n > 1 ? alphabet[v >> 6 & 63] : '=',
                        n > 2 ? alphabet[v & 63] : '=', '\0'};
        tv_buf_str(out, text);
    }
}

/* Appends the decoded bytes. Returns false if `text` is not base64. */
static bool decode_base64(const char *text, tv_buf *out)
{
    uint32_t v = 0;
    unsigned bits = 0;
    for (; *text && *text != '='; text++) {
        const char *at = strchr(alphabet, *text);
        if (!at)
            return false;
        v = v << 6 | (uint32_t)(at - alphabet);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            tv_buf_le(out, v >> bits & 0xFF, 1);
        }
    }
    return text[strspn(text, "=")] == '\0' && !out->failed;
}

/* ---- Requests ---- */

/* Parses the memory reference "SPACE UNIT" or SPACE:ADDR. */
static bool parse_memory_reference(dap *s, const char *reference, tv_space *space, uint64_t *unit)
{
    const tv_machine *machine = tv_debug_machine(s->debug);
    const char *rest;
    char text[128];
    if (!reference || strlen(reference) >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%s", reference);
    char *blank = strchr(text, ' ');
    if (!blank)
        return tv_machine_parse_address(machine, (const tv_program *const *)s->programs, s->program_count, text, NULL,
                                        space, unit, &rest) == TV_OK &&
               !rest;
    *blank = '\0';
    return tv_debug_find_space(s->debug, text, space) && tv_debug_parse_number(blank + 1, unit);
}

/* The first byte that the request means, counted from the start of the space. */
static bool find_memory(dap *s, const dap_request *request, tv_space *space, uint64_t *byte)
{
    int64_t offset = tv_dap_integer(request, "offset", 0);
    uint64_t unit;
    if (!parse_memory_reference(s, tv_dap_string(request, "memoryReference"), space, &unit) || unit > space->size)
        return false;
    uint64_t at = unit * space->unit_bytes, back = offset < 0 ? -(uint64_t)offset : 0;
    if (back > at)
        return false;
    *byte = at - back + (offset > 0 ? (uint64_t)offset : 0);
    return true;
}

void tv_dap_read_memory(dap *s, const dap_request *request)
{
    tv_space space;
    uint64_t byte;
    int64_t count = tv_dap_integer(request, "count", 0);
    char address[64];
    dap_output out;
    if (!find_memory(s, request, &space, &byte) || count < 0) {
        tv_dap_reject(s, request, "invalid memory reference, offset or count");
        return;
    }
    uint64_t total = space.size * space.unit_bytes, lead = byte % space.unit_bytes;
    uint64_t size = byte < total ? tv_min_u64(tv_min_u64((uint64_t)count, total - byte), MEMORY_MAX) : 0;
    uint8_t *bytes = calloc((size_t)(size + lead) + 1, 1);
    tv_buf text = {0};
    if (!bytes)
        s->failed = TV_ERR_MEMORY;
    if (bytes && size &&
        tv_machine_read(tv_debug_machine(s->debug), space.name, byte / space.unit_bytes, bytes, (size_t)(size + lead),
                        NULL) == TV_OK)
        encode_base64(bytes + lead, (size_t)size, &text);
    free(bytes);
    snprintf(address, sizeof address, "0x%" PRIx64, byte);
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_string_member(w, "address", address);
    tv_json_unsigned_member(w, "unreadableBytes", (uint64_t)count - size);
    tv_json_string_member(w, "data", tv_dap_text(s, &text));
    tv_dap_send(s, &out);
    tv_buf_fini(&text);
}

/* Decodes `data` after the bytes of the first unit that precede byte `byte`; those keep their values. */
static bool decode_from_byte(dap *s, const tv_space *space, uint64_t byte, const char *data, tv_buf *bytes)
{
    size_t lead = (size_t)(byte % space->unit_bytes);
    uint8_t *before = lead ? tv_buf_extend(bytes, lead) : NULL;
    if (before)
        tv_machine_read(tv_debug_machine(s->debug), space->name, byte / space->unit_bytes, before, lead, NULL);
    return decode_base64(data, bytes);
}

void tv_dap_write_memory(dap *s, const dap_request *request)
{
    tv_space space;
    uint64_t byte;
    const char *data = tv_dap_string(request, "data");
    tv_buf bytes = {0};
    dap_output out;
    tv_diag_sink sink = tv_dap_sink(s);
    tv_status status = TV_ERR_INPUT;
    if (find_memory(s, request, &space, &byte) && byte <= space.size * space.unit_bytes && data &&
        decode_from_byte(s, &space, byte, data, &bytes))
        status = tv_debug_write(s->debug, space.name, byte / space.unit_bytes, bytes.data, bytes.len, &sink);
    if (status == TV_OK) {
        tv_json_unsigned_member(tv_dap_begin_response(&out, request), "bytesWritten",
                                bytes.len - byte % space.unit_bytes);
        tv_dap_send(s, &out);
    } else {
        if (bytes.failed)
            s->failed = TV_ERR_MEMORY;
        tv_dap_reject(s, request, s->errors.len ? tv_dap_error_text(s) : "invalid memory reference, offset or data");
    }
    tv_buf_fini(&bytes);
}
