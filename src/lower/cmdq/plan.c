/* SPDX-License-Identifier: Apache-2.0 */
/* Plans SPM for single tokens and for several ones: as many tokens as fit, then as large tiles as fit. */
#include <inttypes.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "lower/cmdq/layout.h"

/* ---- Products ---- */

/* True when the blocks of a product fit a bank of weights: one tile of the output for each tile of the input, or a row
 * of it in small blocks. */
static bool product_fits(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    const cmdq_lower_format *in = &plan->formats[n->inputs[0]], *out = &plan->formats[n->output];
    bool whole = plan->rows == 1 || cmdq_lower_vectors(l, n->output) > 1;
    uint32_t group = cmdq_lower_group(l, n, 1), columns = whole ? tv_graph_columns(l->graph, n->inputs[0]) : in->tile,
             rows = whole || l->streamed[n->output] || plan->small_blocks ? 1 : out->tile;
    return cmdq_lower_tile_rows(plan, columns, group, cmdq_lower_weight_bits(l, n)) >= rows &&
           (whole || (columns % group == 0 && (n->op != TV_OP_GLU || out->tile % group == 0)));
}

static bool experts_fit(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    uint32_t tile = cmdq_lower_expert_tile(l, plan, n), group = cmdq_lower_group(l, n, 4);
    return cmdq_lower_tile_rows(plan, tv_graph_columns(l->graph, n->inputs[0]), cmdq_lower_group(l, n, 2),
                                l->weight_bits) > 0 &&
           cmdq_lower_tile_rows(plan, tile, group, l->weight_bits) > 0 && tile % group == 0;
}

/* Nodes of the output block read the last rows of values outside of it: these are then single tiles. */
static bool rows_are_found(const cmdq_lowering *l, const cmdq_lower_plan *plan, const tv_graph_node *n)
{
    for (unsigned k = 0; k < TV_GRAPH_INPUTS_MAX && plan->rows > 1 && n->block == TV_BLOCK_OUTPUT; k++)
        if (cmdq_lower_is_computed(l, n->inputs[k]) && !cmdq_lower_is_output(l, n->inputs[k]) &&
            plan->formats[n->inputs[k]].tile != tv_graph_elements(l->graph, n->inputs[k]))
            return false;
    return true;
}

static bool nodes_fit(const cmdq_lowering *l, const cmdq_lower_plan *plan)
{
    for (size_t i = 0; i < l->graph->nodes.count; i++) {
        const tv_graph_node *n = &l->graph->nodes.data[i];
        if (((n->op == TV_OP_LINEAR || n->op == TV_OP_GLU) && !l->on_host[i] && !product_fits(l, plan, n)) ||
            (n->op == TV_OP_MOE && !experts_fit(l, plan, n)) || !rows_are_found(l, plan, n))
            return false;
    }
    return true;
}

/* True when the values of each group can have the same tiles. */
static bool has_tiles(const cmdq_lowering *l, const cmdq_lower_use *uses)
{
    for (size_t v = 0; v < l->graph->values.count; v++)
        if (uses[v].conflict || (uses[v].exact && uses[v].divisor % uses[v].exact))
            return false;
    return true;
}

/* ---- Plans ---- */

void cmdq_lower_plan_fini(cmdq_lower_plan *plan)
{
    for (size_t i = 0; i < plan->buffers.count; i++) {
        TV_VEC_FINI(&plan->buffers.data[i].readers);
        TV_VEC_FINI(&plan->buffers.data[i].writers);
        TV_VEC_FINI(&plan->buffers.data[i].before);
    }
    TV_VEC_FINI(&plan->buffers);
    free(plan->formats);
    free(plan->copies);
    free(plan->scratch);
    *plan = (cmdq_lower_plan){0};
}

/* One attempt, with plan->rows and plan->hidden_tile. TV_ERR_INPUT: it does not fit; nothing is reported. */
static tv_status make_plan(const cmdq_lowering *l, cmdq_lower_plan *plan, const cmdq_lower_use *uses,
                           const uint32_t *last_uses)
{
    const tv_graph *g = l->graph;
    plan->formats = calloc(g->values.count + 1, sizeof *plan->formats);
    plan->copies = calloc(g->values.count + 1, sizeof *plan->copies);
    plan->scratch = calloc(g->nodes.count + 1, sizeof *plan->scratch);
    if (!plan->formats || !plan->copies || !plan->scratch)
        return TV_ERR_MEMORY;
    for (size_t v = 0; v < g->values.count; v++)
        plan->formats[v].buffer = plan->copies[v].buffer = CMDQ_LOWER_NONE;
    for (size_t i = 0; i < g->nodes.count; i++)
        for (unsigned k = 0; k < CMDQ_LOWER_SCRATCH_MAX; k++)
            plan->scratch[i][k] = CMDQ_LOWER_NONE;
    if (!cmdq_lower_add_weight_buffers(l, plan))
        return TV_ERR_INPUT;
    for (uint32_t i = 0; i < l->window_count; i++)
        plan->masks[i] =
            cmdq_lower_add_buffer(plan, CMDQ_LOWER_BANK_HIDDEN, 0, UINT32_MAX,
                                  plan->rows == 1 || plan->blocked ? 0 : (uint64_t)plan->rows * l->context * 4);
    for (uint32_t i = 0; i < g->nodes.count && !plan->buffers.failed; i++)
        cmdq_lower_add_node_buffers(l, plan, uses, last_uses, i);
    if (plan->buffers.failed)
        return TV_ERR_MEMORY;
    return nodes_fit(l, plan) ? cmdq_lower_allocate_buffers(l, plan) : TV_ERR_INPUT;
}

/* Maximizes the tokens per step between the limits, then the hidden columns per tile. `plan` states the rest. */
static tv_status choose_plan(const cmdq_lowering *l, cmdq_lower_plan *plan, uint32_t rows_min, uint32_t rows_max,
                             const cmdq_lower_use *uses, const uint32_t *last_uses)
{
    const cmdq_lower_plan options = *plan;
    uint32_t tile_max = rows_max == 1 ? 1 << 20 : CMDQ_LOWER_TILE_MAX;
    tv_status status = TV_ERR_INPUT;
    for (uint32_t rows = rows_max; rows >= rows_min && status == TV_ERR_INPUT; rows /= 2)
        for (uint32_t tile = tile_max; tile >= CMDQ_LOWER_TILE_MIN && status == TV_ERR_INPUT; tile /= 2) {
            *plan = options;
            plan->rows = rows;
            plan->hidden_tile = tile;
            status = make_plan(l, plan, uses, last_uses);
            if (status != TV_OK)
                cmdq_lower_plan_fini(plan);
        }
    return status;
}

/* For single tokens: attention in blocks of positions only if the others do not fit. */
static tv_status plan_token(cmdq_lowering *l, const cmdq_lower_use *uses, const uint32_t *last_uses)
{
    cmdq_lower_plan *plan = &l->plans[0];
    tv_status status = choose_plan(l, plan, 1, 1, uses, last_uses);
    if (status == TV_ERR_INPUT) {
        plan->blocked = true;
        status = choose_plan(l, plan, 1, 1, uses, last_uses);
    }
    return status;
}

/* For several tokens: first with a block of weights for each tile and whole attention, then with smaller blocks where
 * that allows more tokens. TV_OK also when only one token fits. */
static tv_status plan_tokens(cmdq_lowering *l, const cmdq_lower_use *uses, const uint32_t *last_uses)
{
    static const cmdq_lower_plan modes[] = {{0}, {.small_blocks = true}, {.small_blocks = true, .blocked = true}};
    uint32_t rows = 1;
    for (size_t i = 0; i < TV_COUNTOF(modes) && rows < CMDQ_LOWER_ROWS_MAX; i++) {
        cmdq_lower_plan plan = modes[i];
        tv_status status = choose_plan(l, &plan, 2 * rows, CMDQ_LOWER_ROWS_MAX, uses, last_uses);
        if (status == TV_ERR_MEMORY)
            return status;
        if (status == TV_ERR_INPUT)
            continue;
        cmdq_lower_plan_fini(&l->plans[1]);
        l->plans[1] = plan;
        rows = plan.rows;
    }
    return TV_OK;
}

static bool fits_banks(const cmdq_lowering *l, uint64_t bank_bytes, const cmdq_lower_use *uses,
                       const uint32_t *last_uses)
{
    cmdq_lowering trial = *l; /* which has no plans yet */
    trial.bank_bytes = bank_bytes;
    bool fits = plan_token(&trial, uses, last_uses) == TV_OK;
    if (fits)
        cmdq_lower_plan_fini(&trial.plans[0]);
    return fits;
}

/* The bytes of a bank, a multiple of 64 and at most 1/64 too many, which a token requires; 0: no bank is large enough.
 */
static uint64_t required_bank_bytes(const cmdq_lowering *l, const cmdq_lower_use *uses, const uint32_t *last_uses)
{
    const uint64_t max = UINT64_C(1) << 32; /* of spm.bank_bytes */
    uint64_t low = l->bank_bytes / 64 * 64, high = low;
    while (high < max && !fits_banks(l, high, uses, last_uses)) {
        low = high;
        high = tv_min_u64(max, 2 * high);
    }
    if (!fits_banks(l, high, uses, last_uses))
        return 0;
    while (high - low > tv_max_u64(64, high / 64)) {
        uint64_t middle = low + (high - low) / 128 * 64;
        if (fits_banks(l, middle, uses, last_uses))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static tv_status reject_size(const cmdq_lowering *l, uint64_t required, const tv_diag_sink *sink)
{
    char text[64] = "larger ones than a machine can have";
    if (required)
        snprintf(text, sizeof text, "banks of %" PRIu64 " bytes", required);
    return tv_fail(
        sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make spm.bank_bytes larger with -D, or the context smaller",
        "the activations and the cache of the model do not fit SPM banks of %" PRIu64 " bytes: they require %s",
        l->bank_bytes, text);
}

tv_status cmdq_lower_plan_memory(cmdq_lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    if (tv_backend_parameter(options->config, "spm.banks") < CMDQ_LOWER_BANKS)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), "make spm.banks larger with -D",
                       "the lowering requires %d SPM banks", CMDQ_LOWER_BANKS);
    cmdq_lower_use *uses = cmdq_lower_find_uses(l);
    uint32_t *last_uses = tv_graph_last_uses(l->graph, false);
    tv_status status = uses && last_uses ? TV_OK : TV_ERR_MEMORY;
    if (status == TV_OK)
        status = plan_token(l, uses, last_uses);
    if (status == TV_OK && has_tiles(l, uses))
        status = plan_tokens(l, uses, last_uses);
    uint64_t required = status == TV_ERR_INPUT ? required_bank_bytes(l, uses, last_uses) : 0;
    free(uses);
    free(last_uses);
    return status == TV_ERR_INPUT ? reject_size(l, required, sink) : status == TV_OK ? TV_OK : tv_fail_memory(sink);
}
