/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes traces in either JSON form, one element at a time: shared by the writer of a running machine and the
 * converter. Write errors stick to the FILE. */
#ifndef TV_TRACE_ENCODE_H
#define TV_TRACE_ENCODE_H

#include "base/json_writer.h"
#include "trivet/trace.h"

/* The version of both forms. The reader accepts every minor version, and major version 1. */
#define TV_TRACE_VERSION "2.0"

enum { TV_TRACE_VERSION_MAJOR = 2, TRACKS_MAX = 256, TRACK_NAME = 64 };

typedef struct tv_trace_encoder {
    tv_json_writer json; /* the caller writes the values of members through it */
    tv_trace_format format;
    double clock_hz;
    uint64_t counter_cycle;              /* Chrome: up to which the bandwidth counter is written */
    char tracks[TRACKS_MAX][TRACK_NAME]; /* Chrome: names of engines that have a track, and "tokens" */
    unsigned track_count;
} tv_trace_encoder;

typedef struct tv_trace_sample {
    uint64_t cycle, window_cycles;
    double read, written, stalled; /* bytes, bytes, cycles of engines */
} tv_trace_sample;

/* Members of an event that this version does not know: of the event and of its details. Objects, or NULL. */
typedef struct tv_trace_extras {
    const tv_json_value *members, *details;
} tv_trace_extras;

/* "ENGINE_EVENT" and so on; NULL for kinds that files do not have. */
extern const char *const tv_trace_kind_names[TV_EVENT_ACCESS + 1];

/* `encoder` is storage of the caller; there is no fini. */
void tv_trace_encoder_init(tv_trace_encoder *encoder, FILE *out, tv_trace_format format, double clock_hz);

/* In this order:
 *   begin; member("run_metadata") and member("config_snapshot"), each followed by a value written to `json`;
 *   begin_events, events, end_events; samples; begin_summary, followed by a value; other members; end.
 * Chrome trace events have a track for each of `engines`, even if it has no event, and no `extras`, which may be
 * NULL. */
void tv_trace_encode_begin(tv_trace_encoder *encoder);
void tv_trace_encode_member(tv_trace_encoder *encoder, const char *name);
void tv_trace_encode_begin_events(tv_trace_encoder *encoder, const char *target, const char *const *engines,
                                  unsigned engine_count);
void tv_trace_encode_event(tv_trace_encoder *encoder, const tv_event *event, const tv_trace_extras *extras);
void tv_trace_encode_end_events(tv_trace_encoder *encoder);
void tv_trace_encode_sample(tv_trace_encoder *encoder, const tv_trace_sample *sample);
void tv_trace_encode_begin_summary(tv_trace_encoder *encoder);

void tv_trace_encode_end(tv_trace_encoder *encoder);

#endif
