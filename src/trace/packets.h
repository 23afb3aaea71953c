/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes a trace as Perfetto's packets: what encode.c does for the forms in JSON. The file has what the JSON trace
 * has, in a third to a quarter of its bytes. */
#ifndef TV_TRACE_PACKETS_H
#define TV_TRACE_PACKETS_H

#include "base/buf.h"
#include "trace/kinds.h"

enum { PACKET_TEXTS = 1024, PACKET_TEXT = 256, PACKET_FOUND = 256, PACKET_SOURCES = 4096, PACKET_STAGE = 1 << 16 };

/* Where a text with this address is in a table of `slots` of them. */
static inline unsigned tv_packet_slot(const char *text, unsigned slots)
{
    return (unsigned)((uintptr_t)text >> 2 ^ (uintptr_t)text >> 10) % slots;
}

/* Bytes that are interned before the state is cleared: readers keep them all. */
enum { PACKET_INTERNED_MAX = 16 << 20 };

/* An interned text; empty: none. Its identifier is its index + 1. */
typedef struct tv_packet_text {
    char text[PACKET_TEXT];
    uint8_t roles; /* in which it has been written */
} tv_packet_text;

typedef struct tv_packet_source {
    uint32_t id; /* 0: none */
    uint32_t line;
    uint32_t file; /* the identifier of its text */
} tv_packet_source;

typedef struct tv_packets {
    FILE *out;
    double ns_per_cycle;
    size_t staged;
    unsigned text_count;
    uint32_t source_count;
    size_t interned_bytes; /* since the state was cleared */
    struct {
        const char *from; /* the caller's text that this one was last found for */
        uint16_t index;
    } found[PACKET_FOUND];
    tv_packet_text texts[PACKET_TEXTS]; /* a hash table */
    tv_packet_source sources[PACKET_SOURCES];
    tv_buf interned; /* entries that the packet under way adds */
    uint8_t stage[PACKET_STAGE];
} tv_packets;

/* `packets` is storage of the caller, which ends it with tv_packets_fini. Errors of writing stick to `out`. */
void tv_packets_init(tv_packets *packets, FILE *out, double clock_hz);
void tv_packets_fini(tv_packets *packets);

/* `name`: of the machine. */
void tv_packets_machine(tv_packets *packets, const char *name);

/* Track `number`, from 1; each before its events. */
void tv_packets_track(tv_packets *packets, unsigned number, const char *name);

/* A member of the document, whose value is this JSON text. */
void tv_packets_member(tv_packets *packets, const char *name, tv_sv json);

/* `track`: its number; 0: the machine. `names_engine`: its engine is not that of the track's event before. `is_live`:
 * a machine's event, whose texts, but `op` of markers and tokens, are known by their addresses. */
void tv_packets_event(tv_packets *packets, const tv_event *event, unsigned track, bool names_engine, bool is_live);

/* Drops the known addresses, because another program is loaded. */
void tv_packets_invalidate_texts(tv_packets *packets);

/* `is_zero`: it is no sample, but the counters are zero from its cycle on. */
void tv_packets_sample(tv_packets *packets, const tv_trace_sample *sample, bool is_zero);

/* Writes what is staged. Returns whether there was memory for everything. */
bool tv_packets_finish(tv_packets *packets);

#endif
