/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware functions of the pccx driver on the model. The environment selects the machine:
 *
 *     TRIVET_CONFIG=FILE      a configuration instead of the default one
 *     TRIVET_POLL_CYCLES=N    cycles that pass whenever the driver reads a register; default 400, a microsecond
 *     TRIVET_MASKS=1          at the end, name the values that the driver seems to have masked to the width of a field
 *
 * The machine runs while the driver waits or reads; words wait in its command FIFO meanwhile. */
#include "hal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static tv_machine *machine;
static uint64_t now, poll_cycles, cycles_per_us; /* now: of the driver, in cycles of the machine */

static struct {
    uint8_t *bytes; /* little endian; NULL: none, or the host has no memory */
    size_t count, capacity;
    uint32_t low;
} words; /* that the driver issued, for TRIVET_MASKS */

static void print_diagnostic(void *user, const tv_diag *diag) { tv_diag_print(user, diag, 0); }

static tv_diag_sink sink = {print_diagnostic, NULL};

int uca_hal_init(void)
{
    const char *path = getenv("TRIVET_CONFIG"), *poll = getenv("TRIVET_POLL_CYCLES");
    tv_config *config = NULL;
    sink.user = stderr;
    uca_hal_deinit();
    tv_status status = tv_config_new("pccx", &sink, &config);
    if (status == TV_OK && path)
        status = tv_config_load(config, path, &sink);
    if (status == TV_OK)
        status = tv_machine_new(config, TV_MODE_FULL, &sink, &machine);
    tv_config_free(config);
    if (status != TV_OK)
        return -1;
    tv_stats stats = {.size = sizeof stats};
    tv_machine_stats(machine, &stats);
    cycles_per_us = (uint64_t)(stats.clock_hz / 1e6);
    poll_cycles = poll ? strtoull(poll, NULL, 10) : cycles_per_us;
    now = 0;
    return 0;
}

static void keep_word(uint32_t high)
{
    if (words.count == words.capacity) {
        size_t more = words.capacity ? 2 * words.capacity : 1024;
        uint8_t *grown = realloc(words.bytes, 8 * more);
        if (!grown)
            return;
        words.bytes = grown;
        words.capacity = more;
    }
    for (unsigned i = 0; i < 4; i++) {
        words.bytes[8 * words.count + i] = (uint8_t)(words.low >> 8 * i);
        words.bytes[8 * words.count + 4 + i] = (uint8_t)(high >> 8 * i);
    }
    words.count++;
}

/* Checks the words as a program. */
static void print_masks(void)
{
    tv_program *program = NULL;
    tv_check_counts counts = {0};
    const tv_program_options options = {.size = sizeof options, .target = "pccx"};
    if (words.count && tv_program_parse("driver.bin", words.bytes, 8 * words.count, &options, &sink, &program) == TV_OK)
        tv_program_hazards(program, tv_machine_config(machine), TV_WARNING, &sink, &counts);
    tv_program_free(program);
    free(words.bytes);
    words.bytes = NULL;
    words.count = words.capacity = 0;
}

void uca_hal_deinit(void)
{
    if (machine)
        print_masks();
    tv_machine_free(machine);
    machine = NULL;
}

static uint32_t read_register(uint32_t offset)
{
    uint8_t b[4] = {0};
    tv_machine_read(machine, "mmio", offset, b, sizeof b, &sink);
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Without work the clock of the machine follows the driver's, so that the next word issues when it is written. */
static void advance_idle(void) { tv_machine_advance(machine, now); }

/* Lets the machine run until `end`, or to the end of its work. A fault stays in STATUS. */
static void run_until(uint64_t end)
{
    tv_stop_reason why;
    bool works = (read_register(TV_WINDOW_STATUS) & TV_WINDOW_BUSY) != 0;
    if (works &&
        tv_machine_run(machine, &(tv_run_limits){sizeof(tv_run_limits), UINT64_MAX, end}, &why) == TV_ERR_MEMORY)
        fprintf(stderr, "the host has no memory for the next instruction\n");
    now = end;
}

void uca_hal_write32(uint32_t offset, uint32_t val)
{
    uint8_t bytes[4] = {(uint8_t)val, (uint8_t)(val >> 8), (uint8_t)(val >> 16), (uint8_t)(val >> 24)};
    if (!machine)
        return;
    advance_idle();
    tv_machine_write(machine, "mmio", offset, bytes, sizeof bytes, &sink);
    if (offset == TV_WINDOW_INSTR_LO)
        words.low = val;
    else if (offset == TV_WINDOW_INSTR_HI && getenv("TRIVET_MASKS"))
        keep_word(val);
}

uint32_t uca_hal_read32(uint32_t offset)
{
    if (!machine)
        return 0;
    run_until(now + poll_cycles);
    advance_idle();
    return read_register(offset);
}

void uca_hal_issue_instr(uint64_t instr)
{
    uca_hal_write32(TV_WINDOW_INSTR_LO, (uint32_t)instr);
    uca_hal_write32(TV_WINDOW_INSTR_HI, (uint32_t)(instr >> 32));
}

uint32_t uca_hal_read_status(void) { return uca_hal_read32(TV_WINDOW_STATUS); }

int uca_hal_wait_idle(uint32_t timeout_us)
{
    if (!machine)
        return -1;
    uint64_t clock = tv_machine_clock(machine), begin = now > clock ? now : clock;
    run_until(begin + timeout_us * cycles_per_us);
    if (read_register(TV_WINDOW_STATUS) & TV_WINDOW_BUSY)
        return -1;
    clock = tv_machine_clock(machine);
    now = clock > begin ? clock : begin; /* it has waited no longer than the work took */
    return 0;
}

tv_machine *hal_machine(void) { return machine; }

void hal_stream(uint32_t stream, uint64_t addr, uint64_t bytes)
{
    uca_hal_write32(TV_WINDOW_STREAM_ADDR_LO, (uint32_t)addr);
    uca_hal_write32(TV_WINDOW_STREAM_ADDR_HI, (uint32_t)(addr >> 32));
    uca_hal_write32(TV_WINDOW_STREAM_BYTES_LO, (uint32_t)bytes);
    uca_hal_write32(TV_WINDOW_STREAM_BYTES_HI, (uint32_t)(bytes >> 32));
    uca_hal_write32(TV_WINDOW_STREAM_PUSH, stream);
}
