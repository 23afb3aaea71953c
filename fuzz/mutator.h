/* SPDX-License-Identifier: Apache-2.0 */
/* Structure-aware mutators for the fuzz targets. Each changes `size` bytes of `data`, which has room for `max_size`,
 * and returns the new size, at most `max_size`. They accept any bytes: what they do not recognize they leave to
 * libFuzzer's own mutations. The same seed and input give the same result, as libFuzzer requires. */
#ifndef TV_FUZZ_MUTATOR_H
#define TV_FUZZ_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/sv.h"

/* Of libFuzzer, which has no header in C. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

typedef struct fuzz_random {
    uint64_t state;
} fuzz_random;

fuzz_random fuzz_random_of(unsigned seed);
uint64_t fuzz_next(fuzz_random *random);

/* A number below `limit`, which is not 0. */
size_t fuzz_below(fuzz_random *random, size_t limit);

/* A number at the ends of a range that readers check: small ones, powers of two and their neighbours, `size` and its
 * neighbours. */
uint64_t fuzz_number(fuzz_random *random, uint64_t size);

/* Replaces data[from, to) by `text`; unchanged when there is no room. */
size_t fuzz_splice(uint8_t *data, size_t size, size_t max_size, size_t from, size_t to, tv_sv text);

/* Keywords that the mutators of text insert; there may be none. */
enum { FUZZ_KEYWORDS_MAX = 2048 };
typedef struct fuzz_keywords {
    const char *list[FUZZ_KEYWORDS_MAX];
    size_t count;
} fuzz_keywords;

/* Adds a keyword, which is not copied, if there is room. */
void fuzz_add_keyword(fuzz_keywords *keywords, const char *word);

/* Text in lines (sources, profiles, commands, vocabularies): repeats, removes, exchanges and moves lines; replaces,
 * repeats and removes tokens of a line; replaces numbers. */
size_t fuzz_mutate_lines(uint8_t *data, size_t size, size_t max_size, fuzz_random *random,
                         const fuzz_keywords *keywords);

/* JSON: replaces, repeats, removes, exchanges and nests values and members; replaces numbers and strings. */
size_t fuzz_mutate_json(uint8_t *data, size_t size, size_t max_size, fuzz_random *random,
                        const fuzz_keywords *keywords);

/* ELF files: fields of the header and of the section headers. GGUF files: counts, lengths, kinds, dimensions, offsets.
 */
size_t fuzz_mutate_elf(uint8_t *data, size_t size, size_t max_size, fuzz_random *random);
size_t fuzz_mutate_gguf(uint8_t *data, size_t size, size_t max_size, fuzz_random *random);

#endif
