/* SPDX-License-Identifier: Apache-2.0 */
/* Random events for the OpenNPU design: all families alike, mostly legal words, a base address before most loads and
 * stores; memory of small integers and of numbers of all formats, at their limits too. */
#include <string.h>

#include "stimulus.h"

enum { MEM_BYTES = 4096, OP_BCAST = 0x15 };

/* Four bytes of memory or of a register. */
static uint32_t random_lane(stimulus *s)
{
    uint32_t r = stimulus_random(s), q = stimulus_random(s), sign = r & 0x80000000;
    switch (stimulus_below(s, 10)) {
    case 0:
        return r;
    case 1:
        return (uint32_t)(int32_t)(int8_t)r;
    case 2:
        return sign | (127 + q % 40 - 20) << 23 | (r & 0x7FFFFF);
    case 3:
        return sign | (127 + q % 10) << 23 | (r & 0x7F0000); /* few bits: ties */
    case 4:
        return sign | (q % 4) << 23 | (r & 0x7FFFFF); /* subnormal and tiny */
    case 5:
        return sign | (252 + q % 4) << 23 | (r & 0x7FFFFF); /* large, infinite, NaN */
    case 6:
        return sign | (q % 2 ? 0x7F7FFFFF : 0);
    case 7:
        return r % 8 < 4 ? 0x7F7F7F7F : 0x80808080;
    case 8:
        return sign | (127 + q % 40 - 20) << 23 | (q >> 8 & 1 ? 0x7FFFFF : 0);
    default:
        return sign | (110 + q % 8) << 23 | (r & 0x7F8000); /* BF8 at its lower end */
    }
}

static uint32_t random_word(stimulus *s)
{
    static const uint8_t opcodes[] = {0x01, 0x02, 0x03, 0x03, 0x10, 0x10, 0x11, 0x11, 0x12, 0x12, 0x13,
                                      0x13, 0x14, 0x14, 0x14, 0x15, 0x16, 0x16, 0x17, 0x17, 0x18, 0x00};
    uint32_t opcode = opcodes[stimulus_below(s, sizeof opcodes)], r = stimulus_random(s);
    uint32_t word = (r & ~UINT32_C(0x7F)) | opcode;
    if (stimulus_below(s, 2))
        word &= ~UINT32_C(0x1084400); /* registers below 16, even rs2 lanes: more of the fields are legal */
    if (opcode == 0x13 && (word >> 14 & 1) && stimulus_below(s, 8))
        word &= 0x007FFFFF; /* a segment of the bank */
    if (opcode == 0x03 && stimulus_below(s, 2))
        word |= UINT32_C(1) << 29; /* keep */
    if (stimulus_below(s, 256) == 0)
        word = stimulus_below(s, 2) ? r : opcode;
    return word;
}

/* Puts an instruction before those that are pending. */
static void push(stimulus *s, uint32_t word) { s->pending[s->pending_count++] = word; }

/* A load or store, and before it the four bytes of its base address. */
static void push_transfer(stimulus *s, uint32_t word)
{
    uint32_t base = word >> 15 & 7, address = stimulus_below(s, 8) ? stimulus_below(s, MEM_BYTES) : MEM_BYTES - 32;
    uint32_t offset = stimulus_below(s, 16) ? stimulus_below(s, 64) - 32 : stimulus_random(s);
    push(s, (word & 0xFFFFF) | offset << 20);
    for (uint32_t plane = 0; plane < 4; plane++) {
        uint32_t byte = address >> 8 * plane & 0xFF;
        push(s, byte << 20 | 1 << 12 | (4 * base + plane) << 7 | OP_BCAST);
    }
}

/* A random word whose fields that make it illegal are zeros, so that all instructions are about as frequent; rarely an
 * illegal one. */
static uint32_t mostly_legal_word(stimulus *s)
{
    tv_decode_fault fault;
    uint32_t word = random_word(s);
    for (unsigned i = 0; i < 16 && stimulus_below(s, 64) && tv_codec_decode(s->codec, word, &fault) < 0; i++)
        word = fault.lo == 0 ? random_word(s) : word & ~((UINT32_C(2) << fault.hi) - (UINT32_C(1) << fault.lo));
    return word;
}

void opennpu_next(stimulus *s, uint32_t *kind, uint32_t *addr, uint32_t data[4])
{
    memset(data, 0, 4 * sizeof *data);
    if (s->load_next || stimulus_below(s, 8) == 0) {
        *kind = LOCKSTEP_LOAD;
        *addr = s->load_next ? --s->load_next : stimulus_below(s, MEM_BYTES / 16);
        for (unsigned i = 0; i < 4; i++)
            data[i] = random_lane(s);
        return;
    }
    if (s->pending_count == 0) {
        uint32_t word = mostly_legal_word(s);
        if ((word & 0x7F) - 1 < 2 && stimulus_below(s, 8))
            push_transfer(s, word);
        else
            push(s, word);
    }
    *kind = LOCKSTEP_INSTRUCTION;
    data[0] = s->pending[--s->pending_count];
}
