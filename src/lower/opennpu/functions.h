/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors in memory, composed from FP32 additions, products and shifts. */
#ifndef TV_LOWER_OPENNPU_FUNCTIONS_H
#define TV_LOWER_OPENNPU_FUNCTIONS_H

#include "lower/opennpu/emit.h"

typedef enum opennpu_lower_function {
    OPENNPU_FUNCTION_NONE,
    OPENNPU_FUNCTION_RELU,
    OPENNPU_FUNCTION_SIGMOID,
    OPENNPU_FUNCTION_TANH,
    OPENNPU_FUNCTION_SWISH,
    OPENNPU_FUNCTION_GELU,
    OPENNPU_FUNCTION_GELU_TANH,
    OPENNPU_FUNCTION_EXP,
    OPENNPU_FUNCTION_SQRT
} opennpu_lower_function;

opennpu_lower_function opennpu_lower_function_of_activation(tv_activation activation);

/* The function of an operator of one input; NONE: it is no such operator. */
opennpu_lower_function opennpu_lower_function_of_node(const tv_graph_node *n);

/* Consecutive vectors at `x`, `times` and `out`, which may be the same. */
typedef struct opennpu_lower_apply_job {
    uint64_t x, out;
    uint64_t times; /* second factor; 0: none */
    uint32_t vectors;
} opennpu_lower_apply_job;

/* out = function(x) * times. NONE: nothing is done. Clobbers all registers. */
void opennpu_lower_apply(opennpu_lower_emitter *e, opennpu_lower_function function, const opennpu_lower_apply_job *job);

/* VR 0 = the error function of VR 0. Clobbers all other registers. */
void opennpu_lower_erf(opennpu_lower_emitter *e);

/* An operand of an elementwise operation on consecutive vectors. */
typedef enum opennpu_lower_operand_kind {
    OPENNPU_OPERAND_VECTORS, /* consecutive vectors */
    OPENNPU_OPERAND_VECTOR,  /* the same vector each time */
    OPENNPU_OPERAND_LANE,    /* the first lane of a vector, in all lanes, each time */
    OPENNPU_OPERAND_WORDS    /* consecutive words, each in all lanes of a vector */
} opennpu_lower_operand_kind;

typedef struct opennpu_lower_operand {
    uint64_t at;
    opennpu_lower_operand_kind kind;
} opennpu_lower_operand;

/* out = a op b for `vectors` vectors; op is ADD, SUB, MUL, DIV, MIN or MAX. Clobbers all registers. */
void opennpu_lower_binary(opennpu_lower_emitter *e, tv_graph_op op, const opennpu_lower_operand operands[2],
                          uint64_t out, uint32_t vectors);

/* Converts integer scores to FP32, times a constant, in place. Clobbers VR 0 to 2. */
void opennpu_lower_scores_to_floats(opennpu_lower_emitter *e, uint64_t scores, uint32_t vectors, uint32_t scale);

#endif
