/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/elements.h"

#include <inttypes.h>

/* ---- Elements ---- */

static void write_element(tv_dtype type, const uint8_t *bytes, uint64_t i, tv_json_writer *w)
{
    char text[TV_DTYPE_TEXT];
    tv_dtype_text(type, bytes, i, text);
    if (strncmp(text, "0x", 2) == 0 || strpbrk(text, "nN"))
        tv_json_write_string(w, text);
    else if (type == TV_F32 || type == TV_F16 || type == TV_BF16)
        tv_json_write_real(w, tv_dtype_value(type, bytes, i), 0); /* exact */
    else
        tv_json_write_integer(w, strtoll(text, NULL, 10));
}

void elements_write_json(tv_dtype type, const uint8_t *bytes, uint64_t count, tv_json_writer *w)
{
    tv_json_begin_array(w);
    for (uint64_t i = 0; i < count; i++)
        write_element(type, bytes, i, w);
    tv_json_end_array(w);
}

void elements_print(tv_dtype type, const uint8_t *bytes, uint64_t count, uint64_t max)
{
    unsigned per_line = tv_dtype_bits(type) >= 32 ? 4 : 8;
    uint64_t shown = count < max ? count : max;
    for (uint64_t i = 0; i < shown; i++) {
        char text[TV_DTYPE_TEXT];
        tv_dtype_text(type, bytes, i, text);
        if (i % per_line == 0)
            printf("  %6" PRIu64 ":", i);
        printf(" %12s%s", text, i % per_line == per_line - 1 || i + 1 == shown ? "\n" : "");
    }
    if (shown < count)
        printf("          %s %" PRIu64 " more\n", cli_symbol("…", "..."), count - shown);
}

/* ---- Outputs ---- */

static tv_status append_value(output_list *list, const output_value *value)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->values[i].info.name, value->info.name) == 0) {
            free(list->values[i].bytes);
            list->values[i] = *value;
            return TV_OK;
        }
    output_value *values = realloc(list->values, (list->count + 1) * sizeof *values);
    if (!values)
        return TV_ERR_MEMORY;
    list->values = values;
    list->values[list->count++] = *value;
    return TV_OK;
}

tv_status outputs_append(output_list *to, output_list *from)
{
    tv_status status = TV_OK;
    for (size_t i = 0; i < from->count && status == TV_OK; i++) {
        status = append_value(to, &from->values[i]);
        if (status == TV_OK)
            from->values[i].bytes = NULL;
    }
    outputs_free(from);
    return status;
}

void outputs_free(output_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->values[i].bytes);
    free(list->values);
    *list = (output_list){0};
}

tv_status outputs_read(cli *c, tv_machine *machine, const tv_program *program, output_list *list)
{
    output_value v = {0};
    tv_status status = TV_OK;
    for (uint64_t i = 0; status == TV_OK && tv_program_output_at(program, i, &v.info); i++) {
        size_t size = (size_t)tv_dtype_bytes(v.info.type, v.info.count);
        v.bytes = calloc(size + 8, 1);
        status = v.bytes ? tv_machine_read(machine, v.info.space, v.info.addr, v.bytes, size, &c->sink) : TV_ERR_MEMORY;
        if (status == TV_OK)
            status = append_value(list, &v);
        if (status != TV_OK)
            free(v.bytes);
    }
    return status;
}

void outputs_print(const output_list *list)
{
    enum { SHOWN = 64 };
    for (size_t i = 0; i < list->count; i++) {
        const tv_output_info *info = &list->values[i].info;
        printf("%s (%s:0x%" PRIx64 ", %" PRIu64 " %s)\n", CLI_SAFE(info->name), info->space, info->addr, info->count,
               tv_dtype_name(info->type));
        elements_print(info->type, list->values[i].bytes, info->count, SHOWN);
    }
}

void outputs_write_json(const output_list *list, tv_json_writer *w)
{
    tv_json_begin_object(w);
    for (size_t i = 0; i < list->count; i++) {
        const output_value *v = &list->values[i];
        tv_json_key(w, v->info.name);
        elements_write_json(v->info.type, v->bytes, v->info.count, w);
    }
    tv_json_end_object(w);
}

static tv_status save_output(cli *c, const output_value *v, const char *directory, tv_output_group *group)
{
    char path[4096];
    tv_output *output;
    if ((size_t)snprintf(path, sizeof path, "%s/%s.bin", directory, v->info.name) >= sizeof path) {
        cli_error(c, CLI_E_VALUE, NULL, "the path of output '%s' is too long", v->info.name);
        return TV_ERR_INPUT;
    }
    if (cli_overwrites_input(c, "output", path))
        return TV_ERR_INPUT;
    tv_status status = tv_output_open(path, &c->sink, &output);
    if (status != TV_OK)
        return status;
    fwrite(v->bytes, 1, (size_t)tv_dtype_bytes(v->info.type, v->info.count), tv_output_stream(output));
    return tv_output_commit_to(output, group, &c->sink);
}

tv_status outputs_save(cli *c, const output_list *list, const char *directory, tv_output_group *group)
{
    tv_status status = TV_OK;
    for (size_t i = 0; i < list->count && status == TV_OK; i++)
        status = save_output(c, &list->values[i], directory, group);
    return status;
}
