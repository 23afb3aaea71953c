/* SPDX-License-Identifier: Apache-2.0 */
/* Peak rates of this host on one thread, which the rows are compared with. */
#ifndef TV_BENCH_CEILINGS_H
#define TV_BENCH_CEILINGS_H

typedef struct bench_ceilings {
    double read;        /* bytes per second from memory, not from a cache */
    double u4s8, s8s8;  /* exact multiply-adds per second with unpacked operands in registers */
    double two_threads; /* speed of two threads relative to one: about 1 on two hyperthreads of a core */
} bench_ceilings;

/* Bytes per second from memory. Exits when out of memory. */
double bench_read_bandwidth(void);

/* Exits when out of memory. */
bench_ceilings bench_measure_ceilings(void);

#endif
