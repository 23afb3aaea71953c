/* SPDX-License-Identifier: Apache-2.0 */
/* yajl checks no allocation. So its allocator never returns NULL: when malloc fails it takes from a reserve inside the
 * reader and sets `out_of_memory`, at which the next event stops the parser in an orderly way. When the reserve is
 * spent, too, it leaves yajl by longjmp to the function of this file that called it.
 *
 * The jump is safe because only yajl's frames are between: it allocates in its own code, never while a handler runs,
 * and its state is not used again afterwards. All its blocks are in a list and are freed from there, so nothing leaks
 * on any way out. */
#include "base/json_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <yajl/yajl_parse.h>

#include "base/c_locale.h"

/* ---- Allocation ---- */

struct tv_json_block {
    struct tv_json_block *prev, *next;
    size_t size;
    bool in_reserve;
    alignas(max_align_t) uint8_t bytes[];
};

static struct tv_json_block *block_of(void *bytes)
{
    return (struct tv_json_block *)(void *)((uint8_t *)bytes - offsetof(struct tv_json_block, bytes));
}

static void link_block(tv_json_reader *r, struct tv_json_block *block)
{
    block->prev = NULL;
    block->next = r->blocks;
    if (r->blocks)
        r->blocks->prev = block;
    r->blocks = block;
}

static void unlink_block(tv_json_reader *r, struct tv_json_block *block)
{
    if (block->prev)
        block->prev->next = block->next;
    else
        r->blocks = block->next;
    if (block->next)
        block->next->prev = block->prev;
}

/* Never returns NULL: leaves by r->escape when the reserve is spent. */
static struct tv_json_block *allocate_reserve(tv_json_reader *r, size_t total)
{
    r->out_of_memory = true;
    total = (total + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (total > TV_JSON_RESERVE - r->reserve_used)
        longjmp(r->escape, 1);
    struct tv_json_block *block = (struct tv_json_block *)(void *)(r->reserve + r->reserve_used);
    r->reserve_used += total;
    return block;
}

static void *allocate(void *context, size_t size)
{
    tv_json_reader *r = context;
    if (size > SIZE_MAX / 2) {
        r->out_of_memory = true;
        longjmp(r->escape, 1);
    }
    size_t total = sizeof(struct tv_json_block) + size;
    struct tv_json_block *block = malloc(total);
    bool in_reserve = block == NULL;
    if (in_reserve)
        block = allocate_reserve(r, total);
    block->size = size;
    block->in_reserve = in_reserve;
    if (!in_reserve)
        link_block(r, block);
    return block->bytes;
}

static void release(void *context, void *bytes)
{
    if (!bytes)
        return;
    struct tv_json_block *block = block_of(bytes);
    if (block->in_reserve)
        return;
    unlink_block(context, block);
    free(block);
}

/* Grows large blocks in place where the system can, so that a long token does not take its size twice. */
static void *reallocate(void *context, void *bytes, size_t size)
{
    if (!bytes)
        return allocate(context, size);
    tv_json_reader *r = context;
    struct tv_json_block *block = block_of(bytes);
    if (!block->in_reserve && size <= SIZE_MAX / 2) {
        unlink_block(context, block);
        struct tv_json_block *grown = realloc(block, sizeof *grown + size);
        link_block(context, grown ? grown : block);
        if (grown) {
            grown->size = size;
            return grown->bytes;
        }
        r->out_of_memory = true;
    }
    size_t old_size = block->size;
    void *copy = allocate(context, size);
    memcpy(copy, bytes, old_size < size ? old_size : size);
    release(context, bytes);
    return copy;
}

static void free_blocks(tv_json_reader *r)
{
    for (struct tv_json_block *block = r->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    r->blocks = NULL;
    r->parser = NULL;
}

/* ---- Errors ---- */

bool tv_json_reader_fail(tv_json_reader *r, tv_json_error_kind kind, const char *message)
{
    if (r->error.kind != TV_JSON_OK)
        return false;
    r->error.kind = kind;
    r->error.offset = tv_json_reader_offset(r);
    snprintf(r->error.message, sizeof r->error.message, "%s", message);
    return false;
}

static bool fail_memory(tv_json_reader *r) { return tv_json_reader_fail(r, TV_JSON_MEMORY, "out of memory"); }

/* yajl's message without its prefix ("lexical error: …") and line break. */
static void fail_syntax(tv_json_reader *r)
{
    if (setjmp(r->escape) != 0) {
        tv_json_reader_fail(r, TV_JSON_SYNTAX, "it cannot be parsed");
        return;
    }
    char *text = (char *)yajl_get_error(r->parser, 0, NULL, 0);
    const char *colon = strchr(text, ':');
    const char *message = colon && colon[1] == ' ' && colon[2] ? colon + 2 : text;
    text[strcspn(text, "\n")] = '\0';
    tv_json_reader_fail(r, TV_JSON_SYNTAX, message);
    yajl_free_error(r->parser, (unsigned char *)text);
}

/* ---- Events: 0 stops yajl ---- */

/* Of every event first. */
static inline bool note_event(tv_json_reader *r)
{
    r->has_event = true;
    return !r->out_of_memory;
}

static inline int check_handler(tv_json_reader *r, bool go_on)
{
    if (__builtin_expect(!go_on, 0))
        tv_json_reader_fail(r, TV_JSON_STOPPED, "stopped");
    return go_on;
}

static int on_null(void *context)
{
    tv_json_reader *r = context;
    return note_event(r) && check_handler(r, r->handler->null(r->user));
}

static int on_boolean(void *context, int value)
{
    tv_json_reader *r = context;
    return note_event(r) && check_handler(r, r->handler->boolean(r->user, value != 0));
}

static int on_number(void *context, const char *text, size_t size)
{
    tv_json_reader *r = context;
    return note_event(r) && check_handler(r, r->handler->number(r->user, (tv_sv){text, size}));
}

static inline bool is_ascii(tv_sv text)
{
    const uint64_t high_bits = UINT64_C(0x8080808080808080);
    uint64_t all = 0;
    size_t i = 0;
    for (uint64_t word; i + sizeof word <= text.len; i += sizeof word) {
        memcpy(&word, text.ptr + i, sizeof word);
        all |= word;
    }
    for (; i < text.len; i++)
        all |= (uint64_t)(unsigned char)text.ptr[i];
    return (all & high_bits) == 0;
}

/* yajl checks the form of sequences, but lets through what they must not encode, as bytes and as escapes. */
static inline bool check_utf8(tv_json_reader *r, tv_sv text)
{
    return is_ascii(text) || tv_sv_is_utf8(text) || tv_json_reader_fail(r, TV_JSON_UTF8, "the string is not UTF-8");
}

static int on_string(void *context, const unsigned char *bytes, size_t size)
{
    tv_json_reader *r = context;
    tv_sv text = {(const char *)bytes, size};
    return note_event(r) && check_utf8(r, text) && check_handler(r, r->handler->string(r->user, text));
}

static int on_key(void *context, const unsigned char *bytes, size_t size)
{
    tv_json_reader *r = context;
    tv_sv text = {(const char *)bytes, size};
    return note_event(r) && check_utf8(r, text) && check_handler(r, r->handler->key(r->user, text));
}

static bool enter(tv_json_reader *r)
{
    if (!note_event(r))
        return false;
    if (r->depth == r->limits.depth) {
        char message[60];
        snprintf(message, sizeof message, "nested deeper than %u levels", r->limits.depth);
        return tv_json_reader_fail(r, TV_JSON_DEPTH, message);
    }
    r->depth++;
    return true;
}

static bool leave(tv_json_reader *r)
{
    r->depth--;
    return note_event(r);
}

static int on_begin_object(void *context)
{
    tv_json_reader *r = context;
    return enter(r) && check_handler(r, r->handler->begin_object(r->user));
}

static int on_end_object(void *context)
{
    tv_json_reader *r = context;
    return leave(r) && check_handler(r, r->handler->end_object(r->user));
}

static int on_begin_array(void *context)
{
    tv_json_reader *r = context;
    return enter(r) && check_handler(r, r->handler->begin_array(r->user));
}

static int on_end_array(void *context)
{
    tv_json_reader *r = context;
    return leave(r) && check_handler(r, r->handler->end_array(r->user));
}

/* ---- The reader ---- */

bool tv_json_reader_init(tv_json_reader *r, const tv_json_handler *handler, void *user, tv_json_limits limits)
{
    static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                             .yajl_boolean = on_boolean,
                                             .yajl_number = on_number,
                                             .yajl_string = on_string,
                                             .yajl_start_map = on_begin_object,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = on_end_object,
                                             .yajl_start_array = on_begin_array,
                                             .yajl_end_array = on_end_array};
    yajl_alloc_funcs functions = {allocate, reallocate, release, r};
    memset(r, 0, offsetof(tv_json_reader, reserve));
    r->handler = handler;
    r->user = user;
    r->limits = limits;
    if (setjmp(r->escape) != 0)
        return fail_memory(r);
    r->parser = yajl_alloc(&callbacks, &functions, r);
    yajl_config(r->parser, yajl_allow_multiple_values, limits.multiple ? 1 : 0);
    return !r->out_of_memory || fail_memory(r);
}

void tv_json_reader_fini(tv_json_reader *r) { free_blocks(r); }

/* `data` NULL: the end of the document. */
static yajl_status parse_chunk(tv_json_reader *r, const void *data, size_t size)
{
    if (setjmp(r->escape) != 0)
        return yajl_status_client_canceled;
    return data ? yajl_parse(r->parser, data, size) : yajl_complete_parse(r->parser);
}

static bool check_status(tv_json_reader *r, yajl_status status)
{
    if (r->out_of_memory)
        return fail_memory(r);
    if (status == yajl_status_error)
        fail_syntax(r);
    return r->error.kind == TV_JSON_OK;
}

bool tv_json_reader_feed(tv_json_reader *r, const void *data, size_t size)
{
    if (r->error.kind != TV_JSON_OK)
        return false;
    if (size == 0)
        return true;
    r->has_event = false;
    r->feeding = true;
    if (!check_status(r, parse_chunk(r, data, size)))
        return false;
    r->feeding = false;
    r->pending = r->has_event ? 0 : r->pending + size;
    r->chunk_offset += size;
    if (r->pending > r->limits.token) {
        char message[60];
        snprintf(message, sizeof message, "more than %llu MiB without a value",
                 (unsigned long long)(r->limits.token >> 20));
        return tv_json_reader_fail(r, TV_JSON_TOKEN, message);
    }
    return true;
}

bool tv_json_reader_finish(tv_json_reader *r)
{
    return r->error.kind == TV_JSON_OK && check_status(r, parse_chunk(r, NULL, 0));
}

uint64_t tv_json_reader_offset(const tv_json_reader *r)
{
    return r->chunk_offset + (r->feeding ? yajl_get_bytes_consumed(r->parser) : 0);
}

void tv_json_reader_seek(tv_json_reader *r, uint64_t offset) { r->chunk_offset = offset; }

/* ---- Numbers ---- */

bool tv_json_number_value(tv_sv text, double *value)
{
    char local[64];
    char *copy = text.len < sizeof local ? local : malloc(text.len + 1);
    if (!copy)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    tv_c_locale locale = tv_c_locale_begin();
    *value = strtod(copy, NULL);
    tv_c_locale_end(locale);
    if (copy != local)
        free(copy);
    return true;
}

bool tv_json_number_integer(tv_sv text, int64_t *value)
{
    bool negative = text.len > 0 && text.ptr[0] == '-';
    int64_t sum = 0;
    for (size_t i = negative; i < text.len; i++) {
        int digit = text.ptr[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_sub_overflow(sum, digit, &sum)) /* negative: INT64_MIN has no positive counterpart */
            return false;
    }
    if (!negative && sum == INT64_MIN)
        return false;
    *value = negative ? sum : -sum;
    return text.len > negative;
}
