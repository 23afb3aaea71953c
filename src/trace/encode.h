/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes traces in any form that can be read back, one element at a time: shared by the writer of a running machine
 * and the converter. Write errors stick to the FILE. */
#ifndef TV_TRACE_ENCODE_H
#define TV_TRACE_ENCODE_H

#include "base/json_writer.h"
#include "trace/packets.h"
#include "trivet/trace.h"

/* The version of all forms. The reader accepts every minor version, and major version 1. */
#define TV_TRACE_VERSION "2.0"

enum {
    TV_TRACE_VERSION_MAJOR = 2,
    TRACKS_MAX = 256,
    TRACK_NAME = 64,
    TRACKS_FOUND = 64,
    KNOWN_TEXTS = 64,
    KNOWN_TEXT_VALUE = 32
};

/* A text as a value in JSON, and a comma. */
typedef struct tv_trace_known_text {
    const char *from; /* its address; NULL: none */
    uint8_t length;
    char value[KNOWN_TEXT_VALUE];
} tv_trace_known_text;

typedef struct tv_trace_encoder {
    tv_json_writer json; /* the caller writes the values of members through it */
    tv_trace_format format;
    double clock_hz;
    bool is_live; /* set before an event: the machine sends it, its texts (trivet/trace.h) are known by address */
    uint64_t counter_cycle;              /* Chrome: up to which the bandwidth counter is written */
    char tracks[TRACKS_MAX][TRACK_NAME]; /* not JSON: names of engines that have a track, and "tokens" */
    unsigned track_count;
    struct {
        const char *from;
        unsigned track;
    } found[TRACKS_FOUND]; /* tracks by the addresses of their names; read if is_live */
    struct {
        const char *from;      /* the address of the name; read if is_live */
        char name[TRACK_NAME]; /* "": none */
        unsigned id;
    } engines[TRACKS_MAX];                        /* packets: the latest that the events of a track name */
    tv_trace_known_text known_texts[KNOWN_TEXTS]; /* not packets */
    const char *member;                           /* not JSON: the one whose value is being written, or NULL … */
    tv_buf value;                                 /* … packets: here */
    tv_packets packets;
} tv_trace_encoder;

/* Members of an event that this version does not know: of the event and of its details. Objects, or NULL. */
typedef struct tv_trace_extras {
    const tv_json_value *members, *details;
} tv_trace_extras;

/* `encoder` is storage of the caller, which ends it with tv_trace_encoder_fini. */
void tv_trace_encoder_init(tv_trace_encoder *encoder, FILE *out, tv_trace_format format, double clock_hz);
void tv_trace_encoder_fini(tv_trace_encoder *encoder);

/* In this order:
 *   begin; member("run_metadata") and member("config_snapshot"), each followed by a value written to `json`;
 *   begin_events, events, end_events; samples; begin_summary, followed by a value; other members; end.
 * The forms but JSON have a track for each of `engines`, even if it has no event, and no `extras`, which may be
 * NULL. The name of a member lives until the next. end returns false when there was no memory. */
void tv_trace_encode_begin(tv_trace_encoder *encoder);
void tv_trace_encode_member(tv_trace_encoder *encoder, const char *name);
void tv_trace_encode_begin_events(tv_trace_encoder *encoder, const char *target, const char *const *engines,
                                  unsigned engine_count);
/* Drops the known addresses of texts, because another program is loaded. Before any event. */
void tv_trace_invalidate_texts(tv_trace_encoder *encoder);
void tv_trace_encode_event(tv_trace_encoder *encoder, const tv_event *event, const tv_trace_extras *extras);
void tv_trace_encode_end_events(tv_trace_encoder *encoder);
void tv_trace_encode_sample(tv_trace_encoder *encoder, const tv_trace_sample *sample);
void tv_trace_encode_begin_summary(tv_trace_encoder *encoder);

bool tv_trace_encode_end(tv_trace_encoder *encoder);

#endif
