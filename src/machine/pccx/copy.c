/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of L2 words and host memory, and writing constants (pccx specification, section 4). */
#include "machine/pccx/vectors.h"

bool pccx_execute_MEMCPY_LOAD(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)why;
    memcpy(pccx_l2_at(m, op->dst), m->host.bytes + op->host_addr, op->bytes);
    return true;
}

bool pccx_execute_MEMCPY_STORE(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)why;
    memcpy(m->host.bytes + op->host_addr, pccx_l2_at(m, op->src), op->bytes);
    return true;
}

bool pccx_execute_MEMCPY_MOVE(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)why;
    memmove(pccx_l2_at(m, op->dst), pccx_l2_at(m, op->src), op->bytes);
    return true;
}

/* The Constant Cache belongs to the control state: pccx_control_commit writes it. */
bool pccx_execute_MEMSET(pccx_machine *m, const pccx_op *op, pccx_rejection *why)
{
    (void)m;
    (void)op;
    (void)why;
    return true;
}
