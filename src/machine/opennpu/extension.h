/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of extensions on OpenNPU. */
#ifndef TV_MACHINE_OPENNPU_EXTENSION_H
#define TV_MACHINE_OPENNPU_EXTENSION_H

#include "machine/opennpu/internal.h"
#include "machine/operation.h"

/* Sets a row of the opcode table, whose `insn` is set, but for its operands. TV_ERR_INPUT: its cost is out of range. */
tv_status opennpu_extension_row(opennpu_opcode *row, const tv_config *config, const tv_diag_sink *sink);

/* Emits what the operation reads and writes in memory; nothing if it will fault. */
void opennpu_extension_accesses(opennpu_machine *m, const opennpu_op *op, const tv_access_sink *sink);

opennpu_handler opennpu_exec_extension, opennpu_exec_elements;

/* Why the machine does not accept an instruction, or NULL. */
const char *opennpu_accepts(const tv_insn *insn);

#endif
