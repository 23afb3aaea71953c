/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the data set and writes the files of the handwritten-digits example.
 *
 * Files are little-endian and written atomically. Errors exit with a message that names the file and line: status 2 for
 * invalid input, 3 for I/O errors. */
#include "digits.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(TEST % TILE == 0, "the program has no partial tile");

_Noreturn void die(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("digits-train: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(status);
}

/* Parses the value of a column at *text and advances past its separator. */
static int parse_value(char **text, int column, int max, const char *path, int line)
{
    char *end;
    long value = strtol(*text, &end, 10);
    if (end == *text || value < 0 || value > max)
        die(2, "%s:%d: value %d is not a number from 0 to %d", path, line, column + 1, max);
    int last = column == PIXELS;
    if (last ? (*end != '\n' && *end != '\r' && *end != '\0') : *end != ',')
        die(2, "%s:%d: expected %s after value %d of %d", path, line, last ? "the end of the line" : "','", column + 1,
            PIXELS + 1);
    *text = end + 1;
    return (int)value;
}

void load_images(const char *path, struct image *image)
{
    char line[512]; /* valid lines have at most 196 characters; longer ones are rejected as values */
    int count = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        die(2, "%s: %s", path, strerror(errno));
    while (fgets(line, sizeof line, f)) {
        char *text = line;
        if (count == IMAGES)
            die(2, "%s:%d: more than the expected %d lines", path, count + 1, IMAGES);
        for (int i = 0; i < PIXELS; i++)
            image[count].pixel[i] = (float)parse_value(&text, i, 16, path, count + 1) / 16.0f;
        image[count].label = parse_value(&text, PIXELS, CLASSES - 1, path, count + 1);
        count++;
    }
    if (ferror(f))
        die(3, "%s:%d: %s", path, count + 1, strerror(errno));
    fclose(f);
    if (count != IMAGES)
        die(2, "%s:%d: the file ends after %d lines, expected %d", path, count, count, IMAGES);
}

void image_to_bf16(const struct image *image, uint16_t x[PIXELS])
{
    for (int p = 0; p < PIXELS; p++)
        x[p] = bf16_from_double((double)image->pixel[p]);
}

struct file {
    FILE *f;
    char path[1024], temporary[1024 + 8];
};

static void file_open(struct file *o, const char *dir, const char *name)
{
    int length = snprintf(o->path, sizeof o->path, "%s/%s", dir, name);
    if (length < 0 || (size_t)length >= sizeof o->path)
        die(2, "%s: the name of the directory is too long", dir);
    snprintf(o->temporary, sizeof o->temporary, "%s.part", o->path);
    o->f = fopen(o->temporary, "wb");
    if (!o->f) /* most likely an invalid directory */
        die(2, "%s: %s", o->temporary, strerror(errno));
}

void check_directory(const char *dir)
{
    struct file o;
    file_open(&o, dir, "fp32.txt");
    fclose(o.f);
    remove(o.temporary);
}

static void file_close(struct file *o)
{
    int failed = ferror(o->f);
    if (fclose(o->f) != 0 || failed || rename(o->temporary, o->path) != 0) {
        int error = errno;
        remove(o->temporary);
        die(3, "%s: %s", o->path, strerror(error));
    }
}

void write_bytes(const char *dir, const char *name, const void *bytes, size_t size)
{
    struct file o;
    file_open(&o, dir, name);
    fwrite(bytes, 1, size, o.f);
    file_close(&o);
}

static void write_le(struct file *o, uint32_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(value >> 8 * i & 0xFF), o->f);
}

/* Writes n BF16, padded with zeros to whole L2 words, which are also beats of 16 bytes. */
static void write_padded_row(struct file *o, const uint16_t *row, int n)
{
    for (int i = 0; i < (n + LANES - 1) / LANES * LANES; i++)
        write_le(o, i < n ? row[i] : 0, 2);
}

/* The GEMM stream: the scales, then the weights of each row, two per byte, low nibble first. */
static void write_stream(const char *dir, const char *name, const struct qlayer *q)
{
    struct file o;
    file_open(&o, dir, name);
    write_padded_row(&o, q->scale, q->out);
    for (int j = 0; j < q->out; j++)
        for (int i = 0; i < (q->in + NIBBLES - 1) / NIBBLES * NIBBLES; i += 2) {
            int low = i < q->in ? q->w[j][i] : 0, high = i + 1 < q->in ? q->w[j][i + 1] : 0;
            write_le(&o, (uint32_t)(low & 15) | (uint32_t)(high & 15) << 4, 1);
        }
    file_close(&o);
}

/* The bias as a vector, and as the tile that `accm` accumulates to. */
static void write_bias(const char *dir, const char *name, const char *tile_name, const struct qlayer *q)
{
    struct file o;
    file_open(&o, dir, name);
    for (int j = 0; j < q->out; j++)
        write_le(&o, q->bias[j], 2);
    file_close(&o);
    file_open(&o, dir, tile_name);
    for (int row = 0; row < TILE; row++)
        write_padded_row(&o, q->bias, q->out);
    file_close(&o);
}

/* The test images, their labels, and the expected logits. */
static void write_test(const char *dir, const struct qlayer q[LAYERS], const struct image *test, int count)
{
    struct file x_file, label_file, logit_file;
    file_open(&x_file, dir, "x.bf16");
    file_open(&label_file, dir, "labels.u8");
    file_open(&logit_file, dir, "logits.bf16");
    for (int i = 0; i < count; i++) {
        uint16_t x[PIXELS], y[CLASSES];
        image_to_bf16(&test[i], x);
        pccx_run(q, x, y);
        write_padded_row(&x_file, x, PIXELS);
        write_le(&label_file, (uint32_t)test[i].label, 1);
        write_padded_row(&logit_file, y, CLASSES);
    }
    file_close(&x_file);
    file_close(&label_file);
    file_close(&logit_file);
}

static void write_f32(struct file *o, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    write_le(o, bits, 4);
}

/* model.f32, for quantizers of other machines: "TVMLP\0\0\1" (8 bytes), then 4-byte values: the number of layers L; L +
 * 1 widths, input first; for each layer W[out][in] and b[out] in FP32. GELU (erf) between layers, none after the
 * last. */
static void write_model(const char *dir, const struct net *n)
{
    struct file o;
    file_open(&o, dir, "model.f32");
    fwrite("TVMLP\0\0\1", 1, 8, o.f);
    write_le(&o, LAYERS, 4);
    write_le(&o, PIXELS, 4);
    for (int k = 0; k < LAYERS; k++)
        write_le(&o, (uint32_t)n->layer[k].out, 4);
    for (int k = 0; k < LAYERS; k++) {
        const struct layer *l = &n->layer[k];
        for (int j = 0; j < l->out; j++)
            for (int i = 0; i < l->in; i++)
                write_f32(&o, l->w[i * l->stride + j]);
        for (int j = 0; j < l->out; j++)
            write_f32(&o, l->b[j]);
    }
    file_close(&o);
}

void write_all(const char *dir, const struct net *n, const struct qlayer q[LAYERS], const struct image *test, int count,
               int fp32_correct)
{
    struct file o;
    write_stream(dir, "w1.wstream", &q[0]);
    write_stream(dir, "w2.wstream", &q[1]);
    write_bias(dir, "b1.bf16", "b1.tile.bf16", &q[0]);
    write_bias(dir, "b2.bf16", "b2.tile.bf16", &q[1]);
    write_test(dir, q, test, count);
    write_model(dir, n);
    file_open(&o, dir, "fp32.txt");
    fprintf(o.f, "fp32_correct %d %d\n", fp32_correct, count);
    file_close(&o);
}
