/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped inputs and atomic outputs. */
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

struct tv_output {
    FILE *stream;
    FILE *file;      /* the file that `stream` compresses to; NULL: no compression */
    char *path;      /* NULL: standard output */
    char *temporary; /* in the folder of `path`; NULL: written in place */
};

static void output_free(tv_output *output)
{
    free(output->path);
    free(output->temporary);
    free(output);
}

static tv_status write_failed(const tv_diag_sink *sink, const char *path, int error)
{
    return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), "check that the folder exists, is writable and has room",
                   "cannot write '%s': %s", path, strerror(error));
}

/* True for devices and pipes, which cannot be replaced by a rename, and for dangling links, which are followed. */
static bool needs_direct_write(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return !S_ISREG(st.st_mode);
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Creates a temporary file next to `path`. mkstemp would make it private to the user; this one has the mode of any new
 * file. */
static int create_temporary(const char *path, char **temporary)
{
    tv_buf name = {0};
    int fd = -1;
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        name.len = 0;
        tv_buf_printf(&name, "%s.%ld-%u.tmp", path, (long)getpid(), attempt);
        fd = open(tv_buf_cstr(&name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    int error = errno;
    *temporary = tv_buf_take(&name);
    errno = error;
    return fd;
}

tv_status tv_output_open(const char *path, const tv_diag_sink *sink, tv_output **out)
{
    tv_output *output = calloc(1, sizeof *output);
    if (!output)
        return tv_fail_memory(sink);
    if (strcmp(path, "-") == 0) {
        output->stream = stdout;
        *out = output;
        return TV_OK;
    }
    if (needs_direct_write(path)) {
        output->path = strdup(path);
        output->stream = fopen(path, "we");
        if (!output->path || !output->stream) {
            int error = errno;
            if (output->stream)
                fclose(output->stream);
            output_free(output);
            return write_failed(sink, path, error);
        }
        *out = output;
        return TV_OK;
    }
    /* Replace the file that a symbolic link points to, not the link. */
    char *real = realpath(path, NULL);
    output->path = real ? real : strdup(path);
    int fd = output->path ? create_temporary(output->path, &output->temporary) : -1;
    if (!output->temporary) {
        output_free(output);
        return tv_fail_memory(sink);
    }
    struct stat old;
    if (fd >= 0 && stat(output->path, &old) == 0)
        fchmod(fd, old.st_mode & 07777); /* keep the permissions */
    if (fd >= 0)
        output->stream = fdopen(fd, "w");
    if (!output->stream) {
        int error = errno;
        if (fd >= 0) {
            close(fd);
            unlink(output->temporary);
        }
        output_free(output);
        return write_failed(sink, path, error);
    }
    *out = output;
    return TV_OK;
}

static bool names_zstd(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".zst") == 0;
}

tv_status tv_output_open_compressed(const char *path, const tv_diag_sink *sink, tv_output **out)
{
    tv_output *output;
    TV_TRY(tv_output_open(path, sink, &output));
    if (names_zstd(path)) {
        FILE *compressor = tv_zstd_writer(output->stream);
        if (!compressor) {
            tv_output_abandon(output);
            return tv_fail_memory(sink);
        }
        output->file = output->stream;
        output->stream = compressor;
    }
    *out = output;
    return TV_OK;
}

FILE *tv_output_stream(tv_output *output) { return output->stream; }

/* Finishes the compressed data. The stream is the file itself afterwards. */
static bool finish_compression(tv_output *output)
{
    bool ok = true;
    if (output->file) {
        ok = !ferror(output->stream) && fflush(output->stream) == 0;
        ok = fclose(output->stream) == 0 && ok;
        output->stream = output->file;
        output->file = NULL;
    }
    return ok;
}

tv_status tv_output_commit(tv_output *output, const tv_diag_sink *sink)
{
    tv_status status = TV_OK;
    const char *path = output->path ? output->path : "standard output";
    bool ok = finish_compression(output) && fflush(output->stream) == 0 && !ferror(output->stream);
    int error = errno;
    if (!output->temporary) {
        if (output->stream != stdout)
            ok = fclose(output->stream) == 0 && ok;
        if (!ok)
            status = write_failed(sink, path, error);
        output_free(output);
        return status;
    }
    if (ok && fsync(fileno(output->stream)) != 0) {
        ok = false;
        error = errno;
    }
    if (fclose(output->stream) != 0 && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(output->temporary, output->path) != 0) {
        ok = false;
        error = errno;
    }
    if (!ok) {
        unlink(output->temporary);
        status = write_failed(sink, path, error);
    }
    output_free(output);
    return status;
}

void tv_output_abandon(tv_output *output)
{
    if (!output)
        return;
    finish_compression(output);
    if (output->stream != stdout)
        fclose(output->stream);
    if (output->temporary)
        unlink(output->temporary);
    output_free(output);
}
