/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that do not meet the writes before them (CMDQ specification, section 9): of another element width than the last
 * writer's, of bytes that nothing wrote or initialized, of more elements or other rows than were loaded. Also initial
 * contents that overlap, and outputs that no entry writes.
 *
 * Entries are visited in the order of execution. A treap holds disjoint segments of the memories, each with its last
 * writer and the width that it wrote. A write replaces the segments that it covers, so the cost grows with the number
 * of tiles times the logarithm of the segments. */
#include <inttypes.h>
#include <stdlib.h>

#include "machine/cmdq/hazard.h"

enum { ROWS_MAX = 64 }; /* of a 2-D tile, that are tracked row by row */

#define INITIAL UINT32_MAX /* writer of initial contents */
#define UNKNOWN (UINT32_MAX - 1)

static const uint64_t DRAM_BASE = UINT64_C(1) << 48; /* in the common address space; SPM is below it, bank after bank */

/* ---- Segments ---- */

enum { INDICES = 33 /* instead of qbits: integers of 32 bits, which argmax writes */ };

/* Bytes from `from` up to `to`, which `entry` wrote as elements of `qbits` (0: any). Node 0 is none. */
typedef struct segment {
    uint64_t from, to;
    uint32_t entry, priority, left, right;
    uint32_t init; /* INITIAL: number of the contents */
    uint8_t qbits;
} segment;

typedef struct segment_map {
    TV_VEC(segment) nodes;
    uint32_t root, freed; /* freed: subtrees, linked through `priority` */
    uint32_t random;
} segment_map;

static uint32_t new_segment(segment_map *map, const segment *value)
{
    uint32_t node = map->freed;
    if (node) {
        segment *s = &map->nodes.data[node];
        uint32_t rest = s->priority;
        for (unsigned side = 0; side < 2; side++) {
            uint32_t child = side ? s->right : s->left;
            if (child) {
                map->nodes.data[child].priority = rest;
                rest = child;
            }
        }
        map->freed = rest;
    } else {
        node = (uint32_t)map->nodes.count;
        if (!TV_VEC_PUSH(&map->nodes, *value))
            return 0;
    }
    map->random ^= map->random << 13;
    map->random ^= map->random >> 17;
    map->random ^= map->random << 5;
    segment *s = &map->nodes.data[node];
    *s = *value;
    s->left = s->right = 0;
    s->priority = map->random;
    return node;
}

static void free_subtree(segment_map *map, uint32_t node)
{
    if (!node)
        return;
    map->nodes.data[node].priority = map->freed;
    map->freed = node;
}

/* Splits a subtree into the segments that begin before `at`, and the others. */
static void split(segment_map *map, uint32_t node, uint64_t at, uint32_t *before, uint32_t *after)
{
    if (!node) {
        *before = *after = 0;
        return;
    }
    segment *s = &map->nodes.data[node];
    if (s->from < at) {
        *before = node;
        split(map, s->right, at, &s->right, after);
    } else {
        *after = node;
        split(map, s->left, at, before, &s->left);
    }
}

static uint32_t merge(segment_map *map, uint32_t a, uint32_t b)
{
    if (!a || !b)
        return a ? a : b;
    segment *x = &map->nodes.data[a], *y = &map->nodes.data[b];
    if (x->priority > y->priority) {
        x->right = merge(map, x->right, b);
        return a;
    }
    y->left = merge(map, a, y->left);
    return b;
}

/* The segment that contains byte `at`, or 0. */
static uint32_t find_segment(const segment_map *map, uint64_t at)
{
    uint32_t node = map->root;
    while (node) {
        const segment *s = &map->nodes.data[node];
        if (s->from <= at && at < s->to)
            break;
        node = at < s->from ? s->left : s->right;
    }
    return node;
}

/* Makes `at` a border between segments. */
static void cut(segment_map *map, uint64_t at)
{
    uint32_t node = find_segment(map, at);
    if (!node || map->nodes.data[node].from == at)
        return;
    segment rest = map->nodes.data[node];
    rest.from = at;
    uint32_t added = new_segment(map, &rest), before, after;
    if (!added)
        return;
    map->nodes.data[node].to = at;
    split(map, map->root, at, &before, &after);
    map->root = merge(map, merge(map, before, added), after);
}

static void assign(segment_map *map, const segment *value)
{
    uint32_t before, inside, after;
    if (value->from >= value->to)
        return;
    cut(map, value->from);
    cut(map, value->to);
    split(map, map->root, value->from, &before, &inside);
    split(map, inside, value->to, &inside, &after);
    free_subtree(map, inside);
    uint32_t added = new_segment(map, value);
    map->root = merge(map, merge(map, before, added), after);
}

/* ---- What a read finds ---- */

typedef struct range_view {
    uint64_t from, to;   /* the range */
    uint64_t reached;    /* all before is known */
    uint64_t gap;        /* first byte that nothing wrote, or `to` */
    uint32_t first;      /* segment of the first byte, or 0 */
    uint32_t mismatch;   /* first segment of another width, or 0 */
    uint32_t entry;      /* any segment that an entry wrote, or 0 */
    uint8_t qbits;       /* of the read; 0: any */
    bool copies;         /* the read is of a transfer, for which only the width matters */
    const segment *node; /* segments of the map */
} range_view;

static void view_subtree(const segment_map *map, uint32_t node, range_view *v)
{
    while (node) {
        const segment *s = &map->nodes.data[node];
        if (v->from < s->from)
            view_subtree(map, s->left, v);
        if (s->from < v->to && v->from < s->to) {
            if (s->from > v->reached && v->gap == v->to)
                v->gap = v->reached;
            v->reached = s->to;
            v->first = s->from <= v->from ? node : v->first;
            v->entry = s->entry < UNKNOWN ? node : v->entry;
            unsigned qbits = v->copies && s->qbits == INDICES ? 32 : s->qbits;
            if (!v->mismatch && v->qbits && qbits && qbits != v->qbits)
                v->mismatch = node;
        }
        node = s->to < v->to ? s->right : 0;
    }
}

static range_view view_range(const segment_map *map, uint64_t from, uint64_t to, unsigned qbits, bool copies)
{
    range_view v = {.from = from, .to = to, .reached = from, .gap = to, .qbits = (uint8_t)qbits, .copies = copies};
    v.node = map->nodes.data;
    view_subtree(map, map->root, &v);
    if (v.reached < to && v.gap == to)
        v.gap = v.reached;
    return v;
}

/* ---- The check ---- */

typedef struct flow_checker {
    const tv_program *program;
    const cmdq_queue *queue;
    const cmdq_params *params;
    tv_findings *findings;
    tv_severity severity;
    segment_map map;
    bool has_dram_init; /* otherwise the contents of DRAM come from elsewhere */
} flow_checker;

static const char *type_name(unsigned qbits)
{
    return qbits == 2    ? "2-bit integers"
           : qbits == 4  ? "4-bit integers"
           : qbits == 8  ? "8-bit integers"
           : qbits == 16 ? "binary16"
           : qbits == 32 ? "binary32"
                         : "32-bit integers";
}

static const char *opcode_of(const flow_checker *c, uint32_t entry)
{
    return cmdq_opcode_name(&c->queue->entries.data[entry]);
}

static uint64_t base_of(const flow_checker *c, const cmdq_tile *t)
{
    return t->bank == CMDQ_NO_BANK ? DRAM_BASE : t->bank * c->params->bank_bytes;
}

static void print_space(char text[32], const cmdq_tile *t)
{
    if (t->bank == CMDQ_NO_BANK)
        snprintf(text, 32, "DRAM");
    else
        snprintf(text, 32, "SPM bank %u", t->bank);
}

/* The elements of the entry that wrote the segment if it loads, and begins where the tile does; otherwise 0. *row: the
 * elements of its rows, 0 for one row. */
static uint64_t loaded_elements(const flow_checker *c, const segment *s, const cmdq_tile *t, uint64_t *row)
{
    if (s->entry >= UNKNOWN)
        return 0;
    cmdq_op op;
    cmdq_resolve_planned(c->queue, c->params, s->entry, &op);
    const cmdq_tile *dram = cmdq_find_tile(&op, CMDQ_DRAM), *spm = cmdq_find_tile(&op, CMDQ_IN);
    if (!dram || !dram->reads || !spm || spm->bank != t->bank || spm->start != t->start || spm->qbits != t->qbits)
        return 0;
    *row = dram->rows > 1 ? cmdq_integer(c->queue, &c->queue->entries.data[s->entry], CMDQ_F_row_elements) : 0;
    return op.elements;
}

/* Whether an operand of a product has other rows than were loaded, or more elements; reports it. */
static bool report_dims(flow_checker *c, uint32_t entry, const cmdq_op *op, const cmdq_tile *t, const range_view *v)
{
    bool is_input = t->operand == CMDQ_IN;
    uint8_t opcode = c->queue->entries.data[entry].opcode;
    if (op->engine < c->params->first[CMDQ_TE] || op->engine >= c->params->first[CMDQ_VE] ||
        (!is_input && t->operand != CMDQ_WGT) || !v->first || opcode == CMDQ_TE_CONV_TILE ||
        opcode == CMDQ_TE_SPARSE_GEMM_TILE)
        return false;
    uint64_t row = 0, loaded = loaded_elements(c, &v->node[v->first], t, &row);
    bool is_av_value = opcode == CMDQ_TE_AV_TILE && !is_input;
    uint64_t length = is_av_value ? op->n : op->k, rows = is_input ? op->m : is_av_value ? op->k : op->n;
    uint32_t writer = v->node[v->first].entry;
    if (loaded && v->gap < v->to && !c->queue->continues)
        tv_findings_report(c->findings, c->severity, CMDQ_CODE_DIMS, entry, "load all of the tile, or check m, n and k",
                           "entry %" PRIu32 " (%s) reads %" PRIu64 " x %" PRIu64 " %s, but entry %" PRIu32
                           " (%s) loaded %" PRIu64 " elements",
                           entry, opcode_of(c, entry), rows, length, is_input ? "inputs" : "weights", writer,
                           opcode_of(c, writer), loaded);
    else if (loaded && row && row != length)
        tv_findings_report(
            c->findings, c->severity, CMDQ_CODE_DIMS, entry, "rows of the operand are packed in SPM",
            "entry %" PRIu32 " (%s) reads rows of %" PRIu64 " %s, but entry %" PRIu32 " (%s) loaded rows of %" PRIu64,
            entry, opcode_of(c, entry), length, is_input ? "inputs" : "weights", writer, opcode_of(c, writer), row);
    else
        return false;
    return true;
}

static void report_gap(flow_checker *c, uint32_t entry, const cmdq_op *op, const cmdq_tile *t, const range_view *v)
{
    bool dram = t->bank == CMDQ_NO_BANK;
    char space[32];
    uint64_t base = base_of(c, t);
    if (c->queue->continues || (dram && (!c->has_dram_init || op->role == CMDQ_ROLE_KV)))
        return;
    print_space(space, t);
    tv_findings_report(c->findings, c->severity, CMDQ_CODE_UNWRITTEN, entry,
                       dram ? "give it in metadata.dram_init, or \"continues\": true if an earlier queue wrote it"
                            : "load the tile, or give it in metadata.spm_init",
                       "entry %" PRIu32 " (%s) reads %s bytes 0x%" PRIx64 " to 0x%" PRIx64
                       ", but nothing wrote or initialized byte 0x%" PRIx64,
                       entry, opcode_of(c, entry), space, v->from - base, v->to - base - 1, v->gap - base);
}

static void report_type(flow_checker *c, uint32_t entry, const cmdq_tile *t, const range_view *v)
{
    const segment *s = &v->node[v->mismatch];
    char space[32], hint[80];
    uint64_t base = base_of(c, t);
    print_space(space, t);
    snprintf(hint, sizeof hint, "%s",
             s->qbits == INDICES ? "the results of argmax are for the host"
                                 : "qbits of both must agree; a CAST converts");
    tv_findings_report(c->findings, c->severity, CMDQ_CODE_TYPE_MISMATCH, entry, hint,
                       "entry %" PRIu32 " (%s) reads %s bytes 0x%" PRIx64 " to 0x%" PRIx64 " as %s, but entry %" PRIu32
                       " (%s) wrote them as %s",
                       entry, opcode_of(c, entry), space, tv_max_u64(s->from, v->from) - base,
                       tv_min_u64(s->to, v->to) - base - 1, type_name(t->qbits), s->entry, opcode_of(c, s->entry),
                       type_name(s->qbits));
}

/* Reports at most one finding of a tile that is read. */
static void check_read(flow_checker *c, uint32_t entry, const cmdq_op *op, const cmdq_tile *t)
{
    uint64_t base = base_of(c, t) + t->start;
    bool has_indices = t->operand == CMDQ_WGT && op->sparse_index_bits; /* values, then indices */
    for (uint64_t row = 0; row < t->rows && row < ROWS_MAX; row++) {
        uint64_t from = base + row * t->stride;
        range_view v =
            view_range(&c->map, from, from + t->bytes, has_indices ? 0 : t->qbits, cmdq_find_tile(op, CMDQ_DRAM));
        if (report_dims(c, entry, op, t, &v))
            return;
        if (v.gap < v.to)
            report_gap(c, entry, op, t, &v);
        if (v.mismatch)
            report_type(c, entry, t, &v);
        if (v.gap < v.to || v.mismatch)
            return;
    }
}

static void apply_write(flow_checker *c, uint32_t entry, const cmdq_op *op, const cmdq_tile *t)
{
    uint8_t qbits = op->writes_indices ? INDICES : t->qbits;
    uint64_t base = base_of(c, t) + t->start;
    if (t->rows > ROWS_MAX) {
        assign(&c->map, &(segment){.from = base, .to = base + (t->rows - 1) * t->stride + t->bytes, .entry = UNKNOWN});
        return;
    }
    for (uint64_t row = 0; row < t->rows; row++) {
        uint64_t from = base + row * t->stride;
        assign(&c->map, &(segment){.from = from, .to = from + t->bytes, .entry = entry, .qbits = qbits});
    }
}

/* A finding of the metadata, which has no entry. */
static void report_metadata(flow_checker *c, cmdq_code code, cmdq_location at, const char *hint, const char *text)
{
    tv_source_loc loc = {.file = c->program->files[0], .line = at.line, .column = at.column, .index = -1};
    *(c->severity == TV_ERROR ? &c->findings->counts->errors : &c->findings->counts->warnings) += 1;
    if (c->findings->found[code]++ < TV_FINDINGS_MAX)
        tv_report(c->findings->sink, c->severity, &cmdq_codes[code], &loc, hint, "metadata: %s", text);
}

static void apply_inits(flow_checker *c)
{
    for (size_t i = 0; i < c->queue->inits.count; i++) {
        const cmdq_init *init = &c->queue->inits.data[i];
        uint64_t from = init->addr + (init->spm ? init->bank * c->params->bank_bytes : DRAM_BASE);
        range_view v = view_range(&c->map, from, from + init->size, 0, false);
        uint32_t other = v.first;
        if (!other && v.reached > from)
            other = find_segment(&c->map, v.reached - 1);
        if (other) {
            char text[160];
            const cmdq_init *first = &c->queue->inits.data[c->map.nodes.data[other].init];
            snprintf(text, sizeof text, "%s number %zu overlaps number %" PRIu32 ", at line %u, column %u",
                     init->spm ? "spm_init" : "dram_init", i, c->map.nodes.data[other].init, first->loc.line,
                     first->loc.column);
            report_metadata(c, CMDQ_CODE_INIT_OVERLAP, init->loc, "the later one wins", text);
        }
        assign(&c->map, &(segment){.from = from, .to = from + init->size, .entry = INITIAL, .init = (uint32_t)i});
        c->has_dram_init = c->has_dram_init || !init->spm;
    }
}

static unsigned bits_of(tv_dtype type)
{
    return type == TV_I2 ? 2 : type == TV_I4 ? 4 : type == TV_S8 ? 8 : type == TV_F16 ? 16 : 32;
}

static void check_outputs(flow_checker *c)
{
    for (uint64_t i = 0; i < c->program->output_count; i++) {
        const tv_output_info *o = &c->program->outputs[i];
        char text[240];
        uint64_t from = DRAM_BASE + o->addr, to = from + tv_dtype_bytes(o->type, o->count);
        range_view v = view_range(&c->map, from, to, bits_of(o->type), true);
        if (from == to)
            continue;
        if (!v.entry && !(v.first && c->map.nodes.data[v.first].entry == UNKNOWN)) {
            snprintf(text, sizeof text, "no entry writes output '%.60s'", o->name);
            report_metadata(c, CMDQ_CODE_OUTPUT, c->queue->output_locs.data[i], "check its address", text);
        } else if (v.gap < v.to) {
            snprintf(text, sizeof text, "no entry writes DRAM byte 0x%" PRIx64 " of output '%.60s'", v.gap - DRAM_BASE,
                     o->name);
            report_metadata(c, CMDQ_CODE_OUTPUT, c->queue->output_locs.data[i], "check its number of elements", text);
        } else if (v.mismatch) {
            const segment *s = &v.node[v.mismatch];
            snprintf(text, sizeof text, "output '%.60s' is of %s, but entry %" PRIu32 " (%s) wrote %s", o->name,
                     type_name(bits_of(o->type)), s->entry, opcode_of(c, s->entry), type_name(s->qbits));
            report_metadata(c, CMDQ_CODE_TYPE_MISMATCH, c->queue->output_locs.data[i], NULL, text);
        }
    }
}

bool cmdq_check_dataflow(const tv_program *program, const cmdq_params *params, const cmdq_plan *plan,
                         tv_severity severity, tv_findings *findings)
{
    flow_checker c = {.program = program,
                      .queue = cmdq_queue_of(program),
                      .params = params,
                      .findings = findings,
                      .severity = severity,
                      .map.random = 2463534242};
    (void)TV_VEC_PUSH(&c.map.nodes, (segment){0}); /* node 0 */
    apply_inits(&c);
    for (uint32_t i = 0; i < plan->count && !c.map.nodes.failed; i++) {
        uint32_t entry = cmdq_plan_entry(plan, i);
        if (plan->engine[entry] == CMDQ_NO_ENGINE)
            continue;
        cmdq_op op;
        cmdq_resolve_planned(c.queue, params, entry, &op);
        for (unsigned k = 0; k < op.tile_count; k++)
            if (op.tiles[k].reads)
                check_read(&c, entry, &op, &op.tiles[k]);
        for (unsigned k = 0; k < op.tile_count; k++)
            if (op.tiles[k].writes)
                apply_write(&c, entry, &op, &op.tiles[k]);
    }
    bool complete = !c.map.nodes.failed;
    if (complete)
        check_outputs(&c);
    TV_VEC_FINI(&c.map.nodes);
    return complete;
}
