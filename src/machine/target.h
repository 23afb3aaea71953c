/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a machine to the layers above: one constant tv_target. `state` is the machine's own object.
 *
 * The functions follow the contracts of trivet/machine.h, and machine.c checks the arguments: a run has a program with
 * a next instruction, and the range of an access to a space is valid. */
#ifndef TV_MACHINE_TARGET_H
#define TV_MACHINE_TARGET_H

#include "base/schema.h"
#include "isa/isa.h"
#include "machine/snapshot.h"
#include "program/program.h"
#include "sim/energy.h"
#include "sim/memory.h"
#include "sim/pool.h"
#include "sim/values.h"
#include "trivet/commit.h"
#include "trivet/machine.h"

typedef struct tv_target {
    const char *name;
    const tv_isa *isa;
    const tv_schema *schema;
    /* Machines whose programs are not instruction words; both NULL otherwise. Whether a file is such a program; reads
     * it: `input` becomes the program's, or is closed on an error. */
    bool (*recognise)(const char *path, const uint8_t *data, size_t size);
    tv_status (*read)(const char *path, tv_input *input, const tv_diag_sink *sink, tv_program **out);
    /* Checks combinations of parameters. NULL: all are valid. */
    tv_status (*validate)(const tv_config *config, const tv_diag_sink *sink);
    tv_status (*create)(const tv_config *config, tv_mode mode, const tv_diag_sink *sink, void **state);
    void (*destroy)(void *state);
    tv_status (*load)(void *state, const tv_program *program, const tv_diag_sink *sink);
    /* Loads the loaded program again, after its `count` instructions `changed` got other sizes and addresses: neither
     * their order nor their engines have changed. NULL: `load` does it. */
    tv_status (*reload)(void *state, const uint32_t *changed, size_t count, const tv_diag_sink *sink);
    tv_status (*run)(void *state, const tv_run_limits *limits, tv_stop_reason *why);
    uint64_t (*next)(const void *state);
    const tv_fault *(*fault)(const void *state);
    int (*space_at)(const void *state, unsigned i, tv_space *out);
    void (*read_space)(void *state, unsigned space, uint64_t byte, void *data, size_t bytes);
    void (*write_space)(void *state, unsigned space, uint64_t byte, const void *data, size_t bytes);
    tv_memory *(*memory)(void *state, unsigned space); /* that holds a space's bytes and can be mapped, or NULL */
    void (*stats)(const void *state, tv_stats *out);
    /* The actions of all instructions, by engine, and the table of their energies, which is the machine's. */
    void (*actions)(const void *state, tv_action_table *out);
    void (*energy_params)(const tv_config *config, tv_energy_params *out);
    void (*threads)(void *state, unsigned threads); /* NULL: the machine uses one thread */
    tv_pool *(*pool)(void *state);                  /* its threads; NULL: it has none that others may use */
    void (*trace)(void *state, const tv_trace_sink *sink);
    uint64_t (*clock)(const void *state);
    bool (*has_next)(const void *state); /* whether an instruction would execute next, or fault */
    /* Describes the instruction that executes next, or `*word` if that is not NULL: sets index, origin and, of a
     * word-encoded machine, word, insn and asynchronous; emits each range that it reads or writes to `sink`, which may
     * be NULL, and none when it will fault. */
    void (*describe)(void *state, const uint64_t *word, tv_commit *commit, const tv_access_sink *sink);
    /* Sets issue, start and end, as far as known, of the instruction that executed last, which *commit describes. NULL:
     * none is known before the program ends. */
    void (*cycles)(const void *state, tv_commit *commit);
    /* Executes `word` as tv_machine_execute does; TV_FAULT: it faulted. NULL: the target is not word encoded. */
    tv_status (*execute)(void *state, uint64_t word);
    /* Computes what the instruction `word` writes to `lanes` lanes from those of its sources rs1, rs2, rs3, without a
     * machine. TV_ERR_INPUT: it is no operation on lanes of a machine of `config`. NULL: there are none. */
    tv_status (*compute_lanes)(const tv_config *config, uint64_t word, size_t lanes, const uint32_t *const sources[3],
                               uint32_t *out);
    void (*clear_fault)(void *state); /* NULL: as execute */
    /* Lets time pass as tv_machine_advance does. NULL: the machine has no driver that waits. */
    tv_status (*advance)(void *state, uint64_t cycle);
    /* Appends the inner values of the instructions that execute from now on to `values`, which stays the caller's; NULL
     * ends it. */
    void (*collect)(void *state, tv_values *values);
    const char *window;       /* the space whose reads and writes are those of a driver, or NULL */
    unsigned window_register; /* bytes of a register of it, which is written whole */
    /* Emits each range that loading `program` wrote, with its bytes or NULL for zeros. */
    void (*loaded)(const void *state, void (*emit)(void *user, const tv_effect *effect), void *user);
    uint64_t (*order)(const void *state, uint64_t n); /* NULL: the machine executes in program order */
    /* Sets the group, name and doc of *out; the value is printed to `text`, which is empty. */
    bool (*state_at)(void *state, unsigned i, tv_buf *text, tv_state_value *out);
    /* Visits all state that running changes, except a fault, which restoring ends. */
    tv_visit_state *visit_state;
    /* Reports the hazards of the loaded program, and what else a run should warn of. NULL: there is nothing. */
    tv_status (*hazards)(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts);

    /* Reports reads of the loaded program that do not meet the writes before them, as if it were the first program of
     * the machine. NULL: it has no such check. */
    tv_status (*dataflow)(const void *state, tv_severity severity, const tv_diag_sink *sink, tv_check_counts *counts);
    tv_status (*check)(const tv_program *program, const tv_config *config, const tv_diag_sink *sink,
                       tv_check_counts *counts);
    /* Why an instruction of an extension does not fit the machine, which is a static text, or NULL. */
    const char *(*accepts)(const tv_insn *insn);
    /* As tv_program_implied_dependencies. NULL: programs have no dependencies. */
    tv_status (*implied)(const tv_program *program, const tv_config *config, const tv_diag_sink *sink, uint64_t *count);
} tv_target;

/* The sink of the machine's events; without a function if it is not traced. */
tv_trace_sink tv_machine_trace_sink(const tv_machine *machine);

/* The target that a machine was created from. */
const tv_target *tv_machine_get_target(const tv_machine *machine);

/* The threads of the machine, for work between its runs; NULL: one. */
tv_pool *tv_machine_pool(tv_machine *machine);

/* As tv_machine_load of the loaded program, of which only the instructions `changed` are not what they were, as
 * tv_target.reload describes it. The machine is neither traced nor recorded: tv_machine_can_reload. */
tv_status tv_machine_reload(tv_machine *machine, const uint32_t *changed, size_t count, const tv_diag_sink *sink);

/* Whether `program` is loaded and may change: neither a trace nor a recorder has its instructions. */
bool tv_machine_can_reload(const tv_machine *machine, const tv_program *program);

/* How many programs were loaded or restored. While that is the same, `file` and `layer` of events stay where they are.
 */
uint64_t tv_machine_load_count(const tv_machine *machine);

/* Reports that the machine has no address space `name`; returns TV_ERR_INPUT. */
tv_status tv_fail_space(const tv_machine *machine, const char *name, const tv_diag_sink *sink);

#endif
