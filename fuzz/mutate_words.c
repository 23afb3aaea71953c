/* SPDX-License-Identifier: Apache-2.0 */
/* The mutator of instruction words, by the tables of an instruction set: legal words let the machines execute, so that
 * the fuzzer reaches what comes after decoding. */
#include <assert.h>
#include <string.h>

#include "isa_mutator.h"

enum { ATTEMPTS = 8, ISAS_MAX = 8, COPIED_WORDS = 8 };

/* The codec of `isa`, made once. */
static const tv_codec *codec_of(const tv_isa *isa)
{
    static tv_codec *codecs[ISAS_MAX];
    unsigned i = 0;
    while (tv_isas.isas[i] != isa)
        i++;
    assert(i < ISAS_MAX);
    if (!codecs[i] && tv_codec_new_for(isa, NULL, &codecs[i]) != TV_OK)
        codecs[i] = NULL;
    assert(codecs[i]);
    return codecs[i];
}

/* A legal value of the field, if its limit is all there is to it. */
static uint64_t field_value(const tv_isa *isa, const tv_field *field, fuzz_random *random)
{
    uint64_t mask = tv_mask(tv_field_width(isa, field));
    uint64_t value = (fuzz_below(random, 2) ? fuzz_below(random, 9) : fuzz_number(random, mask)) & mask;
    return field->limit ? value % field->limit : value;
}

uint64_t fuzz_valid_word(const tv_isa *isa, fuzz_random *random)
{
    for (unsigned n = 0; n < ATTEMPTS; n++) {
        const tv_insn *insn = &isa->insns[fuzz_below(random, isa->insn_count)];
        uint16_t fields[TV_FORMAT_FIELDS];
        unsigned count = tv_isa_format_fields(isa, insn->format, fields);
        uint64_t word = 0;
        for (unsigned i = 0; i < count; i++)
            if (isa->fields[fields[i]].role == TV_FIELD_VALUE && !tv_isa_ignores(isa, insn, fields[i]))
                word =
                    tv_field_set(isa, &isa->fields[fields[i]], word, field_value(isa, &isa->fields[fields[i]], random));
        for (unsigned i = 0; i < insn->fixed_count; i++)
            word = tv_field_set(isa, &isa->fields[insn->fixed[i].field], word, insn->fixed[i].value);
        if (tv_codec_row(codec_of(isa), word, NULL) >= 0)
            return word;
    }
    return isa->nop;
}

void fuzz_valid_line(const tv_isa *isa, fuzz_random *random, char out[TV_CODEC_TEXT])
{
    tv_codec_disassemble(codec_of(isa), fuzz_valid_word(isa, random), out);
}

static uint64_t load_word(const uint8_t *data, size_t at, size_t bytes)
{
    uint64_t word = 0;
    memcpy(&word, data + at * bytes, bytes);
    return word;
}

/* Gives one field of the word a new value. */
static uint64_t change_field(const tv_isa *isa, uint64_t word, fuzz_random *random)
{
    int row = tv_codec_row(codec_of(isa), word, NULL);
    if (row < 0)
        return fuzz_valid_word(isa, random);
    const tv_insn *insn = &isa->insns[row];
    uint16_t fields[TV_FORMAT_FIELDS];
    unsigned count = tv_isa_format_fields(isa, insn->format, fields);
    const tv_field *field = &isa->fields[fields[fuzz_below(random, count)]];
    return tv_field_set(isa, field, word, field_value(isa, field, random));
}

static size_t mutate_once(const tv_isa *isa, uint8_t *data, size_t size, size_t max_size, fuzz_random *random)
{
    size_t bytes = isa->word_bits / 8, count = size / bytes, at = fuzz_below(random, count + 1) * bytes;
    uint64_t word = fuzz_valid_word(isa, random);
    char copy[COPIED_WORDS * sizeof word];
    if (count == 0 || at == count * bytes || fuzz_below(random, 3) == 0) /* insert a word */
        return fuzz_splice(data, size, max_size, at, at, (tv_sv){(const char *)&word, bytes});
    size_t n = 1 + fuzz_below(random, COPIED_WORDS), from = fuzz_below(random, count);
    n = n < count - from ? n : count - from;
    switch (fuzz_below(random, 5)) {
    case 0: /* remove some words */
        n = at + n * bytes <= size ? n : 1;
        return fuzz_splice(data, size, max_size, at, at + n * bytes, (tv_sv){NULL, 0});
    case 1: /* repeat some words */
        memcpy(copy, data + from * bytes, n * bytes);
        return fuzz_splice(data, size, max_size, at, at, (tv_sv){copy, n * bytes});
    case 2: /* replace a word */
        memcpy(data + at, &word, bytes);
        return size;
    default:
        word = change_field(isa, load_word(data, at / bytes, bytes), random);
        memcpy(data + at, &word, bytes);
        return size;
    }
}

size_t fuzz_mutate_words(const tv_isa *isa, uint8_t *data, size_t size, size_t max_size, fuzz_random *random)
{
    if (fuzz_below(random, 8) == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    for (size_t n = 1 + fuzz_below(random, 4); n > 0; n--)
        size = mutate_once(isa, data, size, max_size, random);
    return size;
}
