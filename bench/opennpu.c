/* SPDX-License-Identifier: Apache-2.0 */
#include "opennpu.h"

#include <stdio.h>
#include <stdlib.h>

void opennpu_prepare(opennpu_programs *p)
{
    static const char start[] =
        "        .target opennpu\n        .option proposed\n        bcast.imm vx1, 1\n        bcast.imm vx2, 77\n      "
        "  bcast.imm vx3, -3\n"
        "        bcast.imm vx8, 5\n        bcast.imm vx9, 1\n        bcast.imm vx10, 99\n        vcvt_s32_s8 vr4, vx2\n"
        "        vcvt_s32_s8 vr5, vx3\n        vcvt_f32_s8 vr6, vx2\n        vcvt_f32_s8 vr7, vx3\n        .rept "
        "100000\n";
    static const char lanes[] = "        vadd vx4, vx1, vx2\n        vmul.sat ve6, ve4, ve5\n        vadd vr4, vr4, "
                                "vr5\n        vfadd vr7, vr6, vr7\n"
                                "        vxor vx5, vx4, vx3\n        vadd.sat ve7, ve6, ve4\n        vmul vr5, vr4, "
                                "vr5\n        vfmul vr6, vr7, vr6\n"
                                "        vsub.sat vx6, vx5, vx1\n        vmax ve4, ve7, ve5\n        vsra vr5, vr4, "
                                "vr5\n        vfma vr7, vr6, vr7, vr6\n"
                                "        vmin vx7, vx6, vx2\n        vsub ve5, ve4, ve7\n        vsub vr4, vr5, vr4\n  "
                                "      vfsub vr6, vr7, vr6\n        .endr\n";
    static const char mmas[] = "        mma.keep vx1, vx2\n        mma.keep vx3, vx1\n        mma.keep vx2, vx3\n      "
                               "  mma.keep vx8, vx10\n        .endr\n";
    static const char all_units[] =
        "        vadd vx1, vx2, vx3\n        vmul.sat vx4, vx1, vx2\n        mma.keep vx5, vx6\n        vlut.a vx7, "
        "vx4\n"
        "        vadd vr4, vr5, vr6\n        vsub.sat vr7, vr4, vr5\n        mma.keep vx6, vx5\n        vxor vx8, vx7, "
        "vx1\n"
        "        vmax vx9, vx8, vx2\n        vmul vr6, vr5, vr7\n        mma.keep vx5, vx7\n        vlut.b vx10, vx9\n"
        "        vsra vr5, vr6, vr4\n        vadd.sat vx11, vx10, vx1\n        mma.keep vx6, vx7\n        vsub vx12, "
        "vx11, vx2\n"
        "        .endr\n";
    const struct {
        const char *start, *body;
        tv_program **program;
    } programs[] = {{start, lanes, &p->lanes},
                    {start, mmas, &p->mma},
                    {"        .target opennpu\n        .rept 100000\n", all_units, &p->all_units}};
    const tv_program_options options = {.size = sizeof options, .line_limit = 4000000};
    if (tv_config_new("opennpu", NULL, &p->config) != TV_OK)
        exit(3);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        char text[4000];
        int n = snprintf(text, sizeof text, "%s%s", programs[i].start, programs[i].body);
        if (tv_program_assemble("opennpu.s", text, (size_t)n, &options, NULL, programs[i].program) != TV_OK)
            exit(3);
    }
}

uint64_t opennpu_run(const opennpu_programs *p, const tv_program *program)
{
    tv_machine *machine;
    tv_stats stats = {.size = sizeof stats};
    if (tv_machine_new(p->config, TV_MODE_FULL, NULL, &machine) != TV_OK ||
        tv_machine_load(machine, program, NULL) != TV_OK || tv_machine_run(machine, NULL, NULL) != TV_OK)
        exit(2);
    tv_machine_stats(machine, &stats);
    tv_machine_free(machine);
    return stats.cycles;
}

void opennpu_fini(opennpu_programs *p)
{
    tv_program_free(p->all_units);
    tv_program_free(p->lanes);
    tv_program_free(p->mma);
    tv_config_free(p->config);
}
