/* SPDX-License-Identifier: Apache-2.0 */
/* Reads traces of Perfetto's packets, as packets.c writes them, into the slots of a trace reader. */
#ifndef TV_TRACE_READ_PACKETS_H
#define TV_TRACE_READ_PACKETS_H

#include "trace/parse.h"

typedef struct tv_packet_reader tv_packet_reader;

/* Whether a file that begins with these bytes has packets; `size` is 2 at least, or that of the file. */
bool tv_begins_packets(const uint8_t *bytes, size_t size);

/* A reader for `r`, which outlives it; the caller frees it. NULL: out of memory. */
tv_packet_reader *tv_packet_reader_new(trace_reader *r);
void tv_packet_reader_free(tv_packet_reader *reader); /* may be NULL */

/* The next bytes of the file, and its end. false: an error was reported. */
bool tv_packet_reader_feed(tv_packet_reader *reader, const uint8_t *bytes, size_t size);
bool tv_packet_reader_finish(tv_packet_reader *reader);

#endif
