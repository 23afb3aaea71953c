/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and edits shared by the mutators, and the mutator of text in lines. */
#include "mutator.h"

#include <stdio.h>
#include <string.h>

fuzz_random fuzz_random_of(unsigned seed) { return (fuzz_random){seed * UINT64_C(0x9E3779B97F4A7C15) + 1}; }

/* splitmix64 */
uint64_t fuzz_next(fuzz_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

size_t fuzz_below(fuzz_random *random, size_t limit) { return (size_t)(fuzz_next(random) % limit); }

uint64_t fuzz_number(fuzz_random *random, uint64_t size)
{
    switch (fuzz_below(random, 6)) {
    case 0:
        return fuzz_below(random, 20);
    case 1:
        return (UINT64_C(1) << fuzz_below(random, 64)) + fuzz_below(random, 3) - 1;
    case 2:
        return size + fuzz_below(random, 5) - 2;
    case 3:
        return UINT64_MAX - fuzz_below(random, 3);
    case 4:
        return fuzz_next(random) >> fuzz_below(random, 64);
    default:
        return 8 * fuzz_below(random, 64);
    }
}

size_t fuzz_splice(uint8_t *data, size_t size, size_t max_size, size_t from, size_t to, tv_sv text)
{
    size_t grown = size - (to - from) + text.len;
    if (grown > max_size)
        return size;
    memmove(data + from + text.len, data + to, size - to);
    if (text.len)
        memcpy(data + from, text.ptr, text.len);
    return grown;
}

void fuzz_add_keyword(fuzz_keywords *keywords, const char *word)
{
    if (keywords->count < FUZZ_KEYWORDS_MAX)
        keywords->list[keywords->count++] = word;
}

/* Bytes of the text. */
typedef struct span {
    size_t from, to;
} span;

enum { COPY_MAX = 512, NUMBER_TEXT = 40 };

static tv_sv copy_of(const uint8_t *data, span copied, char out[COPY_MAX])
{
    size_t len = copied.to - copied.from < COPY_MAX ? copied.to - copied.from : COPY_MAX;
    memcpy(out, data + copied.from, len);
    return (tv_sv){out, len};
}

/* The line with its end around a random location. */
static span random_line(const uint8_t *data, size_t size, fuzz_random *random)
{
    size_t at = fuzz_below(random, size), from = at, to = at;
    while (from > 0 && data[from - 1] != '\n')
        from--;
    while (to < size && data[to] != '\n')
        to++;
    return (span){from, to < size ? to + 1 : to};
}

static bool in_word(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c >= 0x80;
}

/* The word, or the single other byte, at a random location. */
static span random_token(const uint8_t *data, size_t size, fuzz_random *random)
{
    size_t at = fuzz_below(random, size), from = at, to = at + 1;
    if (!in_word(data[at]))
        return (span){from, to};
    while (from > 0 && in_word(data[from - 1]))
        from--;
    while (to < size && in_word(data[to]))
        to++;
    return (span){from, to};
}

static tv_sv number_text(fuzz_random *random, uint64_t size, char out[NUMBER_TEXT])
{
    static const char *const formats[] = {"%llu", "-%llu", "0x%llx", "%llu.5", "%lluKi", "1e%llu"};
    unsigned long long value = fuzz_number(random, size);
    size_t format = fuzz_below(random, 12);
    int len = snprintf(out, NUMBER_TEXT, formats[format < 6 ? format : 0], value);
    return (tv_sv){out, (size_t)len};
}

/* What replaces a token: a word of the list, a number, punctuation, or another token of the text. */
static tv_sv new_token(const uint8_t *data, size_t size, fuzz_random *random, const fuzz_keywords *keywords,
                       char out[COPY_MAX])
{
    static const char punctuation[] = ",:;=[]()+-*/%<>!&|^~\"'\\#@ \n";
    switch (fuzz_below(random, 5)) {
    case 0:
    case 1:
        if (keywords->count)
            return tv_sv_of(keywords->list[fuzz_below(random, keywords->count)]);
        return number_text(random, size, out);
    case 2:
        return number_text(random, size, out);
    case 3:
        return (tv_sv){punctuation + fuzz_below(random, sizeof punctuation - 1), 1};
    default:
        return copy_of(data, random_token(data, size, random), out);
    }
}

static size_t mutate_once(uint8_t *data, size_t size, size_t max_size, fuzz_random *random,
                          const fuzz_keywords *keywords)
{
    char copy[COPY_MAX];
    span line = random_line(data, size, random), token = random_token(data, size, random);
    switch (fuzz_below(random, 8)) {
    case 0: /* repeat a line elsewhere */
        return fuzz_splice(data, size, max_size, line.from, line.from,
                           copy_of(data, random_line(data, size, random), copy));
    case 1: /* replace a line by another */
        return fuzz_splice(data, size, max_size, line.from, line.to,
                           copy_of(data, random_line(data, size, random), copy));
    case 2: /* remove a line */
        return fuzz_splice(data, size, max_size, line.from, line.to, (tv_sv){NULL, 0});
    case 3: /* remove a token */
        return fuzz_splice(data, size, max_size, token.from, token.to, (tv_sv){NULL, 0});
    case 4: /* insert a token */
        return fuzz_splice(data, size, max_size, token.from, token.from, new_token(data, size, random, keywords, copy));
    default: /* replace a token */
        return fuzz_splice(data, size, max_size, token.from, token.to, new_token(data, size, random, keywords, copy));
    }
}

size_t fuzz_mutate_lines(uint8_t *data, size_t size, size_t max_size, fuzz_random *random,
                         const fuzz_keywords *keywords)
{
    if (size == 0 || fuzz_below(random, 4) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (size_t n = 1 + fuzz_below(random, 4); n > 0 && size > 0; n--)
        size = mutate_once(data, size, max_size, random, keywords);
    return size;
}
