/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of OpenNPU, and requantization on CMDQ. */
#include <math.h>

#include "base/schema.h"
#include "kernels/elements.h"
#include "machine/target.h"
#include "num/float.h"
#include "trivet/unit.h"

tv_status tv_unit_lanes(const tv_config *config, uint32_t word, size_t lanes, const uint32_t *rs1, const uint32_t *rs2,
                        const uint32_t *rs3, uint32_t *rd)
{
    static const uint32_t zeros[TV_UNIT_LANES_MAX];
    const tv_target *target = tv_config_schema(config)->machine;
    const uint32_t *const sources[] = {rs1 ? rs1 : zeros, rs2 ? rs2 : zeros, rs3 ? rs3 : zeros};
    return target->compute_lanes ? target->compute_lanes(config, word, lanes, sources, rd) : TV_ERR_INPUT;
}

tv_status tv_unit_requantize(const float *x, size_t count, float scale, unsigned qbits, float *quotient,
                             uint8_t *packed)
{
    enum { BLOCK = 256 }; /* whole bytes of any width */
    float y[BLOCK];
    if ((qbits != 2 && qbits != 4 && qbits != 8 && qbits != 16 && qbits != 32) || scale == 0 || !isfinite(scale))
        return TV_ERR_INPUT;
    for (size_t at = 0, n; at < count; at += n) {
        n = tv_min_u64(count - at, BLOCK);
        memcpy(y, x + at, n * sizeof *y);
        tv_elements_div_scalar(y, n, scale);
        for (size_t i = 0; quotient && i < n; i++)
            quotient[at + i] = tv_f32_of_bits(tv_f32_canonical(y[i])); /* NaNs of hosts differ */
        tv_elements_pack(y, n, qbits, packed + at * qbits / 8);
    }
    return TV_OK;
}
