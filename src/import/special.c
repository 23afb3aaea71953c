/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces that are found in a text before it is split and merged, and tokens that end a generation.
 *
 * Candidates are kept in a heap, one for each position: the longest piece that matches there. The best is chosen; one
 * that meets bytes of a chosen one is replaced by the longest that fits before them. A position has at most
 * TV_SPECIAL_BYTES_MAX candidates in turn, so the time is O(n log n) whatever the vocabulary. */
#include <stdlib.h>

#include "base/vec.h"
#include "import/vocabulary.h"

/* ---- Tables ---- */

static const char *const end_names[] = {
    "<|eot_id|>",      "<|im_end|>",
    "<|end|>",         "<|return|>",
    "<|call|>",        "<end_of_turn>",
    "<|endoftext|>",   "<|eom_id|>",
    "<EOT>",           "_<EOT>",
    "<|end_of_text|>", "<end_of_utterance>",
    "<|fim_pad|>",     "<|repo_name|>",
    "<|file_sep|>",    "<\357\275\234end\342\226\201of\342\226\201sentence\357\275\234>", /* fullwidth bars, U+2581 */
};

static int32_t find_text(const tv_tokenizer *t, const char *text)
{
    for (int32_t id = 0; id < t->count; id++)
        if (tv_sv_is(t->pieces[id].text, text))
            return id;
    return -1;
}

/* Some files give these tokens another type. */
static void mark_ends(tv_tokenizer *t)
{
    for (int32_t id = 0; id < t->count; id++) {
        tv_piece *p = &t->pieces[id];
        for (size_t i = 0; i < TV_COUNTOF(end_names); i++)
            p->ends |= tv_sv_is(p->text, end_names[i]);
        if (p->ends) {
            p->type = TV_TOKEN_CONTROL;
            p->matches = false;
        }
    }
    if (t->eos >= 0)
        t->pieces[t->eos].ends = true;
    /* Where <|return|> ends an answer and <|call|> a call, <|end|> only ends a message of several. */
    int32_t end = find_text(t, "<|end|>");
    if (end >= 0 && end != t->eos && find_text(t, "<|return|>") >= 0 && find_text(t, "<|call|>") >= 0)
        t->pieces[end].ends = false;
}

static bool is_found(const tv_piece *p)
{
    return p->text.len > 0 && p->text.len <= TV_SPECIAL_BYTES_MAX &&
           (p->type == TV_TOKEN_USER_DEFINED || p->type == TV_TOKEN_CONTROL || p->type == TV_TOKEN_UNKNOWN);
}

/* Sorted together with the id because qsort passes no context. */
typedef struct special_key {
    tv_sv text;
    int32_t id;
} special_key;

static int compare_keys(const void *a, const void *b)
{
    const special_key *x = a, *y = b;
    size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order = memcmp(x->text.ptr, y->text.ptr, n);
    if (order == 0)
        order = (x->text.len > y->text.len) - (x->text.len < y->text.len);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* Phi-3 was trained with special tokens that remove the white space after them; files do not say so. */
static bool is_phi3(tv_sv model)
{
    for (size_t i = 0; i + 4 <= model.len; i++) {
        tv_sv rest = {model.ptr + i, model.len - i};
        if (tv_sv_is_nocase((tv_sv){rest.ptr, 4}, "phi3") ||
            (rest.len >= 5 && tv_sv_is_nocase((tv_sv){rest.ptr, 5}, "phi-3")))
            return true;
    }
    return false;
}

bool tv_special_init(tv_tokenizer *t, tv_sv model)
{
    bool strips = is_phi3(model);
    static const char *const never_strip[] = {"<unk>", "<s>", "<|endoftext|>"};
    mark_ends(t);
    TV_VEC(special_key) keys = {0};
    for (int32_t id = 0; id < t->count; id++)
        if (is_found(&t->pieces[id])) {
            t->pieces[id].strips = strips;
            for (size_t i = 0; i < TV_COUNTOF(never_strip); i++)
                t->pieces[id].strips &= !tv_sv_is(t->pieces[id].text, never_strip[i]);
            (void)TV_VEC_PUSH(&keys, (special_key){t->pieces[id].text, id});
        }
    t->specials = keys.failed ? NULL : tv_arena_alloc(&t->arena, (keys.count + 1) * sizeof *t->specials);
    if (!t->specials) {
        TV_VEC_FINI(&keys);
        return false;
    }
    if (keys.count > 0)
        qsort(keys.data, keys.count, sizeof *keys.data, compare_keys);
    for (size_t i = 0; i < keys.count; i++)
        if (i == 0 || !tv_sv_eq(keys.data[i].text, keys.data[i - 1].text))
            t->specials[t->special_count++] = keys.data[i].id;
    TV_VEC_FINI(&keys);
    return true;
}

/* ---- Search ---- */

typedef struct match {
    size_t start;
    int32_t id;
} match;

typedef struct search {
    const tv_tokenizer *t;
    tv_sv text;
    bool control;
    uint8_t *taken; /* for each byte of the text */
    TV_VEC(match) heap;
    TV_VEC(match) chosen;
    size_t first[257]; /* specials by first byte: [first[b], first[b + 1]) */
} search;

static tv_sv special_text(const search *s, size_t index) { return s->t->pieces[s->t->specials[index]].text; }

/* First index in [low, high) whose byte `depth` is at least `byte`; all of them have `depth` equal bytes, and the one
 * that has no more is first. */
static size_t lower_bound(const search *s, size_t low, size_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        size_t middle = (low + high) / 2;
        tv_sv text = special_text(s, middle);
        if (text.len <= depth || (uint8_t)text.ptr[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest piece of at most `limit` bytes at `start`, or -1. */
static int32_t longest_match(const search *s, size_t start, size_t limit)
{
    uint8_t byte = (uint8_t)s->text.ptr[start];
    size_t low = s->first[byte], high = s->first[byte + 1u];
    int32_t best = -1;
    for (size_t depth = 1; low < high; depth++) {
        int32_t id = s->t->specials[low];
        if (s->t->pieces[id].text.len == depth && (s->control || s->t->pieces[id].type == TV_TOKEN_USER_DEFINED))
            best = id;
        if (depth >= limit)
            break;
        byte = (uint8_t)s->text.ptr[start + depth];
        low = lower_bound(s, low, high, depth, byte);
        high = lower_bound(s, low, high, depth, byte + 1u);
    }
    return best;
}

static size_t match_len(const search *s, match m) { return s->t->pieces[m.id].text.len; }

static bool precedes(const search *s, match a, match b)
{
    size_t x = match_len(s, a), y = match_len(s, b);
    if (x != y)
        return x > y;
    return a.id != b.id ? a.id < b.id : a.start < b.start;
}

static void heap_push(search *s, match m)
{
    if (!TV_VEC_PUSH(&s->heap, m))
        return;
    size_t at = s->heap.count - 1;
    for (; at > 0 && precedes(s, m, s->heap.data[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap.data[at] = s->heap.data[(at - 1) / 2];
    s->heap.data[at] = m;
}

static match heap_pop(search *s)
{
    match best = s->heap.data[0], last = s->heap.data[--s->heap.count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= s->heap.count)
            break;
        if (child + 1 < s->heap.count && precedes(s, s->heap.data[child + 1], s->heap.data[child]))
            child++;
        if (!precedes(s, s->heap.data[child], last))
            break;
        s->heap.data[at] = s->heap.data[child];
        at = child;
    }
    s->heap.data[at] = last;
    return best;
}

static void push_longest(search *s, size_t start, size_t limit)
{
    int32_t id = limit > 0 ? longest_match(s, start, limit) : -1;
    if (id >= 0)
        heap_push(s, (match){start, id});
}

static void choose(search *s, match m)
{
    size_t end = m.start + match_len(s, m);
    (void)TV_VEC_PUSH(&s->chosen, m);
    memset(s->taken + m.start, 1, end - m.start);
    if (s->t->pieces[m.id].strips)
        for (; end < s->text.len && !s->taken[end] && strchr(" \t\n\v\f\r", s->text.ptr[end]) && s->text.ptr[end];
             end++)
            s->taken[end] = 1;
}

static void find_all(search *s)
{
    for (size_t i = 0; i < s->text.len; i++)
        push_longest(s, i, s->text.len - i);
    if (s->heap.count == 0)
        return;
    s->taken = calloc(s->text.len, 1);
    s->heap.failed |= !s->taken;
    while (s->heap.count > 0 && !s->heap.failed) {
        match m = heap_pop(s);
        size_t free_bytes = 0, len = match_len(s, m);
        while (free_bytes < len && !s->taken[m.start + free_bytes])
            free_bytes++;
        if (free_bytes == len)
            choose(s, m);
        else
            push_longest(s, m.start, free_bytes);
    }
}

static int compare_starts(const void *a, const void *b)
{
    const match *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static void index_first_bytes(search *s)
{
    size_t at = 0;
    for (unsigned b = 0; b < 256; b++) {
        s->first[b] = at;
        while (at < s->t->special_count && (uint8_t)special_text(s, at).ptr[0] == b)
            at++;
    }
    s->first[256] = at;
}

bool tv_special_split(const tv_tokenizer *t, tv_sv text, bool control, tv_fragment **list, size_t *count)
{
    search s = {.t = t, .text = text, .control = control};
    TV_VEC(tv_fragment) fragments = {0};
    index_first_bytes(&s);
    find_all(&s);
    if (s.chosen.count > 0)
        qsort(s.chosen.data, s.chosen.count, sizeof *s.chosen.data, compare_starts);
    size_t at = 0;
    for (size_t i = 0; i < s.chosen.count; i++) {
        match m = s.chosen.data[i];
        if (m.start > at)
            (void)TV_VEC_PUSH(&fragments, (tv_fragment){at, m.start - at, -1});
        (void)TV_VEC_PUSH(&fragments, (tv_fragment){m.start, match_len(&s, m), m.id});
        at = m.start + match_len(&s, m);
        while (s.t->pieces[m.id].strips && at < text.len && s.taken[at] &&
               (i + 1 == s.chosen.count || at < s.chosen.data[i + 1].start))
            at++;
    }
    if (at < text.len)
        (void)TV_VEC_PUSH(&fragments, (tv_fragment){at, text.len - at, -1});
    bool failed = s.heap.failed || s.chosen.failed || fragments.failed;
    free(s.taken);
    TV_VEC_FINI(&s.heap);
    TV_VEC_FINI(&s.chosen);
    if (failed)
        TV_VEC_FINI(&fragments);
    *list = fragments.data;
    *count = fragments.count;
    return !failed;
}
