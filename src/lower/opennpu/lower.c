/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering to OpenNPU: one straight-line program per token, or per batch of tokens. All arithmetic is the machine's
 * own; the host chooses the experts of mixtures, which ends a program, and computes what it is asked to. Weights are
 * 8-bit integers with a scale per row; activations are 16-bit integers as inputs of products and FP32 elsewhere; keys
 * and values are 8-bit integers. Everything a program needs (rows of the embedding, cosines, gains, scales) is in data
 * memory from the beginning, so a program consists of instructions only.
 *
 * A program runs in segments, so that the host's memory does not grow with it. With `emit` it is built whole and
 * written as step_NNNNNN.elf. The first one contains what programs only read, so they can be run in order by
 * themselves. */
#include <inttypes.h>
#include <stdlib.h>

#include "lower/opennpu/nodes.h"
#include "program/program.h"
#include "trivet/file.h"

typedef struct lowering {
    opennpu_lower_model m;
    tv_program *program; /* the program loaded into the machine */
    opennpu_lower_product *products;
    const char *emit;
    tv_output_group *outputs; /* or NULL */
    float *kept_value;        /* the result of `value` */
    bool single_token;        /* the last step had a single token */
    uint32_t steps, segments; /* segments: of the program so far */
    const tv_diag_sink *sink; /* of the step */
} lowering;

/* ---- Steps ---- */

static tv_status save_step(lowering *l, tv_program *program, const tv_diag_sink *sink)
{
    char path[4096];
    if (l->steps == 0) /* the first program contains what programs only read */
        TV_TRY(tv_backend_bring_space(l->m.machine, "mem", l->m.constants_end, program, sink));
    snprintf(path, sizeof path, "%s/step_%06" PRIu32 ".elf", l->emit, l->steps);
    return tv_program_save_to(program, path, TV_FORMAT_ELF, l->outputs, sink);
}

/* Runs the segment that was emitted. */
static tv_status run_segment(void *user)
{
    lowering *l = user;
    tv_program *program;
    TV_TRY(tv_builder_finish(&l->m.e.program, l->sink, &program));
    program->continues = l->segments > 0;
    tv_status status = l->emit ? save_step(l, program, l->sink) : TV_OK;
    if (status == TV_OK)
        status = tv_machine_load(l->m.machine, program, l->sink);
    if (status != TV_OK) {
        tv_program_free(program);
        return status;
    }
    status = tv_backend_run(l->m.machine, NULL, l->sink);
    tv_builder_reuse(&l->m.e.program, l->program); /* the machine uses the loaded program until the next load */
    l->program = program;
    l->segments++;
    return status;
}

/* A program that is written to a file has one segment. */
static void begin_program(lowering *l, const tv_diag_sink *sink)
{
    l->sink = l->m.sink = sink;
    l->segments = 0;
    opennpu_lower_begin_program(&l->m.e, l->emit ? NULL : run_segment, l);
}

/* Runs the last segment. */
static tv_status end_program(lowering *l)
{
    TV_TRY(l->m.e.status);
    if (!tv_builder_is_empty(&l->m.e.program) || l->segments == 0)
        TV_TRY(run_segment(l));
    l->steps++;
    return TV_OK;
}

static tv_status restart_program(void *user)
{
    lowering *l = user;
    TV_TRY(end_program(l));
    begin_program(l, l->sink);
    return TV_OK;
}

static tv_status step_token(lowering *l, int32_t token, uint32_t position, float *logits, const tv_diag_sink *sink)
{
    const tv_graph *g = l->m.graph;
    opennpu_lower_token tok = {.m = &l->m, .e = &l->m.e, .list = l->products, .token = token, .position = position};
    begin_program(l, sink);
    opennpu_lower_emit_token(&tok, logits != NULL);
    TV_TRY(end_program(l));
    return logits ? tv_machine_read(l->m.machine, "mem", l->m.values[g->logits].at, logits,
                                    tv_graph_vocabulary(g) * sizeof *logits, sink)
                  : TV_OK;
}

/* Rows from `first_logits_row` on have logits. */
static tv_status step_batch(lowering *l, opennpu_lower_batch *batch, float *logits, const tv_diag_sink *sink)
{
    uint64_t row = l->m.nodes[l->m.classifier].linear.blocks * opennpu_lower_vector_bytes(&l->m);
    uint32_t vocab = tv_graph_vocabulary(l->m.graph);
    begin_program(l, sink);
    opennpu_lower_emit_batch(batch);
    TV_TRY(end_program(l));
    for (uint32_t r = batch->first_logits_row; r < batch->rows; r++, logits += vocab)
        TV_TRY(tv_machine_read(l->m.machine, "mem", l->m.batch_logits + r * row, logits, vocab * sizeof *logits, sink));
    return TV_OK;
}

/* Up to K tokens are processed at once where a block of K positions begins; a few are faster one by one. */
static tv_status step(void *state, const int32_t *tokens, uint32_t count, uint32_t position, bool last_only,
                      float *logits, const tv_diag_sink *sink)
{
    lowering *l = state;
    uint32_t vocab = tv_graph_vocabulary(l->m.graph);
    for (uint32_t done = 0, rows; done < count; done += rows) {
        bool last = done + l->m.k >= count;
        float *out = logits + (last_only ? 0 : (size_t)done * vocab);
        rows = count - done < l->m.k ? count - done : l->m.k;
        l->single_token = count == 1;
        tv_progress_report(&l->m.step_progress, "running", done, count);
        if ((position + done) % l->m.k == 0 && rows >= 2 && rows > l->m.k / 8) {
            opennpu_lower_batch batch = {.m = &l->m,
                                         .e = &l->m.e,
                                         .list = l->products,
                                         .tokens = tokens + done,
                                         .rows = rows,
                                         .position = position + done,
                                         .first_logits_row = !last_only ? 0
                                                             : last     ? rows - 1
                                                                        : rows,
                                         .vector = opennpu_lower_vector_bytes(&l->m)};
            TV_TRY(step_batch(l, &batch, out, sink));
            continue;
        }
        rows = 1;
        TV_TRY(step_token(l, tokens[done], position + done, !last_only || done + 1 == count ? out : NULL, sink));
    }
    return TV_OK;
}

/* ---- Creating ---- */

static void destroy(void *state)
{
    lowering *l = state;
    if (!l)
        return;
    opennpu_lower_emitter_fini(&l->m.e);
    tv_pool_free(l->m.pool);
    tv_machine_free(l->m.machine);
    tv_program_free(l->program);
    for (size_t i = 0; l->m.nodes && i < l->m.graph->nodes.count; i++) {
        free(l->m.nodes[i].experts);
        tv_host_node_free(l->m.nodes[i].host_node);
        tv_buf_fini(&l->m.nodes[i].fragment.words);
    }
    free(l->m.ranges);
    free(l->m.values);
    free(l->m.nodes);
    free(l->m.caches);
    free(l->products);
    free(l->kept_value);
    free(l);
}

static tv_status allocate(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    const tv_graph *g = l->m.graph;
    uint32_t widest = options->context;
    for (size_t i = 0; i < g->nodes.count; i++) {
        uint32_t columns = (uint32_t)tv_graph_elements(g, g->nodes.data[i].output);
        widest = columns > widest && g->nodes.data[i].output != g->logits ? columns : widest;
        if (g->nodes.data[i].op == TV_OP_MOE)
            widest = (uint32_t)tv_max_u64(widest, tv_graph_matrix(g, g->nodes.data[i].inputs[4])->columns);
    }
    l->products = malloc((size_t)widest * OPENNPU_LOWER_PERIOD_MAX / 2 * sizeof *l->products);
    l->m.values = calloc(g->values.count + 1, sizeof *l->m.values);
    l->m.nodes = calloc(g->nodes.count + 1, sizeof *l->m.nodes);
    l->m.caches = calloc(g->caches.count + 1, sizeof *l->m.caches);
    l->kept_value = malloc(widest * sizeof *l->kept_value);
    return l->products && l->m.values && l->m.nodes && l->m.caches && l->kept_value ? TV_OK : tv_fail_memory(sink);
}

static tv_status read_config(lowering *l, const tv_backend_options *options, const tv_diag_sink *sink)
{
    l->m.k = (uint32_t)tv_backend_parameter(options->config, "vector.k");
    l->m.limit = tv_backend_parameter(options->config, "mem.bytes");
    l->m.context = options->context;
    if (tv_backend_parameter(options->config, "vector.l") != 32)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(CONFIG_COMBINATION), NULL,
                       "the lowering requires vector.l = 32, which is eight VR registers");
    return opennpu_lower_emitter_init(&l->m.e, l->m.k, sink);
}

static tv_status create(const tv_graph *graph, const tv_backend_options *options, const tv_diag_sink *sink,
                        void **state)
{
    lowering *l = calloc(1, sizeof *l);
    if (!l)
        return tv_fail_memory(sink);
    l->m.graph = graph;
    l->emit = options->emit;
    l->outputs = options->outputs;
    l->m.timing = options->mode == TV_MODE_TIMING;
    l->m.allow_host_ops = options->allow_host_ops;
    l->m.has_operator = opennpu_lower_has_operator;
    l->m.restart = restart_program;
    l->m.user = l;
    l->m.pool = tv_pool_new(options->threads);
    l->m.weights = options->weights;
    l->m.step_progress = options->step_progress;
    tv_status status = read_config(l, options, sink);
    if (status == TV_OK)
        status = allocate(l, options, sink);
    if (status == TV_OK)
        status = opennpu_lower_check(&l->m, sink);
    if (status == TV_OK)
        status = opennpu_lower_plan(&l->m, sink);
    if (status == TV_OK && !l->m.timing)
        status = tv_graph_ranges(graph, options, sink, &l->m.ranges);
    if (status == TV_OK)
        status = tv_machine_new(options->config, options->mode, sink, &l->m.machine);
    if (status == TV_OK)
        opennpu_lower_set_units(&l->m);
    if (status == TV_OK)
        status = opennpu_lower_upload(&l->m, &options->progress, sink);
    if (status != TV_OK) {
        destroy(l);
        return status;
    }
    tv_pool_free(l->m.pool);
    l->m.pool = NULL;
    tv_machine_set_threads(l->m.machine, options->threads);
    *state = l;
    return TV_OK;
}

/* The outputs of the layers stay in memory after single-token steps; everything else is overwritten. */
static const float *value(void *state, uint32_t v)
{
    lowering *l = state;
    const tv_graph *g = l->m.graph;
    bool kept = false;
    for (uint32_t i = 0; i < g->layers; i++)
        kept = kept || g->layer_outputs[i] == v;
    if (!l->single_token || !kept || !l->m.values[v].at)
        return NULL;
    return tv_machine_read(l->m.machine, "mem", l->m.values[v].at, l->kept_value,
                           opennpu_lower_columns(&l->m, v) * sizeof *l->kept_value, NULL) == TV_OK
               ? l->kept_value
               : NULL;
}

static unsigned host_ops(const void *state, const tv_host_op **list)
{
    const lowering *l = state;
    *list = l->m.host_ops;
    return l->m.host_op_count;
}

static tv_machine *machine(void *state) { return ((lowering *)state)->m.machine; }

extern const tv_backend tv_backend_opennpu;
const tv_backend tv_backend_opennpu = {.name = "opennpu",
                                       .weight_bits_only = 8,
                                       .activation_bits_only = 16,
                                       .create = create,
                                       .destroy = destroy,
                                       .step = step,
                                       .value = value,
                                       .machine = machine,
                                       .host_ops = host_ops};
