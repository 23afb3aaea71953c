/* SPDX-License-Identifier: Apache-2.0 */
/* A design and the model in lockstep: random instructions for both, and a comparison at the end of each instruction of
 * what the design wrote with what the model wrote.
 *
 * The functions have the C types of DPI-C, so that a bench in SystemVerilog calls them as one in C++ does. A bench
 * repeats: take an event, pass it to the design; when it is an instruction, report each write of the design, values
 * inside it if it has a port for them, and then its end. With LOCKSTEP_SELF_TEST in the environment a byte is inverted
 * in the comparison, which must be a mismatch. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lockstep lockstep;

/* Creates the model of `target`, "pccx" or "opennpu", with the sizes of the designs. NULL, with a message: it cannot be
 * created. Freed with lockstep_free. */
lockstep *lockstep_new(const char *target, unsigned seed);
void lockstep_free(lockstep *l);

/* Selects the instructions of pccx: mostly those of "sfu" or "gemv", or "decoder", MEMSETs alone. Otherwise all are as
 * frequent. `name` is kept. */
void lockstep_select(lockstep *l, const char *name);

/* Prints a line that begins with "PASS:" if there was no mismatch, frees `l`. Returns 1 if there was one. */
int lockstep_finish(lockstep *l);

enum { LOCKSTEP_LOAD = 1, LOCKSTEP_STREAM = 2, LOCKSTEP_INSTRUCTION = 3 };

/* The next random event. LOAD: data[0] to [3] are 16 bytes for memory word `addr`. STREAM: a descriptor of data[0]
 * words for the weight stream, from memory word `addr` on. INSTRUCTION: the word is data[1] << 32 | data[0]. */
void lockstep_next(lockstep *l, uint32_t *kind, uint32_t *addr, uint32_t data[4]);

/* An event of the caller's, as lockstep_next returns them: one that has been recorded, or of another generator. */
void lockstep_event(lockstep *l, uint32_t kind, uint32_t addr, const uint32_t data[4]);

/* The design has written the bytes of `data` whose bits in `mask` are set, from unit `addr` of space `space` on. When
 * no instruction executes, this is a late write of the last one; before the first one it is ignored. */
void lockstep_write(lockstep *l, uint32_t space, uint32_t addr, const uint32_t data[4], uint32_t mask);

enum { LOCKSTEP_SUM = 0, LOCKSTEP_F32_SUM = 1, LOCKSTEP_ARGUMENT = 2 };

/* A value inside the instruction: SUM, an exact sum in two's complement, F32_SUM and ARGUMENT in binary32. `element` is
 * the result that it belongs to. It is compared if the model has it. */
void lockstep_value(lockstep *l, uint32_t kind, uint32_t element, uint32_t bits);

/* The design has completed the instruction, with the number of its fault or 0. Executes it on the model and compares.
 * Returns 0; 1, with a message, at a mismatch, also when no instruction executes. */
int lockstep_retire(lockstep *l, uint32_t fault);

/* The design has not completed the instruction after `cycles` cycles. Returns 1, with a message. */
int lockstep_hang(lockstep *l, uint32_t cycles);

/* Executes the instruction on the model alone. */
void lockstep_skip(lockstep *l);

/* Passes the state of the model to `write`, to bring a design to it: the contents of its spaces in blocks, those of
 * zeros left out; on OpenNPU also the column of ACC that is read next, as a byte of the space "column", and on pccx the
 * words that are left in the weight stream, as four bytes of the space "stream". */
void lockstep_seed(lockstep *l,
                   void (*write)(void *user, const char *space, uint64_t addr, const void *data, size_t bytes),
                   void *user);

/* The design has logged a line with unknown bits, or none of the known kinds. Returns 1, with a message. */
int lockstep_bad_line(lockstep *l, const char *line);

/* Instructions compared so far. */
uint64_t lockstep_instructions(const lockstep *l);

#ifdef __cplusplus
}
#endif
#endif
