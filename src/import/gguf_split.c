/* SPDX-License-Identifier: Apache-2.0 */
/* Models in several files: NAME-00001-of-00003.gguf and so on.
 *
 * Each file is a GGUF file of its own with `split.count`, the number of files, and `split.no`, its number from 0. The
 * first has the metadata of the model and `split.tensors.count`, the number of tensors of all files. Any of them opens
 * the model; what the files say of each other, and of their names, must agree. */
#include <stdlib.h>

#include "import/gguf.h"
#include "import/gguf_file.h"

typedef struct opening {
    const char *path;
    const tv_diag_sink *sink;
    uint64_t count;
    tv_gguf **files; /* `count`, by split.no */
} opening;

enum { ENDING_BYTES = 24 }; /* "-00001-of-00003.gguf" and more for numbers of six digits */

static void format_ending(char out[ENDING_BYTES], uint64_t number, uint64_t count)
{
    snprintf(out, ENDING_BYTES, "-%05u-of-%05u.gguf", (unsigned)number + 1, (unsigned)count);
}

static uint64_t number_of(const tv_gguf *gguf) { return tv_gguf_u64(gguf, "split.no", UINT64_MAX); }

/* The length of the path without its ending, which must be that of file `number`. */
static tv_status find_stem(const opening *o, uint64_t number, size_t *length)
{
    char ending[ENDING_BYTES];
    format_ending(ending, number, o->count);
    size_t n = strlen(ending), size = strlen(o->path);
    if (size < n || strcmp(o->path + size - n, ending) != 0)
        return tv_fail(o->sink, TV_ERR_INPUT, TV_LLM_CODE(SPLIT), "rename the file, and the others likewise",
                       "'%s' is part %u of %u of a model, but its name does not end in '%s'", o->path,
                       (unsigned)number + 1, (unsigned)o->count, ending);
    *length = size - n;
    return TV_OK;
}

static tv_status check_split(const opening *o, const char *path, const tv_gguf *gguf, uint64_t number)
{
    uint64_t count = tv_gguf_u64(gguf, "split.count", 0), no = number_of(gguf);
    if (count != o->count)
        return tv_fail(o->sink, TV_ERR_INPUT, TV_LLM_CODE(SPLIT), "download the files again",
                       "'%s' belongs to a model of %llu parts (split.count), '%s' to one of %llu", path,
                       (unsigned long long)count, o->path, (unsigned long long)o->count);
    if (no != number)
        return tv_fail(o->sink, TV_ERR_INPUT, TV_LLM_CODE(SPLIT), "download the files again",
                       "'%s' is part number %lld by its metadata (split.no), and %llu by its name", path, (long long)no,
                       (unsigned long long)number);
    return TV_OK;
}

static tv_status open_file(const char *path, const tv_diag_sink *sink, tv_gguf **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_gguf_read(path, &input, sink, out);
    if (status != TV_OK)
        tv_input_close(&input);
    return status;
}

static tv_status open_others(const opening *o, size_t stem)
{
    for (uint64_t i = 0; i < o->count; i++) {
        if (o->files[i])
            continue;
        tv_buf path = {0};
        char ending[ENDING_BYTES];
        format_ending(ending, i, o->count);
        tv_buf_append(&path, o->path, stem);
        tv_buf_str(&path, ending);
        tv_status status = path.failed ? tv_fail_memory(o->sink) : open_file(tv_buf_cstr(&path), o->sink, &o->files[i]);
        if (status == TV_OK)
            status = check_split(o, tv_buf_cstr(&path), o->files[i], i);
        tv_buf_fini(&path);
        TV_TRY(status);
    }
    return TV_OK;
}

/* Gives the first file the tensors of all. */
static tv_status join_tensors(const opening *o)
{
    tv_gguf *g = o->files[0];
    uint64_t total = 0, expected = tv_gguf_u64(g, "split.tensors.count", UINT64_MAX);
    for (uint64_t i = 0; i < o->count; i++)
        total += o->files[i]->tensor_count;
    if (expected != total)
        return tv_fail(o->sink, TV_ERR_INPUT, TV_LLM_CODE(SPLIT), "download the files again",
                       "'%s': the %llu parts have %llu tensors; split.tensors.count is %lld", o->path,
                       (unsigned long long)o->count, (unsigned long long)total, (long long)expected);
    if (total > TV_GGUF_ENTRIES_MAX)
        return tv_fail(o->sink, TV_ERR_INPUT, TV_LLM_CODE(LIMIT), NULL,
                       "'%s': the parts have %llu tensors; at most %d are accepted", o->path, (unsigned long long)total,
                       TV_GGUF_ENTRIES_MAX);
    tv_gguf_tensor *tensors = tv_arena_alloc(&g->arena, (size_t)(total + 1) * sizeof *tensors);
    if (!tensors)
        return tv_fail_memory(o->sink);
    uint64_t n = 0;
    for (uint64_t i = 0; i < o->count; i++)
        for (uint64_t k = 0; k < o->files[i]->tensor_count; k++)
            tensors[n++] = o->files[i]->tensors[k];
    g->tensors = tensors;
    g->tensor_count = total;
    return tv_gguf_index_tensors(g, o->sink);
}

/* Takes `gguf`, also on errors. */
static tv_status join_files(opening *o, tv_gguf *gguf, tv_gguf **out)
{
    uint64_t number = number_of(gguf);
    size_t stem = 0;
    tv_status status = TV_OK;
    if (o->count > TV_GGUF_SPLITS_MAX || number >= o->count)
        status =
            tv_fail(o->sink, TV_ERR_INPUT, TV_LLM_CODE(SPLIT), "download the file again",
                    "'%s': split.no is %lld and split.count %llu; numbers from 0 and at most %d files are accepted",
                    o->path, (long long)number, (unsigned long long)o->count, TV_GGUF_SPLITS_MAX);
    o->files = status == TV_OK ? calloc((size_t)o->count, sizeof(tv_gguf *)) : NULL;
    if (status == TV_OK && !o->files)
        status = tv_fail_memory(o->sink);
    if (status != TV_OK) {
        tv_gguf_free(gguf);
        return status;
    }
    o->files[number] = gguf;
    status = find_stem(o, number, &stem);
    if (status == TV_OK)
        status = open_others(o, stem);
    tv_gguf **others = NULL;
    if (status == TV_OK && !(others = tv_arena_alloc(&o->files[0]->arena, (size_t)o->count * sizeof(tv_gguf *))))
        status = tv_fail_memory(o->sink);
    if (status == TV_OK)
        status = join_tensors(o);
    if (status != TV_OK) {
        for (uint64_t i = 0; i < o->count; i++)
            tv_gguf_free(o->files[i]);
        return status;
    }
    *out = o->files[0];
    memcpy(others, o->files + 1, (size_t)(o->count - 1) * sizeof(tv_gguf *));
    (*out)->splits = others;
    (*out)->split_count = o->count - 1;
    return TV_OK;
}

tv_status tv_gguf_read_split(const char *path, tv_input *input, const tv_diag_sink *sink, tv_gguf **out)
{
    tv_gguf *gguf = NULL;
    TV_TRY(tv_gguf_read(path, input, sink, &gguf));
    opening o = {.path = path, .sink = sink, .count = tv_gguf_u64(gguf, "split.count", 1)};
    if (o.count <= 1) {
        *out = gguf;
        return TV_OK;
    }
    tv_status status = join_files(&o, gguf, out);
    free(o.files);
    return status;
}

tv_status tv_gguf_open(const char *path, const tv_diag_sink *sink, tv_gguf **out)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_gguf_read_split(path, &input, sink, out);
    if (status != TV_OK && input.data)
        tv_input_close(&input);
    return status;
}
