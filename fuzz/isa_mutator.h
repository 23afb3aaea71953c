/* SPDX-License-Identifier: Apache-2.0 */
/* Mutators that know the tables of the instruction sets. */
#ifndef TV_FUZZ_ISA_MUTATOR_H
#define TV_FUZZ_ISA_MUTATOR_H

#include "lib/targets.h"
#include "mutator.h"

/* A legal instruction word of `isa`, which has words; small field values are the more likely ones. */
uint64_t fuzz_valid_word(const tv_isa *isa, fuzz_random *random);

/* Instruction words: inserts, repeats, removes and exchanges words; changes one field of a word. */
size_t fuzz_mutate_words(const tv_isa *isa, uint8_t *data, size_t size, size_t max_size, fuzz_random *random);

/* Writes the assembly text of a legal word, a line, to `out`. */
void fuzz_valid_line(const tv_isa *isa, fuzz_random *random, char out[TV_CODEC_TEXT]);

#endif
