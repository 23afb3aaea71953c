/* SPDX-License-Identifier: Apache-2.0 */
/* What a client looks into and changes: scopes and variables, memory. */
#include "debug/dap/dap.h"

#include <inttypes.h>
#include <stdlib.h>

enum { UNITS_MAX = 4096, FIRST_UNITS = 256, MEMORY_MAX = 4 << 20, NODES_MAX = 1 << 20 };

/* ---- Nodes ---- */

static json_int_t add_node(dap *s, dap_node node)
{
    if (s->node_count == s->node_cap) {
        size_t cap = s->node_cap ? 2 * s->node_cap : 64;
        dap_node *nodes = cap <= NODES_MAX ? realloc(s->nodes, cap * sizeof *nodes) : NULL;
        if (!nodes)
            return 0;
        s->nodes = nodes;
        s->node_cap = cap;
    }
    s->nodes[s->node_count++] = node;
    return s->node_base + (json_int_t)s->node_count;
}

/* A reference is not given out again, lest a late question is answered with something else. */
void dap_forget_nodes(dap *s)
{
    s->node_base = s->node_base > INT32_MAX / 2 ? 0 : s->node_base + (json_int_t)s->node_count;
    s->node_count = 0;
}

bool dap_node_at(const dap *s, json_int_t reference, dap_node *out)
{
    reference -= s->node_base;
    if (reference < 1 || (uint64_t)reference > s->node_count)
        return false;
    *out = s->nodes[reference - 1];
    return true;
}

static json_t *scope(dap *s, const char *name, dap_node node, bool expensive, uint64_t units)
{
    json_t *object =
        json_pack("{s:s, s:I, s:b}", "name", name, "variablesReference", add_node(s, node), "expensive", expensive);
    if (units)
        json_object_set_new(object, "indexedVariables", json_integer((json_int_t)tv_min_u64(units, INT32_MAX)));
    if (node.kind == DAP_GROUP && strcmp(node.group, "registers") == 0)
        json_object_set_new(object, "presentationHint", json_string("registers"));
    return object;
}

void dap_scopes(dap *s, const json_t *request)
{
    static const char *const groups[][2] = {{"registers", "Registers"},
                                            {"queues", "Queues"},
                                            {"streams", "Streams"},
                                            {"pending", "In flight"},
                                            {"hazards", "Hazards"}};
    tv_machine *machine = tv_debug_machine(s->debug);
    json_t *list = json_array();
    tv_state_value v;
    tv_space space;
    for (size_t g = 0; g < TV_COUNTOF(groups); g++)
        for (unsigned i = 0; tv_machine_state_at(machine, i, &v); i++)
            if (strcmp(v.group, groups[g][0]) == 0) {
                json_array_append_new(
                    list, scope(s, groups[g][1], (dap_node){.kind = DAP_GROUP, .group = groups[g][0]}, false, 0));
                break;
            }
    json_array_append_new(list, scope(s, "Engines", (dap_node){.kind = DAP_ENGINES}, true, 0));
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++)
        json_array_append_new(list, scope(s, space.name, (dap_node){.kind = DAP_SPACE, .index = i}, true, space.size));
    dap_respond(s, request, json_pack("{s:o}", "scopes", list));
}

/* ---- Variables ---- */

static json_t *variable(const char *name, const char *value, json_int_t reference)
{
    return json_pack("{s:s, s:o, s:I}", "name", name, "value", debug_json_text(value), "variablesReference", reference);
}

static void list_group(dap *s, const char *group, json_t *list)
{
    tv_state_value v;
    for (unsigned i = 0; tv_machine_state_at(tv_debug_machine(s->debug), i, &v); i++)
        if (strcmp(v.group, group) == 0)
            json_array_append_new(list, variable(v.name, v.text, 0));
}

static void list_engines(dap *s, json_t *list)
{
    tv_stats stats = {.size = sizeof stats};
    char text[64];
    tv_machine_stats(tv_debug_machine(s->debug), &stats);
    snprintf(text, sizeof text, "%" PRIu64, stats.cycles);
    json_array_append_new(list, variable("cycles", text, 0));
    for (unsigned e = 0; e < stats.engine_count; e++) {
        snprintf(text, sizeof text, "%" PRIu64 " busy, %" PRIu64 " idle", stats.engines[e].busy, stats.engines[e].idle);
        json_array_append_new(
            list, variable(stats.engines[e].name, text, add_node(s, (dap_node){.kind = DAP_ENGINE, .index = e})));
    }
}

static void list_engine(dap *s, unsigned e, json_t *list)
{
    tv_stats stats = {.size = sizeof stats};
    char text[32];
    tv_machine_stats(tv_debug_machine(s->debug), &stats);
    if (e >= stats.engine_count)
        return;
    for (unsigned c = 0; c < stats.stall_reason_count; c++) {
        snprintf(text, sizeof text, "%" PRIu64, stats.engines[e].stalled[c]);
        json_array_append_new(list, variable(stats.stall_reasons[c], text, 0));
    }
}

/* A page of a list of `total`; a client that asks for no page gets its start. */
static void page_of(const json_t *request, uint64_t total, uint64_t *from, uint64_t *to)
{
    json_int_t start = dap_integer(request, "start", 0), count = dap_integer(request, "count", 0);
    *from = start > 0 ? tv_min_u64((uint64_t)start, total) : 0;
    uint64_t most = count > 0 ? tv_min_u64((uint64_t)count, UNITS_MAX) : FIRST_UNITS;
    *to = *from + tv_min_u64(most, total - *from);
}

/* A client that asked for no page sees that there is more. */
static void tell_rest(const json_t *request, uint64_t to, uint64_t total, json_t *list)
{
    char text[80];
    if (dap_integer(request, "count", 0) > 0 || to >= total)
        return;
    snprintf(text, sizeof text, "%" PRIu64 " more, which `x` shows in the console", total - to);
    json_array_append_new(list, variable("…", text, 0));
}

static uint64_t lanes_of(const tv_space *space) { return space->unit_bytes * 8 / tv_dtype_bits(space->type); }

static void unit_text(dap *s, const tv_space *space, uint64_t unit, tv_buf *out)
{
    enum { SHOWN = 8 };
    uint8_t bytes[72] = {0};
    char text[TV_DTYPE_TEXT];
    uint64_t lanes = lanes_of(space);
    size_t size = (size_t)tv_min_u64(space->unit_bytes, 64);
    out->len = 0;
    if (tv_machine_read(tv_debug_machine(s->debug), space->name, unit, bytes, size, NULL) != TV_OK)
        return;
    for (uint64_t i = 0; i < lanes && i < SHOWN; i++) {
        tv_dtype_text(space->type, bytes, i, text);
        tv_buf_printf(out, i ? " %s" : "%s", text);
    }
    tv_buf_str(out, lanes > SHOWN ? " …" : "");
}

static void list_space(dap *s, const json_t *request, unsigned index, json_t *list)
{
    tv_space space;
    tv_buf text = {0};
    uint64_t from, to;
    tv_machine_space_at(tv_debug_machine(s->debug), index, &space);
    page_of(request, space.size, &from, &to);
    for (uint64_t i = from; i < to; i++) {
        char name[32], reference[64];
        json_int_t node =
            lanes_of(&space) > 1 ? add_node(s, (dap_node){.kind = DAP_UNIT, .index = index, .unit = i}) : 0;
        snprintf(name, sizeof name, "[%" PRIu64 "]", i);
        snprintf(reference, sizeof reference, "%s %" PRIu64, space.name, i);
        unit_text(s, &space, i, &text);
        json_t *v = variable(name, tv_buf_cstr(&text), node);
        json_object_set_new(v, "memoryReference", json_string(reference));
        if (node)
            json_object_set_new(v, "indexedVariables", json_integer((json_int_t)lanes_of(&space)));
        json_array_append_new(list, v);
    }
    tell_rest(request, to, space.size, list);
    tv_buf_fini(&text);
}

static void list_unit(dap *s, const json_t *request, const dap_node *node, json_t *list)
{
    tv_space space;
    uint64_t from, to;
    tv_machine_space_at(tv_debug_machine(s->debug), node->index, &space);
    uint8_t *bytes = calloc((size_t)space.unit_bytes + 8, 1);
    if (bytes && tv_machine_read(tv_debug_machine(s->debug), space.name, node->unit, bytes, (size_t)space.unit_bytes,
                                 NULL) == TV_OK) {
        page_of(request, lanes_of(&space), &from, &to);
        for (uint64_t i = from; i < to; i++) {
            char name[32], text[TV_DTYPE_TEXT];
            snprintf(name, sizeof name, "[%" PRIu64 "]", i);
            tv_dtype_text(space.type, bytes, i, text);
            json_array_append_new(list, variable(name, text, 0));
        }
        tell_rest(request, to, lanes_of(&space), list);
    }
    free(bytes);
}

void dap_variables(dap *s, const json_t *request)
{
    const char *filter = dap_text(request, "filter");
    dap_node node;
    if (!dap_node_at(s, dap_integer(request, "variablesReference", 0), &node)) {
        dap_refuse(s, request, "there is no such variable; the machine has run since");
        return;
    }
    json_t *list = json_array();
    bool named = filter && strcmp(filter, "named") == 0, indexed = filter && strcmp(filter, "indexed") == 0;
    switch (node.kind) {
    case DAP_GROUP:
        if (!indexed)
            list_group(s, node.group, list);
        break;
    case DAP_ENGINES:
        if (!indexed)
            list_engines(s, list);
        break;
    case DAP_ENGINE:
        if (!indexed)
            list_engine(s, node.index, list);
        break;
    case DAP_SPACE:
        if (!named)
            list_space(s, request, node.index, list);
        break;
    case DAP_UNIT:
        if (!named)
            list_unit(s, request, &node, list);
        break;
    }
    dap_respond(s, request, json_pack("{s:o}", "variables", list));
}

/* ---- Changing one ---- */

/* Values as unit_text shows them, from lane `first` of a unit on; the lanes behind them stay. */
static tv_status store_lanes(dap *s, const tv_space *space, uint64_t unit, uint64_t first, const char *value,
                             const tv_diag_sink *sink)
{
    char word[TV_DTYPE_TEXT];
    uint64_t lane = first, lanes = lanes_of(space);
    uint8_t *bytes = calloc((size_t)space->unit_bytes + 8, 1);
    if (!bytes)
        return tv_fail_memory(sink);
    tv_status status =
        tv_machine_read(tv_debug_machine(s->debug), space->name, unit, bytes, (size_t)space->unit_bytes, sink);
    for (const char *p = value + strspn(value, " "); status == TV_OK && *p && strcmp(p, "…") != 0;
         p += strspn(p, " "), lane++) {
        size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : 0, p);
        if (lane >= lanes)
            status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "there are only %" PRIu64 " elements",
                             lanes - first);
        else if (tv_dtype_store(space->type, bytes, lane, word) != TV_OK)
            status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "'%.*s' is no %s", n < 40 ? (int)n : 40,
                             p, tv_dtype_name(space->type));
        p += n;
    }
    if (status == TV_OK && lane == first)
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "there is no value");
    if (status == TV_OK)
        status = tv_debug_write(s->debug, space->name, unit, bytes, (size_t)space->unit_bytes, sink);
    free(bytes);
    return status;
}

static void lane_text(dap *s, const tv_space *space, uint64_t unit, uint64_t lane, tv_buf *out)
{
    char text[TV_DTYPE_TEXT] = "";
    uint8_t *bytes = calloc((size_t)space->unit_bytes + 8, 1);
    if (bytes &&
        tv_machine_read(tv_debug_machine(s->debug), space->name, unit, bytes, (size_t)space->unit_bytes, NULL) == TV_OK)
        tv_dtype_text(space->type, bytes, lane, text);
    tv_buf_str(out, text);
    free(bytes);
}

/* A unit of a space, all lanes or the first of them; or one lane of a unit. */
void dap_set_variable(dap *s, const json_t *request)
{
    const char *name = dap_text(request, "name"), *value = dap_text(request, "value");
    dap_node node;
    tv_space space;
    uint64_t at;
    tv_buf text = {0};
    char end;
    if (!name || !value || !dap_node_at(s, dap_integer(request, "variablesReference", 0), &node) ||
        (node.kind != DAP_SPACE && node.kind != DAP_UNIT) || sscanf(name, "[%" SCNu64 "%c", &at, &end) != 2 ||
        end != ']') {
        dap_refuse(s, request, "only elements of memories can be set");
        return;
    }
    tv_machine_space_at(tv_debug_machine(s->debug), node.index, &space);
    bool lane = node.kind == DAP_UNIT;
    tv_diag_sink sink = dap_sink(s);
    if (at >= (lane ? lanes_of(&space) : space.size) ||
        store_lanes(s, &space, lane ? node.unit : at, lane ? at : 0, value, &sink) != TV_OK) {
        dap_refuse(s, request, s->said.len ? dap_said(s) : "there is no such element");
        return;
    }
    if (lane)
        lane_text(s, &space, node.unit, at, &text);
    else
        unit_text(s, &space, at, &text);
    json_t *body = json_pack("{s:o}", "value", debug_json_text(tv_buf_cstr(&text)));
    if (!lane && lanes_of(&space) > 1)
        json_object_set_new(body, "variablesReference",
                            json_integer(add_node(s, (dap_node){.kind = DAP_UNIT, .index = node.index, .unit = at})));
    tv_buf_fini(&text);
    dap_respond(s, request, body);
}

/* ---- Memory ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode_base64(const uint8_t *bytes, size_t size, tv_buf *out)
{
    for (size_t i = 0; i < size; i += 3) {
        size_t n = size - i < 3 ? size - i : 3;
        uint32_t v = (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (n > 2 ? bytes[i + 2] : 0);
        char text[5] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                        n > 2 ? digits[v & 63] : '=', '\0'};
        tv_buf_str(out, text);
    }
}

static bool decode_base64(const char *text, tv_buf *out)
{
    uint32_t v = 0;
    unsigned bits = 0;
    for (; *text && *text != '='; text++) {
        const char *at = strchr(digits, *text);
        if (!at)
            return false;
        v = v << 6 | (uint32_t)(at - digits);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            tv_buf_le(out, v >> bits & 0xFF, 1);
        }
    }
    return text[strspn(text, "=")] == '\0' && !out->failed;
}

/* "SPACE UNIT", or SPACE:ADDR as people write it; *byte counts from the space's start, with the offset. */
static bool find_memory(dap *s, const json_t *request, tv_space *space, uint64_t *byte)
{
    const char *reference = dap_text(request, "memoryReference"), *rest;
    json_int_t offset = dap_integer(request, "offset", 0);
    char text[128];
    uint64_t unit;
    if (!reference || strlen(reference) >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%s", reference);
    char *blank = strchr(text, ' ');
    if (blank) {
        *blank = '\0';
        unsigned i = 0;
        while (tv_machine_space_at(tv_debug_machine(s->debug), i, space) && strcmp(space->name, text) != 0)
            i++;
        if (!tv_machine_space_at(tv_debug_machine(s->debug), i, space) || !debug_parse_number(blank + 1, &unit))
            return false;
    } else if (tv_machine_parse_address(tv_debug_machine(s->debug), (const tv_program *const *)s->programs,
                                        s->program_count, text, NULL, space, &unit, &rest) != TV_OK ||
               rest)
        return false;
    if (unit > space->size)
        return false;
    uint64_t at = unit * space->unit_bytes, back = offset < 0 ? -(uint64_t)offset : 0;
    if (back > at)
        return false;
    *byte = at - back + (offset > 0 ? (uint64_t)offset : 0);
    return true;
}

void dap_read_memory(dap *s, const json_t *request)
{
    tv_space space;
    uint64_t byte;
    json_int_t count = dap_integer(request, "count", 0);
    char address[64];
    if (!find_memory(s, request, &space, &byte) || count < 0) {
        dap_refuse(s, request, "that is no place in memory");
        return;
    }
    uint64_t total = space.size * space.unit_bytes, lead = byte % space.unit_bytes;
    uint64_t size = byte < total ? tv_min_u64(tv_min_u64((uint64_t)count, total - byte), MEMORY_MAX) : 0;
    uint8_t *bytes = calloc((size_t)(size + lead) + 1, 1);
    tv_buf text = {0};
    if (bytes && size &&
        tv_machine_read(tv_debug_machine(s->debug), space.name, byte / space.unit_bytes, bytes, (size_t)(size + lead),
                        NULL) == TV_OK)
        encode_base64(bytes + lead, (size_t)size, &text);
    free(bytes);
    snprintf(address, sizeof address, "0x%" PRIx64, byte);
    dap_respond(s, request,
                json_pack("{s:s, s:I, s:s}", "address", address, "unreadableBytes",
                          (json_int_t)((uint64_t)count - size), "data", tv_buf_cstr(&text)));
    tv_buf_fini(&text);
}

void dap_write_memory(dap *s, const json_t *request)
{
    tv_space space;
    uint64_t byte;
    const char *data = dap_text(request, "data");
    tv_buf bytes = {0};
    tv_diag_sink sink = dap_sink(s);
    tv_status status = TV_ERR_INPUT;
    if (find_memory(s, request, &space, &byte) && byte <= space.size * space.unit_bytes && data) {
        uint64_t lead = byte % space.unit_bytes;
        if (lead) { /* what stands before it in its unit stays */
            uint8_t *before = tv_buf_extend(&bytes, (size_t)lead);
            if (before)
                tv_machine_read(tv_debug_machine(s->debug), space.name, byte / space.unit_bytes, before, (size_t)lead,
                                NULL);
        }
        if (decode_base64(data, &bytes))
            status = tv_debug_write(s->debug, space.name, byte / space.unit_bytes, bytes.data, bytes.len, &sink);
        if (status == TV_OK)
            dap_respond(s, request, json_pack("{s:I}", "bytesWritten", (json_int_t)(bytes.len - lead)));
    }
    if (status != TV_OK)
        dap_refuse(s, request, s->said.len ? dap_said(s) : "that is no place in memory, or no data");
    tv_buf_fini(&bytes);
}
