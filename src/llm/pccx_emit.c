/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the lowering to pccx, as assembly text: each is assembled, saved if asked for, and run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "llm/pccx_lower.h"
#include "num/float.h"
#include "trivet/file.h"

static const char *const banks[] = {"fmap_shape", "weight_shape"};

/* The entry with these values; a full bank is filled anew from its first entry, which is safe because entries are read at issue. */
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
    tv_buf_printf(&l->text, "        memset  %s[%" PRIu32 "], %" PRIu32 ", %" PRIu32 ", %" PRIu32 "\n", banks[bank], i, a, b, c);
    return i;
}

/* Whole words: their number may be larger than one value of an entry. */
static uint32_t copy_shape(pccx_lowering *l, uint32_t elements) { return shape(l, 0, PCCX_LANES, pccx_words(elements), 1); }

void pccx_load(pccx_lowering *l, uint32_t to, uint64_t from, uint32_t elements)
{
    uint32_t entry = copy_shape(l, elements);
    tv_buf_printf(&l->text, "        memcpy  l2[0x%" PRIx32 "], host[0x%" PRIx64 "], shape=%" PRIu32 ", async\n", to, from, entry);
}

void pccx_store(pccx_lowering *l, uint64_t to, uint32_t from, uint32_t elements)
{
    uint32_t entry = copy_shape(l, elements);
    tv_buf_printf(&l->text, "        memcpy  host[0x%" PRIx64 "], l2[0x%" PRIx32 "], shape=%" PRIu32 ", async\n", to, from, entry);
}

void pccx_move(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t elements)
{
    uint32_t entry = copy_shape(l, elements);
    tv_buf_printf(&l->text, "        memcpy  l2[0x%" PRIx32 "], l2[0x%" PRIx32 "], shape=%" PRIu32 ", async\n", to, from, entry);
}

void pccx_stream(pccx_lowering *l, bool gemm, uint64_t addr, uint64_t bytes)
{
    tv_buf_printf(&l->text, "        wstream %s, 0x%" PRIx64 ", %" PRIu64 "\n", gemm ? "gemm" : "gemv", addr, bytes);
}

/* A size of zeros: the engine's own tiling, and activations scaled by their largest. */
static void matrix_insn(pccx_lowering *l, const char *mnemonic, uint32_t to, uint32_t from, uint32_t entry, const char *flags)
{
    uint32_t size = shape(l, 0, 0, 0, 0);
    tv_buf_printf(&l->text, "        %s    l2[0x%" PRIx32 "], l2[0x%" PRIx32 "], size=%" PRIu32 ", shape=%" PRIu32 ", w_scale%s\n", mnemonic, to,
                  from, size, entry, flags);
}

void pccx_gemv(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t n, uint32_t k, const char *flags)
{
    matrix_insn(l, "gemv", to, from, shape(l, 1, 1, n, k), flags);
}

void pccx_gemm(pccx_lowering *l, uint32_t to, uint32_t from, uint32_t m, uint32_t n, uint32_t k, const char *flags)
{
    matrix_insn(l, "gemm", to, from, shape(l, 1, m, n, k), flags);
}

void pccx_cvo(pccx_lowering *l, const char *function, uint32_t to, uint32_t from, uint32_t length, const char *flags)
{
    tv_buf_printf(&l->text, "        cvo.%s l2[0x%" PRIx32 "], l2[0x%" PRIx32 "], len=%" PRIu32 "%s, async\n", function, to, from, length, flags);
}

void pccx_put(pccx_lowering *l, uint64_t addr, const uint8_t *bytes, size_t n)
{
    size_t i = 0;
    tv_buf_printf(&l->data, "        .org    0x%" PRIx64 "\n", addr);
    for (; i + 8 <= n; i += 8)
        tv_buf_printf(&l->data, "        .word64 0x%016" PRIx64 "\n", tv_load_le64(bytes + i));
    for (; i < n; i++)
        tv_buf_printf(&l->data, "        .byte   %u\n", bytes[i]);
}

/* ---- Products ---- */

uint32_t pccx_group_count(const pccx_lowering *l, const pccx_matrix *m) { return (m->columns + l->group - 1) / l->group; }

/* One group of columns for a block of rows of the matrix. */
static void project_group(pccx_lowering *l, uint32_t vectors, uint32_t in, uint32_t out, uint32_t n, uint32_t group, uint32_t columns, bool accm)
{
    uint32_t from = in + group * (l->group / PCCX_LANES) * vectors;
    for (unsigned plane = 0; plane < l->planes; plane++) {
        const char *flags = accm || group || plane ? ", accm" : "";
        if (vectors == 1)
            pccx_gemv(l, out, from, n, columns, flags);
        else
            pccx_gemm(l, out, from, vectors, n, columns, flags);
    }
}

void pccx_project(pccx_lowering *l, const pccx_matrix *m, uint32_t rows, uint32_t in, uint32_t out, uint32_t from, uint32_t to, bool accm)
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

void pccx_product(pccx_lowering *l, uint32_t out, uint32_t in, uint64_t scales, uint64_t matrix, uint32_t n, bool sum, bool accm)
{
    for (uint32_t i = 0; i < n; i += PCCX_BLOCK) {
        uint32_t count = n - i < PCCX_BLOCK ? n - i : PCCX_BLOCK;
        pccx_stream(l, false, scales + 2 * (uint64_t)i, 2 * (uint64_t)count);
        pccx_stream(l, false, matrix, (uint64_t)count * PCCX_BEAT);
        pccx_gemv(l, out + (sum ? 0 : i / PCCX_LANES), in + i / PCCX_LANES, count, count, accm || (sum && i) ? ", accm" : "");
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

static tv_status save_program(pccx_lowering *l, const tv_program *program, const tv_diag_sink *sink)
{
    char path[PCCX_NAME_TEXT];
    snprintf(path, sizeof path, "%s/step_%06" PRIu32 "_%03" PRIu32 ".elf", l->emit, l->steps, l->programs);
    return tv_program_save(program, path, TV_FORMAT_ELF, sink);
}

static tv_status assemble(pccx_lowering *l, const tv_diag_sink *sink, tv_program **out)
{
    bool first = l->emit && l->steps == 0 && l->programs == 0;
    if (first) /* the first program brings the model, so that the programs run by themselves, in their order */
        TV_TRY(tv_backend_save_space(l->machine, "host", l->map.model_end, l->emit, "model.bin", sink));
    tv_buf_str(&l->text, "        .data\n");
    if (first)
        tv_buf_printf(&l->text, "        .incbin \"%s/model.bin\"\n", l->emit);
    tv_buf_append(&l->text, l->data.data, l->data.len);
    if (l->text.failed || l->data.failed)
        return tv_fail_memory(sink);
    return tv_program_assemble("step.s", (const char *)l->text.data, l->text.len, &(tv_program_options){.target = "pccx"}, sink, out);
}

tv_status pccx_run(pccx_lowering *l, const tv_diag_sink *sink)
{
    tv_program *program;
    tv_stop stop;
    TV_TRY(assemble(l, sink, &program));
    tv_status status = l->emit ? save_program(l, program, sink) : TV_OK;
    if (status == TV_OK)
        status = tv_machine_load(l->machine, program, sink);
    if (status == TV_OK) {
        status = tv_machine_run(l->machine, NULL, &stop);
        tv_program_free(l->program); /* the machine looks at the loaded one until the next load */
        l->program = program;
    } else {
        tv_program_free(program);
    }
    if (status == TV_FAULT)
        status = tv_backend_fault(l->machine, sink);
    l->programs++;
    l->text.len = l->data.len = 0;
    tv_buf_printf(&l->text, "%s:\n", l->part); /* what goes on in the next one */
    l->shape_count[0] = l->shape_count[1] = 0;
    return status;
}
