/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs: files that are mapped, streams that are read. */
#include "trivet/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/diag.h"
#include "base/stream.h"

static const size_t READ_LIMIT = (size_t)1 << 30;
static const uint64_t MAP_LIMIT = (uint64_t)64 << 30;

/* An invalid path is an error of the caller; anything else is a failure of the host. */
static tv_status open_failed(const tv_diag_sink *sink, const char *path, int error)
{
    bool invalid = error == ENOENT || error == EISDIR || error == ENOTDIR || error == EACCES || error == ENAMETOOLONG;
    if (error == ENOMEM)
        return tv_fail_memory(sink);
    const char *hint = error == ENOENT ? "check the name; paths are relative to the current folder" : NULL;
    return tv_fail(sink, invalid ? TV_ERR_INPUT : TV_ERR_IO, TV_CODE(FILE_OPEN), hint, "cannot read '%s': %s", path,
                   strerror(error));
}

static tv_status read_stream(int fd, const char *path, const tv_diag_sink *sink, tv_input *out)
{
    tv_buf bytes = {0};
    for (;;) {
        uint8_t chunk[65536];
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            tv_buf_fini(&bytes);
            return open_failed(sink, path, errno);
        }
        if (n == 0)
            break;
        if (bytes.len + (size_t)n > READ_LIMIT) {
            tv_buf_fini(&bytes);
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), "give a file instead of a pipe",
                           "'%s' has more than %zu bytes", path, READ_LIMIT);
        }
        tv_buf_append(&bytes, chunk, (size_t)n);
        if (bytes.failed)
            break;
    }
    size_t size = bytes.len;
    char *data = tv_buf_take(&bytes);
    if (!data)
        return tv_fail_memory(sink);
    *out = (tv_input){.data = (const uint8_t *)data, .size = size};
    return TV_OK;
}

tv_status tv_input_open(const char *path, const tv_diag_sink *sink, tv_input *out)
{
    if (strcmp(path, "-") == 0)
        return read_stream(STDIN_FILENO, path, sink, out);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(sink, path, errno);
    struct stat st;
    tv_status status = TV_OK;
    if (fstat(fd, &st) != 0) {
        status = open_failed(sink, path, errno);
    } else if (S_ISDIR(st.st_mode)) {
        status = open_failed(sink, path, EISDIR);
    } else if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        status = read_stream(fd, path, sink, out);
    } else if ((uint64_t)st.st_size > MAP_LIMIT) {
        status = tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), NULL, "'%s' has more than 64 GiB", path);
    } else {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = open_failed(sink, path, errno);
        else
            *out = (tv_input){.data = data, .size = (size_t)st.st_size, .mapped = 1};
    }
    close(fd);
    return status;
}

void tv_input_close(tv_input *input)
{
    if (input->mapped)
        munmap((void *)(uintptr_t)input->data, input->size);
    else
        free((void *)(uintptr_t)input->data);
    *input = (tv_input){0};
}
