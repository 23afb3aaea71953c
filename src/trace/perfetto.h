/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of Perfetto's trace format that this library writes and reads: numbers of fields and of enumerators,
 * from the reference at perfetto.dev/docs/reference/trace-packet-proto. A file is a sequence of packets, field 1 of
 * Trace. */
#ifndef TV_TRACE_PERFETTO_H
#define TV_TRACE_PERFETTO_H

enum { TRACE_PACKET = 1 };

enum {
    PACKET_TIMESTAMP = 8, /* nanoseconds */
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
    PACKET_IS_FIRST = 87 /* of its sequence */
};

enum { FLAG_CLEARED = 1, FLAG_USES_INTERNED = 2 }; /* PACKET_FLAGS */

enum {
    EVENT_CATEGORY = 3, /* interned */
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME = 10, /* interned */
    EVENT_TRACK = 11,
    EVENT_NAME_TEXT = 23,
    EVENT_SOURCE = 34, /* interned */
    EVENT_COUNTER = 44 /* binary64 */
};

enum { TYPE_BEGIN = 1, TYPE_END, TYPE_INSTANT, TYPE_COUNTER }; /* EVENT_TYPE */

enum {
    ANNOTATION_NAME = 1, /* interned */
    ANNOTATION_UNSIGNED = 3,
    ANNOTATION_REAL = 5, /* binary64 */
    ANNOTATION_TEXT = 6,
    ANNOTATION_POINTER = 7, /* shown in hexadecimal */
    ANNOTATION_JSON = 9,
    ANNOTATION_NAME_TEXT = 10,
    ANNOTATION_INTERNED = 17
};

enum { INTERNED_CATEGORY = 1, INTERNED_NAME, INTERNED_ANNOTATION, INTERNED_SOURCE, INTERNED_TEXT = 29 };
enum { ENTRY_ID = 1, ENTRY_TEXT = 2, SOURCE_LINE = 4 }; /* members of all of these; a source's text is its file */

enum { TRACK_ID = 1, TRACK_NAME_TEXT, TRACK_PROCESS, TRACK_THREAD, TRACK_PARENT, TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 6 };

/* ---- What the library puts into them ---- */

/* The one process is the machine, its threads are the tracks; track i of an encoder, from 1, has the id TRACK_FIRST +
 * i. */
enum { TRACK_MACHINE = 1, TRACK_READ = 2, TRACK_WRITTEN = 3, TRACK_FIRST = 100 };

/* Categories are the kinds of events, and that of an instant that holds a member of the document, such as
 * "run_metadata": an annotation of its name, in JSON. */
#define TV_PACKET_MEMBER "document"

#endif
