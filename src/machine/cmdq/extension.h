/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes of extensions on CMDQ. */
#ifndef TV_MACHINE_CMDQ_EXTENSION_H
#define TV_MACHINE_CMDQ_EXTENSION_H

#include "machine/cmdq/ops.h"

/* The handlers of `opcode`, which is one of an extension. */
const cmdq_handlers *cmdq_extension_handlers(unsigned opcode);

/* Why the machine does not accept an opcode, or NULL. */
const char *cmdq_accepts(const tv_insn *insn);

#endif
