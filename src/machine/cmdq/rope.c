/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding (VE_ROPE_TILE): the angles of positions, which are cached for other layers, and the
 * rotation of a row. */
#include <math.h>

#include "kernels/elements.h"
#include "machine/cmdq/ops.h"
#include "num/func.h"

/* The angles of an operation. Pair i of position p is rotated by
 * p * theta^(-i / half) * frequency_scale / factors[i], computed in binary64 from left to right. */
typedef struct rope_angles {
    uint64_t half;
    double theta, frequency_scale;
    const float *factors; /* half, or NULL */
} rope_angles;

/* cos_sin[i] and cos_sin[half + i] of pair i. */
static void compute_cos_sin(const rope_angles *a, uint64_t position, float *cos_sin)
{
    for (uint64_t i = 0; i < a->half; i++) {
        double angle = (double)position * pow(a->theta, -2.0 * (double)i / (double)(2 * a->half)) * a->frequency_scale;
        if (a->factors)
            angle /= (double)a->factors[i];
        cos_sin[i] = tv_func_f32_of_angle(TV_FUNC_COS, angle);
        cos_sin[a->half + i] = tv_func_f32_of_angle(TV_FUNC_SIN, angle);
    }
}

static bool is_cached(const cmdq_rope_entry *cached, const rope_angles *a, uint64_t position)
{
    return cached->dim == 2 * a->half && cached->position == position && cached->theta == a->theta &&
           cached->frequency_scale == a->frequency_scale && cached->has_factors == (a->factors != NULL) &&
           (!a->factors || memcmp(cached->factors, a->factors, a->half * sizeof *a->factors) == 0);
}

const float *cmdq_load_cos_sin(cmdq_exec *x)
{
    uint64_t dim = cmdq_rotary_dim(x), first = cmdq_exec_integer(x, CMDQ_F_position);
    const cmdq_tile *factors = cmdq_find_tile(x->op, CMDQ_FACTORS);
    const rope_angles a = {.half = dim / 2,
                           .theta = (double)cmdq_exec_real(x, CMDQ_F_theta),
                           .frequency_scale = (double)cmdq_exec_real(x, CMDQ_F_frequency_scale),
                           .factors = cmdq_tile_f32(x, factors, dim / 2, 1, CMDQ_SCRATCH_ADDEND)};
    float *out = cmdq_scratch(x, CMDQ_SCRATCH_BIAS, x->op->m * dim * sizeof *out);
    if (cmdq_is_out_of_memory(x))
        return NULL;
    for (uint64_t i = 0; i < x->op->m; i++) {
        uint64_t position = first + i;
        cmdq_rope_entry *cached = &x->memories->rope_cache[position % CMDQ_ROPE_ENTRIES];
        if (dim > CMDQ_ROPE_HEAD_MAX) {
            compute_cos_sin(&a, position, out + i * dim);
            continue;
        }
        if (!is_cached(cached, &a, position)) {
            *cached = (cmdq_rope_entry){.dim = dim,
                                        .position = position,
                                        .theta = a.theta,
                                        .frequency_scale = a.frequency_scale,
                                        .has_factors = a.factors != NULL};
            if (a.factors)
                memcpy(cached->factors, a.factors, a.half * sizeof *a.factors);
            compute_cos_sin(&a, position, cached->cos_sin);
        }
        memcpy(out + i * dim, cached->cos_sin, dim * sizeof *out);
    }
    return out;
}

void cmdq_compute_rope(const cmdq_exec *x, const cmdq_row *row)
{
    uint64_t head = cmdq_exec_integer(x, CMDQ_F_head_dim), rotary = cmdq_rotary_dim(x);
    bool halves = cmdq_exec_integer(x, CMDQ_F_pairing) == CMDQ_PAIRING_HALF;
    for (uint64_t h = 0; h < row->n; h += head) {
        tv_elements_rotate(row->x + h, row->cos_sin, row->cos_sin + rotary / 2, rotary / 2, halves, row->y + h);
        memcpy(row->y + h + rotary, row->x + h + rotary, (head - rotary) * sizeof *row->y);
    }
}
