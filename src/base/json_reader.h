/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON reader: yajl with strict UTF-8, limits, and no undefined behaviour when memory is short.
 *
 * The text comes in chunks of any size; the reader calls a handler for each value, key and bracket. Memory is bounded
 * by the limits, whatever the input. A client that rejects duplicate keys detects them itself; trees do (json_value.h).
 *
 *     tv_json_reader r;
 *     if (tv_json_reader_init(&r, &handler, user, TV_JSON_LIMITS))
 *         while (more chunks && tv_json_reader_feed(&r, chunk, size))
 *             continue;
 *     bool ok = tv_json_reader_finish(&r);   // false: r.error says what and where
 *     tv_json_reader_fini(&r); */
#ifndef TV_BASE_JSON_READER_H
#define TV_BASE_JSON_READER_H

#include <setjmp.h>
#include <stdalign.h>

#include "base/sv.h"

/* Called in document order. `text` is valid until the call returns, and never NUL-terminated. A number comes as its
 * text, which is a JSON number; strings and keys are unescaped UTF-8 and may contain NUL. false stops the reader. No
 * member may be NULL. */
typedef struct tv_json_handler {
    bool (*null)(void *user);
    bool (*boolean)(void *user, bool value);
    bool (*number)(void *user, tv_sv text);
    bool (*string)(void *user, tv_sv text);
    bool (*key)(void *user, tv_sv text);
    bool (*begin_object)(void *user);
    bool (*end_object)(void *user);
    bool (*begin_array)(void *user);
    bool (*end_array)(void *user);
} tv_json_handler;

typedef enum tv_json_error_kind {
    TV_JSON_OK,
    TV_JSON_SYNTAX,    /* not JSON; `message` says why */
    TV_JSON_UTF8,      /* a string or key is not UTF-8: overlong forms, surrogates, code points past U+10FFFF */
    TV_JSON_DEPTH,     /* nested deeper than the limit */
    TV_JSON_TOKEN,     /* a string, number or run of white space is longer than the limit */
    TV_JSON_SIZE,      /* trees: the document is larger than the limit */
    TV_JSON_DUPLICATE, /* trees: an object has a key twice */
    TV_JSON_VALUE,     /* trees: a string contains a NUL, or a number is out of range */
    TV_JSON_STOPPED,   /* the handler returned false */
    TV_JSON_MEMORY,
} tv_json_error_kind;

/* The first error. */
typedef struct tv_json_error {
    tv_json_error_kind kind;
    uint64_t offset;   /* in bytes: the end of the token at fault */
    char message[120]; /* one line in English, without position; "" when there is no error */
} tv_json_error;

typedef struct tv_json_limits {
    unsigned depth; /* open arrays and objects */
    uint64_t token; /* bytes without an event; checked after each chunk, so at most a chunk more is held */
    bool multiple;  /* several values, separated by white space, as in JSON Lines */
} tv_json_limits;

#define TV_JSON_LIMITS ((tv_json_limits){.depth = 64, .token = 4 << 20})

enum { TV_JSON_RESERVE = 4096 };

/* Storage of the caller; must not be moved between init and fini. Members are private but `error`. */
typedef struct tv_json_reader {
    tv_json_error error;
    const tv_json_handler *handler;
    void *user;
    tv_json_limits limits;
    unsigned depth;
    uint64_t chunk_offset; /* of the current chunk in the document */
    uint64_t pending;      /* bytes of earlier chunks since the last event */
    bool has_event;        /* in the current chunk */
    bool feeding;          /* yajl's count of consumed bytes is of the current chunk */
    struct yajl_handle_t *parser;

    struct tv_json_block *blocks; /* everything yajl has allocated */
    bool out_of_memory;           /* the reserve is in use, or spent */
    size_t reserve_used;
    jmp_buf escape; /* out of yajl, when the reserve is spent */
    alignas(max_align_t) uint8_t reserve[TV_JSON_RESERVE];
} tv_json_reader;

/* false: out of memory; tv_json_reader_feed and _finish then return false, too. tv_json_reader_fini in any case. */
bool tv_json_reader_init(tv_json_reader *reader, const tv_json_handler *handler, void *user, tv_json_limits limits);

/* Frees everything but `error`. A zeroed reader may be passed. */
void tv_json_reader_fini(tv_json_reader *reader);

/* Parses the next `size` bytes. false on the first error, and ever after. Not to be called from a handler. */
bool tv_json_reader_feed(tv_json_reader *reader, const void *data, size_t size);

/* The document ends here: checks that it is complete. false on this or any earlier error. */
bool tv_json_reader_finish(tv_json_reader *reader);

/* In a handler: the offset of the end of the current token in the document. Otherwise: of the next chunk. */
uint64_t tv_json_reader_offset(const tv_json_reader *reader);

/* The next chunk begins at `offset`: the client has read some values between two others itself. */
void tv_json_reader_seek(tv_json_reader *reader, uint64_t offset);

/* Bytes of an incomplete token that the reader has buffered: it scans them again with the next chunk. A client that
 * makes chunks at least as large as this keeps the total work linear. */
static inline uint64_t tv_json_reader_pending(const tv_json_reader *reader) { return reader->pending; }

/* Sets the error unless there is one; returns false. For handlers that have a reason of their own to stop. */
bool tv_json_reader_fail(tv_json_reader *reader, tv_json_error_kind kind, const char *message);

/* The value of a JSON number, correctly rounded in any locale; overflow gives an infinity. The text may have any
 * length. false: out of memory. */
bool tv_json_number_value(tv_sv text, double *value);

/* A JSON number without fraction and exponent that fits. */
bool tv_json_number_integer(tv_sv text, int64_t *value);

#endif
