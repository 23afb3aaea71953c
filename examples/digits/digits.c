/* SPDX-License-Identifier: Apache-2.0 */
/* Handwritten digits on simulated machines: runs the classifier of each machine and compares its answers with the
 * labels.
 *
 *   digits PROGRAMS DATA [MACHINE [MINIMUM]]
 *
 * PROGRAMS is this directory; DATA has the files written by tools/digits/train.c and a copy of each queue. Without
 * MACHINE all machines of the table below run. Prints a few images with the answers and one row of results per machine.
 * Exit status 1 when fewer than MINIMUM images are classified correctly. Uses only the public library. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trivet/trivet.h"

enum { CLASSES = 10, PIXELS = 64, SIDE = 8, SHOWN = 6 };

struct images {
    tv_input pixels, labels; /* x.bf16, PIXELS per image; labels.u8, one byte per image */
    uint64_t count;
    int fp32_right, fp32_count; /* of the network before quantization */
};

/* A completed run of a program. */
struct run {
    tv_program *program;
    tv_machine *machine;
    uint64_t count; /* images */
};

/* To add a machine: a program in this directory, and a row of `machines`. */
struct machine {
    const char *name, *weights;
    const char *program; /* file in PROGRAMS, or in DATA if it is a queue */
    bool queue;
    void (*logits)(const struct run *run, double *logits); /* reads logits[image][CLASSES] */
};

struct row {
    const struct machine *machine;
    uint8_t *answers; /* one per image */
    uint64_t right;
    tv_stats stats;
};

static void print_diagnostic(void *user, const tv_diag *diag)
{
    (void)user;
    tv_diag_print(stderr, diag, 0);
}

static const tv_diag_sink sink = {print_diagnostic, NULL};

static void fail(const char *what)
{
    fprintf(stderr, "digits: %s\n", what);
    exit(2);
}

static void check(tv_status status)
{
    if (status != TV_OK)
        fail(tv_status_text(status));
}

static void *allocate(uint64_t size)
{
    void *p = malloc((size_t)size);
    if (!p)
        fail("out of memory");
    return p;
}

static void path_of(char path[static 4096], const char *folder, const char *name)
{
    if (snprintf(path, 4096, "%s/%s", folder, name) >= 4096)
        fail("a path is too long");
}

/* Class c of image i is element i * image_step + c * class_step of the `elements` at the program's symbol `logits`. */
struct layout {
    const char *space;
    tv_dtype type;
    uint64_t image_step, class_step, elements;
};

static void read_logits(const struct run *run, struct layout l, double *logits)
{
    tv_symbol count, at;
    if (!tv_program_symbol(run->program, "image_count", &count) || !tv_program_symbol(run->program, "logits", &at))
        fail("a program does not define image_count and logits");
    if (count.value != run->count)
        fail("a program's image_count is not the number of labels");
    uint64_t size = tv_dtype_bytes(l.type, l.elements);
    uint8_t *raw = allocate(size);
    check(tv_machine_read(run->machine, l.space, at.value, raw, (size_t)size, &sink));
    for (uint64_t i = 0; i < run->count; i++)
        for (uint64_t c = 0; c < CLASSES; c++)
            logits[i * CLASSES + c] = tv_dtype_value(l.type, raw, i * l.image_step + c * l.class_step);
    free(raw);
}

/* [image][16], the first 10 are the classes. */
static void pccx_logits(const struct run *run, double *logits)
{
    read_logits(run, (struct layout){"host", TV_BF16, 16, 1, run->count * 16}, logits);
}

/* [class][image], with the images padded to groups of 64. */
static void opennpu_logits(const struct run *run, double *logits)
{
    uint64_t padded = (run->count + 63) / 64 * 64;
    read_logits(run, (struct layout){"mem", TV_F32, 1, padded, padded * CLASSES}, logits);
}

/* The queue's first output is [image][class]. */
static void cmdq_logits(const struct run *run, double *logits)
{
    tv_output_info out;
    if (!tv_program_output_at(run->program, 0, &out) || out.count != run->count * CLASSES)
        fail("a queue's first output does not have CLASSES numbers per image");
    uint64_t size = tv_dtype_bytes(out.type, out.count);
    uint8_t *raw = allocate(size);
    check(tv_machine_read(run->machine, out.space, out.addr, raw, (size_t)size, &sink));
    for (uint64_t i = 0; i < out.count; i++)
        logits[i] = tv_dtype_value(out.type, raw, i);
    free(raw);
}

static const struct machine machines[] = {
    {"pccx", "INT4", "pccx.s", false, pccx_logits},
    {"opennpu", "INT8", "opennpu.s", false, opennpu_logits},
    {"cmdq", "INT8", "cmdq.json", true, cmdq_logits},
};

enum { MACHINES = sizeof machines / sizeof *machines };

static struct images open_images(const char *data)
{
    struct images images = {0};
    char path[4096], text[64] = "";
    tv_input fp32;
    path_of(path, data, "x.bf16");
    check(tv_input_open(path, &sink, &images.pixels));
    path_of(path, data, "labels.u8");
    check(tv_input_open(path, &sink, &images.labels));
    images.count = images.labels.size;
    if (images.count == 0 || images.pixels.size < images.count * PIXELS * 2)
        fail("there are fewer images than labels");
    path_of(path, data, "fp32.txt");
    check(tv_input_open(path, &sink, &fp32));
    memcpy(text, fp32.data, fp32.size < sizeof text - 1 ? fp32.size : sizeof text - 1);
    if (sscanf(text, "fp32_correct %d %d", &images.fp32_right, &images.fp32_count) != 2)
        fail("fp32.txt does not contain the accuracy of the FP32 network");
    tv_input_close(&fp32);
    return images;
}

/* Assembles or reads the machine's program and runs it to completion. */
static struct run run_program(const struct machine *machine, const char *programs, const char *data, uint64_t count)
{
    struct run run = {.count = count};
    char path[4096];
    tv_config *config;
    path_of(path, machine->queue ? data : programs, machine->program);
    check(tv_program_open(
        path, &(tv_program_options){.size = sizeof(tv_program_options), .include_dirs = &data, .include_count = 1},
        &sink, &run.program));
    check(tv_config_new(tv_program_target(run.program), &sink, &config));
    check(tv_machine_new(config, TV_MODE_FULL, &sink, &run.machine));
    tv_config_free(config);
    check(tv_machine_load(run.machine, run.program, &sink));
    if (tv_machine_run(run.machine, NULL, NULL) == TV_FAULT)
        fail(tv_machine_fault(run.machine)->message);
    return run;
}

static uint8_t argmax(const double *logits)
{
    uint8_t best = 0;
    for (uint8_t c = 1; c < CLASSES; c++)
        if (logits[c] > logits[best])
            best = c;
    return best;
}

static struct row classify(const struct machine *machine, const char *programs, const char *data,
                           const struct images *images)
{
    struct run run = run_program(machine, programs, data, images->count);
    struct row row = {.machine = machine, .answers = allocate(images->count)};
    double *logits = allocate(images->count * CLASSES * sizeof *logits);
    machine->logits(&run, logits);
    for (uint64_t i = 0; i < images->count; i++) {
        row.answers[i] = argmax(logits + i * CLASSES);
        row.right += row.answers[i] == images->labels.data[i];
    }
    row.stats.size = sizeof row.stats;
    tv_machine_stats(run.machine, &row.stats);
    free(logits);
    tv_machine_free(run.machine);
    tv_program_free(run.program);
    return row;
}

/* Prints the last images side by side, and below each the answers of the machines. */
static void show_images(const struct images *images, const struct row *rows, unsigned row_count)
{
    static const char *const ink[] = {"  ", "░░", "▒▒", "▓▓", "██"};
    uint64_t first = images->count > SHOWN ? images->count - SHOWN : 0;
    for (int y = 0; y < SIDE; y++) {
        printf("%10s", "");
        for (uint64_t i = first; i < images->count; i++) {
            for (int x = 0; x < SIDE; x++)
                fputs(
                    ink[(int)(tv_dtype_value(TV_BF16, images->pixels.data, i * PIXELS + (uint64_t)(y * SIDE + x)) * 4 +
                              0.5)],
                    stdout);
            fputs("  ", stdout);
        }
        putchar('\n');
    }
    for (unsigned r = 0; r < row_count; r++) {
        printf("%-10s", rows[r].machine->name);
        for (uint64_t i = first; i < images->count; i++)
            printf("%*s%d%*s", SIDE - 1, "", rows[r].answers[i], SIDE + 2, "");
        putchar('\n');
    }
    putchar('\n');
}

static void show_table(const struct images *images, const struct row *rows, unsigned row_count)
{
    printf("%-8s %7s %6s %9s %13s %8s %8s %11s %8s   %s\n", "machine", "weights", "right", "accuracy", "instructions",
           "cycles", "ms", "MACs/cycle", "bytes", "bound by");
    for (unsigned r = 0; r < row_count; r++) {
        const tv_stats *s = &rows[r].stats;
        uint64_t bytes = 0;
        for (unsigned p = 0; p < s->path_count; p++)
            bytes += s->paths[p].bytes;
        printf("%-8s %7s %6" PRIu64 " %7.2f %% %13" PRIu64 " %8" PRIu64 " %8.4f %11.2f %8" PRIu64 "   %s (%.0f %%)\n",
               rows[r].machine->name, rows[r].machine->weights, rows[r].right,
               100.0 * (double)rows[r].right / (double)images->count, s->instructions, s->cycles, 1e3 * s->seconds,
               (double)s->macs / (double)s->cycles, bytes, s->bound_by, 100 * s->bound_share);
    }
    printf("\nIn FP32 the network gets %d of %d images right, %.2f %%.\n", images->fp32_right, images->fp32_count,
           100.0 * images->fp32_right / images->fp32_count);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5)
        fail("usage: digits PROGRAMS DATA [MACHINE [MINIMUM]]");
    uint64_t minimum = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    struct images images = open_images(argv[2]);
    struct row rows[MACHINES];
    unsigned count = 0;
    int status = 0;
    for (unsigned m = 0; m < MACHINES; m++) {
        if (argc > 3 && strcmp(argv[3], machines[m].name) != 0)
            continue;
        rows[count] = classify(&machines[m], argv[1], argv[2], &images);
        status |= rows[count++].right < minimum;
    }
    if (count == 0)
        fail("no such machine");
    show_images(&images, rows, count);
    show_table(&images, rows, count);

    for (unsigned r = 0; r < count; r++)
        free(rows[r].answers);
    tv_input_close(&images.pixels);
    tv_input_close(&images.labels);
    return status;
}
