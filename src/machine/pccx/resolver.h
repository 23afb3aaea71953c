/* SPDX-License-Identifier: Apache-2.0 */
/* What the resolve functions share: rejections, and the ranges of an operation. */
#ifndef TV_MACHINE_PCCX_RESOLVER_H
#define TV_MACHINE_PCCX_RESOLVER_H

#include "machine/pccx/handlers.h"

/* Sets *why; returns false. */
bool pccx_reject(pccx_rejection *why, pccx_code code, const char *format, ...) TV_PRINTF(3, 4);

/* Adds units [from, to) of a storage; there is room for PCCX_RANGES_MAX. */
void pccx_add_range(pccx_op *op, pccx_storage storage, bool write, uint64_t from, uint64_t to);

/* Adds `size` L2 words from `addr` on. False: they are not in L2. */
bool pccx_add_l2_range(const pccx_control *control, pccx_op *op, bool write, uint64_t addr, uint64_t size,
                       pccx_rejection *why);

/* A function of each element, with the flags of CVO: y[i] = f(x[i]). */
bool pccx_resolve_elementwise(const pccx_control *control, pccx_op *op, pccx_rejection *why);

/* extension.c: what the machine does for instructions of extensions, and why it does not accept one, or NULL. */
const char *pccx_accepts(const tv_insn *insn);
extern const pccx_handler pccx_extension_handler;

#endif
