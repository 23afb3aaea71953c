/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures: on pccx the first words of L2 go to host memory, on OpenNPU the registers to data memory. */
#include "cosim/generate_signature.h"

#include "base/diag.h"
#include "isa/opennpu/opennpu.h"
#include "isa/pccx/pccx.h"

enum { COPY_WORDS = 4096, COPIES = 4, WORD_BYTES = 16, SIGNATURE = 0x10000, ENTRY = PCCX_CACHE_ENTRIES - 1 };

static uint64_t set(const tv_isa *isa, uint64_t word, uint16_t field, uint64_t value)
{
    return tv_field_set(isa, &isa->fields[field], word, value);
}

/* A word of a row, with the fields that identify it. */
static uint64_t fixed_word(const tv_isa *isa, unsigned row)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < isa->insns[row].fixed_count; i++)
        word = set(isa, word, isa->insns[row].fixed[i].field, isa->insns[row].fixed[i].value);
    return word;
}

static tv_status execute(tv_generator *g, uint64_t word, const tv_diag_sink *sink)
{
    const char *fault = NULL;
    TV_TRY(tv_generator_execute(g, word, &fault));
    return !fault ? TV_OK
                  : tv_fail(sink, TV_ERR_INPUT, TV_CODE(GENERATE), NULL,
                            "the machine has no memory for the signature of the program (%s)", fault);
}

static tv_status store_l2(tv_generator *g, const tv_diag_sink *sink, tv_generated *out)
{
    const tv_isa *isa = tv_generator_isa(g);
    uint64_t shape = set(isa, fixed_word(isa, PCCX_MEMSET), PCCX_F_MEMSET_dest_addr, ENTRY);
    shape = set(isa, shape, PCCX_F_MEMSET_a_value, COPY_WORDS);
    shape = set(isa, shape, PCCX_F_MEMSET_b_value, WORD_BYTES / 2);
    TV_TRY(execute(g, set(isa, shape, PCCX_F_MEMSET_c_value, 1), sink));
    for (uint64_t i = 0; i < COPIES; i++) {
        uint64_t word = set(isa, fixed_word(isa, PCCX_MEMCPY_STORE), PCCX_F_MEMCPY_src_addr, i * COPY_WORDS);
        word = set(isa, word, PCCX_F_MEMCPY_host_dest, SIGNATURE / WORD_BYTES + i * COPY_WORDS);
        TV_TRY(execute(g, set(isa, word, PCCX_F_MEMCPY_shape_ptr_addr, ENTRY), sink));
    }
    out->signature_space = "host";
    out->signature_addr = SIGNATURE;
    out->signature_bytes = COPIES * COPY_WORDS * WORD_BYTES;
    return TV_OK;
}

/* The last register is the address, 0; the others follow each other from there. */
static tv_status store_registers(tv_generator *g, const tv_diag_sink *sink, tv_generated *out)
{
    static const uint16_t fields[] = {OPENNPU_F_R_rd, OPENNPU_F_R_rs1, OPENNPU_F_R_rs2};
    const tv_isa *isa = tv_generator_isa(g);
    tv_space vr;
    for (unsigned i = 0; tv_machine_space_at(tv_generator_machine(g), i, &vr) && strcmp(vr.name, "vr") != 0; i++)
        ;
    uint64_t last = vr.size - 1, clear = set(isa, fixed_word(isa, OPENNPU_VXOR), OPENNPU_F_R_width, OPENNPU_VR);
    for (unsigned i = 0; i < 3; i++)
        clear = set(isa, clear, fields[i], last);
    TV_TRY(execute(g, clear, sink));
    for (uint64_t i = 0; i < last; i++) {
        uint64_t word = set(isa, fixed_word(isa, OPENNPU_ST_VR), OPENNPU_F_I_rd, i);
        word = set(isa, word, OPENNPU_F_I_rs1, last);
        TV_TRY(execute(g, set(isa, word, OPENNPU_F_I_imm, i * vr.unit_bytes), sink));
    }
    out->signature_space = "mem";
    out->signature_bytes = last * vr.unit_bytes;
    return TV_OK;
}

tv_status tv_generate_signature(tv_generator *g, const tv_diag_sink *sink, tv_generated *out)
{
    return tv_generator_isa(g) == &tv_isa_pccx ? store_l2(g, sink, out) : store_registers(g, sink, out);
}
