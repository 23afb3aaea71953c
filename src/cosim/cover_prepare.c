/* SPDX-License-Identifier: Apache-2.0 */
/* What the words of directed closure need before them: constants, and data with special numbers. */
#include "cosim/cover_closure.h"
#include "isa/opennpu/opennpu.h"
#include "isa/pccx/pccx.h"

/* The data of generated programs, and where they are copied to. */
enum { DATA_BYTES = 4096, DATA_WORDS = DATA_BYTES / 16, DATA_AT = 256 };

tv_status tv_closure_try(closure *k, uint64_t word, bool *executed)
{
    const char *fault = NULL;
    *executed = false;
    if (tv_codec_row(tv_generator_codec(k->g), word, NULL) < 0)
        return TV_OK;
    TV_TRY(tv_generator_execute(k->g, word, &fault));
    *executed = !fault;
    k->executed += !fault;
    return TV_OK;
}

/* ---- pccx ---- */

/* What GEMV, GEMM and MEMCPY need in the Constant Cache. */
static uint64_t memset_word(const tv_isa *isa, bool shape, uint64_t entry, const uint64_t values[3])
{
    static const uint16_t fields[3] = {PCCX_F_MEMSET_a_value, PCCX_F_MEMSET_b_value, PCCX_F_MEMSET_c_value};
    uint64_t word = tv_closure_set(isa, 0, PCCX_F_MEMSET_opcode, isa->insns[PCCX_MEMSET].fixed[0].value);
    word = tv_closure_set(isa, word, PCCX_F_MEMSET_dest_cache, shape ? PCCX_WEIGHT_SHAPE : PCCX_FMAP_SHAPE);
    word = tv_closure_set(isa, word, PCCX_F_MEMSET_dest_addr, entry);
    for (unsigned i = 0; i < 3; i++)
        word = tv_closure_set(isa, word, fields[i], values[i]);
    return word;
}

static bool is_matrix(uint32_t insn) { return insn == PCCX_GEMV || insn == PCCX_GEMM; }

/* Writes the entry of the Constant Cache that *word, of GEMV, GEMM or MEMCPY, reads: small numbers, except those that
 * bin `at` is about. */
static tv_status set_constant(closure *k, const cover_block *block, uint32_t at, const uint64_t *word)
{
    enum { LONG = 1200 }; /* of weights the FIFO has a fifth */
    static const uint16_t sizes[COVER_SIZE_CLASSES] = {1, 5, 8, 20, 32, 40, 64, 100, 300};
    cover_kind kind = block->rule->kind;
    bool executed, numbers = kind == COVER_SIZES || kind == COVER_TAILS, stalls = kind == COVER_STALLS;
    uint32_t count = kind == COVER_TAILS ? COVER_TAIL : COVER_SIZE_CLASSES, skip = at / count, number = 0;
    uint16_t pointer = is_matrix(block->insn) ? PCCX_F_MATRIX_shape_ptr_addr : PCCX_F_MEMCPY_shape_ptr_addr;
    uint64_t entry = tv_field_get(k->cover->isa, &k->cover->isa->fields[pointer], *word), values[3];
    for (; numbers && (!(block->rule->size >> number & 1) || skip--); number++)
        ;
    for (uint32_t i = 0; i < 3; i++) {
        values[i] = 1 + tv_generator_draw_below(k->g, tv_generator_draw_below(k->g, 2) && i ? 24 : 2);
        if (i == 0 && block->insn == PCCX_GEMV)
            values[i] = 1;
        if (stalls && i > 0 && tv_generator_draw_below(k->g, 2))
            values[i] = LONG;
        if (i == 2 && kind == COVER_FAULTS && tv_generator_draw_below(k->g, 8) == 0)
            values[i] = UINT16_MAX;
        if (i == number && numbers)
            values[i] = kind == COVER_TAILS ? 8 * tv_generator_draw_below(k->g, 8) + at % count : sizes[at % count];
    }
    return tv_closure_try(k, memset_word(k->cover->isa, is_matrix(block->insn), entry, values), &executed);
}

/* Any static activation scale, which may be none. */
static tv_status set_scale(closure *k, uint64_t word)
{
    uint64_t values[3] = {1, 1, tv_generator_draw(k->g) & UINT16_MAX}, entry = pccx_MATRIX_size_ptr_addr(word);
    bool executed;
    return tv_closure_try(k, memset_word(k->cover->isa, false, entry, values), &executed);
}

/* Copies all data of the program to L2 words from DATA_AT on. */
static tv_status load_data(closure *k)
{
    static const uint64_t shape[3] = {DATA_WORDS, 8, 1};
    const tv_isa *isa = k->cover->isa;
    bool executed;
    uint64_t word = tv_closure_set(isa, 0, PCCX_F_MEMCPY_opcode, isa->insns[PCCX_MEMCPY_LOAD].fixed[0].value);
    TV_TRY(tv_closure_try(k, memset_word(isa, false, 0, shape), &executed));
    word = tv_closure_set(isa, word, PCCX_F_MEMCPY_from_device, 1);
    word = tv_closure_set(isa, word, PCCX_F_MEMCPY_dest_addr, DATA_AT);
    return tv_closure_try(k, word, &executed);
}

/* Addresses in L2 that are near each other, for bins of two engines. */
static uint64_t gather_addresses(closure *k, uint32_t insn, uint64_t word)
{
    enum { WINDOW = 48 };
    const tv_isa *isa = k->cover->isa;
    for (unsigned i = 0; i < isa->insns[insn].operand_count; i++) {
        const tv_operand *operand = &isa->insns[insn].operands[i];
        const tv_operand_kind *kind = tv_operand_kind_of(isa, operand);
        if (kind && kind->syntax == TV_SYNTAX_BRACKET && tv_generator_draw_below(k->g, 4))
            word = tv_closure_set(isa, word, operand->field, tv_generator_draw_below(k->g, WINDOW));
    }
    return word;
}

/* Appends a vector to the direct FIFO that CVO reads. */
static tv_status fill_fifo(closure *k, unsigned count)
{
    const tv_isa *isa = k->cover->isa;
    uint64_t values[3] = {1, count, 1 + tv_generator_draw_below(k->g, 8)}, word = tv_generator_word(k->g, PCCX_GEMV);
    bool executed;
    uint64_t entry = tv_field_get(isa, &isa->fields[PCCX_F_MATRIX_shape_ptr_addr], word);
    TV_TRY(tv_closure_try(k, memset_word(isa, true, entry, values), &executed));
    word = tv_closure_set(isa, word, PCCX_F_MATRIX_src_addr, tv_generator_draw_below(k->g, DATA_AT));
    return tv_closure_try(k, tv_closure_set(isa, word, PCCX_F_MATRIX_dest_reg, isa->fifo_tag), &executed);
}

/* Appends finite numbers to the direct FIFO that GEMV reads. */
static tv_status fill_vector(closure *k)
{
    enum { COUNT = 24 };
    const tv_isa *isa = k->cover->isa;
    uint64_t word = tv_generator_word(k->g, PCCX_CVO_COS);
    bool executed;
    word = tv_closure_set(isa, word, PCCX_F_CVO_src_addr, tv_generator_draw_below(k->g, DATA_AT));
    word = tv_closure_set(isa, word, PCCX_F_CVO_length, COUNT);
    return tv_closure_try(k, tv_closure_set(isa, word, PCCX_F_CVO_dst_addr, isa->fifo_tag), &executed);
}

/* Prepares what the word for a bin needs, and changes it. */
static tv_status prepare_pccx(closure *k, const cover_block *block, uint32_t at, uint64_t *word)
{
    const tv_isa *isa = k->cover->isa;
    bool cvo = block->insn >= PCCX_CVO_EXP && block->insn <= PCCX_CVO_RECIP, matrix = is_matrix(block->insn);
    if (block->rule->kind == COVER_VALUES && (cvo || matrix)) {
        if (tv_generator_draw_below(k->g, 4) == 0)
            TV_TRY(load_data(k));
        if (tv_generator_draw_below(k->g, 2)) /* adds to data */
            *word = tv_closure_set(isa, *word, cvo ? PCCX_F_CVO_dst_addr : PCCX_F_MATRIX_dest_reg,
                                   DATA_AT + tv_generator_draw_below(k->g, DATA_WORDS));
        *word = tv_closure_set(isa, *word, cvo ? PCCX_F_CVO_src_addr : PCCX_F_MATRIX_src_addr,
                               DATA_AT + tv_generator_draw_below(k->g, DATA_WORDS));
    }
    if (block->rule->kind == COVER_DEPENDENCES)
        *word = gather_addresses(k, block->insn, *word);
    if (cvo && pccx_CVO_src_addr(*word) == isa->fifo_tag)
        TV_TRY(fill_fifo(k, 8));
    if (cvo && tv_generator_draw_below(k->g, 2) && block->rule->kind != COVER_REMAINDERS)
        *word = tv_closure_set(isa, *word, PCCX_F_CVO_length, 1 + tv_generator_draw_below(k->g, 8));
    if (block->insn == PCCX_GEMV && pccx_MATRIX_src_addr(*word) == isa->fifo_tag)
        TV_TRY(fill_vector(k));
    if (block->rule->kind == COVER_FAULTS && matrix)
        TV_TRY(set_scale(k, *word));
    return cvo || block->insn == PCCX_MEMSET ? TV_OK : set_constant(k, block, at, word);
}

/* ---- OpenNPU ---- */

/* A word of a row, with the fields that identify it. */
static uint64_t fixed_word(const tv_isa *isa, unsigned row)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < isa->insns[row].fixed_count; i++)
        word = tv_closure_set(isa, word, isa->insns[row].fixed[i].field, isa->insns[row].fixed[i].value);
    return word;
}

/* VR `number` becomes 0. */
static tv_status clear_register(closure *k, uint64_t number)
{
    static const uint16_t registers[] = {OPENNPU_F_R_rd, OPENNPU_F_R_rs1, OPENNPU_F_R_rs2};
    const tv_isa *isa = k->cover->isa;
    uint64_t word = tv_closure_set(isa, fixed_word(isa, OPENNPU_VXOR), OPENNPU_F_R_width, OPENNPU_VR);
    bool executed;
    for (unsigned i = 0; i < 3; i++)
        word = tv_closure_set(isa, word, registers[i], number);
    return tv_closure_try(k, word, &executed);
}

/* Lane 0 of VR `number` becomes 64: one of the special numbers of the data. */
static tv_status set_base(closure *k, uint64_t number)
{
    enum { FIRST = 1076, STEP = 72, COUNT = 10 };
    const tv_isa *isa = k->cover->isa;
    uint64_t load = fixed_word(isa, OPENNPU_LD_VR);
    bool executed;
    TV_TRY(clear_register(k, number));
    load = tv_closure_set(isa, load, OPENNPU_F_I_rd, number);
    load = tv_closure_set(isa, load, OPENNPU_F_I_rs1, number);
    load = tv_closure_set(isa, load, OPENNPU_F_I_imm, FIRST + STEP * tv_generator_draw_below(k->g, COUNT));
    return tv_closure_try(k, load, &executed);
}

/* Loads the whole VR that a register of a class belongs to from the data. */
static tv_status load_register(closure *k, unsigned class, uint64_t number)
{
    enum { BASE_REGISTER = 7, LOADED = 1280 };
    const tv_isa *isa = k->cover->isa;
    uint64_t load = fixed_word(isa, OPENNPU_LD_VR);
    bool executed;
    TV_TRY(clear_register(k, BASE_REGISTER));
    load = tv_closure_set(isa, load, OPENNPU_F_I_rd, number >> (OPENNPU_VR - class));
    load = tv_closure_set(isa, load, OPENNPU_F_I_rs1, BASE_REGISTER);
    load = tv_closure_set(isa, load, OPENNPU_F_I_imm, 4 * tv_generator_draw_below(k->g, LOADED / 4) + 512);
    return tv_closure_try(k, load, &executed);
}

enum { VR_COUNT = 8 };

/* The width of the elements that a rule is about, and registers that exist. */
static tv_status prepare_opennpu(closure *k, const cover_block *block, uint64_t *word)
{
    const tv_isa *isa = k->cover->isa;
    const tv_insn *insn = &isa->insns[block->insn];
    bool values = block->rule->kind == COVER_VALUES;
    for (unsigned i = 0; i < insn->operand_count; i++) {
        const tv_operand_kind *kind = tv_operand_kind_of(isa, &insn->operands[i]);
        const tv_field *field = &isa->fields[insn->operands[i].field];
        if (kind && kind->syntax == TV_SYNTAX_ADDRESS && opennpu_I_rs1((uint32_t)*word) < VR_COUNT &&
            tv_generator_draw_below(k->g, 2))
            TV_TRY(set_base(k, opennpu_I_rs1((uint32_t)*word)));
        if (!kind || kind->syntax != TV_SYNTAX_REG)
            continue;
        if (values && kind->reg_class == TV_CLASS_FIELD)
            *word = tv_closure_set(isa, *word, kind->class_field, block->rule->size / 2);
        unsigned class = tv_operand_class(isa, kind, *word);
        uint64_t number = tv_field_get(isa, field, *word);
        if (class < OPENNPU_CLASSES)
            number &= tv_mask(tv_field_width(isa, field)) >> class;
        *word = tv_field_set(isa, field, *word, number);
        if (values && class < OPENNPU_CLASSES && strncmp(field->name, "rs", 2) == 0)
            TV_TRY(load_register(k, class, number));
    }
    return TV_OK;
}

tv_status tv_closure_prepare(closure *k, const cover_block *block, uint32_t at, uint64_t *word)
{
    return k->cover->isa == &tv_isa_pccx ? prepare_pccx(k, block, at, word) : prepare_opennpu(k, block, word);
}
