/* SPDX-License-Identifier: Apache-2.0 */
/* From published energies to the table of a machine. The rules, which docs/energy.md explains:
 *
 *   process    an energy published at 45 nm and at 7 nm is interpolated in between as a power of the feature size
 *   supply     energies of the chip go with the square of the voltage
 *   product    of a by b bits: the energy of 8 by 8 bits times a * b / 64
 *   SRAM       between published sizes a power of the size; beyond them with its square root
 *   function   a number of binary32 multiply-adds
 *   FPGA       from 1 to 14 times an ASIC's, nominally the geometric mean
 *
 * The two ends of an interval are computed like its nominal value, so that all energies from one row move together. */
#include "sim/energy.h"

#include <math.h>

/* An energy in picojoules. */
typedef struct amount {
    double low, nominal, high;
} amount;

static amount scale(amount a, double factor) { return (amount){a.low * factor, a.nominal * factor, a.high * factor}; }

static amount add(amount a, amount b) { return (amount){a.low + b.low, a.nominal + b.nominal, a.high + b.high}; }

/* a + (b - a) * share, share from 0 to 1. */
static amount blend(amount a, amount b, double share) { return add(scale(a, 1 - share), scale(b, share)); }

/* ---- Published energies ---- */

typedef struct published {
    double pj45, pj7, low, high;
    const char *source;
} published;

typedef enum logic {
#define TV_ENERGY_LOGIC(id, pj45, pj7, low, high, source) LOGIC_##id,
#include "sim/energy.def"
    LOGICS
} logic;

static const published logics[LOGICS] = {
#define TV_ENERGY_LOGIC(id, pj45, pj7, low, high, source) {pj45, pj7, low, high, source},
#include "sim/energy.def"
};

static const struct sram {
    double bytes;
    published energy;
} srams[] = {
#define TV_ENERGY_SRAM(bytes, pj45, pj7, low, high, source) {bytes, {pj45, pj7, low, high, source}},
#include "sim/energy.def"
};

enum { SRAMS = TV_COUNTOF(srams) };

#define TV_ENERGY_DRAM(id, name, pj, low, high, source) [TV_MEMORY_##id] = {pj, pj, low, high, source},
static const published drams[TV_MEMORY_SRAM] = {
#include "sim/energy.def"
};

static const double OLD_NM = 45, NEW_NM = 7;
static const double FPGA_FACTOR = 14;
#define FPGA_SOURCE "I. Kuon, J. Rose, Measuring the Gap Between FPGAs and ASICs, IEEE TCAD 26(2), 2007"

static double at_process(const published *p, unsigned nm)
{
    const published *ratio = p->pj7 > 0 ? p : &logics[LOGIC_INT32_ADD];
    return p->pj45 * pow(nm / OLD_NM, log(ratio->pj7 / ratio->pj45) / log(NEW_NM / OLD_NM));
}

/* ---- Rules ---- */

/* What is on the chip depends on its fabric and supply. */
static amount on_chip(const tv_energy_params *params, const published *p, double pj)
{
    double volts = params->supply_percent / 100.0;
    pj *= volts * volts;
    if (!params->fpga)
        return (amount){pj * p->low, pj, pj * p->high};
    return (amount){pj * p->low, pj * sqrt(FPGA_FACTOR), pj * p->high * FPGA_FACTOR};
}

static amount logic_energy(const tv_energy_params *params, logic id)
{
    return on_chip(params, &logics[id], at_process(&logics[id], params->process_nm));
}

/* A byte of an access of 64 bits to a memory of `bytes` bytes. */
static amount sram_energy(const tv_energy_params *params, uint64_t bytes)
{
    double size = (double)bytes, pj[SRAMS];
    unsigned above = 0;
    for (unsigned i = 0; i < SRAMS; i++) {
        pj[i] = at_process(&srams[i].energy, params->process_nm);
        above += srams[i].bytes <= size;
    }
    double access;
    if (above == 0)
        access = pj[0] * sqrt(size / srams[0].bytes);
    else if (above == SRAMS)
        access = pj[SRAMS - 1] * sqrt(size / srams[SRAMS - 1].bytes);
    else
        access = pj[above - 1] * pow(size / srams[above - 1].bytes,
                                     log(pj[above] / pj[above - 1]) / log(srams[above].bytes / srams[above - 1].bytes));
    return on_chip(params, &srams[0].energy, access / 8);
}

static amount memory_energy(const tv_energy_params *params, tv_component component)
{
    if (component != TV_COMPONENT_MEMORY || params->memory == TV_MEMORY_SRAM)
        return sram_energy(params, params->bytes[component]);
    const published *p = &drams[params->memory];
    return (amount){p->pj45 * p->low / 8, p->pj45 / 8, p->pj45 * p->high / 8};
}

/* A product of integers of `bits` = a * b bits of partial products, and its sum. */
static amount integer_mac(const tv_energy_params *params, unsigned bits)
{
    return add(scale(logic_energy(params, LOGIC_INT8_MUL), bits / 64.0), logic_energy(params, LOGIC_INT32_ADD));
}

static amount float_mac(const tv_energy_params *params, logic product)
{
    return add(logic_energy(params, product), logic_energy(params, LOGIC_FP32_ADD));
}

/* A function takes `count` multiply-adds; a third of that or three times as many are possible, too. */
static amount function_energy(const tv_energy_params *params, unsigned count)
{
    amount a = scale(float_mac(params, LOGIC_FP32_MUL), count);
    return (amount){a.low / 3, a.nominal, a.high * 3};
}

/* Linear in the width from 8 to 32 bits. */
static amount integer_lane(const tv_energy_params *params, unsigned bits)
{
    return blend(logic_energy(params, LOGIC_INT8_ADD), logic_energy(params, LOGIC_INT32_ADD), (bits - 8) / 24.0);
}

/* Linear in the bits of the partial products. */
static amount integer_product(const tv_energy_params *params, unsigned bits)
{
    return blend(logic_energy(params, LOGIC_INT8_MUL), logic_energy(params, LOGIC_INT32_MUL),
                 (bits * bits - 64) / 960.0);
}

static amount static_energy(const tv_energy_params *params)
{
    double pj = (double)params->static_uw * 1e6 / (double)params->clock_hz;
    return (amount){pj, pj, pj};
}

static amount lane_energy(const tv_energy_params *params, tv_action action)
{
    static const unsigned widths[] = {8, 16, 32};
    if (action <= TV_ACTION_LANE_INT32)
        return integer_lane(params, widths[action - TV_ACTION_LANE_INT8]);
    if (action <= TV_ACTION_LANE_MUL32)
        return integer_product(params, widths[action - TV_ACTION_LANE_MUL8]);
    if (action == TV_ACTION_LANE_FP_MUL)
        return logic_energy(params, LOGIC_FP32_MUL);
    if (action == TV_ACTION_LANE_FP_FMA)
        return float_mac(params, LOGIC_FP32_MUL);
    return logic_energy(params, LOGIC_FP32_ADD);
}

static amount mac_energy(const tv_energy_params *params, tv_action action)
{
    static const unsigned widths[] = {2, 4, 8};
    unsigned i = action - TV_ACTION_MAC_INT2_INT2;
    if (action == TV_ACTION_MAC_FP16)
        return float_mac(params, LOGIC_FP16_MUL);
    if (action == TV_ACTION_MAC_FP32)
        return float_mac(params, LOGIC_FP32_MUL);
    return integer_mac(params, widths[i / 3] * widths[i % 3]);
}

/* Multiply-adds of a quadratic interpolation with its reduction of the range; the functions that are composed of two
 * take twice as many. */
enum { SFU_SIMPLE = 3, SFU_COMPOSED = 6 };

static unsigned function_steps(tv_action action)
{
    return action == TV_ACTION_SFU_ACTIVATION || action == TV_ACTION_SFU_POW ? SFU_COMPOSED : SFU_SIMPLE;
}

/* ---- Rows ---- */

static const struct action {
    const char *name, *unit, *meaning;
    tv_component component;
} actions[TV_ACTION_COUNT] = {
#define TV_ACTION(id, name, unit, component, meaning) {name, unit, meaning, TV_COMPONENT_##component},
#include "sim/actions.def"
#undef TV_ACTION
};

static const char *const components[TV_COMPONENTS] = {
    [TV_COMPONENT_REGISTER] = "registers",
    [TV_COMPONENT_ACCUMULATOR] = "accumulators",
    [TV_COMPONENT_LUT] = "lut",
    [TV_COMPONENT_L1] = "l1",
    [TV_COMPONENT_L2] = "l2",
    [TV_COMPONENT_SPM] = "spm",
    [TV_COMPONENT_STREAM] = "weight_fifo",
    [TV_COMPONENT_FIFO] = "direct_fifo",
    [TV_COMPONENT_CONSTANT] = "constants",
    [TV_COMPONENT_FETCH] = "instruction_buffer",
    [TV_COMPONENT_MEMORY] = "memory",
    [TV_COMPONENT_MAC] = "mac",
    [TV_COMPONENT_LANE] = "lane",
    [TV_COMPONENT_SFU] = "sfu",
    [TV_COMPONENT_EXTENSION] = "extension",
    [TV_COMPONENT_DECODE] = "decoder",
    [TV_COMPONENT_STATIC] = "chip",
};

bool tv_energy_has(const tv_energy_params *params, tv_action action)
{
    tv_component c = actions[action].component;
    if (c < TV_MEMORIES)
        return params->bytes[c] != 0;
    return c == TV_COMPONENT_DECODE || c == TV_COMPONENT_STATIC || (params->arithmetic >> action & 1);
}

static amount action_energy(const tv_energy_params *params, tv_action action)
{
    tv_component c = actions[action].component;
    if (!tv_energy_has(params, action) || action == TV_ACTION_IDLE)
        return (amount){0};
    if (c < TV_MEMORIES)
        return memory_energy(params, c);
    if (c == TV_COMPONENT_MAC)
        return mac_energy(params, action);
    if (c == TV_COMPONENT_LANE)
        return lane_energy(params, action);
    if (c == TV_COMPONENT_SFU)
        return function_energy(params, function_steps(action));
    if (c == TV_COMPONENT_EXTENSION) /* what its author states, for this machine: a half to twice as much is possible */
        return (amount){0.0005, 0.001, 0.002};
    return c == TV_COMPONENT_DECODE ? logic_energy(params, LOGIC_CONTROL) : static_energy(params);
}

static uint64_t attojoules(double pj) { return (uint64_t)(pj * 1e6 + 0.5); }

void tv_energy_table_init(tv_energy_table *table, const tv_energy_params *params)
{
    for (unsigned i = 0; i < TV_ACTION_COUNT; i++) {
        amount a = action_energy(params, (tv_action)i);
        table->prices[i] = (tv_energy_price){attojoules(a.low), attojoules(a.nominal), attojoules(a.high)};
    }
}

static const char *source_of(const tv_energy_params *params, tv_component component)
{
    if (component == TV_COMPONENT_STATIC || component == TV_COMPONENT_EXTENSION)
        return "";
    if (component == TV_COMPONENT_MEMORY && params->memory != TV_MEMORY_SRAM)
        return drams[params->memory].source;
    if (component == TV_COMPONENT_DECODE)
        return params->fpga ? "M. Horowitz, ISSCC 2014; " FPGA_SOURCE : logics[LOGIC_CONTROL].source;
    if (component == TV_COMPONENT_SFU)
        return "as mac; S. F. Oberman, M. Y. Siu, A High-Performance Area-Efficient Multifunction Interpolator, "
               "ARITH 2005";
    return params->fpga ? "M. Horowitz, ISSCC 2014; N. P. Jouppi et al., ISCA 2021; " FPGA_SOURCE
                        : logics[LOGIC_INT8_ADD].source;
}

static const char *rule_of(const tv_energy_params *params, tv_action action)
{
    tv_component c = actions[action].component;
    if (action == TV_ACTION_IDLE)
        return "0: an engine without work is taken as clock gated";
    if (c == TV_COMPONENT_STATIC)
        return "energy.static_uw / core.hz";
    if (c == TV_COMPONENT_EXTENSION)
        return "as the extension states, a half to twice as much";
    if (c == TV_COMPONENT_MEMORY && params->memory != TV_MEMORY_SRAM)
        return "an eighth of an access of 64 bits";
    if (c < TV_MEMORIES)
        return "an eighth of an access of 64 bits to SRAM of the size of the memory";
    if (c == TV_COMPONENT_MAC)
        return action >= TV_ACTION_MAC_FP16 ? "product and binary32 sum"
                                            : "8-bit product times weight bits * activation bits / 64, and 32-bit sum";
    if (c == TV_COMPONENT_LANE)
        return "the operation; between 8 and 32 bits linear in the bits, of products in their square";
    if (c == TV_COMPONENT_SFU)
        return function_steps(action) == SFU_SIMPLE ? "3 binary32 multiply-adds, a third to three times as many"
                                                    : "6 binary32 multiply-adds, a third to three times as many";
    return "an instruction without its cache, its registers and its sum";
}

tv_energy_row tv_energy_row_of(const tv_energy_params *params, const tv_energy_table *table, tv_action action)
{
    const struct action *a = &actions[action];
    const tv_energy_price *p = &table->prices[action];
    return (tv_energy_row){.name = a->name,
                           .component = components[a->component],
                           .unit = a->unit,
                           .meaning = a->meaning,
                           .source = source_of(params, a->component),
                           .rule = rule_of(params, action),
                           .used = tv_energy_has(params, action),
                           .low = p->low,
                           .nominal = p->nominal,
                           .high = p->high};
}

void tv_energy_params_init(tv_energy_params *params, const tv_config *config, unsigned first, uint64_t clock_hz)
{
    enum {
#define TV_PARAM(id, key, type, unit, default_value, min, max, meaning) id,
#include "sim/energy_params.def"
#undef TV_PARAM
    };
    *params = (tv_energy_params){
        .process_nm = (unsigned)tv_config_integer(config, first + ENERGY_PROCESS),
        .supply_percent = (unsigned)tv_config_integer(config, first + ENERGY_SUPPLY),
        .fpga = tv_config_enum(config, first + ENERGY_FABRIC) == TV_FABRIC_FPGA,
        .memory = (tv_memory_kind)tv_config_enum(config, first + ENERGY_MEMORY),
        .static_uw = tv_config_integer(config, first + ENERGY_STATIC),
        .clock_hz = clock_hz,
    };
}
