/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of bytes, with zstd on either side. Memory is bounded: a window of at most 128 MiB for unpacking, which zstd
 * itself enforces, and buffers of its choice. */
#include "base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/diag.h"

static const uint8_t zstd_magic[4] = {0x28, 0xB5, 0x2F, 0xFD};

struct tv_stream {
    int fd; /* -1: from memory */
    char *name;
    ZSTD_DStream *unpacker; /* NULL: not compressed */
    uint8_t *buffer;
    size_t size;
    ZSTD_inBuffer in;
    bool file_ended, frame_open;
    uint64_t position;
};

static tv_status failed(const tv_stream *s, const tv_diag_sink *sink)
{
    return tv_fail(sink, errno == EISDIR ? TV_ERR_INPUT : TV_ERR_IO, TV_CODE(FILE_OPEN), NULL, "cannot read '%s': %s",
                   s->name, strerror(errno));
}

/* More of the file into the buffer, which is empty. */
static tv_status fill(tv_stream *s, const tv_diag_sink *sink)
{
    while (!s->file_ended) {
        ssize_t n = s->fd < 0 ? 0 : read(s->fd, s->buffer, s->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(s, sink);
        s->in = (ZSTD_inBuffer){s->buffer, (size_t)n, 0};
        s->position += (uint64_t)n;
        s->file_ended = n == 0;
        break;
    }
    return TV_OK;
}

/* The first bytes say whether it is compressed. A pipe may hand them over one by one. */
static tv_status look(tv_stream *s, const tv_diag_sink *sink)
{
    size_t have = 0;
    while (s->fd >= 0 && have < sizeof zstd_magic) {
        ssize_t n = read(s->fd, s->buffer + have, s->size - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(s, sink);
        if (n == 0) {
            s->file_ended = true;
            break;
        }
        have += (size_t)n;
        s->in = (ZSTD_inBuffer){s->buffer, have, 0};
        s->position = have;
    }
    if (s->in.size < sizeof zstd_magic || memcmp(s->in.src, zstd_magic, sizeof zstd_magic) != 0)
        return TV_OK;
    s->unpacker = ZSTD_createDStream();
    return s->unpacker && !ZSTD_isError(ZSTD_initDStream(s->unpacker)) ? TV_OK : tv_fail_memory(sink);
}

static tv_stream *make(const char *name, const tv_diag_sink *sink)
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

static tv_status begin(tv_stream *s, const tv_diag_sink *sink, tv_stream **out)
{
    tv_status status = look(s, sink);
    if (status != TV_OK)
        tv_stream_close(s);
    else
        *out = s;
    return status;
}

tv_status tv_stream_open(const char *path, const tv_diag_sink *sink, tv_stream **out)
{
    tv_stream *s = make(path, sink);
    if (!s)
        return TV_ERR_MEMORY;
    s->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) {
        bool wrong = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ENAMETOOLONG;
        const char *hint = errno == ENOENT ? "check the name; paths are relative to the current folder" : NULL;
        tv_status status = tv_fail(sink, wrong ? TV_ERR_INPUT : TV_ERR_IO, TV_CODE(FILE_OPEN), hint,
                                   "cannot read '%s': %s", path, strerror(errno));
        tv_stream_close(s);
        return status;
    }
    return begin(s, sink, out);
}

tv_status tv_stream_of(const char *name, const void *data, size_t size, const tv_diag_sink *sink, tv_stream **out)
{
    tv_stream *s = make(name, sink);
    if (!s)
        return TV_ERR_MEMORY;
    s->in = (ZSTD_inBuffer){data, size, 0};
    return begin(s, sink, out);
}

static tv_status damaged(const tv_stream *s, const tv_diag_sink *sink, const char *what)
{
    return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_PACKED), NULL, "the zstd data of '%s' cannot be unpacked: %s",
                   s->name, what);
}

static tv_status unpack(tv_stream *s, void *data, size_t size, const tv_diag_sink *sink, size_t *got)
{
    ZSTD_outBuffer out = {data, size, 0};
    while (out.pos == 0) {
        if (s->in.pos == s->in.size)
            TV_TRY(fill(s, sink));
        if (s->in.pos == s->in.size && s->file_ended && !s->frame_open)
            break;
        size_t read_before = s->in.pos;
        size_t left = ZSTD_decompressStream(s->unpacker, &out, &s->in);
        if (ZSTD_isError(left))
            return damaged(s, sink, ZSTD_getErrorName(left));
        s->frame_open = left != 0;
        if (out.pos == 0 && s->in.pos == read_before && s->file_ended)
            return damaged(s, sink, "they end too early");
    }
    *got = out.pos;
    return TV_OK;
}

tv_status tv_stream_read(tv_stream *s, void *data, size_t size, const tv_diag_sink *sink, size_t *got)
{
    if (s->unpacker)
        return unpack(s, data, size, sink, got);
    if (s->in.pos == s->in.size)
        TV_TRY(fill(s, sink));
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
    ZSTD_freeDStream(s->unpacker);
    free(s->name);
    free(s->buffer);
    free(s);
}

/* ---- Writing ---- */

typedef struct packer {
    FILE *under;
    ZSTD_CStream *stream;
    size_t size;
    uint8_t buffer[];
} packer;

/* Compresses until all of `in` is taken and, at the end, all is written. */
static bool pack(packer *p, ZSTD_inBuffer *in, ZSTD_EndDirective end)
{
    size_t left;
    do {
        ZSTD_outBuffer out = {p->buffer, p->size, 0};
        left = ZSTD_compressStream2(p->stream, &out, in, end);
        if (ZSTD_isError(left) || fwrite(p->buffer, 1, out.pos, p->under) != out.pos)
            return false;
    } while (in->pos < in->size || (end == ZSTD_e_end && left != 0));
    return true;
}

static ssize_t packer_write(void *cookie, const char *data, size_t size)
{
    ZSTD_inBuffer in = {data, size, 0};
    return pack(cookie, &in, ZSTD_e_continue) ? (ssize_t)size : 0;
}

static int packer_close(void *cookie)
{
    packer *p = cookie;
    ZSTD_inBuffer in = {NULL, 0, 0};
    bool good = pack(p, &in, ZSTD_e_end);
    ZSTD_freeCStream(p->stream);
    free(p);
    return good ? 0 : EOF;
}

FILE *tv_zstd_writer(FILE *under)
{
    size_t size = ZSTD_CStreamOutSize();
    packer *p = malloc(sizeof *p + size);
    ZSTD_CStream *stream = ZSTD_createCStream();
    FILE *file = NULL;
    if (p && stream) {
        ZSTD_CCtx_setParameter(stream, ZSTD_c_checksumFlag, 1);
        *p = (packer){.under = under, .stream = stream, .size = size};
        file = fopencookie(p, "w", (cookie_io_functions_t){.write = packer_write, .close = packer_close});
    }
    if (!file) {
        ZSTD_freeCStream(stream);
        free(p);
        return NULL;
    }
    setvbuf(file, NULL, _IOFBF, (size_t)1 << 16);
    return file;
}
