/* SPDX-License-Identifier: Apache-2.0 */
/* Long programs of OpenNPU (K = 64) without loads. */
#ifndef TV_BENCH_OPENNPU_H
#define TV_BENCH_OPENNPU_H

#include "trivet/trivet.h"

enum { OPENNPU_INSTRUCTIONS = 1600000, OPENNPU_MMAS = 400000 };

/* `lanes`: independent integer operations on VX, VE and VR and in FP32, OPENNPU_INSTRUCTIONS of them. `mma`:
 * OPENNPU_MMAS outer products. `all_units`: OPENNPU_INSTRUCTIONS operations on VX and VR, outer products and table
 * lookups. */
typedef struct opennpu_programs {
    tv_config *config;
    tv_program *lanes, *mma, *all_units;
} opennpu_programs;

/* Assembles the programs, which opennpu_fini frees. Exits with status 3 on failure. */
void opennpu_prepare(opennpu_programs *p);

void opennpu_fini(opennpu_programs *p);

/* Executes one of the programs and returns its cycles. Exits with status 2 on failure. */
uint64_t opennpu_run(const opennpu_programs *p, const tv_program *program);

#endif
