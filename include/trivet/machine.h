/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated machines: make one, load programs, run or step them, look inside.
 *
 * A machine runs several programs one after another and keeps its state and its clock between them. Two machines are
 * independent of each other and may be used from two threads; one machine belongs to one thread at a time. */
#ifndef TRIVET_MACHINE_H
#define TRIVET_MACHINE_H

#include <stddef.h>

#include "trivet/config.h"
#include "trivet/diag.h"
#include "trivet/program.h"
#include "trivet/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_machine tv_machine;

typedef enum tv_mode {
    TV_MODE_FULL,       /* data and cycles */
    TV_MODE_FUNCTIONAL, /* data only: cycles stay 0 */
    TV_MODE_TIMING,     /* cycles only: memories keep what was loaded; data-dependent faults are not seen */
} tv_mode;

/* A machine of the configuration's target, reset. `config` is copied. The caller frees it. */
TV_API tv_status tv_machine_new(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, tv_machine **out);
TV_API void tv_machine_free(tv_machine *machine);

/* Host threads that a machine may use from now on; 1 at first. Results and cycles do not depend on it. */
TV_API void tv_machine_set_threads(tv_machine *machine, unsigned threads);

/* Names of the host kernels that this host can run, plainest first; NULL past the last. Machines made later use the
 * last one, or the one that the environment's TRIVET_KERNELS names. The results are the same bits. */
TV_API const char *tv_kernels_at(unsigned i);

TV_API const char *tv_machine_target(const tv_machine *machine);
TV_API const tv_config *tv_machine_config(const tv_machine *machine); /* lives as long as the machine */

/* Puts `program` before the machine: copies its data segments into memory, appends its stream descriptors, and makes
 * its first instruction the next. What an earlier program left to do is dropped; its effects and the clock stay.
 * `program` is borrowed until the next load or tv_machine_free. TV_ERR_INPUT (wrong machine, data outside memory):
 * nothing is changed. */
TV_API tv_status tv_machine_load(tv_machine *machine, const tv_program *program, const tv_diag_sink *sink);

typedef struct tv_run_limits {
    size_t size;         /* sizeof(tv_run_limits) */
    uint64_t until;      /* stop before this instruction of the loaded program; UINT64_MAX: none */
    uint64_t max_cycles; /* stop before an instruction that would issue at this cycle or later, were it without fault;
                            UINT64_MAX: none */
} tv_run_limits;

typedef enum tv_stop_reason { TV_STOP_END, TV_STOP_UNTIL, TV_STOP_CYCLES, TV_STOP_FAULT } tv_stop_reason;

/* Runs to the program's end, a limit or a fault. `limits` and `why` may be NULL. TV_OK; TV_FAULT (see
 * tv_machine_fault; a machine that has faulted stays so until the next load); or TV_ERR_MEMORY: the host has no memory
 * for the next instruction, which has not been executed. */
TV_API tv_status tv_machine_run(tv_machine *machine, const tv_run_limits *limits, tv_stop_reason *why);

/* Runs one instruction. *why is TV_STOP_UNTIL when there are more. */
TV_API tv_status tv_machine_step(tv_machine *machine, tv_stop_reason *why);

TV_API uint64_t
tv_machine_next_index(const tv_machine *machine); /* index of the next instruction of the loaded program */

/* Instructions of the programs before the loaded one: events count on from there. */
TV_API uint64_t tv_machine_instruction_base(const tv_machine *machine);

/* Why the machine stopped; NULL when it has not faulted. Lives until the next load. */
typedef struct tv_fault {
    const char *code; /* "TV-P016" */
    const char *name; /* "stream-underrun" */
    uint64_t index;   /* of the instruction in its program */
    uint64_t address; /* of its word in .text, in bytes */
    const char *disassembly;
    const char *file; /* its source, or NULL */
    unsigned line;
    const char *message;
} tv_fault;
TV_API const tv_fault *tv_machine_fault(const tv_machine *machine);

/* Address spaces. An address counts units of `unit_bytes`; `size` is in units. */
typedef struct tv_space {
    const char *name;
    uint64_t unit_bytes;
    uint64_t size;
    const char *doc;
    uint64_t bank_size;   /* units of a bank, where people write addresses as bank and offset; 0: they do not */
    tv_dtype type;        /* what its elements mostly are */
    const char *alias_of; /* the space whose bytes these are, too, unit by unit; NULL: none */
} tv_space;
TV_API int tv_machine_space_at(const tv_machine *machine, unsigned i, tv_space *out);

/* Copies `bytes` bytes from or to a space, from unit `addr` on. TV_ERR_INPUT: no such space, or outside it. */
TV_API tv_status tv_machine_read(tv_machine *machine, const char *space, uint64_t addr, void *data, size_t bytes,
                                 const tv_diag_sink *sink);
TV_API tv_status tv_machine_write(tv_machine *machine, const char *space, uint64_t addr, const void *data, size_t bytes,
                                  const tv_diag_sink *sink);

/* "SPACE:ADDR": ADDR is a number, or a symbol of one of the programs (the last first) with an optional +offset; in a
 * space with banks also BANK:OFFSET. *rest gets what stands behind the address and its ':', or NULL. */
TV_API tv_status tv_machine_parse_address(const tv_machine *machine, const tv_program *const *programs, unsigned count,
                                          const char *text, const tv_diag_sink *sink, tv_space *space, uint64_t *addr,
                                          const char **rest);

/* "SPACE:ADDR:LEN[:TYPE]", LEN in elements; hex16 where there is no TYPE. The range lies in the space. */
typedef struct tv_range {
    tv_space space;
    uint64_t addr, count;
    tv_dtype type;
} tv_range;
TV_API tv_status tv_machine_parse_range(const tv_machine *machine, const tv_program *const *programs, unsigned count,
                                        const char *text, const tv_diag_sink *sink, tv_range *out);

/* tv_dtype_find that tells what is wrong. */
TV_API tv_status tv_dtype_parse(const char *name, const tv_diag_sink *sink, tv_dtype *out);

/* Statistics over everything the machine has run. Pointers are to static or machine-owned strings. */
enum { TV_ENGINES_MAX = 32, TV_STALL_REASONS_MAX = 12, TV_PATHS_MAX = 12 };

typedef struct tv_engine_stats {
    const char *name;
    uint64_t busy, idle;
    uint64_t stalled[TV_STALL_REASONS_MAX]; /* by cause; busy + held + idle = cycles */
} tv_engine_stats;

typedef struct tv_path_stats {
    const char *name;
    uint64_t bytes;
    double peak; /* bytes a cycle */
} tv_path_stats;

typedef struct tv_stats {
    size_t size; /* sizeof(tv_stats), set by the caller */
    uint64_t cycles;
    double clock_hz, seconds;
    uint64_t instructions, macs;
    double peak_macs; /* a cycle, of the engine that multiplied most */
    unsigned engine_count, stall_reason_count, path_count;
    const char *stall_reasons[TV_STALL_REASONS_MAX];
    tv_engine_stats engines[TV_ENGINES_MAX];
    tv_path_stats paths[TV_PATHS_MAX];
    char bound_by[48];    /* the resource that bounds the run, or "latency"; "": no cycles were simulated */
    double bound_share;   /* of all cycles */
    char bottleneck[160]; /* the same as a sentence */
} tv_stats;
TV_API tv_status tv_machine_stats(const tv_machine *machine, tv_stats *out);

/* Sends all later events to `sink`; NULL ends it. What is in flight when a trace ends is told as if the run ended
 * there; the run itself may go on. */
TV_API void tv_machine_trace(tv_machine *machine, const tv_trace_sink *sink);

/* With `on` non-zero, a trace has ACCESS events, too; it is slower. */
TV_API void tv_machine_trace_accesses(tv_machine *machine, int on);

/* Puts a MARKER event with `text` into the trace at the machine's clock. */
TV_API void tv_machine_trace_marker(tv_machine *machine, const char *text);

/* Puts a TOKEN event into the trace, from cycle `start` to the machine's clock: a model's step `op` ("prefill" or
 * "decode") over `tokens` tokens, the first at `position`. */
TV_API void tv_machine_trace_token(tv_machine *machine, const char *op, int64_t position, uint64_t tokens,
                                   uint64_t start);

/* Tells `take` each range that the next instruction of the loaded program will read or write; nothing for one that will
 * fault. Registers and tables are spaces, too. Returns the index of that instruction in its program: where a machine
 * does not work in the order of the program, it is not tv_machine_next_index. */
typedef struct tv_access {
    const char *space; /* static */
    uint64_t addr;     /* the first unit of the space … */
    uint64_t bytes;    /* … and how many bytes from there on */
    int write;
} tv_access;
typedef struct tv_access_sink {
    void (*emit)(void *user, const tv_access *access);
    void *user;
} tv_access_sink;
TV_API uint64_t tv_machine_accesses(tv_machine *machine, const tv_access_sink *sink);

/* The machine's clock: the first cycle in which the next instruction could begin, or that of the end. On CMDQ it is
 * worked out anew, in the time that the executed entries take. */
TV_API uint64_t tv_machine_clock(const tv_machine *machine);

/* The index in its program of the instruction that is the n-th to take effect: n, but on a machine that does not work
 * in the order of the program. `n` is below the count. */
TV_API uint64_t tv_machine_nth_index(const tv_machine *machine, uint64_t n);

/* Something that the machine holds and that is in no address space, or that is easier to read in words. Value `i`;
 * returns 0 past the last. The strings live until the next call for this machine. */
typedef struct tv_state_value {
    const char *group; /* "registers", "queues", "streams", "hazards", "pending" */
    const char *name;  /* "e_max" */
    const char *text;
    const char *doc; /* or NULL */
} tv_state_value;
TV_API int tv_machine_state_at(tv_machine *machine, unsigned i, tv_state_value *out);

/* A copy of the state of a machine, its clock and statistics too. Memory that is the same as in `near` (NULL, or a
 * snapshot of such a machine) is shared with it. TV_ERR_MEMORY, with nothing told: the copy would take more than
 * `limit` bytes by itself, or the host has no memory. A machine that has faulted or is being traced has no snapshots:
 * TV_ERR_INPUT. The caller frees it. */
typedef struct tv_snapshot tv_snapshot;
TV_API tv_status tv_machine_snapshot(tv_machine *machine, const tv_snapshot *near, uint64_t limit, tv_snapshot **out);
TV_API uint64_t tv_snapshot_bytes(const tv_snapshot *snapshot); /* that it takes; of what it shares its part */
TV_API void tv_snapshot_free(tv_snapshot *snapshot);

/* Puts a machine of the same configuration and mode, which is not being traced, into that state: what it runs from
 * there on has the same bits and cycles. The program of that time must still be there. TV_ERR_MEMORY: the state is
 * lost; restore again, or free it. */
TV_API tv_status tv_machine_restore(tv_machine *machine, const tv_snapshot *snapshot);

/* Validates and lints a program without running it: encodings, ranges, streams, unused work. Diagnostics go to `sink`
 * in program order; the counts say how many. TV_OK even when errors were found; else the check itself failed. */
typedef struct tv_check_counts {
    uint64_t errors, warnings;
} tv_check_counts;
TV_API tv_status tv_program_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                                  tv_check_counts *counts);

/* Reports the hazards of the loaded program with `severity`: pairs of instructions that access the same bytes, at least
 * one of them writing, without a dependency that orders them. Machines that execute in program order have none, and so
 * has a machine without a program. Adds to *counts. Returns TV_OK also when there are hazards, TV_ERR_MEMORY otherwise.
 * `sink` may be NULL. */
TV_API tv_status tv_machine_hazards(const tv_machine *machine, tv_severity severity, const tv_diag_sink *sink,
                                    tv_check_counts *counts);

/* The same for a program without a machine: loads it into a machine of that configuration, which is freed again. Errors
 * of loading it are reported and returned. To run the program afterwards, load it first and use tv_machine_hazards. */
TV_API tv_status tv_program_hazards(const tv_program *program, const tv_config *config, tv_severity severity,
                                    const tv_diag_sink *sink, tv_check_counts *counts);

/* Machines that this library knows; returns 0 past the end. */
typedef struct tv_target_info {
    const char *name, *title;
    unsigned word_bits; /* 0: not word encoded */
} tv_target_info;
TV_API int tv_target_at(unsigned i, tv_target_info *out);

#ifdef __cplusplus
}
#endif
#endif
