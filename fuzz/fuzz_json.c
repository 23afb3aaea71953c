/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a JSON document. The first byte is the size of the chunks in which the streaming reader gets the rest:
 * it must accept what the tree's parser accepts, which reads it at once. A tree that is written in any style must be
 * read again and be written the same. */
#include <stdlib.h>

#include "base/json_writer.h"
#include "mutator.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool accept(void *user)
{
    (void)user;
    return true;
}

static bool accept_boolean(void *user, bool value)
{
    (void)value;
    return accept(user);
}

static bool accept_text(void *user, tv_sv text)
{
    if (text.len && !text.ptr)
        abort();
    return accept(user);
}

static tv_json_error_kind read_chunks(const uint8_t *data, size_t size, size_t chunk)
{
    static const tv_json_handler handler = {accept, accept_boolean, accept_text, accept_text, accept_text,
                                            accept, accept,         accept,      accept};
    tv_json_reader reader;
    if (!tv_json_reader_init(&reader, &handler, NULL, TV_JSON_LIMITS))
        abort();
    for (size_t i = 0; i < size; i += chunk)
        if (!tv_json_reader_feed(&reader, data + i, size - i < chunk ? size - i : chunk))
            break;
    tv_json_reader_finish(&reader);
    tv_json_error_kind kind = reader.error.kind;
    tv_json_reader_fini(&reader);
    return kind;
}

static void write_tree(const tv_json_value *tree, tv_json_style style, tv_buf *out)
{
    tv_json_writer writer;
    tv_json_writer_init_buf(&writer, out, style);
    tv_json_write_value(&writer, tree, 0);
    if (!tv_json_writer_finish(&writer))
        abort();
}

static void check_style(const tv_json_value *tree, tv_json_style style)
{
    tv_buf first = {0}, second = {0};
    tv_arena arena = {0};
    tv_json_error error;
    write_tree(tree, style, &first);
    const tv_json_value *again = tv_json_parse(&arena, (tv_sv){(const char *)first.data, first.len}, SIZE_MAX, &error);
    if (!again)
        abort();
    write_tree(again, style, &second);
    if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0)
        abort();
    tv_buf_fini(&first);
    tv_buf_fini(&second);
    tv_arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t chunk = data[0] ? data[0] : 256;
    uint8_t *copy = malloc(size); /* of its size: one byte past it is an error */
    memcpy(copy, data + 1, size - 1);
    tv_arena arena = {0};
    tv_json_error error;
    const tv_json_value *tree = tv_json_parse(&arena, (tv_sv){(const char *)copy, size - 1}, SIZE_MAX, &error);
    if ((tree != NULL) != (error.kind == TV_JSON_OK))
        abort();
    tv_json_error_kind kind = read_chunks(copy, size - 1, chunk);
    if (tree && kind != TV_JSON_OK)
        abort();
    bool of_tree = error.kind == TV_JSON_DUPLICATE || error.kind == TV_JSON_VALUE;
    if (!tree && !of_tree && kind == TV_JSON_OK)
        abort();
    if (tree)
        for (int style = TV_JSON_COMPACT; style <= TV_JSON_INDENTED; style++)
            check_style(tree, (tv_json_style)style);
    tv_arena_fini(&arena);
    free(copy);
    return 0;
}

/* The first byte is the size of the chunks. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const fuzz_keywords none;
    fuzz_random random = fuzz_random_of(seed);
    if (size < 2 || fuzz_below(&random, 16) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    return 1 + fuzz_mutate_json(data + 1, size - 1, max_size - 1, &random, &none);
}
