/* SPDX-License-Identifier: Apache-2.0 */
/* gguf-convert: converts llama2.c checkpoints to GGUF and back, and GGUF files to other tensor types.
 *
 * The format of IN is detected from its first bytes, that of OUT from its name: `.gguf`, or a checkpoint otherwise. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/gguf.h"
#include "import/llama2c.h"

typedef struct conversion {
    const char *in, *out, *tokenizer;
    bool typed;
    tv_gguf_type type;
    unsigned version;
} conversion;

static const char usage[] = "usage: gguf-convert [options] IN OUT\n"
                            "\n"
                            "IN   a GGUF model, or a llama2.c checkpoint of version 0 or 2\n"
                            "OUT  NAME.gguf, or another name for a llama2.c checkpoint\n"
                            "\n"
                            "  -t, --type TYPE            matrices of a GGUF file: F32, F16, BF16, Q8_0 or Q4_0 (F32 "
                            "from a checkpoint, otherwise unchanged)\n"
                            "  -k, --tokenizer FILE       tokenizer.bin of the checkpoint, read or written\n"
                            "  -c, --checkpoint-version N 0 (F32, default) or 2 (int8)\n"
                            "  -h, --help                 this text\n"
                            "\n"
                            "example: gguf-convert -t Q8_0 -k tokenizer.bin stories15M.bin stories15M.gguf\n";

static void print_diag(void *user, const tv_diag *diag)
{
    (void)user;
    tv_diag_print(stderr, diag, isatty(STDERR_FILENO));
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

static tv_status read_tensor_row(void *user, uint64_t row, uint64_t length, float *out)
{
    (void)length;
    return tv_gguf_row_f32(user, row, out);
}

/* Copies the metadata, and converts the matrices to the requested type if their rows are whole blocks of it. */
static tv_status convert_types(const conversion *job, const tv_diag_sink *sink)
{
    tv_gguf *gguf = NULL;
    TV_TRY(tv_gguf_open(job->in, sink, &gguf));
    tv_gguf_writer *writer = tv_gguf_writer_new();
    tv_status status = writer ? TV_OK : TV_ERR_MEMORY;
    for (uint64_t i = 0; status == TV_OK && i < tv_gguf_meta_count(gguf); i++)
        tv_gguf_writer_meta(writer, tv_gguf_meta_at(gguf, i));
    for (uint64_t i = 0; status == TV_OK && i < tv_gguf_tensor_count(gguf); i++) {
        const tv_gguf_tensor *t = tv_gguf_tensor_at(gguf, i);
        bool whole = job->typed && t->dims[0] % tv_gguf_type_block(job->type) == 0;
        if (!job->typed || t->dim_count < 2 || !whole || t->type == (uint32_t)job->type) {
            if (t->bytes == 0)
                status = tv_gguf_tensor_check(gguf, t, sink);
            else
                tv_gguf_writer_copy(writer, t);
            continue;
        }
        char name[TV_GGUF_NAME_MAX + 1];
        status = tv_gguf_tensor_check(gguf, t, sink);
        snprintf(name, sizeof name, "%.*s", TV_SV_ARG(t->name));
        if (status == TV_OK)
            tv_gguf_writer_tensor(writer, name, job->type, t->dims, t->dim_count, read_tensor_row,
                                  (void *)(uintptr_t)t);
    }
    if (status == TV_OK)
        status = tv_gguf_writer_save(writer, job->out, sink);
    tv_gguf_writer_free(writer);
    tv_gguf_free(gguf);
    return status;
}

/* Whether both paths name the same regular file. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static tv_status convert(const conversion *job, const tv_diag_sink *sink)
{
    tv_input input;
    if (is_same_file(job->in, job->out) || (job->tokenizer && is_same_file(job->tokenizer, job->out))) {
        fprintf(stderr, "gguf-convert: the output would overwrite '%s'\n", job->out);
        return TV_ERR_INPUT;
    }
    TV_TRY(tv_input_open(job->in, sink, &input));
    bool is_gguf = input.size >= 4 && memcmp(input.data, "GGUF", 4) == 0;
    tv_input_close(&input);
    if (!is_gguf)
        return tv_llama2c_to_gguf(job->in, job->tokenizer, job->out, job->type, sink);
    if (ends_with(job->out, ".gguf"))
        return convert_types(job, sink);
    return tv_llama2c_from_gguf(job->in, job->out, job->tokenizer, job->version, sink);
}

/* Returns 0 to continue, otherwise the exit status plus 1. */
static int parse_options(int argc, char **argv, conversion *job)
{
    static const struct option options[] = {{"type", required_argument, NULL, 't'},
                                            {"tokenizer", required_argument, NULL, 'k'},
                                            {"checkpoint-version", required_argument, NULL, 'c'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "t:k:c:h", options, NULL)) != -1;) {
        switch (option) {
        case 't':
            job->typed = tv_gguf_type_named(tv_sv_of(optarg), &job->type);
            if (!job->typed) {
                fprintf(stderr, "gguf-convert: unknown type '%s'; expected F32, F16, BF16, Q8_0 or Q4_0\n", optarg);
                return 3;
            }
            break;
        case 'k':
            job->tokenizer = optarg;
            break;
        case 'c':
            if (strcmp(optarg, "0") != 0 && strcmp(optarg, "2") != 0) {
                fprintf(stderr, "gguf-convert: unknown checkpoint version '%s'; expected 0 or 2\n", optarg);
                return 3;
            }
            job->version = optarg[0] == '2' ? 2 : 0;
            break;
        case 'h':
            fputs(usage, stdout);
            return 1;
        default:
            fputs("gguf-convert --help shows the options\n", stderr);
            return 3;
        }
    }
    if (argc - optind != 2) {
        fputs(usage, stderr);
        return 3;
    }
    job->in = argv[optind];
    job->out = argv[optind + 1];
    return 0;
}

int main(int argc, char **argv)
{
    conversion job = {.type = TV_GGUF_F32};
    int stop = parse_options(argc, argv, &job);
    if (stop)
        return stop - 1;
    tv_diag_sink sink = {print_diag, NULL};
    switch (convert(&job, &sink)) {
    case TV_OK:
        return 0;
    case TV_ERR_IO:
    case TV_ERR_MEMORY:
        return 3;
    default:
        return 2;
    }
}
