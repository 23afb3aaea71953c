/* SPDX-License-Identifier: Apache-2.0 */
/* Runs compiled networks: writes the inputs into the machine's memory, executes the programs one after another, reads
 * the outputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/codes.h"
#include "infer/manifest.h"
#include "num/float.h"
#include "trivet/file.h"

enum { RUN_BYTES = 4096 };

typedef struct compiled {
    const tv_manifest *m;
    const tv_graph *graph;
    tv_machine *machine;
    tv_infer_step *run_step;
    tv_program **programs; /* [m->program_count] */
    tv_tensor *outputs;    /* [m->output_count] */
    tv_layer *layers;      /* [m->layer_count] */
    tv_llm_progress progress;
} compiled;

static void destroy(void *state)
{
    compiled *c = state;
    if (!c)
        return;
    tv_machine_free(c->machine);
    for (uint32_t i = 0; c->programs && i < c->m->program_count; i++)
        tv_program_free(c->programs[i]);
    for (uint32_t i = 0; c->outputs && i < c->m->output_count; i++)
        tv_tensor_fini(&c->outputs[i]);
    free(c->programs);
    free(c->outputs);
    free(c->layers);
    free(c);
}

/* ---- Elements in the machine's memory ---- */

static uint64_t element_address(const tv_network_port *p, const tv_tensor *t, uint64_t i)
{
    return tv_network_port_address(p, t->rank, t->dims, i);
}

static double saturate(double x, double min, double max) { return isnan(x) ? 0 : fmin(fmax(nearbyint(x), min), max); }

/* Stores an element as little-endian bytes. */
static void encode(tv_dtype type, double x, uint8_t *bytes)
{
    unsigned bits = tv_dtype_bits(type);
    bool is_signed = type == TV_S8 || type == TV_S16 || type == TV_S32;
    double max = ldexp(1, (int)bits - is_signed) - 1;
    float f = (float)x;
    uint32_t word;
    if (type == TV_F32)
        memcpy(&word, &f, sizeof word);
    else if (type == TV_F16)
        word = tv_f16_from_f32(f);
    else if (type == TV_BF16)
        word = tv_bf16_flushed_from_f32(f);
    else
        word = (uint32_t)(int64_t)saturate(x, is_signed ? -max - 1 : 0, max);
    tv_store_le(bytes, word, bits / 8);
}

static tv_status write_input(const compiled *c, const tv_network_port *p, const tv_tensor *t, const tv_diag_sink *sink)
{
    uint8_t run[RUN_BYTES];
    unsigned size = tv_dtype_bits(p->type) / 8;
    uint64_t start = 0, used = 0;
    for (uint64_t i = 0, n = tv_tensor_count(t); i < n; i++) {
        uint64_t address = element_address(p, t, i);
        if (used && (address != start + used || used + size > RUN_BYTES)) {
            TV_TRY(tv_machine_write(c->machine, p->space, start, run, used, sink));
            used = 0;
        }
        if (!used)
            start = address;
        encode(p->type, tv_tensor_real(t, i) / p->scale, run + used);
        used += size;
    }
    return used ? tv_machine_write(c->machine, p->space, start, run, used, sink) : TV_OK;
}

static tv_status read_output(const compiled *c, const tv_network_port *p, tv_tensor *t, const tv_diag_sink *sink)
{
    uint8_t bytes[8] = {0};
    unsigned size = tv_dtype_bits(p->type) / 8;
    for (uint64_t i = 0, n = tv_tensor_count(t); i < n; i++) {
        TV_TRY(tv_machine_read(c->machine, p->space, element_address(p, t, i), bytes, size, sink));
        tv_tensor_set_real(t, i, tv_dtype_value(p->type, bytes, 0) * p->scale);
    }
    return TV_OK;
}

/* ---- Runs ---- */

static tv_status open_programs(compiled *c, const tv_infer_services *services, const tv_diag_sink *sink)
{
    tv_status status = TV_OK;
    size_t length = strlen(c->m->folder) + 256;
    char *path = malloc(length);
    if (!path)
        return tv_fail_memory(sink);
    for (uint32_t i = 0; i < c->m->program_count && status == TV_OK; i++) {
        snprintf(path, length, "%s/%s", c->m->folder, c->m->programs[i].file);
        status = services->open_program(path, NULL, sink, &c->programs[i]);
    }
    free(path);
    return status;
}

static tv_status allocate(compiled *c, const tv_diag_sink *sink)
{
    c->programs = calloc(c->m->program_count + 1, sizeof(tv_program *));
    c->outputs = calloc(c->m->output_count + 1, sizeof *c->outputs);
    c->layers = calloc(c->m->layer_count + 1, sizeof *c->layers);
    if (!c->programs || !c->outputs || !c->layers)
        return tv_fail_memory(sink);
    for (uint32_t i = 0; i < c->m->output_count; i++) {
        tv_tensor type = tv_graph_tensor_of(c->graph, c->graph->outputs.data[i].value);
        TV_TRY(tv_tensor_init(&c->outputs[i], type.element, type.rank, type.dims, sink));
    }
    for (uint32_t i = 0; i < c->m->layer_count; i++) {
        const tv_network_layer *l = &c->m->layers[i];
        c->layers[i] = (tv_layer){
            .node = i, .tiles = l->tiles, .cycles = l->cycles, .macs = l->macs, .bytes = l->bytes, .bound = l->bound};
    }
    return TV_OK;
}

tv_status tv_compiled_create(const tv_manifest *manifest, const tv_graph *graph, const tv_infer_services *services,
                             const tv_network_options *options, const tv_diag_sink *sink, void **state)
{
    compiled *c = calloc(1, sizeof *c);
    tv_config *config = NULL;
    if (!c)
        return tv_fail_memory(sink);
    c->m = manifest;
    c->graph = graph;
    c->run_step = services->run_step;
    c->progress = options->progress;
    tv_status status = allocate(c, sink);
    if (status == TV_OK)
        status = tv_manifest_config(manifest, services, sink, &config);
    if (status == TV_OK)
        status = tv_machine_new(config, TV_MODE_FULL, sink, &c->machine);
    if (status == TV_OK) {
        tv_machine_set_threads(c->machine, options->threads);
        status = open_programs(c, services, sink);
    }
    tv_config_free(config);
    if (status != TV_OK) {
        destroy(c);
        return status;
    }
    *state = c;
    return TV_OK;
}

/* Executes the steps of the host before a program. */
static tv_status run_steps(const compiled *c, uint32_t program, const tv_diag_sink *sink)
{
    tv_status status = TV_OK;
    for (uint32_t i = 0; i < c->m->step_count && status == TV_OK; i++)
        if (c->m->steps[i].program == program)
            status = c->run_step ? c->run_step(c->machine, &c->m->steps[i], sink)
                                 : tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(MANIFEST), "compile the network again",
                                           "%s has no steps of the host", c->m->target);
    return status;
}

/* The first program loads the weights; the inputs follow, because it may clear the memory that they are in. */
static tv_status run(void *state, const tv_tensor *const *inputs, const tv_diag_sink *sink)
{
    compiled *c = state;
    tv_status status = TV_OK;
    for (uint32_t i = 0; i < c->m->program_count && status == TV_OK; i++) {
        tv_progress_report(&c->progress, "running", i, c->m->program_count);
        status = tv_machine_load(c->machine, c->programs[i], sink);
        for (uint32_t k = 0; i == 0 && k < c->m->input_count && status == TV_OK; k++)
            status = write_input(c, &c->m->inputs[k], inputs[k], sink);
        if (status == TV_OK)
            status = run_steps(c, i, sink);
        if (status == TV_OK)
            status = tv_backend_run(c->machine, NULL, sink);
    }
    for (uint32_t i = 0; i < c->m->output_count && status == TV_OK; i++)
        status = read_output(c, &c->m->outputs[i], &c->outputs[i], sink);
    return status;
}

static const tv_tensor *tensor(void *state, uint32_t value)
{
    const compiled *c = state;
    for (uint32_t i = 0; i < c->m->output_count; i++)
        if (c->graph->outputs.data[i].value == value)
            return &c->outputs[i];
    return NULL;
}

static size_t layers(const void *state, const tv_layer **list)
{
    const compiled *c = state;
    *list = c->layers;
    return c->m->layer_count;
}

static tv_machine *machine(void *state) { return ((compiled *)state)->machine; }

const tv_network_backend tv_network_compiled = {
    .name = "compiled", .destroy = destroy, .run = run, .tensor = tensor, .layers = layers, .machine = machine};
