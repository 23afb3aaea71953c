/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files piece by piece, in either form of JSON: what the writer and the converter share. Where events come from
 * is not known here. What has failed is remembered in `failed`; a caller looks once, at the end. */
#ifndef TV_TRACE_PUT_H
#define TV_TRACE_PUT_H

#include <yajl/yajl_gen.h>

#include "base/base.h"
#include "trivet/trace.h"

enum { TRACKS_MAX = 256, TRACK_NAME = 64 };

typedef struct tv_trace_put {
    FILE *out;
    tv_trace_format format;
    double clock_hz;
    bool first; /* of a list */
    bool failed;
    yajl_gen gen;
    uint64_t counted;                    /* Perfetto: the cycle that the bandwidth counter has reached */
    char tracks[TRACKS_MAX][TRACK_NAME]; /* Perfetto: the engines seen, and the tokens */
    unsigned track_count;
} tv_trace_put;

/* The texts are JSON objects. */
typedef struct tv_trace_head {
    const char *target;
    double clock_hz;
    const char *run_metadata, *config;
    const char *const *engines; /* as the statistics name them; each gets a track, even if it does nothing */
    unsigned engine_count;
} tv_trace_head;

typedef struct tv_trace_sample {
    uint64_t cycle, window_cycles;
    double read, written, stalled;
} tv_trace_sample;

/* "ENGINE_EVENT" and so on; NULL where a kind has no place in files. */
extern const char *const tv_trace_kind_names[TV_EVENT_ACCESS + 1];

/* `put` is zeroed storage of the caller. false: no memory. tv_trace_put_fini in any case. */
bool tv_trace_put_init(tv_trace_put *put, FILE *out, tv_trace_format format);
void tv_trace_put_fini(tv_trace_put *put);

/* In this order: the head, events, the end of events, samples, the summary, members of a reader's that this version
 * does not know, the end. `more` and `more_details` are members to add, as JSON without the braces around them, or
 * NULL; Perfetto does not get them. */
void tv_trace_put_begin(tv_trace_put *put, const tv_trace_head *head);
void tv_trace_put_event(tv_trace_put *put, const tv_event *event, const char *more, const char *more_details);
void tv_trace_put_events_end(tv_trace_put *put);
void tv_trace_put_sample(tv_trace_put *put, const tv_trace_sample *sample);
void tv_trace_put_summary(tv_trace_put *put, const char *summary);
void tv_trace_put_member(tv_trace_put *put, const char *key, const char *value);
void tv_trace_put_end(tv_trace_put *put);

#endif
