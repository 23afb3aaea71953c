/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can do at best, on one thread: the measure for the rest. */
#ifndef TV_BENCH_CEILINGS_H
#define TV_BENCH_CEILINGS_H

typedef struct bench_ceilings {
    double read;        /* bytes a second, of memory that is in no cache */
    double u4s8, s8s8;  /* exact multiply-adds a second of unpacked operands in registers */
    double two_threads; /* how many times faster two threads multiply than one: 1 on two halves of a core */
} bench_ceilings;

/* Exits where there is no memory. */
bench_ceilings bench_find_ceilings(void);

#endif
