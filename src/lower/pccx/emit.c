/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the lowering to pccx, word by word: each is saved if asked for, and run. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lower/pccx/lower.h"
#include "num/float.h"
#include "trivet/codec.h"

/* ---- Words ---- */

tv_status pccx_begin_words(pccx_lowering *l, const tv_diag_sink *sink)
{
    tv_codec *codec;
    tv_insn_info info;
    TV_TRY(tv_codec_new_for(&tv_isa_pccx, sink, &codec));
    tv_status status = TV_OK;
    for (unsigned i = 0; i < PCCX_INSNS && status == TV_OK; i++) {
        tv_codec_insn_at(codec, i, &info);
        status = tv_codec_encode(codec, info.id, NULL, 0, sink, &l->words[i]);
    }
    tv_codec_free(codec);
    l->program.isa = &tv_isa_pccx;
    return status;
}

static unsigned width(unsigned f) { return (unsigned)tv_isa_pccx.fields[f].hi - tv_isa_pccx.fields[f].lo + 1; }

/* Sizes and addresses have been checked against the machine when the model was placed. */
static uint64_t field(unsigned f, uint64_t value)
{
    assert(value <= tv_mask(width(f)));
    return value << tv_isa_pccx.fields[f].lo;
}

static uint64_t flag(unsigned flags, unsigned which, unsigned f) { return field(f, (flags & which) != 0); }

/* The entry with these values; a full bank is filled anew from its first entry, which is safe because entries are read
 * at issue. */
static uint32_t shape(pccx_lowering *l, unsigned bank, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t count = l->shape_count[bank] < PCCX_SHAPES ? l->shape_count[bank] : PCCX_SHAPES;
    for (uint32_t i = 0; i < count; i++)
        if (l->shapes[bank][i].a == a && l->shapes[bank][i].b == b && l->shapes[bank][i].c == c)
            return i;
    uint32_t i = l->shape_count[bank]++ % PCCX_SHAPES;
    l->shapes[bank][i].a = a;
    l->shapes[bank][i].b = b;
    l->shapes[bank][i].c = c;
    tv_builder_word(&l->program, l->words[PCCX_MEMSET] | field(PCCX_F_MEMSET_dest_cache, bank) |
                                     field(PCCX_F_MEMSET_dest_addr, i) | field(PCCX_F_MEMSET_a_value, a) |
                                     field(PCCX_F_MEMSET_b_value, b) | field(PCCX_F_MEMSET_c_value, c));
    return i;
}

/* A copy between places of L2, or by its host address, `host`, that has two fields. Its shape is of whole words: their
 * number may be larger than one value of an entry. */
static void copy(pccx_lowering *l, pccx_insn insn, uint64_t to, uint64_t from, uint64_t host, uint32_t elements)
{
    uint32_t entry = shape(l, PCCX_FMAP_SHAPE, PCCX_LANES, pccx_words(elements), 1);
    tv_builder_word(&l->program, l->words[insn] | field(PCCX_F_MEMCPY_dest_addr, to) |
                                     field(PCCX_F_MEMCPY_src_addr, from) | field(PCCX_F_MEMCPY_aux_addr, host) |
                                     field(PCCX_F_MEMCPY_shape_ptr_addr, entry) | field(PCCX_F_MEMCPY_async, 1));
}

/* A host address has two fields: the lower one is the address in L2, which is as wide on either side. */
static uint64_t host_low(uint64_t addr) { return addr / PCCX_WORD & tv_mask(width(PCCX_F_MEMCPY_dest_addr)); }
static uint64_t host_high(uint64_t addr) { return addr / PCCX_WORD >> width(PCCX_F_MEMCPY_dest_addr); }

void pccx_load(pccx_lowering *l, uint32_t to, uint64_t from, uint32_t elements)
{
    copy(l, PCCX_MEMCPY_LOAD, to, host_low(from), host_high(from), elements);
}

void pccx_store(pccx_lowering *l, uint64_t to, uint32_t from, uint32_t elements)
{
    copy(l, PCCX_MEMCPY_STORE, host_low(to), from, host_high(to), elements);
}

void pccx_move(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t elements)
{
    copy(l, PCCX_MEMCPY_MOVE, to, from, 0, elements);
}

void pccx_stream(pccx_lowering *l, bool gemm, uint64_t addr, uint64_t bytes)
{
    tv_builder_stream(&l->program, gemm ? PCCX_STREAM_GEMM : PCCX_STREAM_GEMV, addr, bytes);
}

/* A size of zeros: the engine's own tiling, and activations scaled by their largest. */
static void matrix_insn(pccx_lowering *l, pccx_insn insn, uint32_t to, uint32_t from, uint32_t entry, unsigned flags)
{
    uint32_t size = shape(l, PCCX_FMAP_SHAPE, 0, 0, 0);
    tv_builder_word(&l->program, l->words[insn] | field(PCCX_F_MATRIX_dest_reg, to) |
                                     field(PCCX_F_MATRIX_src_addr, from) | field(PCCX_F_MATRIX_size_ptr_addr, size) |
                                     field(PCCX_F_MATRIX_shape_ptr_addr, entry) | field(PCCX_F_MATRIX_w_scale, 1) |
                                     flag(flags, PCCX_ACCM, PCCX_F_MATRIX_accm) |
                                     flag(flags, PCCX_FINDEMAX, PCCX_F_MATRIX_findemax));
}

void pccx_gemv(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t n, uint32_t k, unsigned flags)
{
    matrix_insn(l, PCCX_GEMV, to, from, shape(l, PCCX_WEIGHT_SHAPE, 1, n, k), flags);
}

void pccx_gemm(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t m, uint32_t n, uint32_t k, unsigned flags)
{
    matrix_insn(l, PCCX_GEMM, to, from, shape(l, PCCX_WEIGHT_SHAPE, m, n, k), flags);
}

void pccx_cvo(pccx_lowering *l, pccx_insn insn, uint32_t to, uint32_t from, uint32_t length, unsigned flags)
{
    tv_builder_word(&l->program, l->words[insn] | field(PCCX_F_CVO_src_addr, from) | field(PCCX_F_CVO_dst_addr, to) |
                                     field(PCCX_F_CVO_length, length) | field(PCCX_F_CVO_async, 1) |
                                     flag(flags, PCCX_SUB_EMAX, PCCX_F_CVO_sub_emax) |
                                     flag(flags, PCCX_RECIP_SCALE, PCCX_F_CVO_recip_scale) |
                                     flag(flags, PCCX_ACCM, PCCX_F_CVO_accm));
}

void pccx_put(pccx_lowering *l, uint64_t addr, const uint8_t *bytes, size_t n)
{
    tv_builder_data(&l->program, addr, bytes, n);
}

/* ---- Products ---- */

uint32_t pccx_group_count(const pccx_lowering *l, const pccx_matrix *m)
{
    return (m->columns + l->group - 1) / l->group;
}

/* One group of columns for a block of rows of the matrix. */
static void project_group(pccx_lowering *l, uint32_t vectors, uint32_t in, uint32_t out, uint32_t n, uint32_t group,
                          uint32_t columns, bool accm)
{
    uint32_t from = in + group * (l->group / PCCX_LANES) * vectors;
    for (unsigned plane = 0; plane < l->planes; plane++) {
        unsigned flags = accm || group || plane ? PCCX_ACCM : 0;
        if (vectors == 1)
            pccx_gemv(l, out, from, n, columns, flags);
        else
            pccx_gemm(l, out, from, vectors, n, columns, flags);
    }
}

void pccx_project(pccx_lowering *l, const pccx_matrix *m, uint32_t rows, uint32_t in, uint32_t out, uint32_t from,
                  uint32_t to, bool accm)
{
    uint64_t addr = m->addr;
    for (uint32_t row = 0; row < m->rows; row += PCCX_ROWS) {
        uint32_t n = m->rows - row < PCCX_ROWS ? m->rows - row : PCCX_ROWS;
        for (uint32_t g = 0; g < pccx_group_count(l, m); g++) {
            uint32_t columns = m->columns - g * l->group < l->group ? m->columns - g * l->group : l->group;
            uint64_t bytes = pccx_group_bytes(l, n, columns);
            if (g >= from && g < to) {
                pccx_stream(l, rows > 1, addr, bytes);
                project_group(l, rows, in, out + row / PCCX_LANES, n, g, columns, accm);
            }
            addr += bytes;
        }
    }
}

uint32_t pccx_group_rows(pccx_lowering *l, uint32_t in, uint32_t columns)
{
    uint32_t to = l->places[PCCX_GROUPED];
    if (l->rows == 1)
        return in;
    for (uint32_t g = 0; g < columns; g += l->group) {
        uint32_t count = columns - g < l->group ? columns - g : l->group;
        for (uint32_t r = 0; r < l->rows; r++) {
            pccx_move(l, to, in + r * pccx_words(columns) + g / PCCX_LANES, count);
            to += pccx_words(count);
        }
    }
    return l->places[PCCX_GROUPED];
}

void pccx_product(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t scales, uint64_t matrix, uint32_t n, bool sum,
                  bool accm)
{
    for (uint32_t i = 0; i < n; i += PCCX_BLOCK) {
        uint32_t count = n - i < PCCX_BLOCK ? n - i : PCCX_BLOCK;
        pccx_stream(l, false, scales + 2 * (uint64_t)i, 2 * (uint64_t)count);
        pccx_stream(l, false, matrix, (uint64_t)count * PCCX_BEAT);
        pccx_gemv(l, out + (sum ? 0 : i / PCCX_LANES), in + i / PCCX_LANES, count, count,
                  accm || (sum && i) ? PCCX_ACCM : 0);
    }
}

/* ---- Running ---- */

tv_status pccx_read_bf16(pccx_lowering *l, uint64_t addr, size_t n, float *out, const tv_diag_sink *sink)
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

static tv_status save_program(pccx_lowering *l, tv_program *program, const tv_diag_sink *sink)
{
    char path[PCCX_NAME_TEXT];
    if (l->steps == 0 &&
        l->programs == 0) /* the first brings the model, so that the programs run by themselves, in their order */
        TV_TRY(tv_backend_bring_space(l->machine, "host", l->map.model_end, program, sink));
    snprintf(path, sizeof path, "%s/step_%06" PRIu32 "_%03" PRIu32 ".elf", l->emit, l->steps, l->programs);
    return tv_program_save(program, path, TV_FORMAT_ELF, sink);
}

tv_status pccx_run(pccx_lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
    tv_stop_reason stop;
    TV_TRY(tv_builder_finish(&l->program, sink, &program));
    tv_status status = l->emit ? save_program(l, program, sink) : TV_OK;
    if (status == TV_OK)
        status = tv_machine_load(l->machine, program, sink);
    if (status == TV_OK) {
        status = tv_machine_run(l->machine, NULL, &stop);
        tv_builder_reuse(&l->program, l->loaded); /* the machine looks at the loaded one until the next load */
        l->loaded = program;
    } else {
        tv_program_free(program);
    }
    if (status == TV_FAULT)
        status = tv_backend_fault(l->machine, sink);
    l->programs++;
    l->shape_count[0] = l->shape_count[1] = 0;
    tv_builder_label(&l->program, l->part); /* what goes on in the next one */
    return status;
}
