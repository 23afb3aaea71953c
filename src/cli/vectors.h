/* SPDX-License-Identifier: Apache-2.0 */
/* Golden vectors: fixtures of arrays of words, each of which is a file that $readmemh reads, described by a JSON file.
 */
#ifndef TV_CLI_VECTORS_H
#define TV_CLI_VECTORS_H

#include <sha256.h>

#include "cli/cli.h"
#include "trivet/unit.h"

enum { VECTORS_ARRAYS_MAX = 12 };

typedef enum vectors_role { VECTORS_INPUT, VECTORS_STEP, VECTORS_OUTPUT } vectors_role;

typedef struct vectors_array {
    const char *name, *type, *meaning; /* static; type: "bf16", "int8", "uint48", ... */
    vectors_role role;
    unsigned bits;          /* of a word, 1 to 64; numbers are in two's complement */
    uint64_t rows, columns; /* rows 0: a list of `columns` words */
    uint64_t *words;        /* owned */
} vectors_array;

/* Writes the fixtures of a family to a folder of its own. Errors are sticky: functions do nothing after one. */
typedef struct vectors_writer {
    cli *c;
    tv_output_group *group;
    const char *folder; /* of all families */
    const char *family;
    const char *meaning; /* of the current fixture */
    char name[64];
    const char *lane_order;
    const char
        *parameters; /* "dma.count=3": of the machine's configuration; static; NULL: the defaults, or no machine */
    char queue_digest[SHA256_DIGEST_STRING_LENGTH]; /* empty: the fixture has no queue */
    vectors_array arrays[VECTORS_ARRAYS_MAX];
    unsigned array_count;
    uint64_t fixtures, random;
    tv_status status;
} vectors_writer;

/* Starts a fixture; its random numbers depend on its name only. `lane_order` says what follows what in a row. */
void vectors_begin(vectors_writer *w, const char *name, const char *meaning, const char *lane_order);

/* Adds an array and returns its words, which are 0; NULL after an error. */
uint64_t *vectors_add(vectors_writer *w, vectors_role role, const char *name, const char *type, unsigned bits,
                      uint64_t rows, uint64_t columns, const char *meaning);

/* Writes the `size` bytes of `text`, a command queue, as an input of the fixture. */
void vectors_queue(vectors_writer *w, const char *text, size_t size);

/* Writes the files of the fixture and frees its arrays. */
void vectors_end(vectors_writer *w);

uint64_t vectors_random(vectors_writer *w, uint64_t below);

typedef void vectors_family_fn(vectors_writer *w, const char *argument);

/* The families: "bf16-decode", or "sfu" for each argument of a list: sfu-exp. */
typedef struct vectors_family {
    const char *name, *meaning;
    vectors_family_fn *write;
    const char *argument; /* or NULL */
} vectors_family;

extern const vectors_family vectors_families[];
extern const unsigned vectors_family_count;

/* ---- vectors_preprocess.c, vectors_product.c, vectors_functions.c, vectors_timing.c ---- */

vectors_family_fn vectors_bf16_decode, vectors_emax_align, vectors_bf16_to_int8;
vectors_family_fn vectors_int4_packing, vectors_dual_mac, vectors_drain, vectors_normalize;
vectors_family_fn vectors_sfu, vectors_opennpu, vectors_cmdq_timing;

#endif
