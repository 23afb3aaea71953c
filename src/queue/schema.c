/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schema of queue files, from the opcode table. Metadata are as metadata.c reads them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/c_locale.h"
#include "base/json_writer.h"
#include "queue/queue.h"
#include "trivet/codec.h"

/* ---- Fields ---- */

static void write_names(tv_json_writer *w, const char *key, const char *const *names)
{
    tv_json_key(w, key);
    tv_json_begin_array(w);
    for (; *names; names++)
        tv_json_write_string(w, *names);
    tv_json_end_array(w);
}

static void write_integer_type(tv_json_writer *w, const tv_parameter *p)
{
    if (!p->allowed) {
        tv_json_string_member(w, "type", "integer");
        tv_json_unsigned_member(w, "minimum", p->min);
        tv_json_unsigned_member(w, "maximum", p->max);
        return;
    }
    tv_json_key(w, "enum");
    tv_json_begin_array(w);
    for (unsigned i = 0; i < 64; i++)
        if (p->allowed >> i & 1)
            tv_json_write_unsigned(w, i);
    tv_json_end_array(w);
}

static void write_integer_or_null(tv_json_writer *w, const tv_parameter *p)
{
    static const char *const types[] = {"integer", "null", NULL};
    write_names(w, "type", types);
    tv_json_unsigned_member(w, "minimum", p->min);
    tv_json_unsigned_member(w, "maximum", p->max);
}

/* The reader checks the sign of the value in binary32: a value that rounds to 0 is not rejected here. */
static void write_real_type(tv_json_writer *w, const tv_parameter *p)
{
    tv_json_string_member(w, "type", "number");
    if (p->allowed == TV_POSITIVE)
        tv_json_unsigned_member(w, "exclusiveMinimum", 0);
    if (p->allowed != TV_NOT_ZERO)
        return;
    tv_json_key(w, "not");
    tv_json_begin_object(w);
    tv_json_unsigned_member(w, "const", 0);
    tv_json_end_object(w);
}

static void write_ids_type(tv_json_writer *w, const tv_parameter *p)
{
    tv_json_string_member(w, "type", "array");
    tv_json_key(w, "items");
    tv_json_begin_object(w);
    tv_json_string_member(w, "type", "integer");
    tv_json_unsigned_member(w, "minimum", 0);
    tv_json_unsigned_member(w, "maximum", p->max);
    tv_json_end_object(w);
}

static void write_type(tv_json_writer *w, unsigned field)
{
    static const char *const layer_types[] = {"string", "integer", "null", NULL};
    const tv_parameter *p = &tv_isa_cmdq.parameters[field];
    switch (p->type) {
    case TV_PARAMETER_INTEGER:
        if (field == CMDQ_F_stride_bytes)
            write_integer_or_null(w, p);
        else
            write_integer_type(w, p);
        break;
    case TV_PARAMETER_REAL:
        write_real_type(w, p);
        break;
    case TV_PARAMETER_BOOLEAN:
        tv_json_string_member(w, "type", "boolean");
        break;
    case TV_PARAMETER_ENUM:
        write_names(w, "enum", p->enum_names);
        break;
    case TV_PARAMETER_TEXT:
        if (field == CMDQ_F_layer_id)
            write_names(w, "type", layer_types);
        else
            tv_json_string_member(w, "type", "string");
        if (field == CMDQ_F_wait_group || field == CMDQ_F_name)
            tv_json_unsigned_member(w, "minLength", 1);
        break;
    case TV_PARAMETER_IDS:
        write_ids_type(w, p);
        break;
    case TV_PARAMETER_OBJECT: /* anything */
        break;
    }
}

static void write_default(tv_json_writer *w, const tv_parameter *p)
{
    if (!p->default_value)
        return;
    tv_json_key(w, "default");
    if (p->type == TV_PARAMETER_ENUM || p->type == TV_PARAMETER_TEXT) {
        tv_json_write_string(w, p->default_value);
    } else if (p->type == TV_PARAMETER_REAL && strpbrk(p->default_value, ".eE")) {
        tv_c_locale locale = tv_c_locale_begin();
        double value = strtod(p->default_value, NULL);
        tv_c_locale_end(locale);
        tv_json_write_real(w, value, 17);
    } else {
        tv_json_write_raw(w, tv_sv_of(p->default_value));
    }
}

static void write_field(tv_json_writer *w, unsigned field, const tv_insn *insn);

static bool is_member(const tv_parameter_use *use) { return use->presence >= TV_MEMBER; }

/* The members of an entry's object, if it has any. */
static void write_members(tv_json_writer *w, const tv_insn *insn)
{
    bool has_members = false;
    for (unsigned u = 0; u < insn->parameter_count; u++)
        has_members = has_members || is_member(&insn->parameters[u]);
    if (!has_members)
        return;
    static const char *const types[] = {"object", "string", NULL}; /* a string is the name of one */
    write_names(w, "type", types);
    tv_json_key(w, "properties");
    tv_json_begin_object(w);
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (is_member(&insn->parameters[u]))
            write_field(w, insn->parameters[u].parameter, insn);
    tv_json_end_object(w);
    tv_json_key(w, "required");
    tv_json_begin_array(w);
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (insn->parameters[u].presence == TV_MEMBER_REQUIRED)
            tv_json_write_string(w, tv_isa_cmdq.parameters[insn->parameters[u].parameter].name);
    tv_json_end_array(w);
    tv_json_boolean_member(w, "additionalProperties", false);
}

static void write_field(tv_json_writer *w, unsigned field, const tv_insn *insn)
{
    const tv_parameter *p = &tv_isa_cmdq.parameters[field];
    char doc[256];
    snprintf(doc, sizeof doc, "%s%s%s", p->doc, p->unit[0] ? ", in " : "", p->unit);
    tv_json_key(w, p->name);
    tv_json_begin_object(w);
    write_type(w, field);
    tv_json_string_member(w, "description", doc);
    if (p->addition)
        tv_json_string_member(w, "x-trivet", p->addition);
    write_default(w, p);
    if (field == CMDQ_F_opcode)
        tv_json_string_member(w, "const", insn->id);
    if (p->type == TV_PARAMETER_OBJECT && field >= CMDQ_COMMON_FIELDS)
        write_members(w, insn);
    tv_json_end_object(w);
}

/* ---- Entries ---- */

static void write_reserved_pattern(tv_json_writer *w)
{
    tv_json_key(w, "patternProperties");
    tv_json_begin_object(w);
    tv_json_key(w, "^reserved_");
    tv_json_begin_object(w);
    tv_json_end_object(w);
    tv_json_end_object(w);
}

static void write_entry_schema(tv_json_writer *w, const tv_insn *insn)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "title", insn->id);
    tv_json_string_member(w, "description", insn->meaning);
    if (tv_insn_addition(&tv_isa_cmdq, insn))
        tv_json_string_member(w, "x-trivet", tv_insn_addition(&tv_isa_cmdq, insn));
    tv_json_string_member(w, "type", "object");
    tv_json_key(w, "properties");
    tv_json_begin_object(w);
    for (unsigned f = 0; f < CMDQ_COMMON_FIELDS; f++)
        write_field(w, f, insn);
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (!is_member(&insn->parameters[u]))
            write_field(w, insn->parameters[u].parameter, insn);
    tv_json_end_object(w);
    tv_json_key(w, "required");
    tv_json_begin_array(w);
    tv_json_write_string(w, "opcode");
    for (unsigned u = 0; u < insn->parameter_count; u++)
        if (insn->parameters[u].presence == TV_REQUIRED)
            tv_json_write_string(w, tv_isa_cmdq.parameters[insn->parameters[u].parameter].name);
    tv_json_end_array(w);
    write_reserved_pattern(w);
    tv_json_boolean_member(w, "additionalProperties", false);
    tv_json_end_object(w);
}

/* ---- Metadata ---- */

#define INTEGER "{\"type\": \"integer\", \"minimum\": 0}"
#define STRING "{\"type\": \"string\"}"

typedef struct property {
    const char *name, *schema; /* schema: JSON text */
} property;

#define CONTENTS                                                                                                       \
    {"file", STRING}, {"hex", STRING}, {"zero", "{\"const\": true}"}, {"bytes", INTEGER}, { NULL, NULL }

/* The lists of objects in the metadata: their properties, those that are required. */
static const struct {
    const char *name;
    property properties[8];
    const char *required[8];
} lists[] = {
    {"spm_init", {{"bank", INTEGER}, {"offset", INTEGER}, CONTENTS}, {"bank", "offset", NULL}},
    {"dram_init", {{"addr", INTEGER}, CONTENTS}, {"addr", NULL}},
    {"kv_layouts",
     {{"id", INTEGER},
      {"k_base", INTEGER},
      {"v_base", INTEGER},
      {"t_max", INTEGER},
      {"d_head", INTEGER},
      {"heads", INTEGER},
      {NULL, NULL}},
     {"id", "k_base", "v_base", "t_max", "d_head", "heads", NULL}},
    {"kv_ranges",
     {{"name", STRING},
      {"t_start", INTEGER},
      {"t_len", INTEGER},
      {"d_start", INTEGER},
      {"d_len", INTEGER},
      {NULL, NULL}},
     {"name", "t_start", "t_len", NULL}},
    {"outputs",
     {{"name", STRING},
      {"dram_addr", INTEGER},
      {"num_elements", INTEGER},
      {"qbits", "{\"enum\": [2, 4, 8, 16, 32]}"},
      {NULL, NULL}},
     {"name", "dram_addr", "num_elements", "qbits", NULL}},
};

/* "key": the schema, which is JSON text. */
static void write_property(tv_json_writer *w, const char *key, const char *schema)
{
    tv_arena arena = {0};
    tv_json_error error;
    tv_json_key(w, key);
    const tv_json_value *value = tv_json_parse(&arena, tv_sv_of(schema), SIZE_MAX, &error);
    w->failed |= !value; /* out of memory */
    tv_json_write_value(w, value, 0);
    tv_arena_fini(&arena);
}

static void write_list_schema(tv_json_writer *w, unsigned i)
{
    tv_json_key(w, lists[i].name);
    tv_json_begin_object(w);
    tv_json_string_member(w, "type", "array");
    tv_json_key(w, "items");
    tv_json_begin_object(w);
    tv_json_string_member(w, "type", "object");
    tv_json_boolean_member(w, "additionalProperties", false);
    tv_json_key(w, "properties");
    tv_json_begin_object(w);
    write_property(w, "debug", "{}");
    for (const property *p = lists[i].properties; p->name; p++)
        write_property(w, p->name, p->schema);
    tv_json_end_object(w);
    write_names(w, "required", lists[i].required);
    write_reserved_pattern(w);
    tv_json_end_object(w);
    tv_json_end_object(w);
}

static void write_metadata_schema(tv_json_writer *w)
{
    static const char *const required[] = {"version", NULL};
    tv_json_begin_object(w);
    tv_json_string_member(w, "type", "object");
    write_names(w, "required", required);
    tv_json_boolean_member(w, "additionalProperties", false);
    write_reserved_pattern(w);
    tv_json_key(w, "properties");
    tv_json_begin_object(w);
    write_property(w, "debug", "{}");
    write_property(w, "version", "{\"type\": \"string\", \"pattern\": \"^0{0,2}1\\\\.[0-9]{1,3}$\"}");
    static const char *const texts[] = {"graph_name", "generated_by", "created_at"};
    for (unsigned i = 0; i < TV_COUNTOF(texts); i++)
        write_property(w, texts[i], "{\"type\": [\"string\", \"null\"]}");
    write_property(w, "continues", "{\"type\": \"boolean\"}");
    for (unsigned i = 0; i < TV_COUNTOF(lists); i++)
        write_list_schema(w, i);
    tv_json_end_object(w);
    tv_json_end_object(w);
}

/* ---- The file ---- */

/* If the opcode is that of `insn`, then the entry has its fields: so that a validator names the field at fault. */
static void write_conditional_schema(tv_json_writer *w, const tv_insn *insn)
{
    tv_json_begin_object(w);
    tv_json_key(w, "if");
    tv_json_begin_object(w);
    tv_json_key(w, "properties");
    tv_json_begin_object(w);
    tv_json_key(w, "opcode");
    tv_json_begin_object(w);
    tv_json_string_member(w, "const", insn->id);
    tv_json_end_object(w);
    tv_json_end_object(w);
    tv_json_key(w, "required");
    tv_json_begin_array(w);
    tv_json_write_string(w, "opcode");
    tv_json_end_array(w);
    tv_json_end_object(w);
    tv_json_key(w, "then");
    write_entry_schema(w, insn);
    tv_json_end_object(w);
}

static void write_entries_schema(tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "type", "array");
    tv_json_key(w, "items");
    tv_json_begin_object(w);
    tv_json_string_member(w, "type", "object");
    tv_json_key(w, "required");
    tv_json_begin_array(w);
    tv_json_write_string(w, "opcode");
    tv_json_end_array(w);
    tv_json_key(w, "properties");
    tv_json_begin_object(w);
    tv_json_key(w, "opcode");
    tv_json_begin_object(w);
    tv_json_key(w, "enum");
    tv_json_begin_array(w);
    for (unsigned o = 0; o < tv_isa_cmdq.insn_count; o++)
        tv_json_write_string(w, tv_isa_cmdq.insns[o].id);
    tv_json_end_array(w);
    tv_json_end_object(w);
    tv_json_end_object(w);
    tv_json_key(w, "allOf");
    tv_json_begin_array(w);
    for (unsigned o = 0; o < tv_isa_cmdq.insn_count; o++)
        write_conditional_schema(w, &tv_isa_cmdq.insns[o]);
    tv_json_end_array(w);
    tv_json_end_object(w);
    tv_json_end_object(w);
}

tv_status tv_codec_write_schema(const tv_codec *codec, tv_json_writer *w)
{
    static const char *const required[] = {"cmdq", NULL};
    if (tv_codec_word_bits(codec))
        return TV_ERR_INPUT;
    tv_json_begin_object(w);
    tv_json_string_member(w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    tv_json_string_member(w, "title", "CMDQ command queue");
    tv_json_string_member(w, "type", "object");
    tv_json_key(w, "properties");
    tv_json_begin_object(w);
    tv_json_key(w, "metadata");
    write_metadata_schema(w);
    tv_json_key(w, "cmdq");
    write_entries_schema(w);
    tv_json_end_object(w);
    write_names(w, "required", required);
    tv_json_end_object(w);
    return TV_OK;
}
