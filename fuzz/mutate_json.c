/* SPDX-License-Identifier: Apache-2.0 */
/* The mutator of JSON: finds values by their brackets and quotes, without a parser, so that it works on damaged
 * documents too, and edits whole values and members. */
#include <stdio.h>
#include <string.h>

#include "mutator.h"

typedef struct span {
    size_t from, to;
} span;

enum { COPY_MAX = 1024, ATTEMPTS = 8 };

static bool is_space(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* The end of the string that begins at `at`. */
static size_t string_end(const uint8_t *data, size_t size, size_t at)
{
    for (at++; at < size && data[at] != '"'; at++)
        if (data[at] == '\\')
            at++;
    return at < size ? at + 1 : size;
}

/* The end of the value that begins at `at`: of the bracket that closes it, of the string, or of the literal. */
static size_t value_end(const uint8_t *data, size_t size, size_t at)
{
    size_t depth = 0;
    if (data[at] == '"')
        return string_end(data, size, at);
    if (data[at] != '{' && data[at] != '[') {
        while (at < size && !is_space(data[at]) && !strchr(",:]}\"", data[at]))
            at++;
        return at;
    }
    while (at < size) {
        if (data[at] == '"') {
            at = string_end(data, size, at);
            continue;
        }
        if (data[at] == '{' || data[at] == '[')
            depth++;
        if ((data[at] == '}' || data[at] == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return size;
}

/* A value after a random location: what follows a bracket, a colon or a comma. A member when it is a key. */
static bool find_value(const uint8_t *data, size_t size, fuzz_random *random, span *out)
{
    for (unsigned n = 0; n < ATTEMPTS; n++) {
        size_t at = fuzz_below(random, size);
        while (at < size && data[at] != '{' && data[at] != '[' && data[at] != ':' && data[at] != ',')
            at++;
        for (at++; at < size && is_space(data[at]);)
            at++;
        if (at >= size || data[at] == '}' || data[at] == ']' || data[at] == ',')
            continue;
        *out = (span){at, value_end(data, size, at)};
        size_t colon = out->to;
        while (colon < size && is_space(data[colon]))
            colon++;
        if (data[at] == '"' && colon + 1 < size && data[colon] == ':' && fuzz_below(random, 2)) {
            for (colon++; colon < size && is_space(data[colon]);)
                colon++;
            out->to = colon < size ? value_end(data, size, colon) : size;
        }
        return out->to > out->from;
    }
    return false;
}

static tv_sv copy_of(const uint8_t *data, span copied, const char *before, const char *after, char out[COPY_MAX])
{
    size_t head = strlen(before), tail = strlen(after), len = copied.to - copied.from;
    if (len > COPY_MAX - head - tail)
        len = COPY_MAX - head - tail;
    memcpy(out, before, head);
    memcpy(out + head, data + copied.from, len);
    memcpy(out + head + len, after, tail);
    return (tv_sv){out, head + len + tail};
}

/* A number, a literal, a word of the list as a string, or a small container. */
static tv_sv new_value(fuzz_random *random, uint64_t size, const fuzz_keywords *keywords, char out[COPY_MAX])
{
    static const char *const texts[] = {"true",        "false",
                                        "null",        "[]",
                                        "{}",          "\"\"",
                                        "0.5",         "-0",
                                        "1e400",       "1e-400",
                                        "-1",          "18446744073709551616",
                                        "\"\\u00e9\"", "\"\\ud83d\\ude00\""};
    static const char *const formats[] = {"%llu", "-%llu", "%llu.25", "%lluE-3"};
    if (keywords->count && fuzz_below(random, 3) == 0)
        return (tv_sv){out,
                       (size_t)snprintf(out, COPY_MAX, "\"%s\"", keywords->list[fuzz_below(random, keywords->count)])};
    if (fuzz_below(random, 3) == 0)
        return tv_sv_of(texts[fuzz_below(random, TV_COUNTOF(texts))]);
    size_t format = fuzz_below(random, 8);
    unsigned long long value = fuzz_number(random, size);
    return (tv_sv){out, (size_t)snprintf(out, COPY_MAX, formats[format < 4 ? format : 0], value)};
}

/* A new member: a key of the list and a value. */
static tv_sv new_member(fuzz_random *random, uint64_t size, const fuzz_keywords *keywords, char out[COPY_MAX])
{
    char value[COPY_MAX];
    const char *key = keywords->count ? keywords->list[fuzz_below(random, keywords->count)] : "a";
    tv_sv text = new_value(random, size, keywords, value);
    return (tv_sv){out, (size_t)snprintf(out, COPY_MAX, "\"%.64s\": %.*s,", key, (int)(text.len < 512 ? text.len : 512),
                                         text.ptr)};
}

static size_t remove_value(uint8_t *data, size_t size, size_t max_size, span value)
{
    size_t to = value.to;
    while (to < size && is_space(data[to]))
        to++;
    to = to < size && data[to] == ',' ? to + 1 : value.to;
    return fuzz_splice(data, size, max_size, value.from, to, (tv_sv){NULL, 0});
}

static size_t mutate_once(uint8_t *data, size_t size, size_t max_size, fuzz_random *random,
                          const fuzz_keywords *keywords)
{
    char copy[COPY_MAX];
    span value, other;
    if (!find_value(data, size, random, &value) || !find_value(data, size, random, &other))
        return fuzz_splice(data, size, max_size, size, size, new_value(random, size, keywords, copy));
    switch (fuzz_below(random, 9)) {
    case 0: /* remove a value or a member, and its comma */
        return remove_value(data, size, max_size, value);
    case 1: /* repeat one elsewhere */
        return fuzz_splice(data, size, max_size, value.from, value.from, copy_of(data, other, "", ",", copy));
    case 2: /* replace one by another */
        return fuzz_splice(data, size, max_size, value.from, value.to, copy_of(data, other, "", "", copy));
    case 3: /* nest one */
        return fuzz_splice(data, size, max_size, value.from, value.to,
                           fuzz_below(random, 2) ? copy_of(data, value, "[", "]", copy)
                                                 : copy_of(data, value, "{\"a\":", "}", copy));
    case 4: /* insert a member */
        return fuzz_splice(data, size, max_size, value.from, value.from, new_member(random, size, keywords, copy));
    default: /* replace a value, of a member its value */
        return fuzz_splice(data, size, max_size, value.from, value.to, new_value(random, size, keywords, copy));
    }
}

size_t fuzz_mutate_json(uint8_t *data, size_t size, size_t max_size, fuzz_random *random, const fuzz_keywords *keywords)
{
    if (size == 0 || fuzz_below(random, 5) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (size_t n = 1 + fuzz_below(random, 4); n > 0 && size > 0; n--)
        size = mutate_once(data, size, max_size, random, keywords);
    return size;
}
