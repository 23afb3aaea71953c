/* SPDX-License-Identifier: Apache-2.0 */
/* The latency of each instruction: cycles from issue to end while no bytes are missing (specification, section 5). */
#include "machine/pccx/handlers.h"

uint64_t pccx_latency_GEMV(const pccx_timing *t, const pccx_op *op)
{
    return pccx_gemv_setup(t, op) + (uint64_t)op->k_steps * op->n_steps;
}

uint64_t pccx_latency_GEMM(const pccx_timing *t, const pccx_op *op)
{
    uint64_t tiles = (uint64_t)op->k_steps * op->n_steps;
    return t->gemm_setup + tiles * tv_max_u64(op->m, t->gemm_min_m);
}

/* Host copies: the transfer itself is a flow. */
uint64_t pccx_latency_MEMCPY_LOAD(const pccx_timing *t, const pccx_op *op)
{
    (void)op;
    return t->acp_setup;
}

uint64_t pccx_latency_MEMCPY_STORE(const pccx_timing *t, const pccx_op *op)
{
    (void)op;
    return t->acp_setup;
}

uint64_t pccx_latency_MEMCPY_MOVE(const pccx_timing *t, const pccx_op *op) { return t->move_setup + op->copy_size; }

uint64_t pccx_latency_MEMSET(const pccx_timing *t, const pccx_op *op)
{
    (void)t;
    (void)op;
    return 1;
}

static uint64_t cvo_latency(const pccx_timing *t, const pccx_op *op)
{
    return t->fill[op->row] + op->length + t->cvo_tail;
}

#define PCCX_CVO(id, key, fill, action)                                                                                \
    uint64_t pccx_latency_##id(const pccx_timing *t, const pccx_op *op) { return cvo_latency(t, op); }
#include "machine/pccx/cvo.def"
