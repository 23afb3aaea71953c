/* SPDX-License-Identifier: Apache-2.0 */
/* Random events for the designs. */
#ifndef STIMULUS_H
#define STIMULUS_H

#include <trivet/trivet.h>

#include "lockstep.h"

/* What differs between the machines. */
typedef struct stimulus {
    tv_machine *machine;
    tv_codec *codec;
    uint64_t state;        /* of the random numbers */
    uint64_t stream_words; /* left in the weight stream of pccx */
    unsigned load_next;    /* initial loads that are left */
    uint32_t pending[8];   /* words of an instruction sequence, the next one last */
    unsigned pending_count;
    const char *selection; /* of the instructions of pccx: NULL, all; or as lockstep_select */
} stimulus;

uint32_t stimulus_random(stimulus *s);
/* A number below `n`. */
uint32_t stimulus_below(stimulus *s, uint32_t n);

void pccx_next(stimulus *s, uint32_t *kind, uint32_t *addr, uint32_t data[4]);
void opennpu_next(stimulus *s, uint32_t *kind, uint32_t *addr, uint32_t data[4]);

/* The model has executed `word` without a fault. */
void pccx_executed(stimulus *s, uint64_t word);

/* Whether the design leaves an instruction out, so that it ends with fault 255. */
int pccx_unsupported(uint64_t word);

#endif
