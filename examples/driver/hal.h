/* SPDX-License-Identifier: Apache-2.0 */
/* The functions through which the public pccx driver reaches the hardware, declared as it declares them; hal.c
 * implements them on the model, so that a driver runs without a board. Offsets are those of the registers of
 * window.map = halves: 0x00 instruction low, 0x04 high, 0x08 status. */
#ifndef EXAMPLES_DRIVER_HAL_H
#define EXAMPLES_DRIVER_HAL_H

#include <stdint.h>

#include <trivet/trivet.h>

/* Before uca_hal_init and after uca_hal_deinit writes have no effect, reads give 0 and waits -1. */
int uca_hal_init(void); /* 0, or -1; again: a new machine */
void uca_hal_deinit(void);
void uca_hal_write32(uint32_t offset, uint32_t val);
uint32_t uca_hal_read32(uint32_t offset);
void uca_hal_issue_instr(uint64_t instr);
uint32_t uca_hal_read_status(void);
int uca_hal_wait_idle(uint32_t timeout_us); /* 0, or -1 for a time-out */

/* ---- What a board has besides ---- */

/* The machine behind the functions, NULL before uca_hal_init: its host memory is the memory that a board shares with
 * the accelerator. */
tv_machine *hal_machine(void);

/* Appends weights to stream 0 (GEMM) or 1 (GEMV). */
void hal_stream(uint32_t stream, uint64_t addr, uint64_t bytes);

#endif
