/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes llama2.c checkpoints. The offsets of all tensors follow from the header, which also determines the
 * exact size of the file. */
#include "import/llama2c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "num/float.h"
#include "num/func.h"
#include "num/int.h"

#define MAGIC UINT32_C(0x616B3432) /* "ak42" */
enum { HEADER_0 = 28, HEADER_2 = 256, GROUP = 64, SEQ_MAX = 1 << 30 };

struct tv_llama2c {
    tv_input input;
    tv_llama2c_header header;
    uint64_t offsets[TV_LLAMA2C_TENSORS];
};

/* Tensors in file order. In version 0, the tables of cosines and sines precede WCLS. */
static const tv_llama2c_tensor order_0[] = {
    TV_LLAMA2C_TOKEN_EMBEDDING, TV_LLAMA2C_RMS_ATT, TV_LLAMA2C_WQ, TV_LLAMA2C_WK, TV_LLAMA2C_WV,        TV_LLAMA2C_WO,
    TV_LLAMA2C_RMS_FFN,         TV_LLAMA2C_W1,      TV_LLAMA2C_W2, TV_LLAMA2C_W3, TV_LLAMA2C_RMS_FINAL, TV_LLAMA2C_WCLS,
};
static const tv_llama2c_tensor order_2[] = {
    TV_LLAMA2C_RMS_ATT, TV_LLAMA2C_RMS_FFN, TV_LLAMA2C_RMS_FINAL, TV_LLAMA2C_TOKEN_EMBEDDING,
    TV_LLAMA2C_WQ,      TV_LLAMA2C_WK,      TV_LLAMA2C_WV,        TV_LLAMA2C_WO,
    TV_LLAMA2C_W1,      TV_LLAMA2C_W2,      TV_LLAMA2C_W3,        TV_LLAMA2C_WCLS,
};

void tv_llama2c_tensor_dims(const tv_llama2c_header *s, tv_llama2c_tensor tensor, uint64_t *columns, uint64_t *rows,
                            uint32_t *layers)
{
    uint64_t kv_dim = (uint64_t)s->dim / s->heads * s->kv_heads;
    *columns = s->dim;
    *rows = 1;
    *layers = s->layers;
    switch (tensor) {
    case TV_LLAMA2C_TOKEN_EMBEDDING:
        *rows = s->vocab;
        *layers = 1;
        break;
    case TV_LLAMA2C_WCLS:
        *rows = s->vocab;
        *layers = !s->tied;
        break;
    case TV_LLAMA2C_RMS_FINAL:
        *layers = 1;
        break;
    case TV_LLAMA2C_RMS_ATT:
    case TV_LLAMA2C_RMS_FFN:
        break;
    case TV_LLAMA2C_WQ:
    case TV_LLAMA2C_WO:
        *rows = s->dim;
        break;
    case TV_LLAMA2C_WK:
    case TV_LLAMA2C_WV:
        *rows = kv_dim;
        break;
    case TV_LLAMA2C_W1:
    case TV_LLAMA2C_W3:
        *rows = s->hidden_dim;
        break;
    case TV_LLAMA2C_W2:
        *columns = s->hidden_dim;
        *rows = s->dim;
        break;
    case TV_LLAMA2C_TENSORS:
        *layers = 0;
        break;
    }
}

static bool is_vector(tv_llama2c_tensor tensor)
{
    return tensor == TV_LLAMA2C_RMS_ATT || tensor == TV_LLAMA2C_RMS_FFN || tensor == TV_LLAMA2C_RMS_FINAL;
}

static bool is_quantized(const tv_llama2c_header *s, tv_llama2c_tensor tensor)
{
    return s->version == 2 && !is_vector(tensor);
}

/* Bytes of the table of cosines; the sines take the same. */
static uint64_t table_bytes(const tv_llama2c_header *s) { return (uint64_t)s->seq_len * (s->dim / s->heads / 2) * 4; }

static uint64_t layer_bytes(const tv_llama2c_header *s, tv_llama2c_tensor tensor)
{
    uint64_t columns, rows;
    uint32_t layers;
    tv_llama2c_tensor_dims(s, tensor, &columns, &rows, &layers);
    return is_quantized(s, tensor) ? columns * rows + columns * rows / s->group_size * 4 : columns * rows * 4;
}

/* Computes the offset of each tensor and returns the size of the file. The limits keep every sum far below 2^64. */
static uint64_t compute_offsets(const tv_llama2c_header *s, uint64_t offsets[TV_LLAMA2C_TENSORS])
{
    const tv_llama2c_tensor *order = s->version == 2 ? order_2 : order_0;
    uint64_t at = s->version == 2 ? HEADER_2 : HEADER_0;
    for (unsigned i = 0; i < TV_LLAMA2C_TENSORS; i++) {
        uint64_t columns, rows;
        uint32_t layers;
        tv_llama2c_tensor_dims(s, order[i], &columns, &rows, &layers);
        if (s->version == 0 && order[i] == TV_LLAMA2C_WCLS)
            at += 2 * table_bytes(s);
        if (layers > 0)
            offsets[order[i]] = at;
        at += layers * layer_bytes(s, order[i]);
    }
    return at;
}

/* Describes what is invalid in a header; NULL: valid. */
static const char *header_problem(const tv_llama2c_header *s)
{
    if (s->dim < 1 || s->dim > TV_LLAMA2C_SIDE_MAX || s->hidden_dim < 1 || s->hidden_dim > TV_LLAMA2C_SIDE_MAX ||
        s->vocab < 1 || s->vocab > TV_LLAMA2C_SIDE_MAX)
        return "dim, hidden_dim and vocab must be 1 to 16777216";
    if (s->layers < 1 || s->layers > TV_LLAMA2C_LAYERS_MAX)
        return "there must be 1 to 1024 layers";
    if (s->seq_len < 1 || s->seq_len > SEQ_MAX)
        return "seq_len must be 1 to 1073741824";
    if (s->heads < 1 || s->dim % s->heads != 0 || s->dim / s->heads % 2 != 0)
        return "dim must be heads times an even number";
    if (s->kv_heads < 1 || s->heads % s->kv_heads != 0)
        return "heads must be a multiple of kv_heads";
    if (s->version == 2 && (s->group_size < 1 || s->dim % s->group_size != 0))
        return "the group size must divide dim";
    return NULL;
}

/* ---- Reading ---- */

/* Returns false when the file is too short. The caller checks the version. */
static bool parse_header(const uint8_t *data, size_t size, tv_llama2c_header *s)
{
    if (size < HEADER_0)
        return false;
    const uint8_t *p = data;
    *s = (tv_llama2c_header){0};
    if (tv_load_le32(data) == MAGIC) {
        s->version = tv_load_le32(data + 4);
        if (s->version == 0 || size < HEADER_2)
            return false;
        p = data + 8;
    }
    uint32_t *const fields[] = {&s->dim, &s->hidden_dim, &s->layers, &s->heads, &s->kv_heads, &s->vocab, &s->seq_len};
    for (size_t i = 0; i < TV_COUNTOF(fields); i++)
        *fields[i] = tv_load_le32(p + 4 * i);
    if (s->version != 0) {
        s->tied = p[28] != 0;
        s->group_size = tv_load_le32(p + 29);
    } else {
        s->tied = s->vocab <= INT32_MAX;
        s->vocab = s->tied ? s->vocab : 0 - s->vocab;
    }
    return true;
}

bool tv_llama2c_recognise(const uint8_t *data, size_t size)
{
    tv_llama2c_header s;
    if (size >= 4 && tv_load_le32(data) == MAGIC)
        return true;
    return parse_header(data, size, &s) && !header_problem(&s);
}

static tv_status read_checkpoint(const char *name, tv_llama2c *c, const tv_input *input, const tv_diag_sink *sink)
{
    if (!tv_llama2c_recognise(input->data, input->size))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(FORMAT), NULL,
                       "'%s' is not a llama2.c checkpoint: its header is not plausible", name);
    if (!parse_header(input->data, input->size, &c->header))
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(CHECKPOINT), "download the file again",
                       "'%s' has a damaged header", name);
    if (c->header.version != 0 && c->header.version != 2)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(CHECKPOINT_VERSION), "export it with --version 0 or 2",
                       "'%s' has checkpoint version %u; only 0 and 2 are supported", name, c->header.version);
    const char *problem = header_problem(&c->header);
    if (problem)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(CHECKPOINT), "download the file again", "'%s': %s", name,
                       problem);
    uint64_t size = compute_offsets(&c->header, c->offsets);
    if (size != input->size)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(CHECKPOINT), "download the file again",
                       "'%s' has %zu bytes; its header requires %llu", name, input->size, (unsigned long long)size);
    return TV_OK;
}

tv_status tv_llama2c_read(const char *name, tv_input *input, const tv_diag_sink *sink, tv_llama2c **out)
{
    tv_llama2c *c = calloc(1, sizeof *c);
    if (!c)
        return tv_fail_memory(sink);
    tv_status status = read_checkpoint(name, c, input, sink);
    if (status != TV_OK) {
        free(c);
        return status;
    }
    c->input = *input;
    *input = (tv_input){0};
    *out = c;
    return TV_OK;
}

tv_status tv_llama2c_open(const char *path, const tv_diag_sink *sink, tv_llama2c **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_llama2c_read(path, &input, sink, out);
    if (status != TV_OK)
        tv_input_close(&input);
    return status;
}

void tv_llama2c_free(tv_llama2c *checkpoint)
{
    if (!checkpoint)
        return;
    tv_input_close(&checkpoint->input);
    free(checkpoint);
}

const tv_llama2c_header *tv_llama2c_header_of(const tv_llama2c *checkpoint) { return &checkpoint->header; }

void tv_llama2c_row(const tv_llama2c *c, tv_llama2c_tensor tensor, uint32_t layer, uint64_t row, float *out)
{
    uint64_t columns, rows;
    uint32_t layers;
    tv_llama2c_tensor_dims(&c->header, tensor, &columns, &rows, &layers);
    assert(layer < layers && row < rows);
    const uint8_t *p = c->input.data + c->offsets[tensor] + layer * layer_bytes(&c->header, tensor);
    if (!is_quantized(&c->header, tensor)) {
        tv_gguf_decode(TV_GGUF_F32, p + row * columns * 4, columns, out);
        return;
    }
    const uint8_t *scales = p + columns * rows;
    for (uint64_t i = 0; i < columns; i++) {
        uint64_t at = row * columns + i;
        out[i] = (float)(int8_t)p[at] * tv_f32_of_bits(tv_load_le32(scales + at / c->header.group_size * 4));
    }
}

/* ---- Writing ---- */

typedef struct writer {
    const tv_llama2c_header *header;
    tv_llama2c_rows rows;
    void *user;
    const tv_diag_sink *sink;
    FILE *file;
    float *row;   /* [max(dim, hidden_dim)] */
    float *group; /* version 2: elements of the incomplete group */
    uint32_t filled;
    tv_buf scales;
} writer;

static void write_le32(FILE *file, uint32_t value)
{
    uint8_t bytes[4];
    tv_store_le(bytes, value, 4);
    fwrite(bytes, 1, sizeof bytes, file);
}

static void write_header(const writer *w)
{
    const tv_llama2c_header *s = w->header;
    if (s->version == 2) {
        write_le32(w->file, MAGIC);
        write_le32(w->file, 2);
    }
    const uint32_t fields[] = {s->dim,    s->hidden_dim, s->layers,
                               s->heads,  s->kv_heads,   s->version == 0 && !s->tied ? 0 - s->vocab : s->vocab,
                               s->seq_len};
    for (size_t i = 0; i < TV_COUNTOF(fields); i++)
        write_le32(w->file, fields[i]);
    if (s->version == 2) {
        fputc(s->tied, w->file);
        write_le32(w->file, s->group_size);
        for (unsigned at = 41; at < HEADER_2; at++)
            fputc(0, w->file);
    }
}

/* cos and sin of position * 10000^(-2i / head_dim). */
static void write_tables(const writer *w)
{
    uint32_t size = w->header->dim / w->header->heads;
    for (unsigned table = 0; table < 2; table++)
        for (uint32_t position = 0; position < w->header->seq_len; position++)
            for (uint32_t i = 0; i < size / 2; i++) {
                double angle = (double)position * pow(10000.0, -2.0 * (double)i / (double)size);
                write_le32(w->file, tv_f32_bits(tv_func_f32_of_angle(table == 0 ? TV_FUNC_COS : TV_FUNC_SIN, angle)));
            }
}

static tv_status write_group(writer *w)
{
    float absmax = 0;
    bool finite = true;
    for (uint32_t i = 0; i < w->header->group_size; i++) {
        finite &= isfinite(w->group[i]) != 0;
        absmax = fmaxf(absmax, fabsf(w->group[i]));
    }
    if (!finite)
        return tv_fail(w->sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_VALUE), "write version 0",
                       "a weight is not finite and cannot be an int8");
    float scale = absmax / 127.0f;
    for (uint32_t i = 0; i < w->header->group_size; i++) {
        int q = scale > 0 ? tv_int_round_clamp((double)(w->group[i] / scale), -127, 127) : 0;
        fputc(q & 0xFF, w->file);
    }
    tv_buf_le(&w->scales, tv_f32_bits(scale), 4);
    w->filled = 0;
    return TV_OK;
}

static tv_status write_row(writer *w, tv_llama2c_tensor tensor, uint64_t columns)
{
    for (uint64_t i = 0; i < columns; i++) {
        if (!is_quantized(w->header, tensor)) {
            write_le32(w->file, tv_f32_bits(w->row[i]));
            continue;
        }
        w->group[w->filled++] = w->row[i];
        if (w->filled == w->header->group_size)
            TV_TRY(write_group(w));
    }
    return TV_OK;
}

static tv_status write_tensor(writer *w, tv_llama2c_tensor tensor)
{
    uint64_t columns, rows;
    uint32_t layers;
    tv_llama2c_tensor_dims(w->header, tensor, &columns, &rows, &layers);
    for (uint32_t layer = 0; layer < layers; layer++) {
        for (uint64_t row = 0; row < rows; row++) {
            TV_TRY(w->rows(w->user, tensor, layer, row, w->row));
            TV_TRY(write_row(w, tensor, columns));
        }
        if (w->scales.failed)
            return tv_fail_memory(w->sink);
        if (w->scales.len > 0)
            fwrite(w->scales.data, 1, w->scales.len, w->file);
        w->scales.len = 0;
    }
    return TV_OK;
}

static tv_status write_checkpoint(writer *w)
{
    const tv_llama2c_tensor *order = w->header->version == 2 ? order_2 : order_0;
    write_header(w);
    for (unsigned i = 0; i < TV_LLAMA2C_TENSORS; i++) {
        if (w->header->version == 0 && order[i] == TV_LLAMA2C_WCLS)
            write_tables(w);
        TV_TRY(write_tensor(w, order[i]));
    }
    return TV_OK;
}

tv_status tv_llama2c_write(const char *path, const tv_llama2c_header *header, tv_llama2c_rows rows, void *user,
                           const tv_diag_sink *sink)
{
    tv_llama2c_header s = *header;
    for (s.group_size = s.group_size ? s.group_size : GROUP; s.version == 2 && s.dim % s.group_size != 0;)
        s.group_size /= 2;
    const char *problem = s.version != 0 && s.version != 2 ? "versions 0 and 2 can be written" : header_problem(&s);
    if (problem)
        return tv_fail(
            sink, TV_ERR_INPUT,
            &tv_llm_codes[s.version == 0 || s.version == 2 ? TV_LLM_CODE_CONVERT : TV_LLM_CODE_CHECKPOINT_VERSION],
            NULL, "no checkpoint can be written: %s", problem);
    writer w = {.header = &s, .rows = rows, .user = user, .sink = sink};
    tv_output *output = NULL;
    w.row = malloc((size_t)tv_max_u64(s.dim, s.hidden_dim) * sizeof *w.row);
    w.group = malloc(((size_t)s.group_size + 1) * sizeof *w.group);
    tv_status status = w.row && w.group ? tv_output_open(path, sink, &output) : tv_fail_memory(sink);
    if (status == TV_OK) {
        w.file = tv_output_stream(output);
        status = write_checkpoint(&w);
        if (status == TV_OK)
            status = tv_output_commit(output, sink);
        else
            tv_output_abandon(output);
    }
    tv_buf_fini(&w.scales);
    free(w.group);
    free(w.row);
    return status;
}
