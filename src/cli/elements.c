/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and outputs. */
#include "cli/elements.h"

#include <inttypes.h>

static json_t *element_json(tv_dtype type, const uint8_t *bytes, uint64_t i)
{
    char text[TV_DTYPE_TEXT];
    tv_dtype_text(type, bytes, i, text);
    if (strncmp(text, "0x", 2) == 0 || strpbrk(text, "nN"))
        return json_string(text);
    return strpbrk(text, ".e") || type == TV_F32 || type == TV_F16 || type == TV_BF16
               ? json_real(strtod(text, NULL))
               : json_integer(strtoll(text, NULL, 10));
}

json_t *elements_json(tv_dtype type, const uint8_t *bytes, uint64_t count)
{
    json_t *values = json_array();
    for (uint64_t i = 0; i < count; i++)
        json_array_append_new(values, element_json(type, bytes, i));
    return values;
}

void elements_print(tv_dtype type, const uint8_t *bytes, uint64_t count, uint64_t most)
{
    unsigned per_line = tv_dtype_bits(type) >= 32 ? 4 : 8;
    uint64_t shown = count < most ? count : most;
    for (uint64_t i = 0; i < shown; i++) {
        char text[TV_DTYPE_TEXT];
        tv_dtype_text(type, bytes, i, text);
        if (i % per_line == 0)
            printf("  %6" PRIu64 ":", i);
        printf(" %12s%s", text, i % per_line == per_line - 1 || i + 1 == shown ? "\n" : "");
    }
    if (shown < count)
        printf("          … %" PRIu64 " more\n", count - shown);
}

static tv_status save(cli *c, const char *folder, const tv_output_info *info, const uint8_t *bytes, size_t size)
{
    char path[4096];
    tv_output *output;
    if ((size_t)snprintf(path, sizeof path, "%s/%s.bin", folder, info->name) >= sizeof path) {
        cli_wrong(c, NULL, "the path of output '%s' is too long", info->name);
        return TV_ERR_INPUT;
    }
    tv_status status = tv_output_open(path, &c->sink, &output);
    if (status != TV_OK)
        return status;
    fwrite(bytes, 1, size, tv_output_stream(output));
    return tv_output_commit(output, &c->sink);
}

tv_status outputs_show(cli *c, tv_machine *machine, const tv_program *program, json_t *object, const char *folder)
{
    enum { SHOWN = 64 };
    tv_output_info info;
    tv_status status = TV_OK;
    for (uint64_t i = 0; status == TV_OK && tv_program_output_at(program, i, &info); i++) {
        size_t size = (size_t)tv_dtype_bytes(info.type, info.count);
        uint8_t *bytes = calloc(size + 8, 1);
        status = bytes ? tv_machine_read(machine, info.space, info.addr, bytes, size, &c->sink) : TV_ERR_MEMORY;
        if (status == TV_OK && object)
            json_object_set_new(object, info.name, elements_json(info.type, bytes, info.count));
        else if (status == TV_OK) {
            printf("%s (%s:0x%" PRIx64 ", %" PRIu64 " %s)\n", info.name, info.space, info.addr, info.count,
                   tv_dtype_name(info.type));
            elements_print(info.type, bytes, info.count, SHOWN);
        }
        if (status == TV_OK && folder)
            status = save(c, folder, &info, bytes, size);
        free(bytes);
    }
    return status;
}
