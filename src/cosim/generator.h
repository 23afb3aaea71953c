/* SPDX-License-Identifier: Apache-2.0 */
/* A program of instruction words that is made while a machine executes it. */
#ifndef TV_COSIM_GENERATOR_H
#define TV_COSIM_GENERATOR_H

#include "isa/isa.h"
#include "trivet/commit.h"
#include "trivet/config.h"

typedef struct tv_generator tv_generator;

/* Begins a program with data and weight streams for `instructions` instructions, which are loaded into a new machine of
 * `config`. The caller frees it with tv_generator_free. TV_ERR_INPUT: the target is not word encoded, or its memory is
 * smaller than the data; TV_ERR_MEMORY. */
tv_status tv_generator_new(const tv_config *config, tv_mode mode, uint64_t seed, uint64_t instructions,
                           const tv_diag_sink *sink, tv_generator **out);
void tv_generator_free(tv_generator *g); /* NULL is allowed */

tv_machine *tv_generator_machine(const tv_generator *g);
const tv_isa *tv_generator_isa(const tv_generator *g);
const tv_codec *tv_generator_codec(const tv_generator *g);

/* Random numbers: SplitMix64. */
uint64_t tv_generator_draw(tv_generator *g);
unsigned tv_generator_draw_below(tv_generator *g, unsigned limit); /* 0 to limit - 1 */

/* Draws a value of a field. */
uint64_t tv_generator_field(tv_generator *g, const tv_field *field);

/* From now on so many of 1000 sources are what an engine wrote last, and destinations what one read or wrote last; each
 * engine is as likely. */
typedef struct tv_generator_hazards {
    uint32_t raw, war, waw;
} tv_generator_hazards;
void tv_generator_set_hazards(tv_generator *g, const tv_generator_hazards *hazards);

/* Instructions of a row that have executed, and words in the program. */
uint64_t tv_generator_count(const tv_generator *g, unsigned row);
uint64_t tv_generator_size(const tv_generator *g);

/* Draws a word of a row of the instruction set. It may be illegal, or that of another row. */
uint64_t tv_generator_word(tv_generator *g, unsigned row);

/* Executes `word` and appends it to the program, unless it faults; *fault, which may be NULL, receives the name of the
 * fault or NULL. TV_ERR_MEMORY. */
tv_status tv_generator_execute(tv_generator *g, uint64_t word, const char **fault);

/* Appends `word` without executing it; as a number, also if it is no instruction. */
void tv_generator_append(tv_generator *g, uint64_t word);
void tv_generator_append_number(tv_generator *g, uint64_t word);

/* The assembly source so far, which the caller frees with free(); NULL: out of memory. */
char *tv_generator_take(tv_generator *g);

#endif
