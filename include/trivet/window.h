/* SPDX-License-Identifier: Apache-2.0 */
/* The register window through which a driver uses a pccx machine: the address space "mmio", of 4 KiB, written and read
 * with tv_machine_write and tv_machine_read in whole 32-bit registers (pccx specification, section 6).
 *
 *     uint8_t word[8];            (the instruction, little-endian)
 *     tv_machine_write(machine, "mmio", TV_WINDOW_INSTR_LO, word, 8, sink);
 *     tv_machine_run(machine, NULL, sink, &why);
 *     tv_machine_read(machine, "mmio", TV_WINDOW_STATUS, status, 4, sink);
 *
 * Words wait in a command FIFO of `cmd.depth` until the machine runs: to its end, or up to a cycle, with max_cycles of
 * tv_run_limits; tv_machine_advance lets time pass without words. Two maps are published; the parameter `window.map`
 * selects one. The registers from 0x100 on are additions of Trivet. Reading changes nothing. */
#ifndef TRIVET_WINDOW_H
#define TRIVET_WINDOW_H

#ifdef __cplusplus
extern "C" {
#endif

enum { TV_WINDOW_REGISTER = 4 }; /* bytes of a register; only whole registers are written */

/* Byte offsets. W: written, reads as 0. */
enum {
    /* window.map = halves */
    TV_WINDOW_INSTR_LO = 0x000, /* W: bits 31:0 of the instruction */
    TV_WINDOW_INSTR_HI = 0x004, /* W: bits 63:32; the word enters the command FIFO */
    TV_WINDOW_STATUS = 0x008,   /* bits below */

    /* window.map = word: the instruction is one register of 64 bits at 0x000 */
    TV_WINDOW_WORD_KICK = 0x008,   /* W: any value; the word enters the command FIFO */
    TV_WINDOW_WORD_STATUS = 0x010, /* bits below */

    /* both */
    TV_WINDOW_CONTROL = 0x100,         /* W: TV_WINDOW_RESET, ... */
    TV_WINDOW_FIFO_LEVEL = 0x104,      /* words that wait in the command FIFO */
    TV_WINDOW_STAT_LEVEL = 0x108,      /* completion records that STAT_OUT has */
    TV_WINDOW_STAT_INDEX = 0x10C,      /* the oldest record, 0 if there is none: index of the instruction over all */
    TV_WINDOW_STAT_CYCLE_LO = 0x110,   /* programs and words, modulo 2^32, and the cycle of its completion */
    TV_WINDOW_STAT_CYCLE_HI = 0x114,   /* */
    TV_WINDOW_CYCLE_LO = 0x118,        /* the clock */
    TV_WINDOW_CYCLE_HI = 0x11C,        /* */
    TV_WINDOW_STREAM_ADDR_LO = 0x120,  /* W: host address of weights, */
    TV_WINDOW_STREAM_ADDR_HI = 0x124,  /* */
    TV_WINDOW_STREAM_BYTES_LO = 0x128, /* their number of bytes, less than 2^48, */
    TV_WINDOW_STREAM_BYTES_HI = 0x12C, /* */
    TV_WINDOW_STREAM_PUSH = 0x130      /* and W: the stream that they are appended to: 0 gemm, 1 gemv */
};

/* STATUS */
enum {
    TV_WINDOW_BUSY = 1,  /* words wait or run, and no fault stops them */
    TV_WINDOW_DONE = 2,  /* all words have run */
    TV_WINDOW_ERROR = 4, /* an instruction raised a fault, a word came while the FIFO was full and was dropped, or a
                            descriptor is invalid; until it is cleared */
    TV_WINDOW_FULL = 8,  /* the command FIFO */
    TV_WINDOW_LOST = 16  /* STAT_OUT was full, and its oldest record was dropped; until it is cleared */
};

/* CONTROL; several bits at once have an effect in this order. */
enum {
    TV_WINDOW_RESET = 1,       /* empties all FIFOs and streams, clears the Constant Cache, e_max, STATUS and the fault;
                                  L2, host memory and the clock stay */
    TV_WINDOW_CLEAR_ERROR = 2, /* clears ERROR, LOST and the fault; the instruction that raised it is skipped */
    TV_WINDOW_STAT_POP = 4     /* removes the oldest completion record */
};

#ifdef __cplusplus
}
#endif

#endif
