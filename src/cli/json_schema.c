/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schema of a machine's program files, from its table of parameters. */
#include "cli/json_schema.h"

static json_t *integer_schema(const tv_parameter_info *p)
{
    if (!p->allowed)
        return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", (json_int_t)p->min, "maximum",
                         (json_int_t)p->max);
    json_t *values = json_array();
    for (unsigned i = 0; i < 64; i++)
        if (p->allowed >> i & 1)
            json_array_append_new(values, json_integer(i));
    return json_pack("{s:o}", "enum", values);
}

static json_t *words_schema(const tv_parameter_info *p)
{
    json_t *values = json_array();
    for (unsigned i = 0; p->enum_names[i]; i++)
        json_array_append_new(values, json_string(p->enum_names[i]));
    return json_pack("{s:o}", "enum", values);
}

static json_t *parameter_schema(const tv_parameter_info *p)
{
    json_t *schema;
    if (strcmp(p->type, "integer") == 0)
        schema = integer_schema(p);
    else if (strcmp(p->type, "word") == 0)
        schema = words_schema(p);
    else if (strcmp(p->type, "ids") == 0)
        schema = json_pack("{s:s, s:{s:s, s:i, s:I}}", "type", "array", "items", "type", "integer", "minimum", 0,
                           "maximum", (json_int_t)p->max);
    else if (strcmp(p->type, "text") == 0)
        schema = json_pack("{s:s}", "type", "string");
    else if (strcmp(p->type, "object") == 0)
        schema = json_object();
    else
        schema = json_pack("{s:s}", "type", p->type);
    char doc[256];
    snprintf(doc, sizeof doc, "%s%s%s", p->doc, p->unit[0] ? ", in " : "", p->unit);
    json_object_set_new(schema, "description", json_string(doc));
    json_t *default_value =
        p->default_value ? json_loads(p->default_value, JSON_DECODE_ANY, NULL) : NULL; /* NULL for a word */
    if (p->default_value)
        json_object_set_new(schema, "default", default_value ? default_value : json_string(p->default_value));
    return schema;
}

static json_t *instruction_schema(const tv_codec *codec, unsigned insn, const tv_insn_info *info)
{
    json_t *properties = json_object(), *members = json_object(), *required = json_pack("[s]", "opcode"),
           *in_object = json_array();
    json_t *object = NULL;
    tv_parameter_info p;
    for (unsigned i = 0; tv_codec_parameter_at(codec, insn, i, &p); i++) {
        json_t *schema = parameter_schema(&p);
        if (strcmp(p.name, "layer_id") == 0)
            json_object_set_new(schema, "type", json_pack("[s, s]", "string", "null"));
        if (p.common && strcmp(p.name, "opcode") == 0)
            json_object_set_new(schema, "const", json_string(info->id));
        if (strcmp(p.type, "object") == 0 && !p.common)
            object = schema;
        json_object_set_new(p.member ? members : properties, p.name, schema);
        if (p.required && strcmp(p.name, "opcode") != 0)
            json_array_append_new(p.member ? in_object : required, json_string(p.name));
    }
    if (object && json_object_size(members))
        json_object_update_new(object, json_pack("{s:s, s:O, s:O, s:b}", "type", "object", "properties", members,
                                                 "required", in_object, "additionalProperties", 0));
    json_decref(members);
    json_decref(in_object);
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:{}}, s:b}", "title", info->id, "description", info->meaning,
                     "type", "object", "properties", properties, "required", required, "patternProperties",
                     "^reserved_", "additionalProperties", 0);
}

/* What src/queue/metadata.c reads. */
#define INTEGER "{\"type\": \"integer\", \"minimum\": 0}"
#define CONTENTS                                                                                                       \
    "\"file\": {\"type\": \"string\"}, \"hex\": {\"type\": \"string\"}, \"zero\": {\"const\": true}, "                 \
    "\"bytes\": " INTEGER
#define LIST(properties, required)                                                                                     \
    "{\"type\": \"array\", \"items\": {\"type\": \"object\", \"additionalProperties\": false, \"properties\": "        \
    "{\"debug\": {}, " properties "}, \"required\": [" required "]}}"
static const char METADATA[] =
    "{\"type\": \"object\", \"required\": [\"version\"], \"additionalProperties\": false, \"patternProperties\": "
    "{\"^reserved_\": {}},"
    " \"properties\": {\"debug\": {},"
    "\"version\": {\"type\": \"string\", \"pattern\": \"^[0-9]+\\\\.[0-9]+$\"}, \"graph_name\": {\"type\": "
    "\"string\"},"
    "\"spm_init\": " LIST(
        "\"bank\": " INTEGER ", \"offset\": " INTEGER ", " CONTENTS,
        "\"bank\", \"offset\"") ","
                                "\"dram_init\": " LIST(
                                    "\"addr\": " INTEGER ", " CONTENTS,
                                    "\"addr\"") ","
                                                "\"kv_layouts\": " LIST(
                                                    "\"id\": " INTEGER ", \"k_base\": " INTEGER ", \"v_base\": " INTEGER
                                                    ", \"t_max\": " INTEGER ", \"d_head\": " INTEGER
                                                    ", \"heads\": " INTEGER,
                                                    "\"id\", \"k_base\", \"v_base\", \"t_max\", \"d_head\", "
                                                    "\"heads\"") ","
                                                                 "\"outputs\": " LIST(
                                                                     "\"name\": {\"type\": \"string\"}, "
                                                                     "\"dram_addr\": " INTEGER
                                                                     ", \"num_elements\": " INTEGER
                                                                     ", \"qbits\": {\"enum\": [2, 4, 8, 16, 32]}",
                                                                     "\"name\", \"dram_addr\", \"num_elements\", "
                                                                     "\"qbits\"") "}}";

json_t *json_schema_make(const tv_codec *codec)
{
    json_t *entries = json_array();
    tv_insn_info info;
    for (unsigned i = 0; tv_codec_insn_at(codec, i, &info); i++)
        json_array_append_new(entries, instruction_schema(codec, i, &info));
    json_t *metadata = json_loads(METADATA, 0, NULL);
    json_t *list = json_pack("{s:s, s:{s:o}}", "type", "array", "items", "oneOf", entries);
    return json_pack("{s:s, s:s, s:s, s:{s:o, s:o}, s:[s, s]}", "$schema",
                     "https://json-schema.org/draft/2020-12/schema", "title", "CMDQ command queue", "type", "object",
                     "properties", "metadata", metadata, "cmdq", list, "required", "metadata", "cmdq");
}
