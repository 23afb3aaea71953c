/* SPDX-License-Identifier: Apache-2.0 */
/* The two formats of commit logs (docs/cosim.md), for their writer and their reader.
 *
 * Binary: the magic bytes, the header as JSON with its length, then records with their length. Numbers are LEB128, or
 * lengths in 4 bytes, little endian. A text that repeats (spaces, instructions, files) is its number in the order of
 * first use, where a new one follows its number, with its length. */
#ifndef TV_COSIM_LOG_H
#define TV_COSIM_LOG_H

#include "base/arena.h"
#include "base/json_value.h"
#include "base/sv.h"
#include "trivet/cosim.h"

#define TV_COMMIT_LOG_MAGIC "TVCOMMIT" /* 8 bytes without the NUL */

enum {
    LOG_VERSION = 1,
    LOG_HEADER_MAX = 1 << 20,
    LOG_RECORD_MAX = 32 << 20, /* bytes of a line, or of a binary record */
    LOG_EFFECT_BYTES = 1 << 20,
    LOG_TEXTS_MAX = 1 << 16, /* different texts of a log */
    LOG_TEXT_MAX = 4096
};

/* Bits of a binary record. */
enum {
    RECORD_ASYNCHRONOUS = 1 << 0,
    RECORD_WORD = 1 << 1,
    RECORD_INSN = 1 << 2,
    RECORD_FAULT = 1 << 3,
    RECORD_CYCLES = 1 << 4,
    RECORD_FILE = 1 << 5
};

/* Bits of an effect, and of an inner value. */
enum { EFFECT_WRITE = 1 << 0, EFFECT_QUEUE = 1 << 1, EFFECT_BEFORE = 1 << 2, EFFECT_AFTER = 1 << 3 };
enum { VALUE_INTEGER = 1 << 0 };

extern const char *const tv_log_kinds[4], *const tv_log_origins[3];

/* Texts that repeat, in the order of first use; each has one address. */
typedef struct text_table {
    tv_arena arena;
    const char **texts;
    unsigned count, capacity;
    uint32_t *slots; /* hash table of index + 1; 0: empty */
    unsigned slot_count;
} text_table;

void tv_text_table_fini(text_table *table);

/* The index of `text`, which is added if it is new; *is_new then. -1: out of memory, or too many or too long texts,
 * with *full. */
int64_t tv_text_table_find(text_table *table, tv_sv text, bool *is_new, bool *full);

/* Parses a line of JSON Lines into a record whose arrays are in `arena`. Returns NULL, or what is malformed. `*memory`:
 * out of memory. */
const char *tv_log_parse_line(tv_sv line, tv_arena *arena, text_table *texts, tv_commit *out, bool *memory);

/* The same for a binary record. */
const char *tv_log_parse_record(const uint8_t *data, size_t size, tv_arena *arena, text_table *texts, tv_commit *out,
                                bool *memory);

/* The name of the log in messages. */
const char *tv_log_name(const tv_commit_log_reader *reader);

/* The object with the parameters in the header, or NULL. */
const tv_json_value *tv_log_settings(const tv_commit_log_reader *reader);

#endif
