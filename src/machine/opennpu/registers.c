/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of register groups between byte planes and lanes. */
#include "machine/opennpu/registers.h"

TV_CLONES static void lanes_to_planes(uint8_t *group, uint32_t k)
{
    int32_t lanes[OPENNPU_K_MAX];
    memcpy(lanes, group, 4 * (size_t)k);
    for (unsigned b = 0; b < 4; b++)
        for (uint32_t i = 0; i < k; i++)
            group[b * k + i] = (uint8_t)((uint32_t)lanes[i] >> (8 * b));
}

TV_CLONES static void planes_to_lanes(uint8_t *group, uint32_t k)
{
    int32_t lanes[OPENNPU_K_MAX];
    const uint8_t *p0 = group, *p1 = p0 + k, *p2 = p1 + k, *p3 = p2 + k;
    for (uint32_t i = 0; i < k; i++)
        lanes[i] = (int32_t)(p0[i] | (uint32_t)p1[i] << 8 | (uint32_t)p2[i] << 16 | (uint32_t)p3[i] << 24);
    memcpy(group, lanes, 4 * (size_t)k);
}

void opennpu_group_to_planes(opennpu_machine *m, unsigned group)
{
    uint8_t *bytes = opennpu_row_bytes(m, group * OPENNPU_GROUP_ROWS);
    if (m->simd.to_planes)
        m->simd.to_planes(bytes, bytes, bytes, bytes, 0);
    else
        lanes_to_planes(bytes, m->k);
    m->lane_form &= (uint8_t) ~(1u << group);
}

void opennpu_group_to_lanes(opennpu_machine *m, unsigned group)
{
    uint8_t *bytes = opennpu_row_bytes(m, group * OPENNPU_GROUP_ROWS);
    if (m->simd.to_lanes)
        m->simd.to_lanes(bytes, bytes, bytes, bytes, 0);
    else
        planes_to_lanes(bytes, m->k);
    m->lane_form |= (uint8_t)(1u << group);
}

void opennpu_convert_groups(opennpu_machine *m, const opennpu_op *op)
{
    const unsigned mismatched = (m->lane_form ^ op->lane_groups) & op->form_groups;
    for (unsigned group = 0; group < OPENNPU_L_MAX / OPENNPU_GROUP_ROWS; group++)
        if (mismatched >> group & op->lane_groups >> group & 1)
            opennpu_group_to_lanes(m, group);
        else if (mismatched >> group & 1)
            opennpu_group_to_planes(m, group);
}

TV_CLONES static void widen_s8(const uint8_t *restrict p, int32_t *restrict lanes, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        lanes[i] = (int8_t)p[i];
}

TV_CLONES static void widen_s16(const uint8_t *restrict p, int32_t *restrict lanes, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        lanes[i] = (int16_t)(p[i] | p[k + i] << 8);
}

void opennpu_planes_to_s32(opennpu_machine *m, opennpu_rows rows, int32_t *lanes)
{
    const uint8_t *p = opennpu_plane(m, rows.first);
    if (rows.count == 1)
        widen_s8(p, lanes, m->k);
    else
        widen_s16(p, lanes, m->k);
}

TV_CLONES static void narrow_to_plane(uint8_t *restrict p, const int32_t *restrict lanes, uint32_t k, unsigned shift)
{
    for (uint32_t i = 0; i < k; i++)
        p[i] = (uint8_t)((uint32_t)lanes[i] >> shift);
}

void opennpu_s32_to_planes(opennpu_machine *m, opennpu_rows rows, const int32_t *lanes)
{
    for (unsigned b = 0; b < rows.count; b++)
        narrow_to_plane(opennpu_plane(m, rows.first + b), lanes, m->k, 8 * b);
}
