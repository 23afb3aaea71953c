/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures of CMDQ's timing: queues, and the cycles in which each entry starts and ends. */
#include <inttypes.h>
#include <stdarg.h>

#include "cli/vectors.h"
#include "trivet/commit.h"
#include "trivet/gen.h"
#include "trivet/program.h"

/* The text of a queue while it is written; `entries` counts those before END. */
typedef struct queue_text {
    FILE *file;
    char *text;
    size_t size;
    unsigned entries;
} queue_text;

static void begin_queue(queue_text *q)
{
    *q = (queue_text){0};
    q->file = open_memstream(&q->text, &q->size);
    if (q->file)
        fputs("{\"metadata\": {\"version\": \"1.3\"},\n \"cmdq\": [\n", q->file);
}

/* Writes an entry, whose fields are printed as printf does. */
__attribute__((format(printf, 3, 4))) static void add_entry(queue_text *q, const char *opcode, const char *fields, ...)
{
    va_list arguments;
    q->entries++;
    if (!q->file)
        return;
    fprintf(q->file, "  {\"opcode\": \"%s\"", opcode);
    va_start(arguments, fields);
    vfprintf(q->file, fields, arguments);
    va_end(arguments);
    fputs("},\n", q->file);
}

/* ---- The cases ---- */

/* Entry after entry on one engine, so that each interval is the time of one. */
static void add_products(queue_text *q)
{
    static const unsigned sizes[][3] = {{16, 16, 16}, {64, 128, 256}, {17, 33, 65}, {1, 1, 4096}, {256, 256, 256}};
    static const unsigned weights[] = {8, 4, 2, 16, 32}, activations[] = {8, 4, 16, 32};
    for (size_t s = 0; s < CLI_COUNTOF(sizes); s++)
        for (size_t w = 0; w < CLI_COUNTOF(weights); w++)
            for (size_t a = 0; a < CLI_COUNTOF(activations); a++)
                add_entry(q, "TE_GEMM_TILE",
                          ", \"te_id\": 0, \"ifm_bank\": 0, \"ifm_offset\": 0, \"wgt_bank\": 1, \"wgt_offset\": 0, "
                          "\"ofm_bank\": 2, \"ofm_offset\": 0, \"m\": %u, \"n\": %u, \"k\": %u, \"qbits_weight\": %u, "
                          "\"qbits_activation\": %u",
                          sizes[s][0], sizes[s][1], sizes[s][2], weights[w], activations[a]);
}

static void add_functions(queue_text *q)
{
    static const struct {
        const char *opcode, *fields;
    } functions[] = {
        {"VE_LAYERNORM_TILE", ""},
        {"VE_RMSNORM_TILE", ""},
        {"VE_SOFTMAX_TILE", ""},
        {"VE_GELU_TILE", ""},
        {"VE_SILU_TILE", ""},
        {"VE_CAST_TILE", ""},
        {"VE_ADD_TILE", ", \"in2_bank\": 2, \"in2_offset\": 0"},
        {"VE_MUL_TILE", ", \"in2_bank\": 2, \"in2_offset\": 0"},
        {"VE_UNARY_TILE", ", \"function\": \"neg\""},
        {"VE_UNARY_TILE", ", \"function\": \"exp\""},
        {"VE_BINARY_TILE", ", \"in2_bank\": 2, \"in2_offset\": 0, \"function\": \"sub\""},
        {"VE_BINARY_TILE", ", \"in2_bank\": 2, \"in2_offset\": 0, \"function\": \"div\""},
        {"VE_REDUCE_TILE", ", \"function\": \"sum\""},
    };
    static const unsigned lengths[] = {1, 64, 65, 1000, 4096}, bits[] = {16, 8, 4};
    for (size_t f = 0; f < CLI_COUNTOF(functions); f++)
        for (size_t l = 0; l < CLI_COUNTOF(lengths); l++)
            for (size_t b = 0; b < CLI_COUNTOF(bits); b++) {
                add_entry(q, functions[f].opcode,
                          ", \"ve_id\": 0, \"in_bank\": 0, \"in_offset\": 0, \"out_bank\": 1, \"out_offset\": 0, "
                          "\"length\": %u, \"rows\": %u, \"qbits_activation\": %u%s",
                          lengths[l], b == 1 ? 3u : 1u, bits[b], functions[f].fields);
            }
}

static void add_transfers(queue_text *q)
{
    static const unsigned starts[] = {0, 1, 31, 33}, sizes[] = {1, 31, 32, 33, 640, 4095};
    for (size_t i = 0; i < CLI_COUNTOF(starts); i++)
        for (size_t k = 0; k < CLI_COUNTOF(sizes); k++) {
            const char *role = "\"tensor_role\": \"activation\", \"qbits\": 8";
            add_entry(q, "DMA_LOAD_TILE",
                      ", %s, \"dram_addr\": %u, \"spm_bank\": 0, \"spm_offset\": 0, \"num_elements\": %u", role,
                      4096 + starts[i], sizes[k]);
            add_entry(q, "DMA_STORE_TILE",
                      ", %s, \"dram_addr\": %u, \"spm_bank\": 0, \"spm_offset\": 0, \"num_elements\": %u, "
                      "\"stride_bytes\": %u, \"row_elements\": %u",
                      role, 4096 + starts[i], 4 * sizes[k], sizes[k] + 31 * (unsigned)(k % 2), sizes[k]);
        }
}

/* Three channels whose transfers start one after the other and share DRAM. */
static void add_shared(queue_text *q)
{
    static const char *const roles[] = {"weight", "activation", "kv"};
    for (unsigned i = 0; i < 48; i++)
        add_entry(q, "DMA_LOAD_TILE",
                  ", \"tensor_role\": \"%s\", \"qbits\": 8, \"dram_addr\": %u, \"spm_bank\": %u, \"spm_offset\": 0, "
                  "\"num_elements\": %u, \"dma_id\": %u",
                  roles[i % 3], i * 8192, i % 8, 32 + 32 * (i * i * 7 % 61), (i + i / 5) % 3);
}

/* Transfers while a product has operands in the same bank, or in others. */
static void add_conflicts(queue_text *q)
{
    for (unsigned i = 0; i < 24; i++) {
        unsigned last = q->entries;
        add_entry(q, "TE_GEMM_TILE",
                  ", \"te_id\": 0, \"ifm_bank\": %u, \"ifm_offset\": 0, \"wgt_bank\": %u, \"wgt_offset\": 4096, "
                  "\"ofm_bank\": %u, \"ofm_offset\": 8192, \"m\": 16, \"n\": 16, \"k\": 16, \"qbits_weight\": 8, "
                  "\"qbits_activation\": 8",
                  i % 2, i % 3, i % 4);
        add_entry(q, "DMA_LOAD_TILE",
                  ", \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": 0, \"spm_bank\": %u, \"spm_offset\": "
                  "65536, \"num_elements\": 96",
                  i / 4 % 4);
        add_entry(q, "BARRIER", ", \"wait_for\": [%u, %u]", last, last + 1);
    }
}

/* All engines, with dependencies to and fro, groups and barriers. */
static void add_waits(queue_text *q)
{
    for (unsigned i = 0; i < 16; i++) {
        unsigned first = q->entries;
        add_entry(q, "DMA_LOAD_TILE",
                  ", \"tensor_role\": \"weight\", \"qbits\": 8, \"dram_addr\": 0, \"spm_bank\": 0, \"spm_offset\": 0, "
                  "\"num_elements\": %u, \"deps_after\": [%u]",
                  32 * (1 + i * 5 % 23), first + 1 + i % 2);
        add_entry(q, "TE_GEMM_TILE",
                  ", \"te_id\": %u, \"ifm_bank\": 1, \"ifm_offset\": 0, \"wgt_bank\": 2, \"wgt_offset\": 0, "
                  "\"ofm_bank\": 3, \"ofm_offset\": %u, \"m\": 32, \"n\": 32, \"k\": %u, \"qbits_weight\": 4, "
                  "\"qbits_activation\": 8",
                  i % 2, i % 2 * 4096, 32 * (1 + i * 3 % 17));
        add_entry(q, "VE_CAST_TILE",
                  ", \"ve_id\": %u, \"in_bank\": 4, \"in_offset\": 0, \"out_bank\": 5, \"out_offset\": %u, \"length\": "
                  "%u, \"qbits_activation\": 16, \"deps_before\": [%u]",
                  i / 2 % 2, i / 2 % 2 * 65536, 64 * (1 + i * 7 % 19), first + (i % 3 ? 0 : 1));
        if (i % 4 == 2) {
            add_entry(q, "SYNC_GROUP", ", \"name\": \"g%u\", \"group\": [%u, %u]", i, first + 1, first + 2);
            add_entry(q, "DMA_STORE_TILE",
                      ", \"tensor_role\": \"activation\", \"qbits\": 16, \"dram_addr\": 65536, \"spm_bank\": 6, "
                      "\"spm_offset\": 0, \"num_elements\": 640, \"wait_group\": \"g%u\"",
                      i);
        }
        if (i % 5 == 4)
            add_entry(q, "BARRIER", ", \"wait_for\": [%u]", first + 2);
    }
}

/* ---- Their cycles ---- */

typedef struct cycles {
    uint64_t *engine, *start, *end, count;
    uint64_t order; /* of the first entry */
} cycles;

/* 0 DMA, 1 tensor engine, 2 vector engine, 3 none: the opcode begins with the name of its engine. */
static unsigned engine_of(const char *opcode)
{
    static const char *const prefixes[] = {"DMA_", "TE_", "VE_"};
    for (unsigned i = 0; i < CLI_COUNTOF(prefixes); i++)
        if (strncmp(opcode, prefixes[i], strlen(prefixes[i])) == 0)
            return i;
    return strncmp(opcode, "KV_", 3) == 0 ? 0 : 3;
}

/* Instructions have consecutive orders; a completion names that of its instruction. */
static void note_cycles(void *user, const tv_commit *commit)
{
    cycles *k = user;
    if (commit->kind == TV_COMMIT_INSTRUCTION)
        k->order = commit->order - commit->index;
    else if (commit->kind != TV_COMMIT_COMPLETION)
        return;
    uint64_t i = commit->order - k->order;
    if (i >= k->count)
        return;
    if (commit->insn)
        k->engine[i] = engine_of(commit->insn);
    if (commit->start != TV_CYCLE_UNKNOWN)
        k->start[i] = commit->start;
    if (commit->end != TV_CYCLE_UNKNOWN)
        k->end[i] = commit->end;
}

static tv_status time_queue(vectors_writer *w, const tv_config *config, const tv_program *program)
{
    tv_machine *machine = NULL;
    cycles k = {.count = tv_program_instruction_count(program)};
    tv_stop_reason reason;
    k.engine = vectors_add(w, VECTORS_INPUT, "engine", "uint2", 2, 0, k.count,
                           "0: a DMA channel, 1: a tensor engine, 2: a vector engine, 3: none");
    k.start = vectors_add(w, VECTORS_OUTPUT, "start", "uint32", 32, 0, k.count, "the cycle in which the entry starts");
    k.end = vectors_add(w, VECTORS_OUTPUT, "end", "uint32", 32, 0, k.count, "the first cycle after the entry");
    if (!k.end)
        return w->status;
    tv_status status = tv_machine_new(config, TV_MODE_TIMING, &w->c->sink, &machine);
    if (status == TV_OK)
        status = tv_machine_commits(machine, TV_COMMIT_CYCLES, &(tv_commit_sink){.commit = note_cycles, .user = &k});
    if (status == TV_OK)
        status = tv_machine_load(machine, program, &w->c->sink);
    if (status == TV_OK)
        status = tv_machine_run(machine, NULL, &reason);
    if (status == TV_OK)
        status = tv_machine_commits(machine, 0, NULL);
    tv_machine_free(machine);
    return status;
}

/* Generated queues have fields that give warnings on purpose; only errors are shown. */
static void show_errors(void *user, const tv_diag *diag)
{
    const tv_diag_sink *sink = user;
    if (diag->severity >= TV_ERROR)
        sink->emit(sink->user, diag);
}

/* Sets the parameter at the beginning of `text`, "dma.count=3 dma.weight_weight=2". */
static tv_status set_parameter(tv_config *config, const char *text, const tv_diag_sink *sink)
{
    char key[64], value[32];
    if (sscanf(text, "%63[^=]=%31[^ ]", key, value) != 2)
        return TV_ERR_INPUT;
    return tv_config_set(config, key, value, sink);
}

/* Writes the fixture `name` of the queue `text`, which runs with `parameters`, "dma.count=3", or, if it is NULL, with
 * the defaults. */
static void write_queue(vectors_writer *w, const char *name, const char *meaning, const char *parameters,
                        const char *text, size_t size)
{
    tv_config *config = NULL;
    tv_program *program = NULL;
    tv_status status = tv_config_new("cmdq", &w->c->sink, &config);
    for (const char *next = parameters; status == TV_OK && next;
         next = strchr(next, ' ') ? strchr(next, ' ') + 1 : NULL)
        status = set_parameter(config, next, &w->c->sink);
    if (status == TV_OK)
        status = tv_program_parse(name, text, size, &(tv_program_options){.size = sizeof(tv_program_options)},
                                  &(tv_diag_sink){show_errors, &w->c->sink}, &program);
    if (status == TV_OK) {
        vectors_begin(w, name, meaning, "an entry a word, in the order of the queue");
        w->parameters = parameters;
        status = time_queue(w, config, program);
    }
    w->status = w->status == TV_OK ? status : w->status;
    if (w->status == TV_OK)
        vectors_queue(w, text, size);
    vectors_end(w);
    tv_program_free(program);
    tv_config_free(config);
}

static void write_case(vectors_writer *w, const char *name, const char *meaning, const char *parameters,
                       void (*add)(queue_text *q))
{
    queue_text q;
    begin_queue(&q);
    add(&q);
    if (q.file)
        fputs("  {\"opcode\": \"END\"}\n ]\n}\n", q.file);
    if (!q.file || fclose(q.file) != 0 || !q.text) {
        cli_fail_memory(w->c);
        w->status = TV_ERR_MEMORY;
    }
    if (w->status == TV_OK)
        write_queue(w, name, meaning, parameters, q.text, q.size);
    free(q.text);
}

static void write_generated(vectors_writer *w, unsigned seed)
{
    char name[32];
    tv_config *config = NULL;
    tv_generated generated = {0};
    snprintf(name, sizeof name, "generated-%u", seed);
    w->status = tv_config_new("cmdq", &w->c->sink, &config);
    if (w->status == TV_OK)
        w->status = tv_program_generate(
            config, &(tv_generate_options){.size = sizeof(tv_generate_options), .seed = seed, .instructions = 96},
            &w->c->sink, &generated);
    if (w->status == TV_OK)
        write_queue(w, name, "random entries of all opcodes", NULL, generated.source, strlen(generated.source));
    free(generated.source);
    free(generated.counts);
    tv_config_free(config);
}

void vectors_cmdq_timing(vectors_writer *w, const char *argument)
{
    static const struct {
        const char *name, *meaning, *parameters;
        void (*add)(queue_text *q);
    } cases[] = {
        {"products", "matrix products of all widths, one after the other", NULL, add_products},
        {"functions", "rows on a vector engine, one entry after the other", NULL, add_functions},
        {"transfers", "transfers at unaligned addresses, in one row and in four", NULL, add_transfers},
        {"shared", "three channels share the bandwidth of DRAM", "dma.count=3", add_shared},
        {"weighted", "the same, where weights have three shares", "dma.count=3 dma.weight_weight=3", add_shared},
        {"conflicts", "transfers from and to banks that a product uses", NULL, add_conflicts},
        {"waits", "dependencies, groups and barriers between all engines", NULL, add_waits},
    };
    (void)argument;
    for (size_t i = 0; i < CLI_COUNTOF(cases) && w->status == TV_OK; i++)
        write_case(w, cases[i].name, cases[i].meaning, cases[i].parameters, cases[i].add);
    for (unsigned seed = 1; seed <= 8 && w->status == TV_OK; seed++)
        write_generated(w, seed);
}
