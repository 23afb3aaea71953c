/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, and random events for the pccx design: mostly legal instructions of small sizes, some at the limits,
 * some words of random bits; memory that is mostly finite BF16 of moderate size. */
#include <string.h>

#include "stimulus.h"

/* splitmix64 */
uint32_t stimulus_random(stimulus *s)
{
    uint64_t x = s->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(x >> 32 ^ x);
}

uint32_t stimulus_below(stimulus *s, uint32_t n) { return stimulus_random(s) % n; }

enum { L2_WORDS = 1024, HOST_WORDS = 4096 };

/* Of `bits` bits: mostly below `usual`, sometimes a corner or anything. */
static uint64_t field(stimulus *s, unsigned bits, uint32_t usual)
{
    uint64_t max = (UINT64_C(1) << bits) - 1;
    switch (stimulus_below(s, 48)) {
    case 0:
        return max - stimulus_below(s, 2);
    case 1:
        return stimulus_below(s, 2);
    case 2:
        return UINT64_C(1) << stimulus_below(s, bits);
    case 3:
        return stimulus_random(s) & max;
    default:
        return stimulus_below(s, usual) & max;
    }
}

/* An address from which `words` words end at the limit or before, mostly. */
static uint64_t address(stimulus *s, uint64_t words, uint32_t limit)
{
    uint32_t room = words < limit ? limit - (uint32_t)words + 1 : 1;
    switch (stimulus_below(s, 8)) {
    case 0:
        return room - 1;
    case 1:
        return stimulus_below(s, room < 24 ? room : 24);
    default:
        return field(s, 17, room);
    }
}

static uint32_t random_bf16(stimulus *s)
{
    uint32_t r = stimulus_random(s);
    switch (stimulus_below(s, 64)) {
    case 0:
        return r & 0xFFFF;
    case 1:
        return (r & 0x8000) | (r >> 16 & 1 ? 0x7F80 : 0x7F7F);
    case 2:
        return r & 0x8FFF; /* tiny */
    case 3:
        return (r & 0x807F);
    default:
        return (r & 0x807F) | (120 + (r >> 16) % 14) << 7;
    }
}

/* Subnormal numbers and the smallest others: the scale of a vector of these is subnormal. */
static uint32_t tiny_bf16(stimulus *s) { return stimulus_random(s) & 0x83FF; }

static uint64_t copy_words(stimulus *s, uint64_t entry)
{
    uint16_t shape[3] = {0};
    (void)tv_machine_read(s->machine, "const", entry, shape, sizeof shape, NULL);
    uint64_t elements = (uint64_t)shape[0] * shape[1] * shape[2];
    return (elements + 7) / 8;
}

static uint64_t random_memset(stimulus *s)
{
    uint64_t bank = stimulus_below(s, 2), entry = field(s, 6, 64), a, b, c;
    a = bank ? (stimulus_below(s, 16) ? 1 : field(s, 16, 4)) : field(s, 16, 5);
    b = field(s, 16, bank ? 20 : 6);
    c = bank ? field(s, 16, stimulus_below(s, 8) ? 70 : 700) : field(s, 16, 8);
    if (!bank && entry >= 32)
        c = stimulus_below(s, 2) ? 0 : stimulus_below(s, 16) ? random_bf16(s) & 0x7FFF : random_bf16(s);
    if (stimulus_below(s, 64) == 0)
        bank = 2;
    return UINT64_C(3) << 60 | bank << 58 | entry << 52 | a << 36 | b << 20 | c << 4;
}

static uint64_t random_memcpy(stimulus *s)
{
    uint64_t from = stimulus_below(s, 2), to = from ? 0 : stimulus_below(s, 2);
    uint64_t shape = field(s, 6, 32), words = copy_words(s, shape), aux = 0;
    uint64_t host = address(s, words, HOST_WORDS);
    uint64_t target = address(s, words, L2_WORDS), source = address(s, words, L2_WORDS);
    if (!from && !to && stimulus_below(s, 2))
        source = target + stimulus_below(s, 9) - 4; /* they overlap */
    if (stimulus_below(s, 64) == 0)
        aux = field(s, 17, 3);
    return UINT64_C(2) << 60 | from << 59 | to << 58 | (to ? host : target) << 41 |
           ((from ? host : source) & 0x1FFFF) << 24 | aux << 7 | shape << 1 | stimulus_below(s, 2);
}

static uint64_t random_cvo(stimulus *s)
{
    uint64_t func = stimulus_below(s, 8), length = field(s, 16, stimulus_below(s, 8) ? 40 : 400);
    uint32_t words = (uint32_t)(length + 7) / 8 + 1;
    uint64_t source = address(s, words, L2_WORDS), target = address(s, words, L2_WORDS / 2),
             flags = stimulus_below(s, 8) << 2;
    if (func != 5 && func != 6)
        flags &= 0xC; /* the design has no sub_emax there */
    if (stimulus_below(s, 3) == 0)
        target = source + stimulus_below(s, 9) - 4;
    return UINT64_C(4) << 60 | func << 56 | source << 39 | (target & 0x1FFFF) << 22 | length << 6 | flags << 1 |
           stimulus_below(s, 2);
}

static uint64_t random_gemv(stimulus *s)
{
    uint64_t size = field(s, 6, 64) | 32, shape = field(s, 6, 64), flags = stimulus_below(s, 8);
    uint64_t source = address(s, 9, L2_WORDS), target = address(s, 3, L2_WORDS), lanes = field(s, 5, 5);
    if (stimulus_below(s, 4) == 0)
        target = source + stimulus_below(s, 9) - 4;
    return (target & 0x1FFFF) << 43 | source << 26 | flags << 23 | size << 14 | shape << 8 | lanes << 3;
}

/* The weight stream's words that a GEMV takes. */
static uint64_t stream_need(stimulus *s, uint64_t word)
{
    uint16_t shape[3] = {0};
    (void)tv_machine_read(s->machine, "const", 64 + (word >> 8 & 63), shape, sizeof shape, NULL);
    return (uint64_t)shape[1] * ((shape[2] + 31u) / 32) + (word >> 23 & 1 ? (shape[1] + 7u) / 8 : 0);
}

/* Of 40 words so many are MEMSETs, or these and MEMCPYs, or these and CVOs, or these and GEMVs; others are random. */
typedef struct selection {
    const char *name;
    uint8_t memset, memcpy, cvo, gemv;
} selection;

static const selection selections[] = {{"sfu", 2, 5, 40, 40}, {"gemv", 5, 8, 8, 40}, {"decoder", 40, 40, 40, 40}};
static const selection usual = {NULL, 11, 20, 31, 39};

static const selection *find_selection(const char *name)
{
    for (unsigned i = 0; name && i < sizeof selections / sizeof selections[0]; i++)
        if (strcmp(selections[i].name, name) == 0)
            return &selections[i];
    return &usual;
}

static uint64_t random_word(stimulus *s)
{
    const selection *m = find_selection(s->selection);
    uint32_t choice = stimulus_below(s, 40);
    if (m == &usual && stimulus_below(s, 256) == 0)
        return 0; /* a GEMV from and to word 0 */
    uint64_t word = choice < m->memset   ? random_memset(s)
                    : choice < m->memcpy ? random_memcpy(s)
                    : choice < m->cvo    ? random_cvo(s)
                    : choice < m->gemv   ? random_gemv(s)
                                         : (uint64_t)stimulus_random(s) << 32 | stimulus_random(s);
    if (stimulus_below(s, 64) == 0)
        word ^= UINT64_C(1) << stimulus_below(s, 64);
    return word;
}

void pccx_next(stimulus *s, uint32_t *kind, uint32_t *addr, uint32_t data[4])
{
    memset(data, 0, 4 * sizeof *data);
    if (s->load_next || stimulus_below(s, 8) == 0) {
        *kind = LOCKSTEP_LOAD;
        *addr = s->load_next ? --s->load_next : stimulus_below(s, HOST_WORDS);
        for (unsigned i = 0; i < 4; i++)
            data[i] = *addr % 64 < 12 ? tiny_bf16(s) | tiny_bf16(s) << 16 : random_bf16(s) | random_bf16(s) << 16;
        return;
    }
    if (s->pending_count == 0) {
        uint64_t word = random_word(s);
        s->pending[0] = (uint32_t)word;
        s->pending[1] = (uint32_t)(word >> 32);
        s->pending_count = 1;
        uint64_t need = stream_need(s, word);
        if (word >> 60 == 0 && need > s->stream_words && need <= 1024 && stimulus_below(s, 32)) {
            *kind = LOCKSTEP_STREAM;
            data[0] = (uint32_t)(need - s->stream_words);
            *addr = stimulus_below(s, 64) ? stimulus_below(s, HOST_WORDS - data[0]) : 0;
            s->stream_words = need;
            return;
        }
    }
    *kind = LOCKSTEP_INSTRUCTION;
    data[0] = s->pending[0];
    data[1] = s->pending[1];
    s->pending_count = 0;
}

void pccx_executed(stimulus *s, uint64_t word)
{
    if (word >> 60 == 0)
        s->stream_words -= stream_need(s, word);
}

int pccx_unsupported(uint64_t word)
{
    unsigned opcode = (unsigned)(word >> 60), func = word >> 56 & 15;
    uint64_t reserved = opcode < 2 ? 7 << 20 | 7 : 6;
    if (word & reserved)
        return 0;
    if (opcode == 1)
        return 1;
    if (opcode == 0)
        return (word >> 43 & 0x1FFFF) == 0x1FFFF || (word >> 26 & 0x1FFFF) == 0x1FFFF;
    if (opcode != 4 || func > 7)
        return 0;
    return (word >> 22 & 0x1FFFF) == 0x1FFFF || (func != 6 && (word >> 39 & 0x1FFFF) == 0x1FFFF) ||
           (func != 5 && func != 6 && (word >> 5 & 1));
}
