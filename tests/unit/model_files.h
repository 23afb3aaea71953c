/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary directory for tests of model files; reading, writing and comparing whole files. */
#ifndef TV_TESTS_MODEL_FILES_H
#define TV_TESTS_MODEL_FILES_H

#include <unistd.h>

#include "unit.h"

static char folder[] = "trivet-model-XXXXXX";
static const char *const files[] = {"a.gguf", "b.gguf", "c.gguf", "a.bin", "b.bin", "c.bin", "a.tok", "b.tok"};

static inline int enter_folder(void **state)
{
    (void)state;
    return !mkdtemp(folder) || chdir(folder) != 0;
}

static inline int leave_folder(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
    return chdir("..") != 0 || rmdir(folder) != 0;
}

/* Returns the first MiB of a file; the caller frees it. */
static inline char *read_whole_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static inline void assert_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *x = read_whole_file(a, &n), *y = read_whole_file(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

static inline void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

#endif
