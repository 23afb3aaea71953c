/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes and variables: the machine's state values, engine statistics and memory units as a tree of nodes. */
#include <inttypes.h>
#include <stdlib.h>

#include "debug/dap/dap.h"

enum { UNITS_MAX = 4096, UNITS_DEFAULT = 256, NODES_MAX = 1 << 20 };

/* ---- Nodes ---- */

/* Returns the new node's reference; 0: no more nodes. */
static int64_t add_node(dap *s, dap_node node)
{
    if (s->nodes.count >= NODES_MAX)
        return 0;
    if (!TV_VEC_PUSH(&s->nodes, node)) {
        s->failed = TV_ERR_MEMORY;
        return 0;
    }
    return s->node_base + (int64_t)s->nodes.count;
}

void tv_dap_drop_nodes(dap *s)
{
    s->node_base = s->node_base > INT32_MAX / 2 ? 0 : s->node_base + (int64_t)s->nodes.count;
    s->nodes.count = 0;
}

bool tv_dap_find_node(const dap *s, int64_t reference, dap_node *out)
{
    int64_t index = reference - s->node_base - 1;
    if (index < 0 || (uint64_t)index >= s->nodes.count)
        return false;
    *out = s->nodes.data[index];
    return true;
}

/* ---- Scopes ---- */

static void write_scope(dap *s, const char *name, dap_node node, uint64_t units, tv_json_writer *w)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", name);
    tv_json_integer_member(w, "variablesReference", add_node(s, node));
    tv_json_boolean_member(w, "expensive", node.kind != DAP_GROUP);
    if (units)
        tv_json_unsigned_member(w, "indexedVariables", tv_min_u64(units, INT32_MAX));
    if (node.kind == DAP_GROUP && strcmp(node.group, "registers") == 0)
        tv_json_string_member(w, "presentationHint", "registers");
    tv_json_end_object(w);
}

static bool has_group(tv_machine *machine, const char *group)
{
    tv_state_value v;
    for (unsigned i = 0; tv_machine_state_at(machine, i, &v); i++)
        if (strcmp(v.group, group) == 0)
            return true;
    return false;
}

void tv_dap_scopes(dap *s, const dap_request *request)
{
    static const char *const groups[][2] = {{"registers", "Registers"},
                                            {"queues", "Queues"},
                                            {"streams", "Streams"},
                                            {"pending", "In flight"},
                                            {"hazards", "Hazards"}};
    tv_machine *machine = tv_debug_machine(s->debug);
    tv_space space;
    dap_output out;
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_key(w, "scopes");
    tv_json_begin_array(w);
    for (size_t g = 0; g < TV_COUNTOF(groups); g++)
        if (has_group(machine, groups[g][0]))
            write_scope(s, groups[g][1], (dap_node){.kind = DAP_GROUP, .group = groups[g][0]}, 0, w);
    write_scope(s, "Engines", (dap_node){.kind = DAP_ENGINES}, 0, w);
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++)
        write_scope(s, space.name, (dap_node){.kind = DAP_SPACE, .index = i}, space.size, w);
    tv_json_end_array(w);
    tv_dap_send(s, &out);
}

/* ---- Variables ---- */

/* Writes the members of a variable without closing it. */
static void begin_variable(tv_json_writer *w, const char *name, const char *value, int64_t reference)
{
    tv_json_begin_object(w);
    tv_json_string_member(w, "name", name);
    tv_json_string_member(w, "value", value);
    tv_json_integer_member(w, "variablesReference", reference);
}

static void write_variable(tv_json_writer *w, const char *name, const char *value, int64_t reference)
{
    begin_variable(w, name, value, reference);
    tv_json_end_object(w);
}

static void write_group(dap *s, const char *group, tv_json_writer *w)
{
    tv_state_value v;
    for (unsigned i = 0; tv_machine_state_at(tv_debug_machine(s->debug), i, &v); i++)
        if (strcmp(v.group, group) == 0) {
            if (!v.text)
                s->failed = TV_ERR_MEMORY;
            write_variable(w, v.name, v.text ? v.text : "out of memory", 0);
        }
}

static void write_engines(dap *s, tv_json_writer *w)
{
    tv_stats stats = {.size = sizeof stats};
    char text[64];
    tv_machine_stats(tv_debug_machine(s->debug), &stats);
    snprintf(text, sizeof text, "%" PRIu64, stats.cycles);
    write_variable(w, "cycles", text, 0);
    for (unsigned e = 0; e < stats.engine_count; e++) {
        snprintf(text, sizeof text, "%" PRIu64 " busy, %" PRIu64 " idle", stats.engines[e].busy, stats.engines[e].idle);
        write_variable(w, stats.engines[e].name, text, add_node(s, (dap_node){.kind = DAP_ENGINE, .index = e}));
    }
}

/* Stall cycles of an engine by reason. */
static void write_engine(dap *s, unsigned e, tv_json_writer *w)
{
    tv_stats stats = {.size = sizeof stats};
    char text[32];
    tv_machine_stats(tv_debug_machine(s->debug), &stats);
    for (unsigned r = 0; e < stats.engine_count && r < stats.stall_reason_count; r++) {
        snprintf(text, sizeof text, "%" PRIu64, stats.engines[e].stalled[r]);
        write_variable(w, stats.stall_reasons[r], text, 0);
    }
}

/* The requested page [*from, *to) of a list of `total`; by default its first UNITS_DEFAULT elements. */
static void parse_page(const dap_request *request, uint64_t total, uint64_t *from, uint64_t *to)
{
    int64_t start = tv_dap_integer(request, "start", 0), count = tv_dap_integer(request, "count", 0);
    *from = start > 0 ? tv_min_u64((uint64_t)start, total) : 0;
    uint64_t limit = count > 0 ? tv_min_u64((uint64_t)count, UNITS_MAX) : UNITS_DEFAULT;
    *to = *from + tv_min_u64(limit, total - *from);
}

/* Shows a client that does not request pages how many elements are missing. */
static void write_ellipsis(const dap_request *request, uint64_t to, uint64_t total, tv_json_writer *w)
{
    char text[80];
    if (tv_dap_integer(request, "count", 0) > 0 || to >= total)
        return;
    snprintf(text, sizeof text, "%" PRIu64 " more; the console command `x` shows them", total - to);
    write_variable(w, "…", text, 0);
}

static uint64_t lanes_per_unit(const tv_space *space) { return space->unit_bytes * 8 / tv_dtype_bits(space->type); }

/* Replaces `out` by the first elements of a unit. */
static void print_unit(dap *s, const tv_space *space, uint64_t unit, tv_buf *out)
{
    enum { LANES_SHOWN = 8, BYTES_SHOWN = 64 };
    uint8_t bytes[BYTES_SHOWN + 8] = {0};
    char text[TV_DTYPE_TEXT];
    uint64_t lanes = lanes_per_unit(space);
    size_t size = (size_t)tv_min_u64(space->unit_bytes, BYTES_SHOWN);
    out->len = 0;
    if (tv_machine_read(tv_debug_machine(s->debug), space->name, unit, bytes, size, NULL) != TV_OK)
        return;
    for (uint64_t i = 0; i < lanes && i < LANES_SHOWN; i++) {
        tv_dtype_text(space->type, bytes, i, text);
        tv_buf_printf(out, i ? " %s" : "%s", text);
    }
    tv_buf_str(out, lanes > LANES_SHOWN ? " …" : "");
}

/* Reads a whole unit. The caller frees it. NULL: failed. */
static uint8_t *read_unit(dap *s, const tv_space *space, uint64_t unit, const tv_diag_sink *sink)
{
    uint8_t *bytes = calloc((size_t)space->unit_bytes + 8, 1);
    if (!bytes) {
        s->failed = TV_ERR_MEMORY;
        return NULL;
    }
    if (tv_machine_read(tv_debug_machine(s->debug), space->name, unit, bytes, (size_t)space->unit_bytes, sink) == TV_OK)
        return bytes;
    free(bytes);
    return NULL;
}

static void write_space(dap *s, const dap_request *request, unsigned index, tv_json_writer *w)
{
    tv_space space;
    tv_buf text = {0};
    uint64_t from, to;
    tv_machine_space_at(tv_debug_machine(s->debug), index, &space);
    uint64_t lanes = lanes_per_unit(&space);
    parse_page(request, space.size, &from, &to);
    for (uint64_t i = from; i < to; i++) {
        char name[32], reference[64];
        int64_t node = lanes > 1 ? add_node(s, (dap_node){.kind = DAP_UNIT, .index = index, .unit = i}) : 0;
        snprintf(name, sizeof name, "[%" PRIu64 "]", i);
        snprintf(reference, sizeof reference, "%s %" PRIu64, space.name, i);
        print_unit(s, &space, i, &text);
        begin_variable(w, name, tv_dap_text(s, &text), node);
        tv_json_string_member(w, "memoryReference", reference);
        if (node)
            tv_json_unsigned_member(w, "indexedVariables", lanes);
        tv_json_end_object(w);
    }
    write_ellipsis(request, to, space.size, w);
    tv_buf_fini(&text);
}

static void write_unit(dap *s, const dap_request *request, const dap_node *node, tv_json_writer *w)
{
    tv_space space;
    uint64_t from, to;
    tv_machine_space_at(tv_debug_machine(s->debug), node->index, &space);
    uint8_t *bytes = read_unit(s, &space, node->unit, NULL);
    if (!bytes)
        return;
    parse_page(request, lanes_per_unit(&space), &from, &to);
    for (uint64_t i = from; i < to; i++) {
        char name[32], text[TV_DTYPE_TEXT];
        snprintf(name, sizeof name, "[%" PRIu64 "]", i);
        tv_dtype_text(space.type, bytes, i, text);
        write_variable(w, name, text, 0);
    }
    write_ellipsis(request, to, lanes_per_unit(&space), w);
    free(bytes);
}

static bool is_indexed(dap_node_kind kind) { return kind == DAP_SPACE || kind == DAP_UNIT; }

static void write_children(dap *s, const dap_request *request, const dap_node *node, tv_json_writer *w)
{
    switch (node->kind) {
    case DAP_GROUP:
        write_group(s, node->group, w);
        break;
    case DAP_ENGINES:
        write_engines(s, w);
        break;
    case DAP_ENGINE:
        write_engine(s, node->index, w);
        break;
    case DAP_SPACE:
        write_space(s, request, node->index, w);
        break;
    case DAP_UNIT:
        write_unit(s, request, node, w);
        break;
    }
}

void tv_dap_variables(dap *s, const dap_request *request)
{
    const char *filter = tv_dap_string(request, "filter");
    dap_node node;
    dap_output out;
    if (!tv_dap_find_node(s, tv_dap_integer(request, "variablesReference", 0), &node)) {
        tv_dap_reject(s, request, "the variable reference is not valid; the machine may have run since");
        return;
    }
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_key(w, "variables");
    tv_json_begin_array(w);
    if (!filter || strcmp(filter, is_indexed(node.kind) ? "named" : "indexed") != 0)
        write_children(s, request, &node, w);
    tv_json_end_array(w);
    tv_dap_send(s, &out);
}

/* ---- setVariable ---- */

/* Parses values separated by spaces, as print_unit shows them, into lanes `first` on. A trailing "…" is ignored. */
static tv_status parse_lanes(const tv_space *space, uint64_t first, const char *value, uint8_t *bytes,
                             const tv_diag_sink *sink)
{
    char word[TV_DTYPE_TEXT];
    uint64_t lane = first, lanes = lanes_per_unit(space);
    for (const char *p = value + strspn(value, " "); *p && strcmp(p, "…") != 0; p += strspn(p, " "), lane++) {
        size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : 0, p);
        if (lane >= lanes)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "there are only %" PRIu64 " elements",
                           lanes - first);
        if (tv_dtype_store(space->type, bytes, lane, word) != TV_OK)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "'%.*s' is not a value of type %s",
                           n < 40 ? (int)n : 40, p, tv_dtype_name(space->type));
        p += n;
    }
    return lane > first ? TV_OK : tv_fail(sink, TV_ERR_INPUT, TV_CODE(MACHINE_VALUE), NULL, "the value is missing");
}

/* Writes lanes `first` on of a unit; the other lanes are kept. */
static tv_status store_lanes(dap *s, const tv_space *space, uint64_t unit, uint64_t first, const char *value)
{
    tv_diag_sink sink = tv_dap_sink(s);
    uint8_t *bytes = read_unit(s, space, unit, &sink);
    if (!bytes)
        return TV_ERR_INPUT;
    tv_status status = parse_lanes(space, first, value, bytes, &sink);
    if (status == TV_OK)
        status = tv_debug_write(s->debug, space->name, unit, bytes, (size_t)space->unit_bytes, &sink);
    free(bytes);
    return status;
}

static void print_lane(dap *s, const tv_space *space, uint64_t unit, uint64_t lane, tv_buf *out)
{
    char text[TV_DTYPE_TEXT] = "";
    uint8_t *bytes = read_unit(s, space, unit, NULL);
    if (bytes)
        tv_dtype_text(space->type, bytes, lane, text);
    tv_buf_str(out, text);
    free(bytes);
}

/* The node is a space, and the name one of its units; or it is a unit, and the name one of its lanes. */
void tv_dap_set_variable(dap *s, const dap_request *request)
{
    const char *name = tv_dap_string(request, "name"), *value = tv_dap_string(request, "value");
    dap_node node;
    tv_space space;
    uint64_t at;
    tv_buf text = {0};
    dap_output out;
    int length = 0;
    if (!name || !value || !tv_dap_find_node(s, tv_dap_integer(request, "variablesReference", 0), &node) ||
        !is_indexed(node.kind) || sscanf(name, "[%" SCNu64 "]%n", &at, &length) != 1 || !length || name[length]) {
        tv_dap_reject(s, request, "only memory elements can be set");
        return;
    }
    tv_machine_space_at(tv_debug_machine(s->debug), node.index, &space);
    bool is_lane = node.kind == DAP_UNIT;
    uint64_t unit = is_lane ? node.unit : at, lane = is_lane ? at : 0;
    if (at >= (is_lane ? lanes_per_unit(&space) : space.size)) {
        tv_dap_reject(s, request, "there is no such element");
        return;
    }
    if (store_lanes(s, &space, unit, lane, value) != TV_OK) {
        tv_dap_reject(s, request, tv_dap_error_text(s));
        return;
    }
    if (is_lane)
        print_lane(s, &space, unit, lane, &text);
    else
        print_unit(s, &space, unit, &text);
    tv_json_writer *w = tv_dap_begin_response(&out, request);
    tv_json_string_member(w, "value", tv_dap_text(s, &text));
    if (!is_lane && lanes_per_unit(&space) > 1)
        tv_json_integer_member(w, "variablesReference",
                               add_node(s, (dap_node){.kind = DAP_UNIT, .index = node.index, .unit = unit}));
    tv_dap_send(s, &out);
    tv_buf_fini(&text);
}
