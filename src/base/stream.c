/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming input with zstd decompression, and zstd output. Memory is bounded by zstd: a decompression window of at
 * most 128 MiB, and its own buffers. */
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/diag.h"

static const uint8_t zstd_magic[4] = {0x28, 0xB5, 0x2F, 0xFD};

struct tv_stream {
    int fd; /* -1: from memory */
    char *name;
    ZSTD_DStream *decompressor; /* NULL: not compressed */
    uint8_t *buffer;
    size_t size;
    ZSTD_inBuffer in;
    bool file_ended, frame_open;
    uint64_t position;
};

static tv_status report_read_failure(const tv_stream *s, const tv_diag_sink *sink)
{
    if (errno == ENOMEM)
        return tv_fail_memory(sink);
    return tv_fail(sink, errno == EISDIR ? TV_ERR_INPUT : TV_ERR_IO, TV_CODE(FILE_OPEN), NULL, "cannot read '%s': %s",
                   s->name, strerror(errno));
}

/* Reads more of the file into the empty buffer. */
static tv_status fill_buffer(tv_stream *s, const tv_diag_sink *sink)
{
    while (!s->file_ended) {
        ssize_t n = s->fd < 0 ? 0 : read(s->fd, s->buffer, s->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return report_read_failure(s, sink);
        s->in = (ZSTD_inBuffer){s->buffer, (size_t)n, 0};
        s->position += (uint64_t)n;
        s->file_ended = n == 0;
        break;
    }
    return TV_OK;
}

/* Recognizes compressed data by their first bytes. A pipe may deliver them one at a time. */
static tv_status detect_compression(tv_stream *s, const tv_diag_sink *sink)
{
    size_t length = 0;
    while (s->fd >= 0 && length < sizeof zstd_magic) {
        ssize_t n = read(s->fd, s->buffer + length, s->size - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return report_read_failure(s, sink);
        if (n == 0) {
            s->file_ended = true;
            break;
        }
        length += (size_t)n;
        s->in = (ZSTD_inBuffer){s->buffer, length, 0};
        s->position = length;
    }
    if (s->in.size < sizeof zstd_magic || memcmp(s->in.src, zstd_magic, sizeof zstd_magic) != 0)
        return TV_OK;
    s->decompressor = ZSTD_createDStream();
    return s->decompressor && !ZSTD_isError(ZSTD_initDStream(s->decompressor)) ? TV_OK : tv_fail_memory(sink);
}

static tv_stream *new_stream(const char *name, const tv_diag_sink *sink)
{
    tv_stream *s = calloc(1, sizeof *s);
    if (s) {
        s->fd = -1;
        s->size = (size_t)1 << 18;
        s->name = strdup(name);
        s->buffer = malloc(s->size);
    }
    if (!s || !s->name || !s->buffer) {
        tv_stream_close(s);
        tv_fail_memory(sink);
        return NULL;
    }
    return s;
}

static tv_status start_stream(tv_stream *s, const tv_diag_sink *sink, tv_stream **out)
{
    tv_status status = detect_compression(s, sink);
    if (status != TV_OK)
        tv_stream_close(s);
    else
        *out = s;
    return status;
}

tv_status tv_stream_open(const char *path, const tv_diag_sink *sink, tv_stream **out)
{
    tv_stream *s = new_stream(path, sink);
    if (!s)
        return TV_ERR_MEMORY;
    s->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) {
        bool invalid = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG;
        const char *hint = errno == ENOENT ? "check the name; paths are relative to the current folder" : NULL;
        tv_status status = errno == ENOMEM ? tv_fail_memory(sink)
                                           : tv_fail(sink, invalid ? TV_ERR_INPUT : TV_ERR_IO, TV_CODE(FILE_OPEN), hint,
                                                     "cannot read '%s': %s", path, strerror(errno));
        tv_stream_close(s);
        return status;
    }
    return start_stream(s, sink, out);
}

tv_status tv_stream_of(const char *name, const void *data, size_t size, const tv_diag_sink *sink, tv_stream **out)
{
    tv_stream *s = new_stream(name, sink);
    if (!s)
        return TV_ERR_MEMORY;
    s->in = (ZSTD_inBuffer){data, size, 0};
    return start_stream(s, sink, out);
}

static tv_status report_damage(const tv_stream *s, const tv_diag_sink *sink, const char *what)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_PACKED), NULL, "the zstd data of '%s' cannot be decompressed: %s",
                   s->name, what);
}

static tv_status decompress(tv_stream *s, void *data, size_t size, const tv_diag_sink *sink, size_t *got)
{
    ZSTD_outBuffer out = {data, size, 0};
    while (out.pos == 0) {
        if (s->in.pos == s->in.size)
            TV_TRY(fill_buffer(s, sink));
        if (s->in.pos == s->in.size && s->file_ended && !s->frame_open)
            break;
        size_t read_before = s->in.pos;
        size_t remaining = ZSTD_decompressStream(s->decompressor, &out, &s->in);
        if (ZSTD_getErrorCode(remaining) == ZSTD_error_memory_allocation)
            return tv_fail_memory(sink);
        if (ZSTD_isError(remaining))
            return report_damage(s, sink, ZSTD_getErrorName(remaining));
        s->frame_open = remaining != 0;
        if (out.pos == 0 && s->in.pos == read_before && s->file_ended)
            return report_damage(s, sink, "they are truncated");
    }
    *got = out.pos;
    return TV_OK;
}

tv_status tv_stream_read(tv_stream *s, void *data, size_t size, const tv_diag_sink *sink, size_t *got)
{
    if (s->decompressor)
        return decompress(s, data, size, sink, got);
    if (s->in.pos == s->in.size)
        TV_TRY(fill_buffer(s, sink));
    *got = tv_min_u64(size, s->in.size - s->in.pos);
    if (*got)
        memcpy(data, (const uint8_t *)s->in.src + s->in.pos, *got);
    s->in.pos += *got;
    return TV_OK;
}

uint64_t tv_stream_position(const tv_stream *s) { return s->position; }

uint64_t tv_stream_size(const tv_stream *s)
{
    struct stat st;
    return s->fd >= 0 && fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

void tv_stream_close(tv_stream *s)
{
    if (!s)
        return;
    if (s->fd > STDIN_FILENO)
        close(s->fd);
    ZSTD_freeDStream(s->decompressor);
    free(s->name);
    free(s->buffer);
    free(s);
}

/* ---- Writing ---- */

typedef struct compressor {
    FILE *file;
    ZSTD_CStream *stream;
    bool no_memory; /* for the stream, at this or an earlier call */
    size_t size;
    uint8_t buffer[];
} compressor;

/* Compresses until all of `in` is taken and, at the end, all is written. */
static bool compress(compressor *p, ZSTD_inBuffer *in, ZSTD_EndDirective end)
{
    size_t remaining;
    do {
        ZSTD_outBuffer out = {p->buffer, p->size, 0};
        remaining = ZSTD_compressStream2(p->stream, &out, in, end);
        p->no_memory |= ZSTD_getErrorCode(remaining) == ZSTD_error_memory_allocation;
        if (p->no_memory)
            errno = ENOMEM; /* tv_output_commit reports it */
        if (ZSTD_isError(remaining) || fwrite(p->buffer, 1, out.pos, p->file) != out.pos)
            return false;
    } while (in->pos < in->size || (end == ZSTD_e_end && remaining != 0));
    return true;
}

static ssize_t compressor_write(void *cookie, const char *data, size_t size)
{
    ZSTD_inBuffer in = {data, size, 0};
    return compress(cookie, &in, ZSTD_e_continue) ? (ssize_t)size : 0;
}

static int compressor_close(void *cookie)
{
    compressor *p = cookie;
    ZSTD_inBuffer in = {NULL, 0, 0};
    bool ok = compress(p, &in, ZSTD_e_end);
    ZSTD_freeCStream(p->stream);
    free(p);
    return ok ? 0 : EOF;
}

FILE *tv_zstd_writer(FILE *file)
{
    size_t size = ZSTD_CStreamOutSize();
    compressor *p = malloc(sizeof *p + size);
    ZSTD_CStream *stream = ZSTD_createCStream();
    FILE *compressed = NULL;
    if (p && stream) {
        ZSTD_CCtx_setParameter(stream, ZSTD_c_checksumFlag, 1);
        *p = (compressor){.file = file, .stream = stream, .size = size};
        compressed = fopencookie(p, "w", (cookie_io_functions_t){.write = compressor_write, .close = compressor_close});
    }
    if (!compressed) {
        ZSTD_freeCStream(stream);
        free(p);
        return NULL;
    }
    setvbuf(compressed, NULL, _IOFBF, (size_t)1 << 16);
    return compressed;
}
