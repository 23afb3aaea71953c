/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes text to tokens by byte-pair encoding.
 *
 * The text, or one word of it, is a doubly linked list of symbols. A heap holds the candidate merges of neighbouring
 * symbols, best first. Candidates are not removed from the heap when a symbol changes; a stale candidate is recognized
 * by the recorded lengths of its symbols. Encoding n bytes takes O(n log n). */
#include <stdlib.h>

#include "import/gpt2_split.h"
#include "import/vocabulary.h"

/* A range of the text; `len` 0: merged into the previous symbol. */
typedef struct symbol {
    uint32_t start, len;
    int32_t id;              /* piece, or -1 */
    uint32_t previous, next; /* NONE at the ends */
} symbol;

static const uint32_t NONE = UINT32_MAX;

typedef struct candidate {
    double cost; /* the lowest is merged first, then the leftmost */
    uint32_t left, right;
    uint32_t left_len, right_len; /* lengths when the candidate was pushed */
    int32_t merged;
} candidate;

typedef struct encoder {
    const tv_tokenizer *t;
    const char *text;
    symbol *symbols;
    size_t symbol_count, symbol_cap;
    candidate *heap;
    size_t heap_count, heap_cap;
    tv_buf ids;
    bool failed; /* out of memory */
} encoder;

static bool precedes(const candidate *a, const candidate *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->left < b->left;
}

static void heap_push(encoder *e, candidate j)
{
    if (e->heap_count == e->heap_cap) {
        size_t cap = e->heap_cap ? e->heap_cap * 2 : 64;
        candidate *heap = realloc(e->heap, cap * sizeof *heap);
        if (!heap) {
            e->failed = true;
            return;
        }
        e->heap = heap;
        e->heap_cap = cap;
    }
    size_t at = e->heap_count++;
    for (; at > 0 && precedes(&j, &e->heap[(at - 1) / 2]); at = (at - 1) / 2)
        e->heap[at] = e->heap[(at - 1) / 2];
    e->heap[at] = j;
}

static candidate heap_pop(encoder *e)
{
    candidate best = e->heap[0], last = e->heap[--e->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= e->heap_count)
            break;
        if (child + 1 < e->heap_count && precedes(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!precedes(&e->heap[child], &last))
            break;
        e->heap[at] = e->heap[child];
        at = child;
    }
    e->heap[at] = last;
    return best;
}

/* Pushes the merge of `left` with its right neighbour, if the vocabulary has the result. */
static void push_candidate(encoder *e, uint32_t left)
{
    uint32_t right = left == NONE ? NONE : e->symbols[left].next;
    if (right == NONE)
        return;
    const symbol *a = &e->symbols[left], *b = &e->symbols[right];
    candidate j = {.left = left, .right = right, .left_len = a->len, .right_len = b->len};
    if (e->t->gpt2) {
        const tv_merge *merge = a->id >= 0 && b->id >= 0 ? tv_vocabulary_merge(e->t, a->id, b->id) : NULL;
        if (!merge)
            return;
        j.merged = merge->merged;
        j.cost = (double)merge->rank;
    } else {
        j.merged = tv_vocabulary_find(e->t, (tv_sv){e->text + a->start, (size_t)a->len + b->len});
        if (j.merged < 0)
            return;
        j.cost = -(double)e->t->pieces[j.merged].score;
    }
    heap_push(e, j);
}

static void merge_symbols(encoder *e)
{
    for (size_t i = 0; i + 1 < e->symbol_count; i++)
        push_candidate(e, (uint32_t)i);
    while (e->heap_count > 0 && !e->failed) {
        candidate j = heap_pop(e);
        symbol *left = &e->symbols[j.left], *right = &e->symbols[j.right];
        if (left->len != j.left_len || right->len != j.right_len)
            continue; /* stale: a symbol has been merged otherwise */
        left->len += right->len;
        left->id = j.merged;
        left->next = right->next;
        right->len = 0;
        if (right->next != NONE)
            e->symbols[right->next].previous = j.left;
        push_candidate(e, left->previous);
        push_candidate(e, j.left);
    }
}

/* ---- From symbols to tokens ---- */

static void add_symbol(encoder *e, size_t start, size_t len, int32_t id)
{
    if (e->symbol_count == e->symbol_cap) {
        size_t cap = e->symbol_cap ? e->symbol_cap * 2 : 64;
        symbol *symbols = realloc(e->symbols, cap * sizeof *symbols);
        if (!symbols) {
            e->failed = true;
            return;
        }
        e->symbols = symbols;
        e->symbol_cap = cap;
    }
    uint32_t at = (uint32_t)e->symbol_count++;
    e->symbols[at] = (symbol){(uint32_t)start, (uint32_t)len, id, at == 0 ? NONE : at - 1, NONE};
    if (at > 0)
        e->symbols[at - 1].next = at;
}

static void append_id(encoder *e, int32_t id) { tv_buf_append(&e->ids, &id, sizeof id); }

/* A symbol that is not a piece: its byte tokens if all of them exist, otherwise one unknown token. */
static void append_byte_tokens(encoder *e, tv_sv bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if (e->t->unk >= 0 && e->t->byte_ids[(uint8_t)bytes.ptr[i]] < 0) {
            append_id(e, e->t->unk);
            return;
        }
    for (size_t i = 0; i < bytes.len; i++) {
        int32_t id = e->t->byte_ids[(uint8_t)bytes.ptr[i]];
        if (id >= 0)
            append_id(e, id);
    }
}

/* Merges the current list of symbols, appends the tokens, and empties the list. */
static void flush_symbols(encoder *e)
{
    merge_symbols(e);
    for (uint32_t i = e->symbol_count > 0 ? 0 : NONE; i != NONE && !e->failed; i = e->symbols[i].next) {
        const symbol *s = &e->symbols[i];
        if (s->id >= 0)
            append_id(e, s->id);
        else
            append_byte_tokens(e, (tv_sv){e->text + s->start, s->len});
    }
    e->symbol_count = 0;
    e->heap_count = 0;
}

/* ---- The two tokenizer models ---- */

static void encode_llama(encoder *e, const char *text, size_t len)
{
    tv_buf escaped = {0};
    if (e->t->space_prefix && len > 0)
        tv_buf_str(&escaped, TV_LOWER_BLOCK);
    for (size_t i = 0; i < len; i++)
        if (text[i] == ' ')
            tv_buf_str(&escaped, TV_LOWER_BLOCK);
        else
            tv_buf_append(&escaped, text + i, 1);
    e->failed |= escaped.failed;
    e->text = (const char *)escaped.data;
    for (size_t at = 0; at < escaped.len && !e->failed;) {
        int32_t code; /* an invalid byte is a symbol by itself, so it cannot absorb a following space */
        size_t n = tv_utf8_decode((tv_sv){e->text + at, escaped.len - at}, &code);
        add_symbol(e, at, n, tv_vocabulary_find(e->t, (tv_sv){e->text + at, n}));
        at += n;
    }
    flush_symbols(e);
    tv_buf_fini(&escaped);
}

static void encode_gpt2(encoder *e, const char *text, size_t len)
{
    e->text = text;
    for (size_t at = 0; at < len && !e->failed;) {
        size_t n = tv_gpt2_word((tv_sv){text + at, len - at});
        for (size_t i = at; i < at + n; i++)
            add_symbol(e, i, 1, e->t->byte_ids[(uint8_t)text[i]]);
        flush_symbols(e);
        at += n;
    }
}

tv_status tv_tokenizer_encode(const tv_tokenizer *tokenizer, const char *text, size_t len, bool bos, int32_t **ids,
                              size_t *count)
{
    if (len > TV_TOKENIZER_TEXT_MAX)
        return TV_ERR_INPUT;
    encoder e = {.t = tokenizer};
    if (bos && tokenizer->bos >= 0)
        append_id(&e, tokenizer->bos);
    if (tokenizer->gpt2)
        encode_gpt2(&e, text, len);
    else
        encode_llama(&e, text, len);
    free(e.symbols);
    free(e.heap);
    size_t bytes = e.ids.len;
    int32_t *result = (int32_t *)(void *)tv_buf_take(&e.ids);
    if (e.failed || !result) {
        free(result);
        return TV_ERR_MEMORY;
    }
    *ids = result;
    *count = bytes / sizeof *result;
    return TV_OK;
}
