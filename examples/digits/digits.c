/* SPDX-License-Identifier: Apache-2.0 */
/* Handwritten digits on a simulated machine: assembles a classifier, runs it, and compares its answers with the labels.
 *
 *   digits PROGRAM.s DATA_DIR [LEAST]
 *
 * DATA_DIR holds what tools/digits/train.c writes. The program must define `image_count` and `logits`; layout_of() below says
 * what is there. Prints a few images with the machine's answers and one line
 * of results. Exit status 1 when fewer than LEAST images are right. Uses nothing but the public library. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trivet/trivet.h"

enum { CLASSES = 10, PIXELS = 64, SIDE = 8, SHOWN = 6 };

/* Where a machine's program leaves its logits: class c of image i is element i * image_step + c * class_step of
 * `elements`. */
struct layout {
    const char *space;
    tv_dtype type;
    uint64_t image_step, class_step, elements;
};

/* pccx: rows of 16, of which the first 10 are the classes. OpenNPU: columns, of a whole number of groups of 64 images. */
static struct layout layout_of(const char *target, uint64_t count)
{
    uint64_t padded = (count + 63) / 64 * 64;
    if (strcmp(target, "opennpu") == 0)
        return (struct layout){"mem", TV_F32, 1, padded, padded * CLASSES};
    return (struct layout){"host", TV_BF16, 16, 1, count * 16};
}

struct results {
    struct layout layout;
    uint8_t *logits;
    uint64_t count;
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

/* A file of `directory`; the process keeps it open to its end. */
static tv_input open_data(const char *directory, const char *name)
{
    char path[4096];
    tv_input input;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    check(tv_input_open(path, &sink, &input));
    return input;
}

static double logit(const struct results *r, uint64_t image, int class)
{
    return tv_dtype_value(r->layout.type, r->logits, image * r->layout.image_step + (uint64_t)class * r->layout.class_step);
}

static int answer(const struct results *r, uint64_t image)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        if (logit(r, image, i) > logit(r, image, best))
            best = i;
    return best;
}

/* The last images side by side, darker where there is more ink, the machine's answer below each. */
static void show_images(const tv_input *images, const struct results *r)
{
    static const char *const ink[] = {"  ", "░░", "▒▒", "▓▓", "██"};
    uint64_t count = r->count, first = count > SHOWN ? count - SHOWN : 0;
    for (int y = 0; y < SIDE; y++) {
        for (uint64_t i = first; i < count; i++) {
            for (int x = 0; x < SIDE; x++) {
                double pixel = tv_dtype_value(TV_BF16, images->data, i * PIXELS + (uint64_t)(y * SIDE + x));
                fputs(ink[(int)(pixel * 4 + 0.5)], stdout);
            }
            fputs("  ", stdout);
        }
        putchar('\n');
    }
    for (uint64_t i = first; i < count; i++)
        printf("%*s%d%*s", SIDE - 1, "", answer(r, i), SIDE + 2, "");
    printf("\n\n");
}

static void show_result(const tv_machine *machine, uint64_t right, uint64_t count, const char *directory)
{
    tv_stats s;
    tv_machine_stats(machine, &s);
    uint64_t bytes = 0;
    for (unsigned p = 0; p < s.path_count; p++)
        bytes += s.paths[p].bytes;
    tv_input fp32 = open_data(directory, "fp32.txt");
    int fp32_right = 0, fp32_count = 1;
    char text[64] = "";
    memcpy(text, fp32.data, fp32.size < sizeof text - 1 ? fp32.size : sizeof text - 1);
    if (sscanf(text, "fp32_correct %d %d", &fp32_right, &fp32_count) != 2)
        fail("fp32.txt does not hold the FP32 network's accuracy");
    tv_input_close(&fp32);
    printf("%-8s %9s %9s %13s %9s %11s %9s   %s\n", "machine", "accuracy", "FP32", "instructions", "cycles", "MACs/cycle", "KiB", "bound by");
    printf("%-8s %7.2f %% %7.2f %% %13" PRIu64 " %9" PRIu64 " %11.2f %9.1f   %s (%.0f %% of cycles)\n", tv_machine_target(machine),
           100.0 * (double)right / (double)count, 100.0 * fp32_right / fp32_count, s.instructions, s.cycles, (double)s.macs / (double)s.cycles,
           (double)bytes / 1024, s.bound_by, 100 * s.bound_share);
    printf("\n%" PRIu64 " of %" PRIu64 " digits right; %.4g ms at %.4g MHz\n", right, count, 1e3 * s.seconds, s.clock_hz / 1e6);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("usage: digits PROGRAM.s DATA_DIR [LEAST]");
    tv_program *program;
    const char *directory = argv[2];
    check(tv_program_open(argv[1], &(tv_program_options){.include_dirs = &directory, .include_count = 1}, &sink, &program));
    tv_symbol count, logits_at;
    if (!tv_program_symbol(program, "image_count", &count) || !tv_program_symbol(program, "logits", &logits_at))
        fail("the program does not define image_count and logits");

    tv_config *config;
    tv_machine *machine;
    check(tv_config_new(tv_program_target(program), &sink, &config));
    check(tv_machine_new(config, TV_MODE_FULL, &sink, &machine));
    check(tv_machine_load(machine, program, &sink));
    if (tv_machine_run(machine, NULL, NULL) == TV_FAULT)
        fail(tv_machine_fault(machine)->message);

    tv_input labels = open_data(directory, "labels.u8"), images = open_data(directory, "x.bf16");
    if (labels.size < count.value || images.size < count.value * PIXELS * 2)
        fail("there are fewer images than image_count");
    struct results r = {.layout = layout_of(tv_program_target(program), count.value), .count = count.value};
    uint64_t size = tv_dtype_bytes(r.layout.type, r.layout.elements);
    r.logits = malloc((size_t)size);
    if (!r.logits)
        fail("out of memory");
    check(tv_machine_read(machine, r.layout.space, logits_at.value, r.logits, (size_t)size, &sink));
    uint64_t right = 0;
    for (uint64_t i = 0; i < count.value; i++)
        right += answer(&r, i) == labels.data[i];
    show_images(&images, &r);
    show_result(machine, right, count.value, directory);

    free(r.logits);
    tv_input_close(&labels);
    tv_input_close(&images);
    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
    return argc > 3 && right < strtoull(argv[3], NULL, 10);
}
