/* SPDX-License-Identifier: Apache-2.0 */
/* Words, addresses, and products by the array. */
#include "lower/opennpu/emit.h"

#include <assert.h>

#include "isa/opennpu/opennpu.h"
#include "trivet/codec.h"

static const char *const ids[NPU_OP_COUNT] = {
#define OPENNPU_LOWER_ROW(id) #id,
#include "lower/opennpu/ops.def"
#undef OPENNPU_LOWER_ROW
};

/* The registers of formats R, I and S stand at the same places. */
enum {
    RD_AT = OPENNPU_LO_R_rd,
    RS1_AT = OPENNPU_LO_R_rs1,
    RS2_AT = OPENNPU_LO_R_rs2,
    IMM_AT = OPENNPU_LO_I_imm,
    WIDTH_AT = OPENNPU_LO_R_width,
    RS3_AT = OPENNPU_LO_S_rs3,
    KEEP_AT = OPENNPU_LO_R_sat
};
static_assert((int)OPENNPU_LO_I_rd == (int)RD_AT && (int)OPENNPU_LO_S_rd == (int)RD_AT &&
                  (int)OPENNPU_LO_I_rs1 == (int)RS1_AT && (int)OPENNPU_LO_S_rs1 == (int)RS1_AT &&
                  (int)OPENNPU_LO_S_rs2 == (int)RS2_AT,
              "one place for each register");

tv_status npu_init(npu *n, uint32_t k, const tv_diag_sink *sink)
{
    tv_codec *codec;
    uint64_t word;
    *n = (npu){.program.isa = &tv_isa_opennpu, .k = k, .period = k < NPU_PERIOD_MAX ? k : NPU_PERIOD_MAX};
    TV_TRY(tv_codec_new_for(&tv_isa_opennpu, sink, &codec));
    tv_status status = TV_OK;
    for (unsigned i = 0; i < NPU_OP_COUNT && status == TV_OK; i++) {
        bool limits = i == NPU_VCVT_S32_F32 || i == NPU_VCVT_S16_S32 || i == NPU_VCVT_S8_F32;
        status = tv_codec_encode(codec, ids[i], &(tv_field_value){"sat", 1}, limits ? 1 : 0, sink, &word);
        n->base[i] = (uint32_t)word;
    }
    tv_codec_free(codec);
    return status;
}

void npu_fini(npu *n) { tv_builder_fini(&n->program); }

void npu_begin(npu *n)
{
    tv_builder_clear(&n->program);
    memset(n->known, 0xFF, sizeof n->known);
}

void npu_begin_part(npu *n, const tv_graph *graph, const tv_graph_node *node)
{
    char part[TV_BLOCK_NAME_MAX];
    tv_graph_block_name(graph, node, part);
    tv_builder_label(&n->program, part);
}

/* ---- Words ---- */

static void forget(npu *n, unsigned vr) { memset(n->known[vr], 0xFF, sizeof n->known[vr]); }

void npu_plain(npu *n, npu_op op, unsigned rd, unsigned rs1, unsigned rs2)
{
    forget(n, op == NPU_VCVT_S8_F32 ? rd / 4 : op == NPU_VCVT_S16_S32 ? rd / 2 : rd);
    tv_builder_word(&n->program, n->base[op] | rd << RD_AT | rs1 << RS1_AT | rs2 << RS2_AT);
}

void npu_sized(npu *n, npu_op op, unsigned class_, unsigned rd, unsigned rs1, unsigned rs2)
{
    bool reduces = op == NPU_VSUM || op == NPU_VRMAX;
    forget(n, reduces ? rd : rd >> (2 - class_));
    tv_builder_word(&n->program, n->base[op] | class_ << WIDTH_AT | rd << RD_AT | rs1 << RS1_AT | rs2 << RS2_AT);
}

void npu_fma(npu *n, npu_op op, unsigned rd, unsigned rs1, unsigned rs2, unsigned rs3)
{
    forget(n, rd);
    tv_builder_word(&n->program, n->base[op] | rd << RD_AT | rs1 << RS1_AT | rs2 << RS2_AT | rs3 << RS3_AT);
}

static void immediate(npu *n, npu_op op, unsigned rd, unsigned rs1, int64_t imm)
{
    tv_builder_word(&n->program, n->base[op] | rd << RD_AT | rs1 << RS1_AT | (uint32_t)imm << IMM_AT);
}

/* ---- Addresses ---- */

void npu_set(npu *n, unsigned vr, uint32_t bits)
{
    int16_t *known = n->known[vr];
    for (unsigned p = 0; p < 4; p++) {
        int16_t byte = (int16_t)(bits >> (8 * p) & 0xFF);
        if (known[p] != byte)
            immediate(n, NPU_BCAST_IMM, npu_in(vr, NPU_VX) + p, 0, (int8_t)byte);
        known[p] = byte;
    }
}

/* Makes the address reachable from VR `base`; returns the immediate. The new base is as high as can be, since most of
 * what comes lies behind; its lowest byte is 0, so that one or two broadcasts of a byte make it. */
static int64_t reach(npu *n, unsigned base, uint64_t address)
{
    const int16_t *known = n->known[base];
    if (known[0] >= 0 && known[1] >= 0 && known[2] >= 0 && known[3] >= 0) {
        int64_t at = (int64_t)known[0] | (int64_t)known[1] << 8 | (int64_t)known[2] << 16 | (int64_t)known[3] << 24,
                imm = (int64_t)address - at;
        if (imm >= -2048 && imm <= 2047)
            return imm;
    }
    uint64_t at = (address + 2048) & ~UINT64_C(0xFF);
    npu_set(n, base, (uint32_t)at);
    return (int64_t)address - (int64_t)at;
}

void npu_load(npu *n, unsigned class_, unsigned rd, unsigned base, uint64_t address)
{
    int64_t imm = reach(n, base, address);
    immediate(n, (npu_op)(NPU_LD_VX + class_), rd, base, imm);
    forget(n, rd >> (2 - class_));
}

void npu_store(npu *n, unsigned class_, unsigned rd, unsigned base, uint64_t address)
{
    int64_t imm = reach(n, base, address);
    immediate(n, (npu_op)(NPU_ST_VX + class_), rd, base, imm);
}

void npu_lane0(npu *n, npu_op op, unsigned reg, unsigned base, uint64_t address)
{
    int64_t imm = reach(n, base, address);
    immediate(n, op, reg, base, imm);
    if (op == NPU_LD_B || op == NPU_LD_W)
        forget(n, op == NPU_LD_W ? reg : reg / 4);
}

/* ---- Vectors for products ---- */

/* Copies of the vector, one for each number modulo `period`: [period][zeros, K lanes, zeros]. */
static uint64_t copy_bytes(const npu *n, unsigned class_) { return (uint64_t)(n->k + 2 * n->period) << class_; }

uint64_t npu_pack_bytes(const npu *n, unsigned class_) { return n->period * copy_bytes(n, class_); }

bool npu_pack_at(const npu *n, const npu_input *input, uint32_t i, npu_pack *out)
{
    uint32_t chunks = (input->columns + n->k - 1) / n->k, fours = chunks / 4, pairs = chunks % 4 / 2, ones = chunks % 2;
    uint32_t class_ = i < fours ? NPU_VR : i < fours + pairs ? NPU_VE : NPU_VX;
    *out = (npu_pack){input->at, class_, 4 * (i < fours ? i : fours)};
    out->at += (uint64_t)(i < fours ? i : fours) * npu_pack_bytes(n, NPU_VR);
    if (class_ == NPU_VX && pairs) {
        out->at += npu_pack_bytes(n, NPU_VE);
        out->chunk += 2;
    }
    return i < fours + pairs + ones;
}

uint64_t npu_input_bytes(const npu *n, uint32_t columns)
{
    npu_pack pack;
    npu_input input = {0, columns};
    uint64_t end = 0;
    for (uint32_t i = 0; npu_pack_at(n, &input, i, &pack); i++)
        end = pack.at + npu_pack_bytes(n, pack.class_);
    return end;
}

uint64_t npu_lane(const npu *n, const npu_pack *pack, uint32_t lane, uint32_t block)
{
    return pack->at + lane % n->period * copy_bytes(n, pack->class_) +
           ((uint64_t)(n->period + lane - 2 * block) << pack->class_);
}

void npu_split(npu *n, unsigned plane)
{
    npu_int(n, NPU_VADD, 2, 2, 6); /* the high byte is rounded, the low one then signed */
    npu_plain(n, NPU_VCVT_S16_S32, npu_in(3, NPU_VE), 2, 0);
    npu_sized(n, NPU_VXOR, NPU_VX, npu_in(0, NPU_VX) + plane, npu_in(3, NPU_VX), npu_in(6, NPU_VX));
    npu_sized(n, NPU_VOR, NPU_VX, npu_in(1, NPU_VX) + plane, npu_in(3, NPU_VX) + 1, npu_in(3, NPU_VX) + 1);
}

/* Copy c has the low bytes of the lanes that are c modulo the period, and behind each its high bytes. Those of the
 * highest lane stand behind the last copy; there they are first put as they are, one lane on, and read back turned. */
void npu_spread(npu *n, const npu_pack *pack)
{
    unsigned c = pack->class_, low = npu_in(0, c), high = npu_in(1, c), mask[2] = {npu_in(2, c), npu_in(3, c)},
             y = npu_in(6, c);
    uint64_t unit = UINT64_C(1) << c, last = npu_lane(n, pack, 0, 0) + (n->period - 1) * copy_bytes(n, c);
    npu_store(n, c, high, NPU_X, last + unit);
    npu_load(n, c, high, NPU_X, last);
    npu_load(n, c, mask[0], NPU_W, n->masks[c] + n->period * unit);
    for (uint32_t i = 0; i < n->period; i++) {
        unsigned here = mask[i % 2], next = mask[(i + 1) % 2];
        npu_load(n, c, next, NPU_W, n->masks[c] + (n->period - i - 1) * unit);
        npu_sized(n, NPU_VAND, c, y, low, here);
        npu_sized(n, NPU_VAND, c, here, high, next);
        npu_sized(n, NPU_VOR, c, y, y, here);
        npu_store(n, c, y, NPU_X, npu_lane(n, pack, 0, 0) + i * copy_bytes(n, c));
    }
}

/* ---- Products ---- */

/* Planes `from` to `to` - 1 of a product whose weights are in slot `w` of their ring, activations in slot `x` of
 * theirs. */
static void multiply(npu *n, const npu_product *p, unsigned w, unsigned x, unsigned from, unsigned to, bool *first)
{
    unsigned w_at = p->turned ? RS2_AT : RS1_AT, x_at = p->turned ? RS1_AT : RS2_AT;
    for (unsigned i = from; i < to; i++) {
        uint32_t keep = *first ? 0 : UINT32_C(1) << KEEP_AT;
        tv_builder_word(&n->program,
                        n->base[NPU_MMA] | keep | ((w << p->class_) + i) << w_at | ((x << p->class_) + i) << x_at);
        *first = false;
    }
}

static void load_activations(npu *n, const npu_product *p, unsigned slot)
{
    if (!p->x_stride)
        npu_load(n, p->class_, slot, NPU_X, p->x);
    for (unsigned i = 0; p->x_stride && i < p->planes; i++)
        npu_load(n, NPU_VX, (slot << p->class_) + i, NPU_X, p->x + (uint64_t)i * p->x_stride);
}

/* Products of one class: VR 0 and 1 are a ring of weights, VR 2 and 3 one of activations. Loads run `ahead` products
 * before their use, since a load takes four ticks, and stand between products, which use the ticks for which the port
 * is busy. Weights that the product before has as well are there already. */
static void run_of_class(npu *n, const npu_product *list, size_t count, bool *first)
{
    unsigned c = list->class_, ring = 8u >> c, ahead = c == NPU_VR ? 1 : 3, last = 0, slots[4] = {0};
    for (size_t i = 0; i < count + ahead; i++) {
        const npu_product *now = i >= ahead ? &list[i - ahead] : NULL, *later = i < count ? &list[i] : NULL;
        unsigned half = now ? (now->planes + 1u) / 2 : 0, w = slots[(i + 4 - ahead) % 4],
                 x = ring + (unsigned)(i + ring - ahead) % ring;
        bool there = later && i > 0 && later->w == list[i - 1].w;
        if (later && !there) {
            last = (last + 1) % ring;
            npu_load(n, c, last, NPU_W, later->w);
        }
        slots[i % 4] = last;
        if (now)
            multiply(n, now, w, x, 0, half, first);
        if (later)
            load_activations(n, later, ring + (unsigned)i % ring);
        if (now)
            multiply(n, now, w, x, half, now->planes, first);
    }
}

/* Loads stand before the wait for the array where they can. */
static void drain(npu *n, const npu_block *blocks, uint32_t count)
{
    bool real = blocks->scale != 0;
    npu_set(n, NPU_W, real ? NPU_C_F_256 : NPU_C_SHIFT_8);
    for (uint32_t b = 0; b < count; b++)
        if (real || blocks[b].limit)
            npu_load(n, NPU_VR, b, NPU_X, real ? blocks[b].scale : blocks[b].limit);
    for (uint32_t b = 0; b < count; b++) {
        npu_plain(n, NPU_MMA_LAST, 6, 0, 0);
        npu_plain(n, NPU_MMA_LAST, 7, 0, 0);
        if (real) {
            npu_plain(n, NPU_VCVT_F32_S32, 6, 6, 0);
            npu_plain(n, NPU_VCVT_F32_S32, 7, 7, 0);
            npu_fma(n, NPU_VFMA, 7, 7, NPU_W, 6);
            npu_plain(n, NPU_VFMUL, 7, 7, b);
        } else {
            npu_int(n, NPU_VSLL, 7, 7, NPU_W);
            npu_int(n, NPU_VADD, 7, 7, 6);
        }
        if (!real && blocks[b].limit)
            npu_int(n, NPU_VMIN, 7, 7, b);
        if (blocks[b].add) {
            npu_load(n, NPU_VR, b, NPU_X, blocks[b].add);
            npu_plain(n, NPU_VFADD, 7, 7, b);
        }
        npu_store(n, NPU_VR, 7, NPU_X, blocks[b].out);
    }
}

void npu_accumulate(npu *n, const npu_product *list, size_t count)
{
    bool first = true;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && list[end].class_ == list[i].class_; end++)
            continue;
        run_of_class(n, list + i, end - i, &first);
    }
}

void npu_products(npu *n, const npu_product *list, size_t count, const npu_block *blocks, uint32_t block_count)
{
    npu_accumulate(n, list, count);
    drain(n, blocks, block_count);
}
