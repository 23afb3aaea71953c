/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: sequences of mma and loads of whole registers that programs repeat, as the products of matrices do. One is
 * translated (translate.h) when its words occur again; then its loads write to the pending operands of
 * mma where they can, and its instructions are not dispatched one by one. Registers, memory, ticks and statistics are
 * those of its instructions. With another K than OPENNPU_K_MAX blocks are timed, but not executed. */
#ifndef TV_MACHINE_OPENNPU_BLOCK_H
#define TV_MACHINE_OPENNPU_BLOCK_H

#include "machine/opennpu/internal.h"

enum {
    OPENNPU_BLOCK_MIN = 16, /* instructions */
    OPENNPU_BLOCK_MAX = 128,
    OPENNPU_BLOCK_PRODUCTS = TV_OUTER_COUNT_MAX / 2, /* two blocks fill a call of the kernel */
    OPENNPU_BLOCK_BASES = 4,
    OPENNPU_BLOCK_PROFILES = 16, /* three loads, mma of any class with and without keep */
    OPENNPU_BLOCK_TIMINGS = 8
};

/* Arrays of rows of K bytes: the register file, and the factors of the products of the block, from its first on. */
enum { OPENNPU_BLOCK_REGISTERS, OPENNPU_BLOCK_A, OPENNPU_BLOCK_B };

typedef struct opennpu_block_row {
    uint8_t array, row;
} opennpu_block_row;

/* Moves: a row to another; memory to one, two or four byte planes, or to 32-bit lanes. */
enum {
    OPENNPU_BLOCK_COPY,
    OPENNPU_BLOCK_LOAD_VX,
    OPENNPU_BLOCK_LOAD_VE,
    OPENNPU_BLOCK_LOAD_VR,
    OPENNPU_BLOCK_LOAD_LANES
};

typedef struct opennpu_block_move {
    uint8_t kind;
    uint8_t base; /* of a load: index of its base */
    opennpu_block_row to, from;
    int16_t imm; /* of a load */
} opennpu_block_move;

/* A register that loads have their addresses from: its first row, and the bytes that they read, relative to it. */
typedef struct opennpu_block_base {
    uint8_t row;
    int16_t first, end;
} opennpu_block_base;

typedef struct opennpu_block_profile {
    uint16_t profile, count;
} opennpu_block_profile;

/* What the timing of a block depends on: ticks from its first one until the results of its rows are complete, and
 * until the port is free. */
typedef struct opennpu_block_entry {
    uint16_t completes[OPENNPU_L_MAX], port;
} opennpu_block_entry;

/* What a block changes in an account. */
typedef struct opennpu_block_account {
    bool changed;
    uint32_t cursor; /* from the first tick */
    uint32_t busy, stalled[OPENNPU_STALL_REASONS];
} opennpu_block_account;

/* What a block that begins in state `entry` changes; ticks are relative to its first one, instructions to its first
 * one. */
typedef struct opennpu_block_timing {
    opennpu_block_entry entry;
    uint32_t ticks, last_completion;
    uint32_t rows, in_flight; /* rows whose results take more than a tick; of these, those in flight at its end */
    uint32_t completes[OPENNPU_L_MAX];
    uint8_t writer[OPENNPU_L_MAX];
    uint32_t port_start, port_free, accumulate_tick;
    uint8_t port_owner, accumulator;
    opennpu_block_account accounts[OPENNPU_ENGINES];
} opennpu_block_timing;

typedef struct opennpu_block {
    uint64_t hash; /* of some of its first words */
    uint8_t text[4 * OPENNPU_BLOCK_MAX];
    uint8_t count, products, profile_count;
    uint8_t base_count;     /* 0: it has no loads */
    uint8_t hits;           /* how often it was found since its entry was to be replaced, roughly */
    bool clears;            /* its first mma clears ACC */
    uint8_t plane_groups;   /* accessed as byte planes */
    uint8_t live_in_groups; /* of these, those whose contents on entry it needs */
    uint8_t lane_groups;    /* loaded as lanes */
    uint16_t move_count;
    uint32_t rows; /* that it reads or writes */
    opennpu_block_base bases[OPENNPU_BLOCK_BASES];
    opennpu_block_profile profiles[OPENNPU_BLOCK_PROFILES];
    unsigned recorded; /* number of timings so far, of which the last OPENNPU_BLOCK_TIMINGS are kept */
    opennpu_block_timing timings[OPENNPU_BLOCK_TIMINGS];
    opennpu_block_move moves[];
} opennpu_block;

#endif
