/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the programs of the lowering to pccx; writes them to files if requested, and runs them. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "isa/extend.h"
#include "lower/pccx/state.h"
#include "num/float.h"
#include "trivet/codec.h"

/* ---- Encoding ---- */

tv_status pccx_lower_init_encodings(pccx_lowering *l, const tv_diag_sink *sink)
{
    tv_codec *codec;
    tv_insn_info info;
    TV_TRY(tv_codec_new_for(&tv_isa_pccx, sink, &codec));
    tv_status status = TV_OK;
    for (unsigned i = 0; i < PCCX_INSNS && status == TV_OK; i++) {
        tv_codec_insn_at(codec, i, &info);
        status = tv_codec_encode(codec, info.id, NULL, 0, sink, &l->encodings[i]);
    }
    int product = tv_isa_find_operator(&tv_isa_pccx, "Mul", 2);
    l->has_product = product >= 0;
    if (status == TV_OK && l->has_product && tv_codec_insn_at(codec, (unsigned)product, &info))
        status = tv_codec_encode(codec, info.id, NULL, 0, sink, &l->encodings[PCCX_LOWER_PRODUCT]);
    tv_codec_free(codec);
    l->program.isa = &tv_isa_pccx;
    return status;
}

static unsigned field_width(unsigned f) { return (unsigned)tv_isa_pccx.fields[f].hi - tv_isa_pccx.fields[f].lo + 1; }

/* Sizes and addresses were checked against the machine when the model was uploaded. */
static uint64_t encode_field(unsigned f, uint64_t value)
{
    assert(value <= tv_mask(field_width(f)));
    return value << tv_isa_pccx.fields[f].lo;
}

static uint64_t encode_flag(unsigned flags, unsigned which, unsigned f)
{
    return encode_field(f, (flags & which) != 0);
}

/* Returns the shape entry with these values. A full bank is overwritten from its first entry, which is safe because
 * entries are read at issue. */
static uint32_t find_bank_entry(pccx_lowering *l, unsigned bank, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t count = l->bank_count[bank] < PCCX_LOWER_BANK_ENTRIES ? l->bank_count[bank] : PCCX_LOWER_BANK_ENTRIES;
    for (uint32_t i = 0; i < count; i++)
        if (l->bank_entries[bank][i].a == a && l->bank_entries[bank][i].b == b && l->bank_entries[bank][i].c == c)
            return i;
    uint32_t i = l->bank_count[bank]++ % PCCX_LOWER_BANK_ENTRIES;
    l->bank_entries[bank][i].a = a;
    l->bank_entries[bank][i].b = b;
    l->bank_entries[bank][i].c = c;
    tv_builder_word(&l->program, l->encodings[PCCX_MEMSET] | encode_field(PCCX_F_MEMSET_dest_cache, bank) |
                                     encode_field(PCCX_F_MEMSET_dest_addr, i) | encode_field(PCCX_F_MEMSET_a_value, a) |
                                     encode_field(PCCX_F_MEMSET_b_value, b) | encode_field(PCCX_F_MEMSET_c_value, c));
    return i;
}

/* True: the instruction was recorded, to be appended later. */
static bool record(pccx_lowering *l, const pccx_lower_op *op)
{
    if (l->record)
        l->record(l, op);
    return l->record != NULL;
}

/* A copy within L2, or from or to the host, whose address has two fields: one of the L2 addresses and `host`. The shape
 * is in whole L2 words because an entry's values are limited. */
static void emit_copy(pccx_lowering *l, pccx_insn insn, uint64_t to, uint64_t from, uint64_t host, uint32_t elements)
{
    uint32_t entry = find_bank_entry(l, PCCX_FMAP_SHAPE, PCCX_LOWER_LANES, pccx_lower_l2_size(elements), 1);
    tv_builder_word(&l->program,
                    l->encodings[insn] | encode_field(PCCX_F_MEMCPY_dest_addr, to) |
                        encode_field(PCCX_F_MEMCPY_src_addr, from) | encode_field(PCCX_F_MEMCPY_aux_addr, host) |
                        encode_field(PCCX_F_MEMCPY_shape_ptr_addr, entry) | encode_field(PCCX_F_MEMCPY_async, 1));
}

/* The low field of a host address is as wide as an L2 address. */
static uint64_t host_addr_low(uint64_t addr)
{
    return addr / PCCX_LOWER_WORD_BYTES & tv_mask(field_width(PCCX_F_MEMCPY_dest_addr));
}
static uint64_t host_addr_high(uint64_t addr)
{
    return addr / PCCX_LOWER_WORD_BYTES >> field_width(PCCX_F_MEMCPY_dest_addr);
}

void pccx_lower_load(pccx_lowering *l, uint32_t to, uint64_t from, uint32_t elements)
{
    if (record(l, &(pccx_lower_op){.insn = PCCX_MEMCPY_LOAD, .to = to, .from = 0, .host = from, .k = elements}))
        return;
    emit_copy(l, PCCX_MEMCPY_LOAD, to, host_addr_low(from), host_addr_high(from), elements);
}

void pccx_lower_store(pccx_lowering *l, uint64_t to, uint32_t from, uint32_t elements)
{
    if (record(l, &(pccx_lower_op){.insn = PCCX_MEMCPY_STORE, .to = 0, .from = from, .host = to, .k = elements}))
        return;
    emit_copy(l, PCCX_MEMCPY_STORE, host_addr_low(to), from, host_addr_high(to), elements);
}

void pccx_lower_move(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t elements)
{
    if (record(l, &(pccx_lower_op){.insn = PCCX_MEMCPY_MOVE, .to = to, .from = from, .host = 0, .k = elements}))
        return;
    emit_copy(l, PCCX_MEMCPY_MOVE, to, from, 0, elements);
}

void pccx_lower_stream(pccx_lowering *l, bool gemm, uint64_t addr, uint64_t bytes)
{
    if (record(l, &(pccx_lower_op){.insn = PCCX_INSNS, .host = addr, .bytes = bytes, .m = gemm}))
        return;
    tv_builder_stream(&l->program, gemm ? PCCX_STREAM_GEMM : PCCX_STREAM_GEMV, addr, bytes);
}

/* Size 0: the engine's own tiling, and activations scaled by their absmax, by a number, or not scaled with UNIT_SCALE.
 */
enum { ONE = 0x3F80 }; /* as BF16 */
static void emit_matrix_insn(pccx_lowering *l, pccx_insn insn, uint32_t to, uint32_t from, uint32_t entry,
                             unsigned flags)
{
    uint32_t scale = flags & PCCX_LOWER_UNIT_SCALE ? ONE : flags >> PCCX_LOWER_SCALE_SHIFT,
             size = find_bank_entry(l, PCCX_FMAP_SHAPE, 0, 0, scale);
    tv_builder_word(&l->program,
                    l->encodings[insn] | encode_field(PCCX_F_MATRIX_dest_reg, to) |
                        encode_field(PCCX_F_MATRIX_src_addr, from) | encode_field(PCCX_F_MATRIX_size_ptr_addr, size) |
                        encode_field(PCCX_F_MATRIX_shape_ptr_addr, entry) | encode_field(PCCX_F_MATRIX_w_scale, 1) |
                        encode_flag(flags, PCCX_LOWER_ACCM, PCCX_F_MATRIX_accm) |
                        encode_flag(flags, PCCX_LOWER_FINDEMAX, PCCX_F_MATRIX_findemax));
}

void pccx_lower_gemv(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t n, uint32_t k, unsigned flags)
{
    if (record(l, &(pccx_lower_op){PCCX_GEMV, to, from, 0, 0, 1, n, k, flags}))
        return;
    emit_matrix_insn(l, PCCX_GEMV, to, from, find_bank_entry(l, PCCX_WEIGHT_SHAPE, 1, n, k), flags);
}

void pccx_lower_gemm(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t m, uint32_t n, uint32_t k, unsigned flags)
{
    if (record(l, &(pccx_lower_op){PCCX_GEMM, to, from, 0, 0, m, n, k, flags}))
        return;
    emit_matrix_insn(l, PCCX_GEMM, to, from, find_bank_entry(l, PCCX_WEIGHT_SHAPE, m, n, k), flags);
}

void pccx_lower_cvo(pccx_lowering *l, pccx_insn insn, uint32_t to, uint32_t from, uint32_t length, unsigned flags)
{
    if (record(l, &(pccx_lower_op){insn, to, from, 0, 0, 1, 1, length, flags}))
        return;
    tv_builder_word(&l->program, l->encodings[insn] | encode_field(PCCX_F_CVO_src_addr, from) |
                                     encode_field(PCCX_F_CVO_dst_addr, to) | encode_field(PCCX_F_CVO_length, length) |
                                     encode_field(PCCX_F_CVO_async, 1) |
                                     encode_flag(flags, PCCX_LOWER_SUB_EMAX, PCCX_F_CVO_sub_emax) |
                                     encode_flag(flags, PCCX_LOWER_RECIP_SCALE, PCCX_F_CVO_recip_scale) |
                                     encode_flag(flags, PCCX_LOWER_ACCM, PCCX_F_CVO_accm));
}

void pccx_lower_add_data(pccx_lowering *l, uint64_t addr, const uint8_t *bytes, size_t n)
{
    tv_builder_data(&l->program, addr, bytes, n);
}

/* ---- Products ---- */

uint32_t pccx_lower_group_count(const pccx_lowering *l, const pccx_lower_matrix *m)
{
    return (m->columns + l->group - 1) / l->group;
}

/* One group of columns of a block of rows. */
static void emit_group(pccx_lowering *l, unsigned planes, uint32_t vectors, uint32_t from, uint32_t out, uint32_t n,
                       uint32_t columns, bool accm)
{
    for (unsigned plane = 0; plane < planes; plane++) {
        unsigned flags = accm || plane ? PCCX_LOWER_ACCM : 0;
        if (vectors == 1)
            pccx_lower_gemv(l, out, from, n, columns, flags);
        else
            pccx_lower_gemm(l, out, from, vectors, n, columns, flags);
    }
}

void pccx_lower_project(pccx_lowering *l, const pccx_lower_matrix *m, uint32_t rows, uint32_t in, uint32_t out,
                        uint32_t from, uint32_t to, bool accm)
{
    uint64_t addr = m->addr;
    for (uint32_t row = 0; row < m->rows; row += PCCX_LOWER_BLOCK_ROWS) {
        uint32_t n = m->rows - row < PCCX_LOWER_BLOCK_ROWS ? m->rows - row : PCCX_LOWER_BLOCK_ROWS;
        for (uint32_t g = 0; g < pccx_lower_group_count(l, m); g++) {
            uint32_t columns = m->columns - g * l->group < l->group ? m->columns - g * l->group : l->group;
            uint64_t bytes = pccx_lower_group_bytes(m->planes, n, columns);
            if (g >= from && g < to) {
                pccx_lower_stream(l, rows > 1, addr, bytes);
                emit_group(l, m->planes, rows, in + g * (l->group / PCCX_LOWER_LANES) * rows,
                           out + row / PCCX_LOWER_LANES, n, columns, accm || g);
            }
            addr += bytes;
        }
    }
}

void pccx_lower_group_rows(pccx_lowering *l, uint32_t to, uint32_t in, uint32_t rows, uint32_t columns)
{
    for (uint32_t g = 0; g < columns; g += l->group) {
        uint32_t count = columns - g < l->group ? columns - g : l->group;
        for (uint32_t r = 0; r < rows; r++) {
            pccx_lower_move(l, to, in + r * pccx_lower_l2_size(columns) + g / PCCX_LOWER_LANES, count);
            to += pccx_lower_l2_size(count);
        }
    }
}

uint32_t pccx_lower_product_input(pccx_lowering *l, uint32_t value)
{
    pccx_lower_value *v = &l->plan.values[value];
    uint32_t in = pccx_lower_row_addr(l, value, l->row_first), rows = l->row_end - l->row_first;
    if (rows == 1)
        return in;
    if (!v->grouped || v->grouped_first != l->row_first)
        pccx_lower_group_rows(l, v->grouped_addr, in, rows, pccx_lower_padded(pccx_lower_columns(l, value)));
    v->grouped = true;
    v->grouped_first = l->row_first;
    return v->grouped_addr;
}

void pccx_lower_multiply(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t scales, uint64_t matrix, uint32_t n,
                         bool sum, bool accm)
{
    for (uint32_t i = 0; i < n; i += PCCX_LOWER_BLOCK) {
        uint32_t count = n - i < PCCX_LOWER_BLOCK ? n - i : PCCX_LOWER_BLOCK;
        pccx_lower_stream(l, false, scales + 2 * (uint64_t)i, 2 * (uint64_t)count);
        pccx_lower_stream(l, false, matrix, (uint64_t)count * PCCX_LOWER_BEAT_BYTES);
        pccx_lower_gemv(l, out + (sum ? 0 : i / PCCX_LOWER_LANES), in + i / PCCX_LOWER_LANES, count, count,
                        accm || (sum && i) ? PCCX_LOWER_ACCM : 0);
    }
}

/* ---- Execution ---- */

tv_status pccx_lower_read_bf16(pccx_lowering *l, uint64_t addr, size_t n, float *out, const tv_diag_sink *sink)
{
    enum { CHUNK = 512 };
    uint8_t bytes[CHUNK * 2];
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t count = n - i < CHUNK ? n - i : CHUNK;
        TV_TRY(tv_machine_read(l->machine, "host", addr + 2 * i, bytes, count * 2, sink));
        for (size_t k = 0; k < count; k++)
            out[i + k] = tv_bf16_to_f32(tv_load_le16(bytes + 2 * k));
    }
    return TV_OK;
}

void pccx_lower_program_name(const pccx_lowering *l, char name[PCCX_LOWER_FILE_MAX])
{
    snprintf(name, PCCX_LOWER_FILE_MAX, "step_%06" PRIu32 "_%03" PRIu32 ".elf", l->steps, l->programs);
}

static tv_status save_program(pccx_lowering *l, tv_program *program, const tv_diag_sink *sink)
{
    char path[PCCX_LOWER_PATH_MAX], name[PCCX_LOWER_FILE_MAX];
    if (l->steps == 0 &&
        l->programs ==
            0) /* the first program contains the model, so the written programs can be run in order by themselves */
        TV_TRY(tv_backend_bring_space(l->machine, "host", l->map.model_end, program, sink));
    pccx_lower_program_name(l, name);
    snprintf(path, sizeof path, "%s/%s", l->emit, name);
    return tv_program_save_to(program, path, TV_FORMAT_ELF, l->outputs, sink);
}

tv_status pccx_lower_run(pccx_lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
    TV_TRY(tv_builder_finish(&l->program, sink, &program));
    tv_status status = l->emit ? save_program(l, program, sink) : TV_OK;
    if (status == TV_OK)
        status = tv_machine_load(l->machine, program, sink);
    if (status == TV_OK) {
        status = tv_backend_run(l->machine, NULL, sink);
        tv_builder_reuse(&l->program, l->loaded_program); /* the machine uses the loaded program until the next load */
        l->loaded_program = program;
    } else {
        tv_program_free(program);
    }
    l->programs++;
    l->bank_count[0] = l->bank_count[1] = 0;
    tv_builder_label(&l->program, l->block_name); /* the block continues in the next program */
    return status;
}

tv_status pccx_lower_end_program(pccx_lowering *l, unsigned op, uint64_t elements, const tv_diag_sink *sink)
{
    l->host_ops[op].count++;
    l->host_ops[op].elements += elements;
    return pccx_lower_run(l, sink);
}
