/* SPDX-License-Identifier: Apache-2.0 */
/* The register file: L rows of K bytes, in groups of four rows.
 *
 * VX, VE and VR overlap by byte planes: byte b of lane j of VR[i] is VX[4i + b][j]. A group is stored in one of two
 * forms: as four byte planes, which are its VX and VE registers, or as the K 32-bit lanes of its VR register, when its
 * bit of `lane_form` is set. Accessing a register in the other form converts the group in place, so code that holds
 * pointers into a group must not access it in the other form. */
#ifndef TV_MACHINE_OPENNPU_REGISTERS_H
#define TV_MACHINE_OPENNPU_REGISTERS_H

#include "machine/opennpu/internal.h"

enum { OPENNPU_GROUP_ROWS = 4 };

/* Convert a group that is in the other form. */
void opennpu_group_to_planes(opennpu_machine *machine, unsigned group);
void opennpu_group_to_lanes(opennpu_machine *machine, unsigned group);

/* Brings the groups of the operation into the forms that its kernel takes. */
void opennpu_convert_groups(opennpu_machine *machine, const opennpu_op *op);

static inline bool opennpu_host_is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one;
}

static inline bool opennpu_is_lane_form(const opennpu_machine *m, unsigned row)
{
    return m->lane_form >> row / OPENNPU_GROUP_ROWS & 1;
}

static inline uint8_t *opennpu_row_bytes(const opennpu_machine *m, unsigned row)
{
    return m->registers + (size_t)row * m->k;
}

/* Byte plane `index`, which is VX[index]: K bytes. */
static inline uint8_t *opennpu_plane(opennpu_machine *m, unsigned index)
{
    if (opennpu_is_lane_form(m, index))
        opennpu_group_to_planes(m, index / OPENNPU_GROUP_ROWS);
    return opennpu_row_bytes(m, index);
}

/* The lanes of the VR register whose first row is `row`, with their contents. */
static inline int32_t *opennpu_vr(opennpu_machine *m, unsigned row)
{
    if (!opennpu_is_lane_form(m, row))
        opennpu_group_to_lanes(m, row / OPENNPU_GROUP_ROWS);
    return (int32_t *)(void *)opennpu_row_bytes(m, row);
}

/* The same with undefined contents, for a register of which all lanes are written. */
static inline int32_t *opennpu_vr_overwrite(opennpu_machine *m, unsigned row)
{
    m->lane_form |= (uint8_t)(1u << row / OPENNPU_GROUP_ROWS);
    return (int32_t *)(void *)opennpu_row_bytes(m, row);
}

/* Lane 0 of the VR register whose first row is `row`. */
static inline int32_t opennpu_vr_lane0(const opennpu_machine *m, unsigned row)
{
    const uint8_t *p = opennpu_row_bytes(m, row);
    if (opennpu_is_lane_form(m, row))
        return *(const int32_t *)(const void *)p;
    return (int32_t)(p[0] | (uint32_t)p[m->k] << 8 | (uint32_t)p[2 * (size_t)m->k] << 16 |
                     (uint32_t)p[3 * (size_t)m->k] << 24);
}

/* VE or VX registers as sign-extended 32-bit lanes, and back, keeping the low bytes. `rows` has one or two rows. */
void opennpu_planes_to_s32(opennpu_machine *machine, opennpu_rows rows, int32_t *lanes);
void opennpu_s32_to_planes(opennpu_machine *machine, opennpu_rows rows, const int32_t *lanes);

#endif
