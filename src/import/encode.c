/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes text to tokens by byte-pair encoding.
 *
 * The text, or one word of it, is a doubly linked list of symbols. A heap holds the candidate merges of neighbouring
 * symbols, best first. Candidates are not removed from the heap when a symbol changes; a stale candidate is recognized
 * by the recorded lengths of its symbols. Encoding n bytes takes O(n log n). */
#include <stdlib.h>

#include "base/vec.h"
#include "import/characters.h"
#include "import/tokenizer.h"
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
    TV_VEC(symbol) symbols;
    TV_VEC(candidate) heap;
    TV_VEC(int32_t) ids;
    bool failed; /* out of memory */
} encoder;

static bool precedes(const candidate *a, const candidate *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->left < b->left;
}

static void heap_push(encoder *e, candidate j)
{
    if (!TV_VEC_PUSH(&e->heap, j)) {
        e->failed = true;
        return;
    }
    size_t at = e->heap.count - 1;
    for (; at > 0 && precedes(&j, &e->heap.data[(at - 1) / 2]); at = (at - 1) / 2)
        e->heap.data[at] = e->heap.data[(at - 1) / 2];
    e->heap.data[at] = j;
}

static candidate heap_pop(encoder *e)
{
    candidate best = e->heap.data[0], last = e->heap.data[--e->heap.count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= e->heap.count)
            break;
        if (child + 1 < e->heap.count && precedes(&e->heap.data[child + 1], &e->heap.data[child]))
            child++;
        if (!precedes(&e->heap.data[child], &last))
            break;
        e->heap.data[at] = e->heap.data[child];
        at = child;
    }
    e->heap.data[at] = last;
    return best;
}

/* Pushes the merge of `left` with its right neighbour, if the vocabulary has the result. */
static void push_candidate(encoder *e, uint32_t left)
{
    uint32_t right = left == NONE ? NONE : e->symbols.data[left].next;
    if (right == NONE)
        return;
    const symbol *a = &e->symbols.data[left], *b = &e->symbols.data[right];
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
    for (size_t i = 0; i + 1 < e->symbols.count; i++)
        push_candidate(e, (uint32_t)i);
    while (e->heap.count > 0 && !e->failed) {
        candidate j = heap_pop(e);
        symbol *left = &e->symbols.data[j.left], *right = &e->symbols.data[j.right];
        if (left->len != j.left_len || right->len != j.right_len)
            continue; /* stale: a symbol has been merged otherwise */
        left->len += right->len;
        left->id = j.merged;
        left->next = right->next;
        right->len = 0;
        if (right->next != NONE)
            e->symbols.data[right->next].previous = j.left;
        push_candidate(e, left->previous);
        push_candidate(e, j.left);
    }
}

/* ---- From symbols to tokens ---- */

static void add_symbol(encoder *e, size_t start, size_t len, int32_t id)
{
    uint32_t at = (uint32_t)e->symbols.count;
    if (!TV_VEC_PUSH(&e->symbols, ((symbol){(uint32_t)start, (uint32_t)len, id, at == 0 ? NONE : at - 1, NONE}))) {
        e->failed = true;
        return;
    }
    if (at > 0)
        e->symbols.data[at - 1].next = at;
}

static void append_id(encoder *e, int32_t id) { (void)TV_VEC_PUSH(&e->ids, id); }

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
    for (uint32_t i = e->symbols.count > 0 ? 0 : NONE; i != NONE && !e->failed; i = e->symbols.data[i].next) {
        const symbol *s = &e->symbols.data[i];
        if (s->id >= 0)
            append_id(e, s->id);
        else
            append_byte_tokens(e, (tv_sv){e->text + s->start, s->len});
    }
    e->symbols.count = 0;
    e->heap.count = 0;
}

/* ---- The two tokenizer models ---- */

/* `space` prepends a space, if the model adds any. */
static void encode_llama(encoder *e, tv_sv text, bool space)
{
    tv_buf escaped = {0};
    if (e->t->space_prefix && space)
        tv_buf_str(&escaped, TV_LOWER_BLOCK);
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == ' ')
            tv_buf_str(&escaped, TV_LOWER_BLOCK);
        else
            tv_buf_append(&escaped, text.ptr + i, 1);
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

static void encode_word(void *user, tv_sv word)
{
    encoder *e = user;
    if (e->failed)
        return;
    e->text = word.ptr;
    int32_t whole = e->t->pre->ignores_merges ? tv_vocabulary_find(e->t, word) : -1;
    if (whole >= 0) {
        append_id(e, whole);
        return;
    }
    for (size_t i = 0; i < word.len; i++)
        add_symbol(e, i, 1, e->t->byte_ids[(uint8_t)word.ptr[i]]);
    flush_symbols(e);
}

static void encode_fragments(encoder *e, tv_sv text, const tv_fragment *list, size_t count)
{
    for (size_t i = 0; i < count && !e->failed; i++) {
        tv_sv fragment = {text.ptr + list[i].start, list[i].len};
        if (list[i].id >= 0)
            append_id(e, list[i].id);
        else if (e->t->gpt2)
            tv_pretokenizer_split(e->t->pre, fragment, encode_word, e);
        else
            encode_llama(e, fragment, i == 0 || list[i - 1].id >= 0);
    }
}

tv_status tv_tokenizer_encode(const tv_tokenizer *tokenizer, const char *text, size_t len, unsigned flags,
                              int32_t **ids, size_t *count)
{
    if (len > TV_TOKENIZER_TEXT_MAX)
        return TV_ERR_INPUT;
    encoder e = {.t = tokenizer};
    tv_fragment *list = NULL;
    size_t fragments = 0;
    e.failed = !tv_special_split(tokenizer, (tv_sv){text, len}, (flags & TV_ENCODE_SPECIAL) != 0, &list, &fragments);
    if ((flags & TV_ENCODE_BOS) && tokenizer->bos >= 0)
        append_id(&e, tokenizer->bos);
    encode_fragments(&e, (tv_sv){text, len}, list, fragments);
    if ((flags & TV_ENCODE_EOS) && tokenizer->eos >= 0)
        append_id(&e, tokenizer->eos);
    free(list);
    TV_VEC_FINI(&e.symbols);
    TV_VEC_FINI(&e.heap);
    if (e.failed || !TV_VEC_RESERVE(&e.ids, 1)) { /* the result is not NULL without tokens */
        TV_VEC_FINI(&e.ids);
        return TV_ERR_MEMORY;
    }
    *ids = e.ids.data;
    *count = e.ids.count;
    return TV_OK;
}
