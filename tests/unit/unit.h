/* SPDX-License-Identifier: Apache-2.0 */
/* What the unit tests share: cmocka with its prerequisites, a seeded generator, a sink that remembers diagnostics.
 *
 * Hot loops compare by hand and call fail_msg, since cmocka's assertions cost a call each. */
#ifndef TV_TESTS_UNIT_H
#define TV_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trivet/diag.h"

/* splitmix64: every seed is good, every state is reproducible. */
typedef struct unit_rng {
    uint64_t state;
} unit_rng;

static inline uint64_t unit_next(unit_rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* 0 to n - 1. */
static inline uint64_t unit_below(unit_rng *rng, uint64_t n) { return unit_next(rng) % n; }

/* Numbers of every size: a random count of random bits. */
static inline uint64_t unit_sized(unit_rng *rng, unsigned bits_max)
{
    unsigned bits = (unsigned)unit_below(rng, bits_max + 1);
    return bits == 0 ? 0 : unit_next(rng) >> (64 - bits);
}

/* Of how many cases of its longest loops a test runs one: 1, or the number in TRIVET_SAMPLE, which ./test sets for the
 * build with sanitizers, or in TRIVET_SAMPLE_LONG, which it sets for the other one, if meson says that the test is one
 * of the longest (TRIVET_LONG). */
static inline unsigned unit_sample(void)
{
    const char *text = getenv("TRIVET_SAMPLE");
    if (!text && getenv("TRIVET_LONG"))
        text = getenv("TRIVET_SAMPLE_LONG");
    unsigned long n = text ? strtoul(text, NULL, 10) : 1;
    return n ? (unsigned)n : 1;
}

/* The diagnostics of one call, the first few in full. */
enum { UNIT_DIAGS = 16 };
typedef struct unit_log {
    unsigned count;
    struct {
        char code[16], file[64], message[256], hint[160];
        unsigned line, column;
    } at[UNIT_DIAGS];
} unit_log;

static inline void unit_log_emit(void *user, const tv_diag *diag)
{
    unit_log *log = user;
    unsigned i = log->count++;
    if (i >= UNIT_DIAGS)
        return;
    snprintf(log->at[i].code, sizeof log->at[i].code, "%s", diag->code);
    snprintf(log->at[i].file, sizeof log->at[i].file, "%s", diag->file ? diag->file : "");
    snprintf(log->at[i].message, sizeof log->at[i].message, "%s", diag->message);
    snprintf(log->at[i].hint, sizeof log->at[i].hint, "%s", diag->hint ? diag->hint : "");
    log->at[i].line = diag->line;
    log->at[i].column = diag->column;
}

static inline tv_diag_sink unit_sink(unit_log *log)
{
    memset(log, 0, sizeof *log);
    return (tv_diag_sink){unit_log_emit, log};
}

#endif
