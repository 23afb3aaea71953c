/* SPDX-License-Identifier: Apache-2.0 */
/* Benchmarks of decoding, assembling, OpenNPU and queues. Each row is compared with a simple baseline on the same data
 * in the same process.
 *
 *   bench [--json] [--runs N] [WORD]    rows whose name contains WORD, or all
 *   bench --queue FILE                  reads, checks and times a queue once; prints the peak memory in KiB
 *
 * Baselines: `sum words` adds the 64-bit words that the row reads; `count newlines` finds the lines of the text with
 * memchr; `copy lanes` copies as many lanes as the instructions write, with the widest vectors. Row and baseline
 * alternate, and goals are limits of their ratio. The figures are for comparison; no test depends on them. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "opennpu.h"
#include "trivet/trivet.h"

enum {
    ENTRIES = 1000000,
    LARGE_ENTRIES = 10000000,
    WORDS = 1 << 20,
    LINES = 200000,
    INSTRUCTIONS = 1000000,
    EXECUTIONS = 1000000,
    GENERATED = 50000
};

typedef struct bench_data {
    uint64_t *words;
    char *source;
    size_t source_size;
    tv_codec *codec, *opennpu_codec;
    tv_program *program;
    tv_config *config, *queue_config;
    opennpu_programs opennpu;
    char *queue;
    size_t queue_size;
    char queue_path[BENCH_PATH];
    const char *self; /* argv[0] */
    tv_program *queue_program;
    volatile uint64_t sink;
} bench_data;

typedef struct row {
    const char *name, *unit, *baseline;
    double amount; /* units of work per run; 0: bytes of the queue */
    double scale;  /* units of work per unit printed */
    double limit;  /* of the time per unit, relative to the baseline; 0: none */
    void (*run)(void *data);
    void (*base)(void *data);
} row;

/* ---- Measured functions ---- */

static void sum_words(void *user)
{
    bench_data *d = user;
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += d->words[i];
    d->sink += sum;
}

static void decode(void *user)
{
    bench_data *d = user;
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += (uint64_t)tv_codec_decode(d->codec, d->words[i], NULL);
    d->sink += sum;
}

/* The fields of a word, and its first uop, as numbers. */
static void decode_values(void *user)
{
    bench_data *d = user;
    uint64_t sum = 0, values[16];
    tv_uop_values uop;
    for (int i = 0; i < WORDS; i++) {
        int insn = tv_codec_decode(d->codec, d->words[i], NULL);
        unsigned n = tv_codec_values(d->codec, (unsigned)insn, d->words[i], values, 16);
        sum += n ? values[n - 1] : 0;
        if (tv_codec_uop_values_at(d->codec, (unsigned)insn, 0, d->words[i], &uop))
            sum += uop.packed;
    }
    d->sink += sum;
}

/* Executes `word` EXECUTIONS times with a record of what it writes. */
static void execute_word(bench_data *d, uint64_t word)
{
    tv_machine *machine;
    tv_commit commit;
    if (tv_machine_new(d->config, TV_MODE_FULL, NULL, &machine) != TV_OK)
        exit(2);
    for (int i = 0; i < EXECUTIONS; i++) {
        if (tv_machine_execute(machine, word, TV_COMMIT_WRITES, &commit) != TV_OK || commit.fault)
            exit(2);
        d->sink += commit.effects[0].after[0];
    }
    tv_machine_free(machine);
}

/* Makes a random program of GENERATED instructions. */
static void generate(bench_data *d, const char *target)
{
    tv_generate_options options = {.size = sizeof options, .seed = 1, .instructions = GENERATED};
    tv_generated generated;
    tv_config *config;
    if (tv_config_new(target, NULL, &config) != TV_OK ||
        tv_program_generate(config, &options, NULL, &generated) != TV_OK)
        exit(2);
    d->sink += (uint8_t)generated.source[0];
    free(generated.source);
    free(generated.counts);
    tv_config_free(config);
}

static void generate_pccx(void *data) { generate(data, "pccx"); }
static void generate_opennpu(void *data) { generate(data, "opennpu"); }

/* memset fmap_shape[0], 1, 1, 1 */
static void execute_memset(void *data) { execute_word(data, UINT64_C(3) << 60 | UINT64_C(1) << 36 | 1 << 20 | 1 << 4); }

/* cvo.exp l2[128], l2[64], len=64 */
static void execute_cvo(void *data)
{
    execute_word(data, UINT64_C(4) << 60 | UINT64_C(64) << 39 | UINT64_C(128) << 22 | 64 << 6);
}

static void count_newlines(void *user)
{
    bench_data *d = user;
    uint64_t lines = 0;
    for (const char *p = d->source, *end = p + d->source_size; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    d->sink += lines;
}

static void assemble(void *user)
{
    bench_data *d = user;
    tv_program *program;
    if (tv_program_assemble("bench.s", d->source, d->source_size, NULL, NULL, &program) != TV_OK)
        exit(2);
    d->sink += tv_program_instruction_count(program);
    tv_program_free(program);
}

static void decode_opennpu(void *user)
{
    bench_data *d = user;
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += (uint64_t)tv_codec_decode(
            d->opennpu_codec, tv_program_word(d->opennpu.all_units, (uint64_t)i % OPENNPU_INSTRUCTIONS), NULL);
    d->sink += sum;
}

static void run_opennpu(bench_data *d, const tv_program *program) { d->sink += opennpu_run(&d->opennpu, program); }
static void simulate_all_units(void *data) { run_opennpu(data, ((bench_data *)data)->opennpu.all_units); }
static void simulate_lanes(void *data) { run_opennpu(data, ((bench_data *)data)->opennpu.lanes); }
static void simulate_mma(void *data) { run_opennpu(data, ((bench_data *)data)->opennpu.mma); }

static void read_queue_file(bench_data *d)
{
    if (tv_program_open(d->queue_path, NULL, NULL, &d->queue_program) != TV_OK)
        exit(2);
}

static void read_queue(void *user)
{
    bench_data *d = user;
    tv_program *program = d->queue_program;
    read_queue_file(d);
    d->sink += tv_program_instruction_count(d->queue_program);
    tv_program_free(d->queue_program);
    d->queue_program = program;
}

static void sum_queue(void *user)
{
    bench_data *d = user;
    uint64_t sum = 0, word;
    for (size_t i = 0; i + 8 <= d->queue_size; i += 8) {
        memcpy(&word, d->queue + i, 8);
        sum += word;
    }
    d->sink += sum;
}

static void run_queue(bench_data *d, bool check)
{
    tv_machine *machine;
    tv_stats stats = {.size = sizeof stats};
    tv_check_counts counts = {0};
    if (tv_machine_new(d->queue_config, TV_MODE_TIMING, NULL, &machine) != TV_OK ||
        tv_machine_load(machine, d->queue_program, NULL) != TV_OK ||
        (check && tv_machine_hazards(machine, TV_WARNING, NULL, &counts) != TV_OK) || counts.warnings ||
        tv_machine_run(machine, NULL, NULL) != TV_OK)
        exit(2);
    tv_machine_stats(machine, &stats);
    d->sink += stats.cycles;
    tv_machine_free(machine);
}

static void time_queue(void *user) { run_queue(user, false); }

static void check_queue(void *user)
{
    bench_data *d = user;
    tv_check_counts counts = {0};
    if (tv_program_hazards(d->queue_program, d->queue_config, TV_WARNING, NULL, &counts) != TV_OK || counts.warnings)
        exit(2);
}

/* Reads, checks and times the queue file; its memory is allocated and released in each run. */
static void run_queue_file(void *user)
{
    bench_data *d = user;
    tv_program *program = d->queue_program;
    read_queue_file(d);
    run_queue(d, true);
    tv_program_free(d->queue_program);
    d->queue_program = program;
}

static void simulate(void *user)
{
    bench_data *d = user;
    tv_machine *machine;
    tv_stats stats = {.size = sizeof stats};
    if (tv_machine_new(d->config, TV_MODE_FULL, NULL, &machine) != TV_OK ||
        tv_machine_load(machine, d->program, NULL) != TV_OK || tv_machine_run(machine, NULL, NULL) != TV_OK)
        exit(2);
    tv_machine_stats(machine, &stats);
    d->sink += stats.cycles;
    tv_machine_free(machine);
}

/* Copies the lanes that the mix of OpenNPU instructions writes, from the lanes of their first operands. */
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
copy_lanes(void *user)
{
    typedef uint64_t lanes __attribute__((vector_size(64)));
    static const struct {
        uint8_t rd, rs1, count; /* base rows */
    } moves[] = {{4, 1, 1}, {12, 8, 2}, {16, 16, 4}, {28, 24, 4}, {5, 4, 1}, {14, 12, 2}, {20, 16, 4}, {24, 28, 4},
                 {6, 5, 1}, {8, 14, 2}, {20, 16, 4}, {28, 24, 4}, {7, 6, 1}, {10, 8, 2},  {16, 20, 4}, {24, 28, 4}};
    enum { MOVES = sizeof moves / sizeof moves[0] };
    static lanes rows[32];
    bench_data *d = user;
    for (unsigned i = 0; i < OPENNPU_INSTRUCTIONS / MOVES; i++)
        for (unsigned k = 0; k < MOVES; k++) {
            for (unsigned r = 0; r < moves[k].count; r++)
                rows[moves[k].rd + r] = rows[moves[k].rs1 + r];
            __asm__ volatile("" ::: "memory"); /* each copy is done */
        }
    d->sink += rows[0][0];
}

/* ---- Data ---- */

/* Valid instruction words of every opcode, pseudo-random with a fixed seed. */
static uint64_t random_word(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = *state ^ *state >> 29;
    switch (x % 5) {
    case 0:
        return x & UINT64_C(0x0FFFFFFFFF8FFFF8);
    case 1:
        return (x & UINT64_C(0x0FFFFFFFFF8FFFF8)) | UINT64_C(1) << 60;
    case 2:
        return (x & UINT64_C(0x03FFFFFFFFFFFFFF)) | UINT64_C(0x28) << 56;
    case 3:
        return (x & UINT64_C(0x07FFFFFFFFFFFFF0)) | UINT64_C(3) << 60;
    default:
        return (x & UINT64_C(0x07FFFFFFFFFFFFF9)) | UINT64_C(4) << 60;
    }
}

static void generate_source(bench_data *d)
{
    static const char *const lines[] = {
        "        memset  fmap_shape[3], 64, 1 + 2 * 3, 0x20 ; a comment\n",
        "        gemv    l2[0x200 + 8], l2[X], size=0, shape=3, lanes=4, w_scale, findemax\n",
        "        cvo.exp l2[0x401], l2[0x200], len=4096, sub_emax, async\n",
        "        memcpy  l2[X], host[0x1000], shape=3, async\n",
    };
    size_t cap = (size_t)LINES * 100, n = 0;
    d->source = malloc(cap);
    if (!d->source)
        exit(3);
    n += (size_t)snprintf(d->source + n, cap - n, "        .target pccx\n        .equ X, 0x40\n");
    for (int i = 2; i < LINES; i++)
        n += (size_t)snprintf(d->source + n, cap - n, "%s", lines[i % 4]);
    d->source_size = n;
}

/* Loads and products over two buffers each, with exact dependencies. */
static void generate_queue(bench_data *d, int entries)
{
    static const char *const kinds[] = {
        "{\"opcode\": \"DMA_LOAD_TILE\", \"id\": %d, \"layer_id\": \"layer_%d\", \"tensor_role\": \"weight\", "
        "\"qbits\": 8, \"dram_addr\": %d, "
        "\"spm_bank\": %d, \"spm_offset\": 0, \"num_elements\": 4096, \"deps_before\": [%d]},\n",
        "{\"opcode\": \"TE_GEMM_TILE\", \"id\": %d, \"layer_id\": \"layer_%d\", \"te_id\": 0, \"ifm_bank\": 4, "
        "\"ifm_offset\": %d, \"wgt_bank\": %d, "
        "\"wgt_offset\": 0, \"ofm_bank\": 2, \"ofm_offset\": 0, \"m\": 1, \"n\": 64, \"k\": 64, \"qbits_weight\": 8, "
        "\"qbits_activation\": 8, "
        "\"deps_before\": [%d]},\n",
    };
    size_t huge = (size_t)2 << 20, cap = (size_t)entries * 300 / huge * huge + huge, n = 0;
    d->queue = aligned_alloc(huge, cap);
    if (!d->queue)
        exit(3);
    madvise(d->queue, cap, MADV_HUGEPAGE); /* `sum bytes` measures reading, not page faults */
    n += (size_t)snprintf(d->queue, cap, "{\"metadata\": {\"version\": \"1.2\"}, \"cmdq\": [\n");
    for (int i = 0; i < 4; i++)
        n += (size_t)snprintf(d->queue + n, cap - n, "{\"opcode\": \"NOP\"},\n");
    for (int i = 4; i < entries - 1; i++) /* a load depends on the product two loads ago, a product on its load */
        n += (size_t)snprintf(d->queue + n, cap - n, kinds[i % 2], i, i / 1000, i % 2 ? 0 : i % ENTRIES * 2048,
                              i / 2 % 2, i % 2 ? i - 1 : i - 3);
    n += (size_t)snprintf(d->queue + n, cap - n, "{\"opcode\": \"END\"}\n]}\n");
    d->queue_size = n;
    bench_make_temporary(d->queue_path);
    FILE *out = fopen(d->queue_path, "w");
    if (!out || fwrite(d->queue, 1, n, out) != n || fclose(out) != 0 ||
        tv_config_new("cmdq", NULL, &d->queue_config) != TV_OK ||
        tv_program_open(d->queue_path, NULL, NULL, &d->queue_program) != TV_OK)
        exit(3);
}

static void prepare_data(bench_data *d, bool queue)
{
    static const char loop[] = "        .target pccx\n        .rept 500000\n        memset fmap_shape[1], 1, 2, 3\n"
                               "        cvo.exp l2[8], l2[0], len=8\n        .endr\n";
    uint64_t state = 1;
    opennpu_prepare(&d->opennpu);
    d->words = malloc(WORDS * sizeof *d->words);
    if (!d->words || tv_codec_new("pccx", NULL, &d->codec) != TV_OK ||
        tv_codec_new("opennpu", NULL, &d->opennpu_codec) != TV_OK || tv_config_new("pccx", NULL, &d->config) != TV_OK ||
        tv_program_assemble("loop.s", loop, strlen(loop), NULL, NULL, &d->program) != TV_OK)
        exit(3);
    for (int i = 0; i < WORDS; i++)
        d->words[i] = random_word(&state);
    generate_source(d);
    if (queue)
        generate_queue(d, ENTRIES);
}

/* `bench --queue FILE`. */
static int print_queue_memory(const char *path)
{
    char line[256];
    unsigned long kilobytes = 0;
    bench_data data = {0};
    snprintf(data.queue_path, sizeof data.queue_path, "%s", path);
    if (tv_config_new("cmdq", NULL, &data.queue_config) != TV_OK)
        return 3;
    run_queue_file(&data);
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lu", &kilobytes) == 1)
            break;
    if (status)
        fclose(status);
    tv_config_free(data.queue_config);
    printf("%lu\n", kilobytes);
    return 0;
}

/* Peak resident memory of a process that only reads, checks and times the queue, in MB; 0: unknown. */
static double peak_megabytes(const bench_data *d)
{
    char command[2 * BENCH_PATH], line[64] = "";
    snprintf(command, sizeof command, "'%s' --queue '%s'", d->self, d->queue_path);
    FILE *child = popen(command, "r");
    if (!child)
        return 0;
    const char *text = fgets(line, sizeof line, child);
    return pclose(child) == 0 && text ? strtod(line, NULL) * 1024 / 1e6 : 0;
}

static void measure_row(const bench_report *report, const row *r, bench_data *data)
{
    if (!bench_selected(report, r->name))
        return;
    double amount = r->amount > 0 ? r->amount : (double)data->queue_size, ratio = 0;
    bench_times t = report->rows_only ? bench_measure_cold(r->run, data, report->runs)
                                      : bench_measure_beside(r->run, r->base, data, report->runs, &ratio);
    bench_row out = {.name = r->name, .unit = r->unit, .value = bench_rates(amount / r->scale, t)};
    if (!report->rows_only) {
        out.baseline = r->baseline;
        out.times = ratio / amount * (r->base == sum_words ? WORDS : amount);
        out.limit = r->limit;
    }
    bench_print_row(report, &out);
}

static const char large_name[] = "cmdq load and timing, ten million entries";

/* The rate of a queue of ten million entries relative to that of a million; they alternate. */
static void measure_large_queue(const bench_report *report, bench_data *data)
{
    if (!bench_selected(report, large_name) || report->rows_only)
        return;
    bench_data large = {.self = data->self};
    generate_queue(&large, LARGE_ENTRIES);
    free(large.queue); /* only its program is needed */
    remove(large.queue_path);
    double seconds[BENCH_RUNS_MAX], ratios[BENCH_RUNS_MAX];
    time_queue(&large);
    for (int i = 0; i < report->runs; i++) {
        double small = bench_measure_cold(time_queue, data, 1).median;
        seconds[i] = bench_measure_cold(time_queue, &large, 1).median;
        ratios[i] = small / ENTRIES * LARGE_ENTRIES / seconds[i];
    }
    bench_times rates = bench_rates(LARGE_ENTRIES / 1e6, bench_sort_times(seconds, report->runs));
    bench_print_row(report, &(bench_row){.name = large_name,
                                         .unit = "M entries/s",
                                         .value = rates,
                                         .of = "the rate of a million",
                                         .ceiling = rates.median / bench_sort_times(ratios, report->runs).median,
                                         .goal = 0.9});
    tv_program_free(large.queue_program);
    tv_config_free(large.queue_config);
}

static const char resident_name[] = "cmdq file of a million entries, JSON: resident at most";

/* Peak memory of reading the queue file in a separate process. */
static void measure_resident(const bench_report *report, const bench_data *data)
{
    if (!bench_selected(report, resident_name) || report->rows_only)
        return;
    double peak = peak_megabytes(data);
    if (peak > 0)
        bench_print_row(
            report, &(bench_row){
                        .name = resident_name, .unit = "MB", .value = {peak, peak, peak}, .goal = 1500, .lower = true});
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--queue") == 0)
        return print_queue_memory(argv[2]);
    static const row rows[] = {
        {"pccx decode", "M words/s", "`sum words`", WORDS, 1e6, 70, decode, sum_words},
        {"pccx fields and uop as numbers", "M words/s", "`sum words`", WORDS, 1e6, 260, decode_values, sum_words},
        {"pccx MEMSET, a word at a time with its commit record", "M instructions/s", "`sum words`", EXECUTIONS, 1e6,
         550, execute_memset, sum_words},
        {"pccx CVO of 64, a word at a time with its commit record", "M instructions/s", "`sum words`", EXECUTIONS, 1e6,
         2500, execute_cvo, sum_words},
        {"pccx generated program", "M words/s", "`sum words`", GENERATED, 1e6, 26000, generate_pccx, sum_words},
        {"opennpu generated program", "M words/s", "`sum words`", GENERATED, 1e6, 26000, generate_opennpu, sum_words},
        {"pccx assembler", "M lines/s", "`count newlines`", LINES, 1e6, 600, assemble, count_newlines},
        {"pccx MEMSET + CVO of 8, executed and timed", "M instructions/s", "`sum words`", INSTRUCTIONS, 1e6, 5200,
         simulate, sum_words},
        {"opennpu decode", "M words/s", "`sum words`", WORDS, 1e6, 28, decode_opennpu, sum_words},
        {"opennpu, K = 64: mix of VX/VE/VR integer and FP32", "M instructions/s", "`copy lanes`", OPENNPU_INSTRUCTIONS,
         1e6, 4, simulate_lanes, copy_lanes},
        {"opennpu, K = 64: mma", "M mma/s", "`sum words`", OPENNPU_MMAS, 1e6, 240, simulate_mma, sum_words},
        {"opennpu, K = 64: VX/VR, a quarter MMA, LUT", "M instructions/s", "`sum words`", OPENNPU_INSTRUCTIONS, 1e6, 90,
         simulate_all_units, sum_words},
        {"cmdq file of a million entries, JSON: read, checked, timed", "MB/s", "`sum bytes`", 0, 1e6, 35,
         run_queue_file, sum_queue},
        {"cmdq reader, a million entries", "MB/s", "`sum bytes`", 0, 1e6, 0, read_queue, sum_queue},
        {"cmdq load and timing, a million entries", "M entries/s", "`sum bytes`", ENTRIES, 1e6, 22, time_queue,
         sum_queue},
        {"cmdq hazard check, a million entries", "M entries/s", "`cmdq load and timing`", ENTRIES, 1e6, 0, check_queue,
         time_queue},
    };
    bench_report report = bench_options(argc, argv);
    bench_data data = {.self = argv[0]};
    bool queue = bench_selected(&report, resident_name) || bench_selected(&report, large_name), any = queue;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        any = any || bench_selected(&report, rows[i].name);
        queue = queue || (bench_selected(&report, rows[i].name) && strncmp(rows[i].name, "cmdq", 4) == 0);
    }
    if (!any)
        return 0;
    prepare_data(&data, queue);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        measure_row(&report, &rows[i], &data);
    measure_resident(&report, &data);
    measure_large_queue(&report, &data);
    if (queue)
        remove(data.queue_path);
    tv_program_free(data.queue_program);
    tv_config_free(data.queue_config);
    free(data.queue);
    opennpu_fini(&data.opennpu);
    tv_codec_free(data.opennpu_codec);
    tv_program_free(data.program);
    tv_config_free(data.config);
    tv_codec_free(data.codec);
    free(data.words);
    free(data.source);
    return 0;
}
