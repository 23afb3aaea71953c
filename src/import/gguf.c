/* SPDX-License-Identifier: Apache-2.0 */
/* Reads GGUF files: header, metadata, tensor descriptors; tensor data stay in the mapped file.
 *
 * One pass over the header with a cursor that checks every length against the bytes that are left, before anything is
 * allocated in proportion to it. Names are then sorted, which detects duplicates and allows binary search; sorting,
 * unlike hashing, has no adversarial inputs. Every offset and size of a tensor is checked against the file here, so
 * that readers of rows need no checks of their own. */
#include "import/gguf.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "import/gguf_file.h"
#include "import/gguf_types.h"
#include "num/float.h"

typedef struct reader {
    tv_gguf *gguf;
    const tv_diag_sink *sink;
    const uint8_t *data;
    size_t size, at; /* at <= size */
    bool mapped;
} reader;

/* ---- Diagnostics ---- */

enum { NAME_SHOWN = 64 };

/* A prefix of a name for messages; unprintable bytes become '?'. */
static const char *printable(tv_sv name, char text[NAME_SHOWN + 1])
{
    size_t n = name.len < NAME_SHOWN ? name.len : NAME_SHOWN;
    for (size_t i = 0; i < n; i++)
        text[i] = name.ptr[i] >= ' ' && name.ptr[i] <= '~' ? name.ptr[i] : '?';
    text[n] = '\0';
    return text;
}

static tv_status report_damage(const reader *r, const char *what)
{
    return tv_fail(r->sink, TV_ERR_INPUT, TV_LLM_CODE(DAMAGED), "download the file again",
                   "'%s' is damaged: %s (at byte %zu)", r->gguf->name, what, r->at);
}

/* Rejects one metadata entry or tensor. */
static tv_status reject_entry(const reader *r, tv_llm_code_id code, const char *what, tv_sv name, const char *problem)
{
    char text[NAME_SHOWN + 1];
    return tv_fail(r->sink, TV_ERR_INPUT, &tv_llm_codes[code], NULL, "'%s': %s '%s' %s", r->gguf->name, what,
                   printable(name, text), problem);
}

/* ---- The cursor ---- */

static size_t remaining(const reader *r) { return r->size - r->at; }

static bool read_u32(reader *r, uint32_t *out)
{
    if (remaining(r) < 4)
        return false;
    *out = tv_load_le32(r->data + r->at);
    r->at += 4;
    return true;
}

static bool read_u64(reader *r, uint64_t *out)
{
    if (remaining(r) < 8)
        return false;
    *out = tv_load_le64(r->data + r->at);
    r->at += 8;
    return true;
}

static tv_status read_string(reader *r, const char *what, size_t limit, tv_sv *out)
{
    uint64_t length;
    if (!read_u64(r, &length))
        return report_damage(r, "it ends in the length of a string");
    if (length > limit)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), "download the file again",
                       "'%s': %s has %llu bytes; at most %zu are accepted", r->gguf->name, what,
                       (unsigned long long)length, limit);
    if (length > remaining(r))
        return report_damage(r, "it ends inside a string");
    *out = (tv_sv){(const char *)r->data + r->at, (size_t)length};
    r->at += (size_t)length;
    return TV_OK;
}

static tv_status read_name(reader *r, const char *what, tv_sv *out)
{
    TV_TRY(read_string(r, what, TV_GGUF_NAME_MAX, out));
    return out->len == 0 ? report_damage(r, "a name is empty") : TV_OK;
}

/* ---- Metadata ---- */

static tv_status read_array(reader *r, unsigned depth, tv_gguf_list *list);

static tv_status read_strings(reader *r, tv_gguf_list *list)
{
    if (list->count > remaining(r) / 8)
        return report_damage(r, "an array has more strings than the file can hold");
    tv_sv *strings = tv_arena_alloc(&r->gguf->arena, ((size_t)list->count + 1) * sizeof *strings);
    if (!strings)
        return tv_fail_memory(r->sink);
    list->strings = strings;
    for (uint64_t i = 0; i < list->count; i++)
        TV_TRY(read_string(r, "a string of an array", TV_GGUF_STRING_MAX, &strings[i]));
    return TV_OK;
}

/* Reads the elements of `list`, whose kind and count are set. */
static tv_status read_elements(reader *r, unsigned depth, tv_gguf_list *list)
{
    if (list->kind == TV_GGUF_KIND_STRING)
        return read_strings(r, list);
    if (list->kind == TV_GGUF_KIND_ARRAY) {
        if (depth == TV_GGUF_NESTING_MAX)
            return tv_fail(r->sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), NULL, "'%s': arrays nest deeper than %d",
                           r->gguf->name, TV_GGUF_NESTING_MAX);
        tv_gguf_list inner; /* checked only; the bytes are kept */
        for (uint64_t i = 0; i < list->count; i++)
            TV_TRY(read_array(r, depth + 1, &inner));
        return TV_OK;
    }
    if (list->count > remaining(r) / tv_gguf_kind_bytes[list->kind])
        return report_damage(r, "an array has more elements than the file can hold");
    r->at += (size_t)list->count * tv_gguf_kind_bytes[list->kind];
    return TV_OK;
}

static tv_status read_array(reader *r, unsigned depth, tv_gguf_list *list)
{
    uint32_t kind;
    uint64_t count;
    if (!read_u32(r, &kind) || !read_u64(r, &count))
        return report_damage(r, "it ends in the head of an array");
    if (kind >= TV_GGUF_KINDS)
        return report_damage(r, "an array's elements are of a kind that does not exist");
    *list = (tv_gguf_list){.kind = (tv_gguf_kind)kind, .count = count, .data = r->data + r->at};
    return read_elements(r, depth, list);
}

static tv_status read_value(reader *r, tv_gguf_meta *meta)
{
    uint32_t kind;
    if (!read_u32(r, &kind))
        return report_damage(r, "it ends in an entry of metadata");
    if (kind >= TV_GGUF_KINDS)
        return report_damage(r, "a value is of a kind that does not exist");
    meta->kind = (tv_gguf_kind)kind;
    size_t start = r->at;
    if (meta->kind == TV_GGUF_KIND_STRING)
        return read_string(r, "a string", TV_GGUF_STRING_MAX, &meta->value);
    if (meta->kind == TV_GGUF_KIND_ARRAY) {
        TV_TRY(read_array(r, 1, &meta->list));
    } else {
        if (remaining(r) < tv_gguf_kind_bytes[kind])
            return report_damage(r, "it ends in a value");
        r->at += tv_gguf_kind_bytes[kind];
    }
    meta->value = (tv_sv){(const char *)r->data + start, r->at - start};
    return TV_OK;
}

static tv_status read_metadata(reader *r)
{
    tv_gguf *g = r->gguf;
    g->metas = tv_arena_alloc(&g->arena, (size_t)(g->meta_count + 1) * sizeof *g->metas);
    if (!g->metas)
        return tv_fail_memory(r->sink);
    for (uint64_t i = 0; i < g->meta_count; i++) {
        TV_TRY(read_name(r, "a metadata key", &g->metas[i].key));
        TV_TRY(read_value(r, &g->metas[i]));
    }
    return TV_OK;
}

/* ---- Tensors ---- */

/* Reads one entry of the tensor list; its data is located after the whole list has been read. */
static tv_status read_tensor(reader *r, tv_gguf_tensor *t, uint64_t *offset)
{
    uint32_t dim_count;
    TV_TRY(read_name(r, "a tensor's name", &t->name));
    if (!read_u32(r, &dim_count))
        return report_damage(r, "it ends in the list of tensors");
    if (dim_count < 1 || dim_count > TV_GGUF_DIMS_MAX)
        return reject_entry(r, TV_LLM_CODE_DAMAGED, "tensor", t->name, "does not have 1 to 4 dimensions");
    t->dim_count = dim_count;
    t->elements = 1;
    for (unsigned d = 0; d < TV_GGUF_DIMS_MAX; d++) {
        t->dims[d] = 1;
        if (d < dim_count && !read_u64(r, &t->dims[d]))
            return report_damage(r, "it ends in a tensor's dimensions");
        if (t->dims[d] == 0)
            return reject_entry(r, TV_LLM_CODE_DAMAGED, "tensor", t->name, "has a dimension of 0");
        if (t->dims[d] > (UINT64_MAX >> 10) / t->elements) /* so the size in bytes also fits 64 bits */
            return reject_entry(r, TV_LLM_CODE_DAMAGED, "tensor", t->name, "has more elements than any file can hold");
        t->elements *= t->dims[d];
    }
    if (!read_u32(r, &t->type) || !read_u64(r, offset))
        return report_damage(r, "it ends in the list of tensors");
    const tv_gguf_type_row *type = tv_gguf_type_find(t->type);
    if (type && t->dims[0] % type->block != 0)
        return reject_entry(r, TV_LLM_CODE_DAMAGED, "tensor", t->name,
                            "has rows that are not whole blocks of its type");
    t->bytes = type ? t->elements / type->block * type->bytes : 0;
    return TV_OK;
}

static tv_status read_alignment(const reader *r, uint64_t *out)
{
    const tv_gguf_meta *meta = tv_gguf_meta_find(r->gguf, "general.alignment");
    *out = TV_GGUF_ALIGNMENT;
    if (!meta)
        return TV_OK;
    uint64_t value = meta->kind == TV_GGUF_KIND_U32 ? tv_load_le32(meta->value.ptr) : 0;
    if (value == 0 || (value & (value - 1)) != 0 || value > TV_GGUF_ALIGNMENT_MAX)
        return reject_entry(r, TV_LLM_CODE_DAMAGED, "key", meta->key, "is not a power of two up to 1048576");
    *out = value;
    return TV_OK;
}

static tv_status read_tensors(reader *r)
{
    tv_gguf *g = r->gguf;
    uint64_t alignment, *offsets = tv_arena_alloc(&g->arena, (size_t)(g->tensor_count + 1) * sizeof *offsets);
    g->tensors = tv_arena_alloc(&g->arena, (size_t)(g->tensor_count + 1) * sizeof *g->tensors);
    if (!g->tensors || !offsets)
        return tv_fail_memory(r->sink);
    TV_TRY(read_alignment(r, &alignment));
    for (uint64_t i = 0; i < g->tensor_count; i++)
        TV_TRY(read_tensor(r, &g->tensors[i], &offsets[i]));
    uint64_t start = tv_ceil_div(r->at, alignment) * alignment;
    if (g->tensor_count > 0 && start > r->size)
        return report_damage(r, "it ends before the tensors' data");
    for (uint64_t i = 0; i < g->tensor_count; i++) {
        tv_gguf_tensor *t = &g->tensors[i];
        if (offsets[i] % alignment != 0)
            return reject_entry(r, TV_LLM_CODE_DAMAGED, "tensor", t->name, "is not aligned");
        if (offsets[i] > r->size - start || t->bytes > r->size - start - offsets[i])
            return reject_entry(r, TV_LLM_CODE_DAMAGED, "tensor", t->name, "runs past the end of the file");
        t->data = r->data + start + offsets[i];
        t->mapping = r->mapped ? r->data : NULL;
    }
    return TV_OK;
}

/* ---- Index by name ---- */

static int compare_names(tv_sv a, tv_sv b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = memcmp(a.ptr, b.ptr, n);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_metas(const void *a, const void *b)
{
    return compare_names((*(const tv_gguf_meta *const *)a)->key, (*(const tv_gguf_meta *const *)b)->key);
}

static int compare_tensors(const void *a, const void *b)
{
    return compare_names((*(const tv_gguf_tensor *const *)a)->name, (*(const tv_gguf_tensor *const *)b)->name);
}

static tv_status index_metas(const reader *r)
{
    tv_gguf *g = r->gguf;
    const tv_gguf_meta **sorted = tv_arena_alloc(&g->arena, (size_t)(g->meta_count + 1) * sizeof(tv_gguf_meta *));
    if (!sorted)
        return tv_fail_memory(r->sink);
    for (uint64_t i = 0; i < g->meta_count; i++)
        sorted[i] = &g->metas[i];
    qsort(sorted, (size_t)g->meta_count, sizeof(tv_gguf_meta *), compare_metas);
    for (uint64_t i = 1; i < g->meta_count; i++)
        if (tv_sv_eq(sorted[i]->key, sorted[i - 1]->key))
            return reject_entry(r, TV_LLM_CODE_DUPLICATE, "key", sorted[i]->key, "is duplicated");
    g->metas_by_name = sorted;
    return TV_OK;
}

tv_status tv_gguf_index_tensors(tv_gguf *g, const tv_diag_sink *sink)
{
    const reader r = {.gguf = g, .sink = sink};
    const tv_gguf_tensor **sorted = tv_arena_alloc(&g->arena, (size_t)(g->tensor_count + 1) * sizeof(tv_gguf_tensor *));
    if (!sorted)
        return tv_fail_memory(sink);
    for (uint64_t i = 0; i < g->tensor_count; i++)
        sorted[i] = &g->tensors[i];
    qsort(sorted, (size_t)g->tensor_count, sizeof(tv_gguf_tensor *), compare_tensors);
    for (uint64_t i = 1; i < g->tensor_count; i++)
        if (tv_sv_eq(sorted[i]->name, sorted[i - 1]->name))
            return reject_entry(&r, TV_LLM_CODE_DUPLICATE, "tensor", sorted[i]->name, "is duplicated");
    g->tensors_by_name = sorted;
    return TV_OK;
}

/* ---- The file ---- */

static tv_status read_header(reader *r)
{
    tv_gguf *g = r->gguf;
    uint32_t magic, version;
    if (!read_u32(r, &magic) || magic != TV_GGUF_MAGIC)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_LLM_CODE(FORMAT), "gguf-convert converts llama2.c checkpoints",
                       "'%s' is not a GGUF model: it does not begin with \"GGUF\"", g->name);
    if (!read_u32(r, &version))
        return report_damage(r, "it ends in its header");
    if (version != TV_GGUF_VERSION && (version & 0xFFFF) == 0)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_LLM_CODE(VERSION), "get the little-endian file",
                       "'%s' is a big-endian GGUF file", g->name);
    if (version != TV_GGUF_VERSION)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_LLM_CODE(VERSION), "convert it again with newer tools",
                       "'%s' has GGUF version %u; only version %d is supported", g->name, version, TV_GGUF_VERSION);
    if (!read_u64(r, &g->tensor_count) || !read_u64(r, &g->meta_count))
        return report_damage(r, "it ends in its header");
    if (g->tensor_count > TV_GGUF_ENTRIES_MAX || g->meta_count > TV_GGUF_ENTRIES_MAX)
        return tv_fail(r->sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), "download the file again",
                       "'%s' claims to have %llu tensors and %llu metadata entries; at most %d of either are accepted",
                       g->name, (unsigned long long)g->tensor_count, (unsigned long long)g->meta_count,
                       TV_GGUF_ENTRIES_MAX);
    return TV_OK;
}

static tv_status read_file(reader *r)
{
    TV_TRY(read_header(r));
    TV_TRY(read_metadata(r));
    TV_TRY(index_metas(r));
    TV_TRY(read_tensors(r));
    return tv_gguf_index_tensors(r->gguf, r->sink);
}

tv_status tv_gguf_read(const char *name, tv_input *input, const tv_diag_sink *sink, tv_gguf **out)
{
    tv_gguf *gguf = calloc(1, sizeof *gguf);
    if (!gguf)
        return tv_fail_memory(sink);
    gguf->name = tv_arena_str(&gguf->arena, tv_sv_of(name));
    reader r = {.gguf = gguf, .sink = sink, .data = input->data, .size = input->size, .mapped = input->mapped != 0};
    tv_status status = gguf->name ? read_file(&r) : tv_fail_memory(sink);
    if (status != TV_OK) {
        tv_gguf_free(gguf);
        return status;
    }
    gguf->input = *input;
    *input = (tv_input){0};
    *out = gguf;
    return TV_OK;
}

void tv_gguf_free(tv_gguf *gguf)
{
    if (!gguf)
        return;
    for (uint64_t i = 0; i < gguf->split_count; i++)
        tv_gguf_free(gguf->splits[i]);
    if (gguf->input.data)
        tv_input_close(&gguf->input);
    tv_arena_fini(&gguf->arena);
    free(gguf);
}

/* ---- Lookups ---- */

const tv_gguf_meta *tv_gguf_meta_find(const tv_gguf *gguf, const char *key)
{
    const tv_gguf_meta key_entry = {.key = tv_sv_of(key)}, *p = &key_entry;
    const tv_gguf_meta **match =
        bsearch(&p, gguf->metas_by_name, (size_t)gguf->meta_count, sizeof(tv_gguf_meta *), compare_metas);
    return match ? *match : NULL;
}

const tv_gguf_tensor *tv_gguf_tensor_find(const tv_gguf *gguf, const char *name)
{
    const tv_gguf_tensor key_entry = {.name = tv_sv_of(name)}, *p = &key_entry;
    const tv_gguf_tensor **match =
        bsearch(&p, gguf->tensors_by_name, (size_t)gguf->tensor_count, sizeof(tv_gguf_tensor *), compare_tensors);
    return match ? *match : NULL;
}

uint64_t tv_gguf_meta_count(const tv_gguf *gguf) { return gguf->meta_count; }

uint64_t tv_gguf_tensor_count(const tv_gguf *gguf) { return gguf->tensor_count; }

const tv_gguf_meta *tv_gguf_meta_at(const tv_gguf *gguf, uint64_t i)
{
    return i < gguf->meta_count ? &gguf->metas[i] : NULL;
}

const tv_gguf_tensor *tv_gguf_tensor_at(const tv_gguf *gguf, uint64_t i)
{
    return i < gguf->tensor_count ? &gguf->tensors[i] : NULL;
}

tv_status tv_gguf_tensor_check(const tv_gguf *gguf, const tv_gguf_tensor *tensor, const tv_diag_sink *sink)
{
    if (tv_gguf_type_readable(tensor->type))
        return TV_OK;
    char text[NAME_SHOWN + 1];
    const char *name = tv_gguf_type_name(tensor->type);
    return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_TYPE), tv_gguf_readable_types_hint,
                   "'%s': tensor '%s' is stored as %s (type %u), which is not supported", gguf->name,
                   printable(tensor->name, text), name ? name : "an unknown type", tensor->type);
}

tv_status tv_gguf_tensor_require(const tv_gguf *gguf, const char *name, uint64_t columns, uint64_t rows,
                                 const tv_diag_sink *sink, const tv_gguf_tensor **out)
{
    const tv_gguf_tensor *t = tv_gguf_tensor_find(gguf, name);
    if (!t)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_MISSING), NULL, "'%s' has no tensor '%s'", gguf->name,
                       name);
    if (t->dims[0] != columns || t->elements != columns * rows)
        return tv_fail(sink, TV_ERR_INPUT, TV_LLM_CODE(TENSOR_DIMS), NULL,
                       "'%s': tensor '%s' has the dimensions %llu x %llu x %llu x %llu; %llu x %llu was expected",
                       gguf->name, name, (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                       (unsigned long long)t->dims[2], (unsigned long long)t->dims[3], (unsigned long long)columns,
                       (unsigned long long)rows);
    TV_TRY(tv_gguf_tensor_check(gguf, t, sink));
    *out = t;
    return TV_OK;
}

/* Drops the granules of the mapping that end in [start, end). Models are mostly read sequentially, so a completed row
 * means that the pages before it are no longer needed; a later access maps them again from the file. */
static void drop_pages(const uint8_t *mapping, const uint8_t *start, const uint8_t *end)
{
    const uintptr_t granule = (uintptr_t)1 << 20; /* a multiple of every page size in use */
    uintptr_t first = (uintptr_t)start / granule * granule, last = (uintptr_t)end / granule * granule;
    if (first < (uintptr_t)mapping)
        first = (uintptr_t)mapping;
    if (first < last)
        madvise((void *)first, last - first, MADV_DONTNEED);
}

tv_status tv_gguf_row_f32(const tv_gguf_tensor *tensor, uint64_t row, float *out)
{
    uint64_t length = tensor->dims[0];
    if (!tv_gguf_type_readable(tensor->type) || row >= tensor->elements / length)
        return TV_ERR_INPUT;
    tv_gguf_type type = (tv_gguf_type)tensor->type;
    uint64_t bytes = tv_gguf_type_bytes(type, length);
    const uint8_t *start = tensor->data + row * bytes;
    tv_gguf_decode(type, start, length, out);
    if (tensor->mapping)
        drop_pages(tensor->mapping, start, start + bytes);
    return TV_OK;
}

void tv_gguf_rows_drop(const tv_gguf_tensor *tensor, uint64_t first, uint64_t count)
{
    const uintptr_t page = (uintptr_t)1 << 16; /* a multiple of every page size in use */
    uint64_t row_bytes = tv_gguf_type_bytes((tv_gguf_type)tensor->type, tensor->dims[0]);
    uintptr_t start = (uintptr_t)(tensor->data + first * row_bytes) / page * page,
              end = (uintptr_t)(tensor->data + (first + count) * row_bytes) / page * page;
    if (start < (uintptr_t)tensor->mapping)
        start = (uintptr_t)tensor->mapping;
    if (tensor->mapping && start < end)
        madvise((void *)start, end - start, MADV_DONTNEED);
}
