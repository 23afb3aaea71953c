/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated machines: create, load, run or step, inspect.
 *
 * A machine runs several programs one after another and keeps its state and clock between them. Two machines are
 * independent and may be used from two threads; one machine belongs to one thread at a time, also for functions that
 * take it as const. */
#ifndef TRIVET_MACHINE_H
#define TRIVET_MACHINE_H

#include <stddef.h>

#include "trivet/config.h"
#include "trivet/diag.h"
#include "trivet/json.h"
#include "trivet/program.h"
#include "trivet/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tv_machine tv_machine;

typedef enum tv_mode {
    TV_MODE_FULL,       /* data and cycles */
    TV_MODE_FUNCTIONAL, /* data only: cycles stay 0 */
    TV_MODE_TIMING,     /* cycles only: memories keep what was loaded, data-dependent faults are not detected */
} tv_mode;

/* Creates a machine of the target of `config`, which is copied, in its reset state. `mode` stays for its lifetime. The
 * caller frees it with tv_machine_free. TV_ERR_INPUT: inconsistent parameters (tv_config_check); TV_ERR_MEMORY. */
TV_API tv_status tv_machine_new(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, tv_machine **out);

/* Frees `machine`, which may be NULL. */
TV_API void tv_machine_free(tv_machine *machine);

/* Lets the machine use `threads` host threads, itself included; 0 counts as 1, the initial value. Results and cycles do
 * not depend on it. */
TV_API void tv_machine_set_threads(tv_machine *machine, unsigned threads);

/* Name of host kernel set `i` that this host can run, from the scalar reference to the fastest; NULL past the last.
 * Machines use the last one, or the one that the environment variable TRIVET_KERNELS names. All compute the same bits.
 */
TV_API const char *tv_kernels_at(unsigned i);

/* Name of the target. Static string. */
TV_API const char *tv_machine_target(const tv_machine *machine);

/* The machine's copy of its configuration. Valid until tv_machine_free. */
TV_API const tv_config *tv_machine_config(const tv_machine *machine);

/* Loads `program`: copies its data segments into memory, appends its stream descriptors, and makes its first
 * instruction the next one. Instructions of an earlier program that have not executed are dropped; its effects and the
 * clock stay. A fault is cleared. `program` is borrowed until the next load or tv_machine_free. TV_ERR_INPUT: other
 * target, or data outside memory; TV_ERR_MEMORY; then the machine is unchanged. */
TV_API tv_status tv_machine_load(tv_machine *machine, const tv_program *program, const tv_diag_sink *sink);

typedef struct tv_run_limits {
    size_t size;         /* sizeof(tv_run_limits) */
    uint64_t until;      /* stop before this instruction of the loaded program; UINT64_MAX: no limit */
    uint64_t max_cycles; /* stop before an instruction that would issue at this cycle or later, if it did not fault;
                            UINT64_MAX: no limit */
} tv_run_limits;

typedef enum tv_stop_reason { TV_STOP_END, TV_STOP_UNTIL, TV_STOP_CYCLES, TV_STOP_FAULT } tv_stop_reason;

/* Runs to the end of the program, a limit or a fault. `limits` may be NULL: none. `reason`, which may be NULL, receives
 * why it stopped. TV_FAULT: see tv_machine_fault; the machine runs no further until the next load. TV_ERR_MEMORY: the
 * next instruction has not executed. TV_ERR_INPUT: the size of `limits` is not set; nothing has run. */
TV_API tv_status tv_machine_run(tv_machine *machine, const tv_run_limits *limits, tv_stop_reason *reason);

/* Runs one instruction. `reason`, which may be NULL, receives TV_STOP_UNTIL when there are more. TV_FAULT,
 * TV_ERR_MEMORY as for tv_machine_run. */
TV_API tv_status tv_machine_step(tv_machine *machine, tv_stop_reason *reason);

/* Number of instructions of the loaded program that have executed. On machines that execute in program order this is
 * the index of the next instruction. */
TV_API uint64_t tv_machine_next_index(const tv_machine *machine);

/* Number of instructions executed of the programs before the loaded one. Events count from there. */
TV_API uint64_t tv_machine_instruction_base(const tv_machine *machine);

/* Why the machine faulted. */
typedef struct tv_fault {
    const char *code; /* "TV-P016" */
    const char *name; /* "stream-underrun" */
    uint64_t index;   /* instruction index in its program */
    uint64_t address; /* of its word in .text, in bytes */
    const char *disassembly;
    const char *file; /* source location, or NULL */
    unsigned line;
    const char *message;
} tv_fault;

/* The fault, or NULL when the machine has not faulted. Valid until the next load. */
TV_API const tv_fault *tv_machine_fault(const tv_machine *machine);

/* An address space. An address counts units of `unit_bytes` bytes; `size` is in units. */
typedef struct tv_space {
    const char *name;
    uint64_t unit_bytes;
    uint64_t size;
    const char *doc;
    uint64_t bank_size;   /* units of a bank where addresses are written BANK:OFFSET; 0: no banks */
    tv_dtype type;        /* usual element type */
    const char *alias_of; /* the space that has the same bytes, unit by unit, or NULL */
    int queue;            /* unit 0 is the front of a queue of `size` units at most */
} tv_space;

/* Address space `i`. Returns 0 past the last. */
TV_API int tv_machine_space_at(const tv_machine *machine, unsigned i, tv_space *out);

/* Copies `bytes` bytes from `space`, from unit `addr` on, to `data`, which may be NULL when `bytes` is 0. TV_ERR_INPUT:
 * unknown space, or outside of it; nothing is copied. */
TV_API tv_status tv_machine_read(tv_machine *machine, const char *space, uint64_t addr, void *data, size_t bytes,
                                 const tv_diag_sink *sink);

/* Copies `bytes` bytes from `data`, which may be NULL when `bytes` is 0, to `space`, from unit `addr` on. TV_ERR_INPUT:
 * unknown space, outside of it, or a part of a register of the register window; nothing is copied. */
TV_API tv_status tv_machine_write(tv_machine *machine, const char *space, uint64_t addr, const void *data, size_t bytes,
                                  const tv_diag_sink *sink);

/* Makes the `size` bytes at `bytes`, which the caller keeps until tv_machine_free, the contents of `space`: host of
 * pccx, mem of OpenNPU, dram of CMDQ. Instructions and the caller then share them; the caller's accesses are in no
 * commit record. A machine with mapped memory takes no snapshots. TV_ERR_INPUT: another space, or `size` is not the
 * size of the space in bytes. */
TV_API tv_status tv_machine_map(tv_machine *machine, const char *space, void *bytes, uint64_t size,
                                const tv_diag_sink *sink);

/* Parses the address "SPACE:ADDR" at the start of `text`. ADDR is a number, or a symbol with an optional +offset; in a
 * space with banks also BANK:OFFSET. Symbols are looked up in the `count` programs of `programs`, the last one first;
 * `programs` may be NULL when `count` is 0. Stores the space in `space`, the unit in `addr`, and in `rest` the text
 * after the address and its ':', or NULL. TV_ERR_INPUT: malformed, unknown space, symbol or bank; then the outputs are
 * unspecified. */
TV_API tv_status tv_machine_parse_address(const tv_machine *machine, const tv_program *const *programs, unsigned count,
                                          const char *text, const tv_diag_sink *sink, tv_space *space, uint64_t *addr,
                                          const char **rest);

enum { TV_RANGE_RANK_MAX = 8 };

/* `count` elements of type `type` in `space`, from unit `addr` on. */
typedef struct tv_range {
    tv_space space;
    uint64_t addr, count;
    tv_dtype type;
    unsigned rank;                    /* 0: one dimension of `count` */
    uint64_t dims[TV_RANGE_RANK_MAX]; /* the last one varies fastest */
} tv_range;

/* Parses the range `text`, "SPACE:ADDR:LEN[:TYPE]": ADDR as for tv_machine_parse_address with the `count` programs of
 * `programs`, which may be NULL when `count` is 0, LEN in elements or a shape such as 8x16, TYPE hex16 by default.
 * TV_ERR_INPUT: malformed, or outside of the space; then `out` is unspecified. */
TV_API tv_status tv_machine_parse_range(const tv_machine *machine, const tv_program *const *programs, unsigned count,
                                        const char *text, const tv_diag_sink *sink, tv_range *out);

/* Statistics over everything the machine has run. Strings are static or owned by the machine. */
enum { TV_ENGINES_MAX = 32, TV_STALL_REASONS_MAX = 12, TV_PATHS_MAX = 12, TV_ROLES_MAX = 12 };

/* Cycles of an engine; busy + all stalled + idle = cycles of the run. */
typedef struct tv_engine_stats {
    const char *name;
    uint64_t busy, idle;
    uint64_t stalled[TV_STALL_REASONS_MAX]; /* by stall reason */
} tv_engine_stats;

typedef struct tv_path_stats {
    const char *name;
    uint64_t bytes;
    double peak;            /* bytes per cycle that can be reached */
    const char *limited_by; /* the parameters that set the peak, or NULL */
} tv_path_stats;

/* Instructions on tensors of a role, which the program states: "weight", "kv", "q", …; "none": without one. */
typedef struct tv_role_stats {
    const char *name;
    uint64_t bytes;         /* over DRAM */
    uint64_t busy, stalled; /* cycles of engines, summed */
} tv_role_stats;

typedef struct tv_stats {
    size_t size; /* sizeof(tv_stats), set by the caller */
    uint64_t cycles;
    double clock_hz, seconds;
    uint64_t instructions, macs;
    double peak_macs; /* per cycle, of the engine with the most MACs */
    unsigned engine_count, stall_reason_count, path_count;
    const char *stall_reasons[TV_STALL_REASONS_MAX];
    tv_engine_stats engines[TV_ENGINES_MAX];
    tv_path_stats paths[TV_PATHS_MAX];
    char bound_by[48];    /* the resource that bounds the run, or "latency"; "": no cycles were simulated */
    double bound_share;   /* its fraction of all cycles */
    char bottleneck[160]; /* the same as a sentence */
    unsigned role_count;
    tv_role_stats roles[TV_ROLES_MAX]; /* of machines whose programs state roles: CMDQ */
} tv_stats;

/* Writes the machine's statistics to `out`, as if the run ended now. TV_ERR_INPUT: the size of `out` is not set. */
TV_API tv_status tv_machine_stats(const tv_machine *machine, tv_stats *out);

/* Writes the members of `stats` into the open object of `writer`: "cycles", "clock_hz", "seconds", "instructions",
 * "macs", "peak_macs_per_cycle", "engines", "stall_reasons", "bytes", "paths", "roles" (if there are any), "bound_by",
 * "bound_share" and "bottleneck", as trivet run --json has them. Real numbers have nine digits. TV_ERR_INPUT: the
 * size of `stats` is not set; then nothing is written. */
TV_API tv_status tv_stats_write_json(tv_json_writer *writer, const tv_stats *stats);

/* Sends all later events to `sink`, which is copied; NULL ends the trace. Events of in-flight instructions are then
 * emitted as if the run ended at this point; the run itself can continue. */
TV_API void tv_machine_trace(tv_machine *machine, const tv_trace_sink *sink);

/* A non-zero `on` adds ACCESS events to traces, which makes them slower; 0 leaves them out, as at first. */
TV_API void tv_machine_trace_accesses(tv_machine *machine, int on);

/* Emits a MARKER event with `text` at the machine's clock, if the machine is traced. */
TV_API void tv_machine_trace_marker(tv_machine *machine, const char *text);

/* Emits a TOKEN event from cycle `start` to the machine's clock, if the machine is traced: step `op` ("prefill" or
 * "decode") of a model over `tokens` tokens, the first one at `position`. */
TV_API void tv_machine_trace_token(tv_machine *machine, const char *op, int64_t position, uint64_t tokens,
                                   uint64_t start);

/* An access of an instruction: `bytes` bytes of `space`, from unit `addr` on. */
typedef struct tv_access {
    const char *space; /* static */
    uint64_t addr;
    uint64_t bytes;
    int write; /* 0: a read */
} tv_access;
typedef struct tv_access_sink {
    void (*emit)(void *user, const tv_access *access);
    void *user;
} tv_access_sink;

/* Emits to `accesses` each range that the next instruction will read or write, registers and tables included; none when
 * it will fault or when the program has ended. Returns the index of that instruction in its program, which differs from
 * tv_machine_next_index on machines that do not execute in program order. */
TV_API uint64_t tv_machine_accesses(tv_machine *machine, const tv_access_sink *accesses);

/* The machine's clock: the first cycle in which the next instruction can start, or the end of the run. On CMDQ it is
 * computed again on each call, in time proportional to the executed entries. */
TV_API uint64_t tv_machine_clock(const tv_machine *machine);

#define TV_CYCLE_MAX (UINT64_C(1) << 62)

/* Lets time pass on a pccx machine that has nothing to execute, or has faulted, as when a driver waits: instructions in
 * flight complete, and the clock becomes `cycle`, unless it is there already. Instructions that come afterwards issue
 * from then on. TV_ERR_INPUT: another machine, one with TV_MODE_FUNCTIONAL, or instructions wait, or `cycle` is above
 * TV_CYCLE_MAX; nothing changes. */
TV_API tv_status tv_machine_advance(tv_machine *machine, uint64_t cycle);

/* Index in the program of the instruction that executes as number `n`, which must be below the instruction count. This
 * is `n` on machines that execute in program order. */
TV_API uint64_t tv_machine_nth_index(const tv_machine *machine, uint64_t n);

/* A part of the machine's state that is not in an address space, or that is easier to read as text. */
typedef struct tv_state_value {
    const char *group; /* "registers", "queues", "streams", "hazards", "pending" */
    const char *name;  /* "e_max" */
    const char *text;  /* NULL: out of memory */
    const char *doc;   /* or NULL */
} tv_state_value;

/* State value `i`. Returns 0 past the last. The strings are valid until the next call for this machine. */
TV_API int tv_machine_state_at(tv_machine *machine, unsigned i, tv_state_value *out);

/* A copy of the state of a machine with its clock and statistics. The snapshots of a machine belong to its thread. */
typedef struct tv_snapshot tv_snapshot;

/* Copies the machine's state. Memory that equals that of `base`, a snapshot of the same machine that may be NULL, is
 * shared with it; `base` can be freed before the copy. The caller frees the snapshot with tv_snapshot_free.
 * TV_ERR_MEMORY: the copy would need more than `limit` bytes of its own, or the host is out of memory. TV_ERR_INPUT:
 * the machine has faulted, is traced, sends commit records, has mapped memory, or a scoreboard compares its cycles.
 * Reports no diagnostics. */
TV_API tv_status tv_machine_snapshot(tv_machine *machine, const tv_snapshot *base, uint64_t limit, tv_snapshot **out);

/* Bytes that `snapshot` needs; of memory shared between snapshots, its fraction. */
TV_API uint64_t tv_snapshot_bytes(const tv_snapshot *snapshot);

/* Frees `snapshot`, which may be NULL. */
TV_API void tv_snapshot_free(tv_snapshot *snapshot);

/* Restores the state of `snapshot` in a machine of the same configuration and mode. Everything that runs afterwards has
 * the same bits and cycles. The program loaded when the snapshot was taken must still exist. TV_ERR_INPUT: the machine
 * is traced, sends commit records, has mapped memory, or a scoreboard compares its cycles; it is unchanged.
 * TV_ERR_MEMORY: the state is lost; restore again or free the machine. */
TV_API tv_status tv_machine_restore(tv_machine *machine, const tv_snapshot *snapshot);

typedef struct tv_check_counts {
    uint64_t errors, warnings;
} tv_check_counts;

/* Validates and lints `program` for the machine of `config` without running it: encodings, ranges, streams, unused
 * work. Diagnostics go to `sink`, their numbers to `counts`. TV_OK also when the program has errors.
 * TV_ERR_INPUT: `config` is of another target or inconsistent; TV_ERR_MEMORY; then `counts` is unspecified. */
TV_API tv_status tv_program_check(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                                  tv_check_counts *counts);

/* Reports the hazards of the loaded program with `severity`: pairs of instructions that access the same bytes, at least
 * one of them writing, without a dependency that orders them. Machines that execute in program order have none, and a
 * machine without a program has none. Reports also reads that do not meet the writes before them, in a program that is
 * the first one of the machine, and on pccx values that a driver masked to the width of a field. Adds their number to
 * `counts`. TV_OK also when there are hazards; TV_ERR_MEMORY. */
TV_API tv_status tv_machine_hazards(const tv_machine *machine, tv_severity severity, const tv_diag_sink *sink,
                                    tv_check_counts *counts);

/* Loads `program` into a temporary machine of `config` and reports its hazards with `severity` as tv_machine_hazards
 * does; adds their number to `counts`. To run the program afterwards, load it and use tv_machine_hazards instead.
 * TV_ERR_INPUT: `config` is of another target or inconsistent, or the program cannot be loaded; TV_ERR_MEMORY. */
TV_API tv_status tv_program_hazards(const tv_program *program, const tv_config *config, tv_severity severity,
                                    const tv_diag_sink *sink, tv_check_counts *counts);

/* Stores in *count the number of dependencies of `program` that order nothing, because others imply them on the machine
 * of `config`, and reports it as a note. Programs of other targets than cmdq have no dependencies. TV_ERR_INPUT:
 * `config` is of another target or inconsistent, or the program cannot be loaded; TV_ERR_MEMORY; then `count` is
 * unspecified. */
TV_API tv_status tv_program_implied_dependencies(const tv_program *program, const tv_config *config,
                                                 const tv_diag_sink *sink, uint64_t *count);

typedef struct tv_target_info {
    const char *name, *title;
    unsigned word_bits; /* 0: not word encoded */
} tv_target_info;

/* Target `i` of the library. Static strings. Returns 0 past the last. */
TV_API int tv_target_at(unsigned i, tv_target_info *out);

#ifdef __cplusplus
}
#endif
#endif
