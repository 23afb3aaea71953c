/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding compatible with SentencePiece's "llama" tokenizers: pieces with scores, and byte tokens for
 * everything else. Merges are learned within words, among letters or among other characters. Words are separated by
 * spaces and newlines; a space belongs to the word after it. */
#include "train.h"

#include <stdlib.h>
#include <string.h>

/* A distinct word of the text, and its tokens. */
struct word {
    const char *bytes;
    size_t size, count, tokens;
    int *token;
};

struct words {
    struct word *word;
    size_t count, slots;
};

float vocab_score(size_t token) { return token < TOKEN_PIECES ? 0.0f : (float)TOKEN_PIECES - (float)token; }

/* Length of the UTF-8 character at `text`; an invalid byte counts as a character. */
static size_t char_size(const char *text, size_t remaining)
{
    unsigned char c = (unsigned char)*text;
    size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    return n <= remaining ? n : 1;
}

/* Length of the word at `text`: up to the next space, or a single newline. */
static size_t word_size(const char *text, size_t remaining)
{
    size_t n = 1;
    if (*text == '\n')
        return 1;
    while (n < remaining && text[n] != ' ' && text[n] != '\n')
        n++;
    return n;
}

static int find_piece(const struct vocab *v, const char *bytes, size_t size)
{
    for (size_t i = TOKEN_PIECES; i < v->size; i++)
        if (v->piece[i].size == size && !memcmp(v->piece[i].bytes, bytes, size))
            return (int)i;
    return -1;
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

/* Converts the characters of a word to at most `size` tokens. */
static size_t split_characters(const struct vocab *v, const char *bytes, size_t size, int *token)
{
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        size_t step = char_size(bytes + i, size - i);
        int id = find_piece(v, bytes + i, step);
        if (id >= 0)
            token[n++] = id;
        for (size_t k = 0; id < 0 && k < step; k++)
            token[n++] = TOKEN_BYTES + (unsigned char)bytes[i + k];
        i += step;
    }
    return n;
}

/* Applies the best merge until there is none. */
static size_t apply_merges(const struct vocab *v, int *token, size_t n, float skip, struct rng *r)
{
    for (;;) {
        int best = VOCAB_MAX;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            int id = v->merged[(size_t)token[i] * v->size + (size_t)token[i + 1]];
            if (id >= 0 && id < best && (skip <= 0.0f || rng_unit(r) >= skip)) {
                best = id;
                at = i;
            }
        }
        if (best == VOCAB_MAX)
            return n;
        token[at] = best;
        memmove(token + at + 1, token + at + 2, (n - at - 2) * sizeof *token);
        n--;
    }
}

size_t vocab_encode(const struct vocab *v, const char *text, size_t length, bool prefix, float skip, struct rng *r,
                    int *token, size_t capacity)
{
    enum { WORD = 256 }; /* longer words are split */
    size_t n = 0;
    for (size_t i = 0; i < length && n < capacity;) {
        char word[WORD + 1] = " ";
        int word_token[WORD + 1];
        size_t lead = prefix, size = word_size(text + i, length - i);
        if (lead && (*text == ' ' || *text == '\n'))
            size = 0; /* the space is a word by itself */
        size = size < WORD ? size : WORD;
        memcpy(word + lead, text + i, size);
        size_t count = apply_merges(v, word_token, split_characters(v, word, size + lead, word_token), skip, r);
        for (size_t k = 0; k < count && n < capacity; k++)
            token[n++] = word_token[k];
        prefix = false;
        i += size;
    }
    return n;
}

size_t vocab_decode(const struct vocab *v, int token, char bytes[PIECE_MAX])
{
    if (token < TOKEN_BYTES)
        return 0;
    if (token < TOKEN_PIECES) {
        bytes[0] = (char)(token - TOKEN_BYTES);
        return 1;
    }
    memcpy(bytes, v->piece[token].bytes, v->piece[token].size);
    return v->piece[token].size;
}

/* ---- learning --------------------------------------------------------------------------------------------------- */

static uint64_t hash(const char *bytes, size_t size)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)bytes[i]) * 1099511628211u;
    return h;
}

/* Counts the distinct words in a hash table that is at most half full. */
static void count_words(struct words *w, const char *text, size_t length)
{
    size_t bound = 2;
    for (size_t i = 0; i < length; i += word_size(text + i, length - i))
        bound++;
    for (w->slots = 16; w->slots < 2 * bound;)
        w->slots *= 2;
    w->word = zalloc(w->slots, sizeof *w->word);
    for (size_t i = 0, size; i < length; i += size) {
        size = word_size(text + i, length - i);
        size_t at = hash(text + i, size) & (w->slots - 1);
        while (w->word[at].count && (w->word[at].size != size || memcmp(w->word[at].bytes, text + i, size)))
            at = (at + 1) & (w->slots - 1);
        w->word[at].bytes = text + i;
        w->word[at].size = size;
        w->word[at].count++;
    }
    for (size_t i = 0; i < w->slots; i++) /* compacts the table */
        if (w->word[i].count)
            w->word[w->count++] = w->word[i];
}

static void add_piece(struct vocab *v, const char *bytes, size_t size)
{
    struct piece *p = &v->piece[v->size++];
    p->size = (uint8_t)size;
    memcpy(p->bytes, bytes, size);
}

struct tally {
    struct piece piece;
    size_t count;
};

static int compare_counts(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return memcmp(x->piece.bytes, y->piece.bytes, PIECE_MAX);
}

/* The most frequent characters of the text, at most `max`. */
static size_t count_characters(struct tally *tally, size_t max, const char *text, size_t length)
{
    enum { DISTINCT = 4096 };
    struct tally *all = zalloc(DISTINCT, sizeof *all);
    size_t n = 0;
    for (size_t i = 0, size; i < length; i += size) {
        size = char_size(text + i, length - i);
        if ((unsigned char)text[i] < ' ')
            continue;
        size_t k = 0;
        while (k < n && (all[k].piece.size != size || memcmp(all[k].piece.bytes, text + i, size)))
            k++;
        if (k == DISTINCT)
            continue;
        all[k].piece.size = (uint8_t)size;
        memcpy(all[k].piece.bytes, text + i, size);
        all[k].count++;
        n += k == n;
    }
    qsort(all, n, sizeof *all, compare_counts);
    n = n < max ? n : max;
    memcpy(tally, all, n * sizeof *tally);
    free(all);
    return n;
}

/* Letters merge with letters, other characters with other characters. Space and apostrophe count as letters. */
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ' || c == '\'' || (unsigned char)c >= 0x80;
}

static bool can_merge(const struct vocab *v, int a, int b)
{
    if (a < TOKEN_PIECES || b < TOKEN_PIECES)
        return false;
    const struct piece *p = &v->piece[a], *q = &v->piece[b];
    return p->size + q->size <= PIECE_MAX && is_letter(p->bytes[p->size - 1]) == is_letter(q->bytes[0]);
}

/* The most frequent pair, as left * stride + right. */
static size_t best_pair(const struct vocab *v, const struct words *w, size_t *count, size_t stride)
{
    size_t best = 0;
    memset(count, 0, stride * stride * sizeof *count);
    for (size_t i = 0; i < w->count; i++)
        for (size_t k = 0; k + 1 < w->word[i].tokens; k++)
            if (can_merge(v, w->word[i].token[k], w->word[i].token[k + 1]))
                count[(size_t)w->word[i].token[k] * stride + (size_t)w->word[i].token[k + 1]] += w->word[i].count;
    for (size_t i = 0; i < stride * stride; i++)
        if (count[i] > count[best])
            best = i;
    return best;
}

/* Replaces adjacent tokens whose concatenation is the piece `id`. */
static void merge_in_word(const struct vocab *v, struct word *w, int id)
{
    const struct piece *piece = &v->piece[id];
    for (size_t k = 0; k + 1 < w->tokens; k++) {
        if (w->token[k] < TOKEN_PIECES || w->token[k + 1] < TOKEN_PIECES)
            continue;
        const struct piece *p = &v->piece[w->token[k]], *q = &v->piece[w->token[k + 1]];
        if (p->size + q->size != piece->size || memcmp(p->bytes, piece->bytes, p->size) ||
            memcmp(q->bytes, piece->bytes + p->size, q->size))
            continue;
        w->token[k] = id;
        memmove(w->token + k + 1, w->token + k + 2, (w->tokens - k - 2) * sizeof *w->token);
        w->tokens--;
    }
}

static void learn_merges(struct vocab *v, struct words *w, size_t target)
{
    size_t *count = zalloc(target * target, sizeof *count);
    while (v->size < target) {
        size_t pair = best_pair(v, w, count, target);
        if (!count[pair])
            break;
        const struct piece *p = &v->piece[pair / target], *q = &v->piece[pair % target];
        char bytes[PIECE_MAX];
        memcpy(bytes, p->bytes, p->size);
        memcpy(bytes + p->size, q->bytes, q->size);
        add_piece(v, bytes, (size_t)p->size + q->size);
        for (size_t i = 0; i < w->count; i++)
            merge_in_word(v, &w->word[i], (int)v->size - 1);
    }
    free(count);
}

/* Moves the single characters, which were learned first, to the end, as in SentencePiece. */
static void move_characters_last(struct vocab *v, size_t split_characters)
{
    size_t merges = v->size - TOKEN_PIECES - split_characters;
    struct piece *p = v->piece + TOKEN_PIECES, *first = zalloc(split_characters, sizeof *first);
    memcpy(first, p, split_characters * sizeof *p);
    memmove(p, p + split_characters, merges * sizeof *p);
    memcpy(p + merges, first, split_characters * sizeof *p);
    free(first);
}

void vocab_train(struct vocab *v, const char *text, size_t length, size_t size)
{
    struct words w = {0};
    struct tally *tally = zalloc(size, sizeof *tally);
    memset(v, 0, sizeof *v);
    v->size = TOKEN_PIECES;
    size_t n = count_characters(tally, (size - TOKEN_PIECES) / 2, text, length);
    for (size_t i = 0; i < n; i++)
        add_piece(v, tally[i].piece.bytes, tally[i].piece.size);
    count_words(&w, text, length);
    for (size_t i = 0; i < w.count; i++) {
        w.word[i].token = zalloc(w.word[i].size, sizeof(int));
        w.word[i].tokens = split_characters(v, w.word[i].bytes, w.word[i].size, w.word[i].token);
    }
    learn_merges(v, &w, size);
    move_characters_last(v, n);
    for (size_t i = 0; i < w.count; i++)
        free(w.word[i].token);
    free(w.word);
    free(tally);
    vocab_index_merges(v);
}

void vocab_index_merges(struct vocab *v)
{
    v->merged = zalloc(v->size * v->size, sizeof *v->merged);
    memset(v->merged, 0xff, v->size * v->size * sizeof *v->merged);
    for (size_t i = TOKEN_PIECES; i < v->size; i++)
        for (size_t cut = 1; cut < v->piece[i].size; cut++) {
            int a = find_piece(v, v->piece[i].bytes, cut),
                b = find_piece(v, v->piece[i].bytes + cut, v->piece[i].size - cut);
            if (a >= 0 && b >= 0)
                v->merged[(size_t)a * v->size + (size_t)b] = (int16_t)i;
        }
}

void vocab_fini(struct vocab *v) { free(v->merged); }
