/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of a failing program. Its items are stream descriptors, instructions and blocks of data. Runs of items are
 * removed as long as the failure stays the same: half of them, a quarter, down to single items, until no single item
 * can be removed. Then bits of the remaining words are cleared, as long as each word stays the same instruction.
 *
 * Every candidate is a whole assembly source; the caller tests it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/vec.h"
#include "trivet/codec.h"
#include "trivet/cosim.h"

enum { BLOCKS_MAX = 4096, BLOCK_MIN = 16, LINE_BYTES = 16, TESTS_DEFAULT = 10000, ITEMS_MAX = 1 << 24 };

typedef enum item_kind { ITEM_DESCRIPTOR, ITEM_INSTRUCTION, ITEM_DATA } item_kind;

typedef struct item {
    item_kind kind;
    const char *stream;   /* DESCRIPTOR */
    uint64_t addr, bytes; /* DESCRIPTOR, DATA */
    const uint8_t *data;
    uint64_t word; /* INSTRUCTION */
} item;

typedef struct reduction {
    const tv_program *program;
    const tv_codec *codec;
    const tv_reduce_options *options;
    TV_VEC(item) items;
    TV_VEC(item) candidate;
    tv_buf text;
    uint64_t tests, tests_max;
    bool stopped; /* the limit of tests is reached, or the caller has stopped */
    tv_status status;
} reduction;

/* ---- Items ---- */

static bool is_zero(const uint8_t *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i])
            return false;
    return true;
}

static bool add_segment(reduction *r, const tv_segment *s, uint64_t block)
{
    for (uint64_t at = 0; s->bytes && at < s->size; at += block) {
        item i = {
            .kind = ITEM_DATA, .addr = s->addr + at, .bytes = tv_min_u64(block, s->size - at), .data = s->bytes + at};
        if (!is_zero(i.data, i.bytes) && !TV_VEC_PUSH(&r->items, i))
            return false;
    }
    return true;
}

static bool list_items(reduction *r)
{
    tv_descriptor d;
    tv_segment s;
    const char *stream;
    uint64_t total = 0, block = BLOCK_MIN;
    for (unsigned k = 0; (stream = tv_program_stream_name(r->program, k)); k++)
        for (uint64_t i = 0; tv_program_descriptor_at(r->program, k, i, &d); i++)
            if (!TV_VEC_PUSH(&r->items, (item){ITEM_DESCRIPTOR, stream, d.addr, d.bytes, NULL, 0}))
                return false;
    for (uint64_t i = 0; i < tv_program_instruction_count(r->program); i++)
        if (!TV_VEC_PUSH(&r->items, (item){.kind = ITEM_INSTRUCTION, .word = tv_program_word(r->program, i)}))
            return false;
    for (uint64_t i = 0; tv_program_segment_at(r->program, i, &s); i++)
        total += s.bytes ? s.size : 0;
    while (block < total / BLOCKS_MAX)
        block *= 2;
    for (uint64_t i = 0; tv_program_segment_at(r->program, i, &s); i++)
        if (!add_segment(r, &s, block))
            return false;
    return r->items.count <= ITEMS_MAX;
}

/* ---- Candidates ---- */

static void append_item(reduction *r, const item *i)
{
    char text[TV_CODEC_TEXT];
    switch (i->kind) {
    case ITEM_DESCRIPTOR:
        tv_buf_printf(&r->text, "        wstream %s, 0x%" PRIx64 ", 0x%" PRIx64 "\n", i->stream, i->addr, i->bytes);
        break;
    case ITEM_INSTRUCTION:
        tv_codec_disassemble(r->codec, i->word, text);
        tv_buf_printf(&r->text, "        %s\n", text);
        break;
    case ITEM_DATA:
        tv_buf_printf(&r->text, "        .data 0x%" PRIx64, i->addr);
        for (uint64_t k = 0; k < i->bytes; k++)
            tv_buf_printf(&r->text, k % LINE_BYTES ? ",0x%02x" : "\n        .byte 0x%02x", i->data[k]);
        tv_buf_str(&r->text, "\n");
        break;
    }
}

/* The source of `count` items as a text; NULL: out of memory. */
static const char *format_source(reduction *r, const item *items, size_t count)
{
    const char *line;
    r->text.len = 0;
    tv_buf_printf(&r->text, "        .target %s\n", tv_program_target(r->program));
    if (tv_program_uses_proposed(r->program))
        tv_buf_str(&r->text, "        .option proposed\n");
    for (uint64_t i = 0; (line = tv_program_requirement_at(r->program, i)); i++)
        tv_buf_printf(&r->text, "        %s\n", line);
    for (size_t i = 0; i < count; i++)
        append_item(r, &items[i]);
    const char *text = tv_buf_cstr(&r->text);
    if (r->text.failed)
        r->status = TV_ERR_MEMORY;
    return r->text.failed ? NULL : text;
}

/* True if the items fail in the same way. */
static bool test_items(reduction *r, const item *items, size_t count)
{
    if (r->stopped || r->status != TV_OK)
        return false;
    if (r->tests == r->tests_max) {
        r->stopped = true;
        return false;
    }
    const char *text = format_source(r, items, count);
    if (!text)
        return false;
    r->tests++;
    int result = r->options->fails(r->options->user, text);
    r->stopped = result < 0;
    return result > 0;
}

/* Removes items `at` to `at + count` if the failure stays. */
static bool remove_items(reduction *r, size_t at, size_t count)
{
    size_t rest = r->items.count - at - count;
    memcpy(r->candidate.data, r->items.data, at * sizeof(item));
    memcpy(r->candidate.data + at, r->items.data + at + count, rest * sizeof(item));
    if (!test_items(r, r->candidate.data, at + rest))
        return false;
    memmove(r->items.data + at, r->items.data + at + count, rest * sizeof(item));
    r->items.count = at + rest;
    return true;
}

/* Tries all runs of `size` items, the last ones first: what comes after the failure goes at once. */
static bool remove_runs(reduction *r, size_t size)
{
    bool changed = false;
    for (size_t end = r->items.count; end > 0 && !r->stopped;) {
        size_t at = end > size ? end - size : 0;
        changed |= remove_items(r, at, end - at);
        end = at;
    }
    return changed;
}

static void clear_bits(reduction *r, item *i)
{
    int insn = tv_codec_decode(r->codec, i->word, NULL);
    for (unsigned bit = tv_codec_word_bits(r->codec); bit-- > 0;) {
        uint64_t word = i->word;
        i->word = word & ~(UINT64_C(1) << bit);
        if (i->word == word)
            continue;
        if (tv_codec_decode(r->codec, i->word, NULL) != insn || !test_items(r, r->items.data, r->items.count))
            i->word = word;
    }
}

static void reduce_items(reduction *r)
{
    for (size_t size = r->items.count / 2; size > 1; size /= 2)
        remove_runs(r, size);
    for (bool changed = true; changed && !r->stopped;) {
        while (remove_runs(r, 1))
            ;
        changed = false;
        for (size_t i = 0; i < r->items.count; i++) {
            uint64_t word = r->items.data[i].word;
            if (r->items.data[i].kind == ITEM_INSTRUCTION)
                clear_bits(r, &r->items.data[i]);
            changed |= r->items.data[i].word != word;
        }
    }
}

/* ---- The interface ---- */

static tv_status run_reduction(reduction *r, const tv_diag_sink *sink, tv_reduced *out)
{
    if (!list_items(r) || !TV_VEC_RESERVE(&r->candidate, r->items.count))
        return TV_ERR_MEMORY;
    if (!test_items(r, r->items.data, r->items.count)) {
        if (r->status == TV_OK && !r->stopped)
            return tv_fail(sink, TV_ERR_INPUT, TV_CODE(REDUCE_PASSES), NULL,
                           "the whole program does not fail, so that there is nothing to reduce");
        return r->status == TV_OK ? TV_ERR_INPUT : r->status;
    }
    out->instructions_before = tv_program_instruction_count(r->program);
    reduce_items(r);
    const char *text = r->status == TV_OK ? format_source(r, r->items.data, r->items.count) : NULL;
    out->source = text ? strdup(text) : NULL;
    out->tests = r->tests;
    out->complete = !r->stopped;
    for (size_t i = 0; i < r->items.count; i++)
        out->instructions += r->items.data[i].kind == ITEM_INSTRUCTION;
    return out->source ? TV_OK : TV_ERR_MEMORY;
}

tv_status tv_program_reduce(const tv_program *program, const tv_codec *codec, const tv_reduce_options *options,
                            const tv_diag_sink *sink, tv_reduced *out)
{
    tv_reduce_options own = {.size = sizeof own};
    if (!tv_read_sized(&own, sizeof own, TV_SIZE_UP_TO(tv_reduce_options, tests_max), options))
        return tv_fail_size(sink, "tv_reduce_options");
    reduction r = {.program = program,
                   .codec = codec,
                   .options = &own,
                   .tests_max = own.tests_max ? own.tests_max : TESTS_DEFAULT};
    *out = (tv_reduced){0};
    tv_status status = TV_ERR_INPUT;
    if (tv_codec_word_bits(r.codec) == 0)
        tv_fail(sink, TV_ERR_INPUT, TV_CODE(REDUCE_TARGET), NULL, "a command queue has no instruction words to remove");
    else
        status = run_reduction(&r, sink, out);
    if (status == TV_ERR_MEMORY)
        status = tv_fail_memory(sink);
    TV_VEC_FINI(&r.items);
    TV_VEC_FINI(&r.candidate);
    tv_buf_fini(&r.text);
    return status;
}
