/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of actions, and the energy that they take.
 *
 * A machine counts the actions of each instruction from its dimensions, in every mode, by engine. It says what it is
 * made of (tv_energy_params), from which the table of energies follows: whole attojoules for each action, so that the
 * energies of instructions add up to those of the run exactly. */
#ifndef TV_SIM_ENERGY_H
#define TV_SIM_ENERGY_H

#include "base/schema.h"
#include "trivet/energy.h"

typedef enum tv_action {
#define TV_ACTION(id, name, unit, component, meaning) TV_ACTION_##id,
#include "sim/actions.def"
#undef TV_ACTION
    TV_ACTION_COUNT
} tv_action;
static_assert((int)TV_ACTION_COUNT <= (int)TV_ACTIONS_MAX, "tv_energy_stats has room");

/* Values of energy.fabric and energy.memory. */
enum { TV_FABRIC_ASIC, TV_FABRIC_FPGA };
typedef enum tv_memory_kind { TV_MEMORY_DDR, TV_MEMORY_HBM2, TV_MEMORY_GDDR6, TV_MEMORY_SRAM } tv_memory_kind;

/* What actions are grouped by. The memories come first. */
typedef enum tv_component {
    TV_COMPONENT_REGISTER,
    TV_COMPONENT_ACCUMULATOR,
    TV_COMPONENT_LUT,
    TV_COMPONENT_L1,
    TV_COMPONENT_L2,
    TV_COMPONENT_SPM,
    TV_COMPONENT_STREAM,
    TV_COMPONENT_FIFO,
    TV_COMPONENT_CONSTANT,
    TV_COMPONENT_FETCH,
    TV_COMPONENT_MEMORY,
    TV_MEMORIES,
    TV_COMPONENT_MAC = TV_MEMORIES,
    TV_COMPONENT_LANE,
    TV_COMPONENT_SFU,
    TV_COMPONENT_EXTENSION,
    TV_COMPONENT_DECODE,
    TV_COMPONENT_STATIC,
    TV_COMPONENTS
} tv_component;

/* What a machine is made of. */
typedef struct tv_energy_params {
    unsigned process_nm, supply_percent;
    bool fpga;
    tv_memory_kind memory;
    uint64_t static_uw, clock_hz;
    uint64_t bytes[TV_MEMORIES]; /* size of one memory of the kind, which an access goes to; 0: there is none */
    uint64_t arithmetic;         /* bit of each action of MAC, LANE, SFU and EXTENSION that the machine has */
} tv_energy_params;

#define TV_HAS_ACTION(id) (UINT64_C(1) << TV_ACTION_##id)

/* Sets what the parameters of energy_params.def say; the first of them has the index `first` in the schema. */
void tv_energy_params_init(tv_energy_params *params, const tv_config *config, unsigned first, uint64_t clock_hz);

typedef struct tv_energy_price {
    uint64_t low, nominal, high; /* attojoules */
} tv_energy_price;

typedef struct tv_energy_table {
    tv_energy_price prices[TV_ACTION_COUNT];
} tv_energy_table;

void tv_energy_table_init(tv_energy_table *table, const tv_energy_params *params);

/* Whether a machine of this params has the action. */
bool tv_energy_has(const tv_energy_params *params, tv_action action);

/* Row `action` of the table that follows from `params`. */
tv_energy_row tv_energy_row_of(const tv_energy_params *params, const tv_energy_table *table, tv_action action);

/* Adds what counts[i] times action i take, for all actions, to `sum`. */
void tv_energy_accumulate(tv_energy *sum, const tv_energy_table *table, const uint64_t counts[TV_ACTION_COUNT]);

/* Sets the energy of an event whose instruction has these actions. */
void tv_event_set_energy(tv_event *event, const tv_energy_table *table, const uint64_t counts[TV_ACTION_COUNT]);

/* The actions of a machine by engine: what tv_target.actions fills in. */
typedef struct tv_engine_actions {
    const char *name;
    uint64_t counts[TV_ACTION_COUNT];
} tv_engine_actions;

typedef struct tv_action_table {
    const tv_energy_table *table;
    unsigned count;
    tv_engine_actions engines[TV_ENGINES_MAX + 1];
} tv_action_table;

/* The action of a multiply-add of integers of 2, 4 or 8 bits, or of a floating operand of 16 or 32. */
static inline tv_action tv_mac_action(unsigned weight_bits, unsigned activation_bits)
{
    unsigned widest = weight_bits > activation_bits ? weight_bits : activation_bits;
    if (widest > 8)
        return widest == 16 ? TV_ACTION_MAC_FP16 : TV_ACTION_MAC_FP32;
    return (tv_action)(TV_ACTION_MAC_INT2_INT2 + 3 * (weight_bits / 4) + activation_bits / 4);
}

#endif
