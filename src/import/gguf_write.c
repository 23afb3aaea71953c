/* SPDX-License-Identifier: Apache-2.0 */
/* Writes GGUF files. Metadata is serialized when it is added; the rows of a tensor are generated when the file is
 * saved, one at a time, so no second copy of the model is needed. */
#include "base/vec.h"
#include "import/gguf.h"

#include <stdio.h>
#include <stdlib.h>

#include "import/gguf_types.h"
#include "num/float.h"

typedef struct pending_tensor {
    char *name;
    size_t name_length;
    uint32_t type;
    unsigned dim_count;
    uint64_t dims[TV_GGUF_DIMS_MAX];
    uint64_t elements, bytes;
    tv_gguf_rows rows; /* NULL: write `data` unchanged */
    void *user;
    const uint8_t *data;
} pending_tensor;

struct tv_gguf_writer {
    tv_buf metas; /* serialized */
    uint64_t meta_count;
    uint32_t alignment;
    TV_VEC(pending_tensor) tensors;
    bool failed; /* out of memory */
};

tv_gguf_writer *tv_gguf_writer_new(void)
{
    tv_gguf_writer *writer = calloc(1, sizeof *writer);
    if (writer)
        writer->alignment = TV_GGUF_ALIGNMENT;
    return writer;
}

void tv_gguf_writer_free(tv_gguf_writer *writer)
{
    if (!writer)
        return;
    for (uint64_t i = 0; i < writer->tensors.count; i++)
        free(writer->tensors.data[i].name);
    TV_VEC_FINI(&writer->tensors);
    tv_buf_fini(&writer->metas);
    free(writer);
}

/* ---- Metadata ---- */

static void append_string(tv_buf *buf, tv_sv text)
{
    tv_buf_le(buf, text.len, 8);
    tv_buf_append(buf, text.ptr, text.len);
}

static void begin_entry(tv_gguf_writer *writer, tv_sv key, tv_gguf_kind kind)
{
    writer->meta_count++;
    append_string(&writer->metas, key);
    tv_buf_le(&writer->metas, kind, 4);
}

static void begin_array_entry(tv_gguf_writer *writer, const char *key, tv_gguf_kind kind, uint64_t count)
{
    begin_entry(writer, tv_sv_of(key), TV_GGUF_KIND_ARRAY);
    tv_buf_le(&writer->metas, kind, 4);
    tv_buf_le(&writer->metas, count, 8);
}

void tv_gguf_writer_string(tv_gguf_writer *writer, const char *key, tv_sv value)
{
    begin_entry(writer, tv_sv_of(key), TV_GGUF_KIND_STRING);
    append_string(&writer->metas, value);
}

void tv_gguf_writer_u32(tv_gguf_writer *writer, const char *key, uint32_t value)
{
    begin_entry(writer, tv_sv_of(key), TV_GGUF_KIND_U32);
    tv_buf_le(&writer->metas, value, 4);
}

void tv_gguf_writer_u64(tv_gguf_writer *writer, const char *key, uint64_t value)
{
    begin_entry(writer, tv_sv_of(key), TV_GGUF_KIND_U64);
    tv_buf_le(&writer->metas, value, 8);
}

void tv_gguf_writer_f32(tv_gguf_writer *writer, const char *key, float value)
{
    begin_entry(writer, tv_sv_of(key), TV_GGUF_KIND_F32);
    tv_buf_le(&writer->metas, tv_f32_bits(value), 4);
}

void tv_gguf_writer_bool(tv_gguf_writer *writer, const char *key, bool value)
{
    begin_entry(writer, tv_sv_of(key), TV_GGUF_KIND_BOOL);
    tv_buf_le(&writer->metas, value, 1);
}

void tv_gguf_writer_strings(tv_gguf_writer *writer, const char *key, const tv_sv *values, uint64_t count)
{
    begin_array_entry(writer, key, TV_GGUF_KIND_STRING, count);
    for (uint64_t i = 0; i < count; i++)
        append_string(&writer->metas, values[i]);
}

void tv_gguf_writer_f32s(tv_gguf_writer *writer, const char *key, const float *values, uint64_t count)
{
    begin_array_entry(writer, key, TV_GGUF_KIND_F32, count);
    for (uint64_t i = 0; i < count; i++)
        tv_buf_le(&writer->metas, tv_f32_bits(values[i]), 4);
}

void tv_gguf_writer_i32s(tv_gguf_writer *writer, const char *key, const int32_t *values, uint64_t count)
{
    begin_array_entry(writer, key, TV_GGUF_KIND_I32, count);
    for (uint64_t i = 0; i < count; i++)
        tv_buf_le(&writer->metas, (uint32_t)values[i], 4);
}

void tv_gguf_writer_meta(tv_gguf_writer *writer, const tv_gguf_meta *meta)
{
    if (tv_sv_is(meta->key, "general.alignment") && meta->kind == TV_GGUF_KIND_U32)
        writer->alignment = tv_load_le32(meta->value.ptr);
    begin_entry(writer, meta->key, meta->kind);
    if (meta->kind == TV_GGUF_KIND_STRING)
        append_string(&writer->metas, meta->value);
    else
        tv_buf_append(&writer->metas, meta->value.ptr, meta->value.len);
}

/* ---- Tensors ---- */

static pending_tensor *add_tensor(tv_gguf_writer *writer, tv_sv name)
{
    char *copy = malloc(name.len + 1);
    if (!copy || !TV_VEC_PUSH(&writer->tensors,
                              ((pending_tensor){.name = copy, .name_length = name.len, .dims = {1, 1, 1, 1}}))) {
        free(copy);
        writer->failed = true;
        return NULL;
    }
    memcpy(copy, name.ptr, name.len);
    copy[name.len] = '\0';
    return TV_VEC_LAST(&writer->tensors);
}

tv_status tv_gguf_rows_of_array(void *user, uint64_t row, uint64_t length, float *out)
{
    const float *values = user;
    memcpy(out, values + row * length, (size_t)length * sizeof *out);
    return TV_OK;
}

void tv_gguf_writer_tensor(tv_gguf_writer *writer, const char *name, tv_gguf_type type, const uint64_t *dims,
                           unsigned dim_count, tv_gguf_rows rows, void *user)
{
    assert(dim_count >= 1 && dim_count <= TV_GGUF_DIMS_MAX && dims[0] % tv_gguf_type_block(type) == 0);
    pending_tensor *t = add_tensor(writer, tv_sv_of(name));
    if (!t)
        return;
    t->type = (uint32_t)type;
    t->dim_count = dim_count;
    t->elements = 1;
    for (unsigned d = 0; d < dim_count; d++)
        t->elements *= t->dims[d] = dims[d];
    t->bytes = tv_gguf_type_bytes(type, t->elements);
    t->rows = rows;
    t->user = user;
}

void tv_gguf_writer_copy(tv_gguf_writer *writer, const tv_gguf_tensor *source)
{
    assert(source->bytes > 0);
    pending_tensor *t = add_tensor(writer, source->name);
    if (!t)
        return;
    t->type = source->type;
    t->dim_count = source->dim_count;
    memcpy(t->dims, source->dims, sizeof t->dims);
    t->elements = source->elements;
    t->bytes = source->bytes;
    t->data = source->data;
}

/* ---- The file ---- */

static uint64_t align_up(const tv_gguf_writer *writer, uint64_t at)
{
    return tv_ceil_div(at, writer->alignment) * writer->alignment;
}

/* Serializes everything before the tensor data, padded to the alignment. */
static void serialize_head(const tv_gguf_writer *writer, tv_buf *head)
{
    tv_buf_le(head, TV_GGUF_MAGIC, 4);
    tv_buf_le(head, TV_GGUF_VERSION, 4);
    tv_buf_le(head, writer->tensors.count, 8);
    tv_buf_le(head, writer->meta_count, 8);
    tv_buf_append(head, writer->metas.data, writer->metas.len);
    uint64_t offset = 0;
    for (uint64_t i = 0; i < writer->tensors.count; i++) {
        const pending_tensor *t = &writer->tensors.data[i];
        append_string(head, (tv_sv){t->name, t->name_length});
        tv_buf_le(head, t->dim_count, 4);
        for (unsigned d = 0; d < t->dim_count; d++)
            tv_buf_le(head, t->dims[d], 8);
        tv_buf_le(head, t->type, 4);
        tv_buf_le(head, offset, 8);
        offset = align_up(writer, offset + t->bytes);
    }
    if (writer->tensors.count > 0)
        tv_buf_fill(head, 0, (size_t)(align_up(writer, head->len) - head->len));
}

static tv_status write_rows(const pending_tensor *t, FILE *file, const tv_diag_sink *sink)
{
    uint64_t length = t->dims[0];
    size_t row_bytes = (size_t)tv_gguf_type_bytes((tv_gguf_type)t->type, length);
    float *row = malloc((size_t)length * sizeof *row);
    uint8_t *bytes = malloc(row_bytes);
    tv_status status = row && bytes ? TV_OK : tv_fail_memory(sink);
    for (uint64_t i = 0; status == TV_OK && i < t->elements / length; i++) {
        status = t->rows(t->user, i, length, row);
        if (status == TV_OK && !tv_gguf_encode((tv_gguf_type)t->type, row, length, bytes))
            status = tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_VALUE), "store the tensor as F32",
                             "tensor '%s', row %llu: a value is not finite or too large for %s", t->name,
                             (unsigned long long)i, tv_gguf_type_name(t->type));
        if (status == TV_OK)
            fwrite(bytes, 1, row_bytes, file); /* tv_output_commit reports write errors */
    }
    free(row);
    free(bytes);
    return status;
}

static tv_status write_tensors(const tv_gguf_writer *writer, FILE *file, const tv_diag_sink *sink)
{
    for (uint64_t i = 0; i < writer->tensors.count; i++) {
        const pending_tensor *t = &writer->tensors.data[i];
        if (t->rows)
            TV_TRY(write_rows(t, file, sink));
        else
            fwrite(t->data, 1, (size_t)t->bytes, file);
        for (uint64_t at = t->bytes; at < align_up(writer, t->bytes); at++)
            fputc(0, file);
    }
    return TV_OK;
}

tv_status tv_gguf_writer_save(tv_gguf_writer *writer, const char *path, const tv_diag_sink *sink)
{
    tv_output *output = NULL;
    tv_buf head = {0};
    serialize_head(writer, &head);
    if (writer->failed || writer->metas.failed || head.failed) {
        tv_buf_fini(&head);
        return tv_fail_memory(sink);
    }
    tv_status status = tv_output_open(path, sink, &output);
    if (status == TV_OK) {
        fwrite(head.data, 1, head.len, tv_output_stream(output));
        status = write_tensors(writer, tv_output_stream(output), sink);
    }
    tv_buf_fini(&head);
    if (status != TV_OK) {
        tv_output_abandon(output);
        return status;
    }
    return tv_output_commit(output, sink);
}
