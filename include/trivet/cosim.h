/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware against the model: commit logs, and a scoreboard that compares what a design does with what the model does.
 *
 * Commit logs are the records of commit.h as files. A log is a header with the version of the library, the target and
 * the parameters of the machine, followed by records. As JSON Lines each is an object on a line of its own; bytes are
 * hexadecimal digits, two for each byte, in the order of their addresses. The binary form has the same contents. Either
 * can be compressed with zstd. docs/cosim.md has the members. */
#ifndef TRIVET_COSIM_H
#define TRIVET_COSIM_H

#include <stdio.h>

#include "trivet/codec.h"
#include "trivet/commit.h"
#include "trivet/config.h"
#include "trivet/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tv_commit_log_format { TV_COMMIT_LOG_JSON, TV_COMMIT_LOG_BINARY } tv_commit_log_format;

/* The format that the name `path` implies: BINARY when it ends in ".bin" or ".bin.zst", otherwise JSON. */
TV_API tv_commit_log_format tv_commit_log_format_of(const char *path);

typedef struct tv_commit_log_writer tv_commit_log_writer;

/* Opens a log in `format` for `path` as tv_output_open_compressed does and writes its header for `config`. The caller
 * ends it with tv_commit_log_finish or tv_commit_log_abandon. TV_ERR_IO, TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_open(const char *path, tv_commit_log_format format, const tv_config *config,
                                    const tv_diag_sink *sink, tv_commit_log_writer **out);

/* Writes `commit` to the log of `writer`. One with more than 1 MiB of effects is written as several records with the
 * same order. Errors are kept for tv_commit_log_finish. */
TV_API void tv_commit_log_write(tv_commit_log_writer *writer, const tv_commit *commit);

/* A sink that writes to `writer`, for tv_machine_commits. */
TV_API tv_commit_sink tv_commit_log_sink(tv_commit_log_writer *writer);

/* Completes the log, frees `writer`, also on failure, and moves the file to `group`, which may be NULL. TV_ERR_IO: a
 * write failed, and there is no file; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_finish(tv_commit_log_writer *writer, tv_output_group *group, const tv_diag_sink *sink);

/* Removes the unfinished file and frees `writer`, which may be NULL. */
TV_API void tv_commit_log_abandon(tv_commit_log_writer *writer);

typedef struct tv_commit_log_reader tv_commit_log_reader;

/* Opens the log at `path` ("-": standard input), in either format, compressed or not, and reads its header. The log of
 * a design may have a target alone in its header. The caller frees the reader with tv_commit_log_close. TV_ERR_INPUT:
 * no log, or one of a later version; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_read(const char *path, const tv_diag_sink *sink, tv_commit_log_reader **out);

/* Opens the log of the `size` bytes of `data`, which must outlive the reader, as tv_commit_log_read does. `name` stands
 * for the path in messages; `data` may be NULL when `size` is 0. TV_ERR_INPUT, TV_ERR_MEMORY as there. */
TV_API tv_status tv_commit_log_read_bytes(const char *name, const void *data, size_t size, const tv_diag_sink *sink,
                                          tv_commit_log_reader **out);

/* Frees `reader`, which may be NULL. */
TV_API void tv_commit_log_close(tv_commit_log_reader *reader);

/* Name of the target of the log. Valid until `reader` is freed. */
TV_API const char *tv_commit_log_target(const tv_commit_log_reader *reader);

/* The configuration of the log of `reader`: the defaults of its target, with the parameters of its header. The caller
 * frees it with tv_config_free. TV_ERR_INPUT: this version has no such target, parameter or value; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_config(const tv_commit_log_reader *reader, const tv_diag_sink *sink, tv_config **out);

/* Reads the next record of `reader`; sets *out to NULL at the end. A record is valid until the next call. Its strings
 * are valid until the reader is freed, except that of `fault_message`. `line`, which may be NULL, receives the line of
 * the record, or its number in a binary log, from 1. TV_ERR_INPUT: the log is damaged there, and the reader reads no
 * further; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_next(tv_commit_log_reader *reader, const tv_diag_sink *sink, const tv_commit **out,
                                    uint64_t *line);

/* Replays the remaining records of `reader` on `machine`: stores what they write in its address spaces, except queues
 * and the register window. Afterwards these have the contents that they had at the end of the logged run, if they had
 * those of a new machine at its beginning. The number of records goes to `records`. TV_ERR_INPUT: the log is damaged or
 * of another target, or it has a write outside of a space; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_replay(tv_commit_log_reader *reader, tv_machine *machine, const tv_diag_sink *sink,
                                      uint64_t *records);

/* ---- Rules ---- */

/* How values are compared, and which mismatches are known. Without a rule every bit must be equal. docs/cosim.md has
 * the form of a file of rules. */
typedef struct tv_rules tv_rules;

/* Reads the rules of the file at `path`. All errors are reported. The caller frees them with tv_rules_free.
 * TV_ERR_INPUT, TV_ERR_IO, TV_ERR_MEMORY. */
TV_API tv_status tv_rules_read(const char *path, const tv_diag_sink *sink, tv_rules **out);

/* Reads rules as tv_rules_read does from the `size` bytes of `text`, which are not used after the call and may be NULL
 * when `size` is 0. `name` stands for the path in messages. TV_ERR_INPUT, TV_ERR_MEMORY. */
TV_API tv_status tv_rules_parse(const char *name, const void *text, size_t size, const tv_diag_sink *sink,
                                tv_rules **out);

/* A waiver of the rules: classes of mismatches that are known. */
typedef struct tv_waiver {
    const char *pattern; /* of names of classes, with * and ?; like the reason valid as long as the rules */
    const char *reason;
} tv_waiver;

/* Writes waiver `i` of `rules`, which may be NULL, in the order of the file, to `out`. Returns 0 past the last one. */
TV_API int tv_rules_waiver_at(const tv_rules *rules, unsigned i, tv_waiver *out);

/* Frees `rules`, which may be NULL. */
TV_API void tv_rules_free(tv_rules *rules);

/* ---- Scoreboard ---- */

/* The kinds of mismatches. The class of a mismatch is KIND/INSTRUCTION/SPACE, "wrong-data/CVO_EXP/l2", without the
 * parts that do not apply. */
typedef enum tv_mismatch_kind {
    TV_MISMATCH_WORD,      /* "wrong-word": another instruction than the model executes */
    TV_MISMATCH_DATA,      /* "wrong-data" */
    TV_MISMATCH_MISSING,   /* "missing-write" */
    TV_MISMATCH_EXTRA,     /* "extra-write" */
    TV_MISMATCH_MISPLACED, /* "misplaced-write": the right bytes at another address */
    TV_MISMATCH_LATE,      /* "late-write": after its instruction has retired */
    TV_MISMATCH_TRAP,      /* "wrong-trap" */
    TV_MISMATCH_NO_TRAP,   /* "missing-trap" */
    TV_MISMATCH_NEW_TRAP,  /* "extra-trap" */
    TV_MISMATCH_CYCLE,     /* "wrong-cycle": more than the slack from the model's */
    TV_MISMATCH_VALUE,     /* "wrong-value": an inner value */
    TV_MISMATCH_NO_VALUE,  /* "missing-value": an inner value that the rules require */
    TV_MISMATCH_HANG,      /* "hang": no end */
    TV_MISMATCH_ISSUE,     /* "no-issue": events of an instruction that has not been issued */
    TV_MISMATCH_STATE,     /* "wrong-state" */
    TV_MISMATCH_KINDS
} tv_mismatch_kind;

/* The name of `kind`, "wrong-data". Static string. */
TV_API const char *tv_mismatch_kind_name(tv_mismatch_kind kind);

enum { TV_MISMATCH_CLASS = 96, TV_MISMATCH_TEXT = 256 };

typedef struct tv_mismatch {
    tv_mismatch_kind kind;
    char name[TV_MISMATCH_CLASS]; /* its class */
    const char *waived;           /* the reason in the rules, or NULL */
    uint64_t tag, number;         /* of the instruction: the caller's, and in the order of issue from 0 on */
    uint64_t word;
    const char *insn, *file; /* or NULL */
    unsigned line;
    const char *space;              /* or NULL: it has no data */
    uint64_t addr, byte;            /* the first byte that differs: unit, and byte of the unit */
    uint64_t element;               /* of the range that the model writes */
    unsigned lane;                  /* the element within its unit */
    unsigned bits;                  /* of an element */
    uint64_t expected, actual;      /* its bits: model, design; of an inner value an integer or binary64 */
    uint64_t count;                 /* elements, or bytes, that differ in this way */
    char message[TV_MISMATCH_TEXT]; /* what differs, in one line */
} tv_mismatch;

typedef struct tv_scoreboard_options {
    size_t size;                                               /* sizeof(tv_scoreboard_options) */
    const tv_rules *rules;                                     /* may be NULL; borrowed */
    void (*mismatch)(void *user, const tv_mismatch *mismatch); /* may be NULL; waived ones, too */
    void *user;
    int values;           /* not 0: the model computes inner values, and those of the design are compared */
    uint64_t cycle_slack; /* cycles between the model's end and retire; TV_CYCLE_UNKNOWN: cycles are not compared */
    uint64_t plant;       /* inverts a bit in the comparison of instruction plant - 1 or the first one after it that
                             writes: a mismatch of a correct design; 0: none */
} tv_scoreboard_options;

/* Numbers of a scoreboard. */
typedef struct tv_scoreboard_counts {
    uint64_t instructions, faults, bytes; /* retired; of them the model's faults; bytes compared */
    uint64_t mismatches, waived;
    uint64_t by_kind[TV_MISMATCH_KINDS]; /* of `mismatches` */
    int planted, planted_found;          /* the bug of the option `plant` is in the comparison; it is reported */
} tv_scoreboard_counts;

/* Compares a design with `machine`, whose instructions it executes with tv_machine_execute. Events come in any order
 * with a tag that the caller chooses: a number that no instruction has that is issued and has not retired. The tag of
 * an instruction that has retired may be issued again; before that, its events are late ones of the retired
 * instruction.
 */
typedef struct tv_scoreboard tv_scoreboard;

/* Makes a scoreboard. `machine` stays the caller's and must exist until tv_scoreboard_free; the caller may load and
 * write it between the calls. `options` may be NULL: every bit is compared, and cycles are not. With a `cycle_slack`
 * the machine takes no snapshots, and ends that the model does not know at the issue are compared when it knows them,
 * at the latest by tv_scoreboard_finish. The caller frees the scoreboard with tv_scoreboard_free. TV_ERR_INPUT: the
 * size of `options` is not set, or another scoreboard compares cycles of `machine`; TV_ERR_MEMORY. */
TV_API tv_status tv_scoreboard_new(tv_machine *machine, const tv_scoreboard_options *options, tv_scoreboard **out);

/* Frees `board`, which may be NULL. */
TV_API void tv_scoreboard_free(tv_scoreboard *board);

/* The design of `board` has issued `word` as instruction `tag`: its model executes it. Instructions are issued in
 * program order. TV_ERR_INPUT: the tag is in use, or tv_machine_execute fails; TV_ERR_MEMORY. */
TV_API tv_status tv_scoreboard_issue(tv_scoreboard *board, uint64_t tag, uint64_t word);

/* Instruction `tag` of the design of `board` has written bytes of `space`, from unit `addr` on: `bytes` bytes of
 * `data`, of which those count whose bit in `enables`, which may be NULL for all, is set, bit 0 of the first byte for
 * the first one. A byte that is written several times has its last value. TV_ERR_INPUT: the machine has no such space;
 * TV_ERR_MEMORY, also for an instruction that writes without end. */
TV_API tv_status tv_scoreboard_write(tv_scoreboard *board, uint64_t tag, const char *space, uint64_t addr,
                                     const void *data, size_t bytes, const uint8_t *enables);

/* Inner value `value` of instruction `tag` of the design of `board`. It is compared with the model's of the same name
 * and element, if it has one. TV_ERR_MEMORY, also for more than 256 names. */
TV_API tv_status tv_scoreboard_value(tv_scoreboard *board, uint64_t tag, const tv_inner_value *value);

/* Instruction `tag` of the design of `board` ends with the fault `code`, "TV-P016". TV_ERR_MEMORY. */
TV_API tv_status tv_scoreboard_trap(tv_scoreboard *board, uint64_t tag, const char *code);

/* Instruction `tag` has ended in `cycle` of the design, TV_CYCLE_UNKNOWN if it has no clock: `board` compares it.
 * TV_ERR_MEMORY.
 */
TV_API tv_status tv_scoreboard_retire(tv_scoreboard *board, uint64_t tag, uint64_t cycle);

/* Instruction `tag` has not ended after `cycles` cycles: a mismatch. `board` drops it. TV_ERR_MEMORY. */
TV_API tv_status tv_scoreboard_hang(tv_scoreboard *board, uint64_t tag, uint64_t cycles);

/* Compares the state of the model of `board` at the end of a run, or between instructions: `bytes` bytes of `space`
 * from unit `addr` on, `data` in the design. TV_ERR_INPUT: outside of the space; TV_ERR_MEMORY. */
TV_API tv_status tv_scoreboard_state(tv_scoreboard *board, const char *space, uint64_t addr, const void *data,
                                     size_t bytes);

/* A receiver of the model's state. */
typedef struct tv_seed_sink {
    void (*write)(void *user, const char *space, uint64_t addr, const void *data, size_t bytes);
    void *user;
} tv_seed_sink;

/* Passes the state of the model of `board` to `seed`, to bring a design to it: the contents of each space of up to 64
 * MiB that has bytes of its own, in blocks of up to 4096 bytes; blocks of zeros are left out. TV_ERR_INPUT,
 * TV_ERR_MEMORY. */
TV_API tv_status tv_scoreboard_seed(tv_scoreboard *board, const tv_seed_sink *seed);

/* The run of the design of `board` has ended: instructions that have not retired are mismatches. Stores the numbers in
 * *out. TV_ERR_MEMORY. */
TV_API tv_status tv_scoreboard_finish(tv_scoreboard *board, tv_scoreboard_counts *out);

/* Stores the numbers of `board` so far in *out. */
TV_API void tv_scoreboard_count(const tv_scoreboard *board, tv_scoreboard_counts *out);

/* Compares the log of a design with that of the model. Records of instructions are matched by `order`, or by their
 * sequence if the log of the design has no orders; writes, faults, inner values, words (if both have one) and, with a
 * slack, ends are compared. `machine` is one of the configuration of `model`; it executes nothing. `design` and
 * `options` as for tv_scoreboard_new, which may be NULL. TV_OK also when there are mismatches. TV_ERR_INPUT: a log is
 * damaged, or they are of different targets; TV_ERR_IO; TV_ERR_MEMORY. */
TV_API tv_status tv_commit_log_compare(tv_machine *machine, tv_commit_log_reader *model, tv_commit_log_reader *design,
                                       const tv_scoreboard_options *options, const tv_diag_sink *sink,
                                       tv_scoreboard_counts *out);

/* ---- Reduction ---- */

typedef struct tv_reduce_options {
    size_t size; /* sizeof(tv_reduce_options) */
    /* Whether the program of the assembly source `source` fails in the same way as the whole one: 1 or 0; negative:
     * stop with the smallest program so far. Its first call has the whole program. Must not be NULL. */
    int (*fails)(void *user, const char *source);
    void *user;
    uint64_t tests_max; /* calls of `fails`; 0: 10,000 */
} tv_reduce_options;

typedef struct tv_reduced {
    char *source; /* assembly source; a heap string, the caller frees it with free() */
    uint64_t instructions, instructions_before;
    uint64_t tests; /* calls of `fails` */
    int complete;   /* 0: stopped by `fails` or by the limit */
} tv_reduced;

/* Reduces `program`, which fails, to a shortest program that fails in the same way: no single instruction, descriptor
 * or block of its data can be removed, and no bit of its words cleared without another instruction. `options` says what
 * fails; `codec` is one of the program's target. The caller frees out->source with free(). TV_ERR_INPUT: the target is
 * not word encoded, the program does not fail, or the size of `options` is not set; TV_ERR_MEMORY. */
TV_API tv_status tv_program_reduce(const tv_program *program, const tv_codec *codec, const tv_reduce_options *options,
                                   const tv_diag_sink *sink, tv_reduced *out);

#ifdef __cplusplus
}
#endif
#endif
