/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes instructions, keeps address registers, and emits products on the array. */
#include "lower/opennpu/emit.h"

#include <assert.h>

#include "isa/opennpu/opennpu.h"
#include "trivet/codec.h"

/* The register fields of formats R, I and S have the same positions. */
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

/* Instructions that load or store a register of class c are c rows after those of VX. */
static_assert((int)OPENNPU_LD_VE == (int)OPENNPU_LD_VX + (int)OPENNPU_VE &&
                  (int)OPENNPU_LD_VR == (int)OPENNPU_LD_VX + (int)OPENNPU_VR &&
                  (int)OPENNPU_ST_VE == (int)OPENNPU_ST_VX + (int)OPENNPU_VE &&
                  (int)OPENNPU_ST_VR == (int)OPENNPU_ST_VX + (int)OPENNPU_VR,
              "rows of loads and stores are in the order of the classes");

tv_status opennpu_lower_emitter_init(opennpu_lower_emitter *e, uint32_t k, const tv_diag_sink *sink)
{
    tv_codec *codec;
    tv_insn_info info;
    uint64_t word;
    *e = (opennpu_lower_emitter){
        .program.isa = &tv_isa_opennpu, .k = k, .period = k < OPENNPU_LOWER_PERIOD_MAX ? k : OPENNPU_LOWER_PERIOD_MAX};
    TV_TRY(tv_codec_new_for(&tv_isa_opennpu, sink, &codec));
    tv_status status = TV_OK;
    for (unsigned i = 0; i < OPENNPU_INSNS && status == TV_OK; i++) {
        bool saturates = i == OPENNPU_VCVT_S32_F32 || i == OPENNPU_VCVT_S16_S32 || i == OPENNPU_VCVT_S8_F32;
        tv_codec_insn_at(codec, i, &info);
        status = tv_codec_encode(codec, info.id, &(tv_field_value){"sat", 1}, saturates ? 1 : 0, sink, &word);
        e->encodings[i] = (uint32_t)word;
    }
    tv_codec_free(codec);
    return status;
}

void opennpu_lower_emitter_fini(opennpu_lower_emitter *e) { tv_builder_fini(&e->program); }

void opennpu_lower_begin_program(opennpu_lower_emitter *e, tv_status (*run_segment)(void *user), void *user)
{
    tv_builder_clear(&e->program);
    memset(e->known, 0xFF, sizeof e->known);
    e->run_segment = run_segment;
    e->user = user;
    e->status = TV_OK;
}

void opennpu_lower_run_full_segment(opennpu_lower_emitter *e)
{
    if (!e->run_segment || tv_builder_count(&e->program) < OPENNPU_LOWER_SEGMENT)
        return;
    if (e->status == TV_OK)
        e->status = e->run_segment(e->user);
    e->fragment_from = UINT64_MAX;
    tv_builder_clear(&e->program);
    tv_builder_label(&e->program, e->block_name);
}

void opennpu_lower_label_block(opennpu_lower_emitter *e, uint32_t block)
{
    opennpu_lower_run_full_segment(e);
    tv_graph_block_name(block, e->block_name);
    tv_builder_label(&e->program, e->block_name);
}

void opennpu_lower_label(opennpu_lower_emitter *e, const char *name)
{
    opennpu_lower_run_full_segment(e);
    snprintf(e->block_name, sizeof e->block_name, "%.*s", TV_BLOCK_NAME_MAX - 1, name);
    tv_builder_label(&e->program, e->block_name);
}

/* ---- Fragments ---- */

/* Fragments of large models are as large as a seventh of their weights; with this limit some nodes are emitted again.
 */
enum { WORD_BYTES = 4, FRAGMENT_BYTES_MAX = 8 << 20 };

bool opennpu_lower_repeat(opennpu_lower_emitter *e, const opennpu_lower_fragment *f)
{
    uint64_t count = tv_builder_count(&e->program) + f->words.len / WORD_BYTES;
    if (!f->complete || memcmp(f->before, e->known, sizeof f->before) != 0 ||
        (e->run_segment && count >= OPENNPU_LOWER_SEGMENT))
        return false;
    tv_buf_append(&e->program.words, f->words.data, f->words.len);
    memcpy(e->known, f->after, sizeof f->after);
    return true;
}

void opennpu_lower_begin_fragment(opennpu_lower_emitter *e, opennpu_lower_fragment *f)
{
    e->fragment_bytes -= f->words.len;
    f->words.len = 0;
    f->complete = false;
    memcpy(f->before, e->known, sizeof f->before);
    e->fragment_from = tv_builder_count(&e->program);
}

void opennpu_lower_end_fragment(opennpu_lower_emitter *e, opennpu_lower_fragment *f)
{
    if (e->fragment_from == UINT64_MAX || e->program.words.failed)
        return;
    size_t from = e->fragment_from * WORD_BYTES, bytes = e->program.words.len - from;
    if (bytes > FRAGMENT_BYTES_MAX - e->fragment_bytes)
        return;
    if (bytes)
        tv_buf_append(&f->words, e->program.words.data + from, bytes);
    memcpy(f->after, e->known, sizeof f->after);
    f->complete = !f->words.failed;
    e->fragment_bytes += f->words.len;
}

/* ---- Instructions ---- */

static void invalidate_known(opennpu_lower_emitter *e, unsigned vr) { e->known[vr] = -1; }

void opennpu_lower_emit(opennpu_lower_emitter *e, opennpu_insn op, unsigned rd, unsigned rs1, unsigned rs2)
{
    invalidate_known(e, op == OPENNPU_VCVT_S8_F32 ? rd / 4 : op == OPENNPU_VCVT_S16_S32 ? rd / 2 : rd);
    tv_builder_word(&e->program, e->encodings[op] | rd << RD_AT | rs1 << RS1_AT | rs2 << RS2_AT);
}

void opennpu_lower_emit_sized(opennpu_lower_emitter *e, opennpu_insn op, unsigned class_, unsigned rd, unsigned rs1,
                              unsigned rs2)
{
    bool reduces = op == OPENNPU_VSUM || op == OPENNPU_VRMAX;
    invalidate_known(e, reduces ? rd : rd >> (2 - class_));
    tv_builder_word(&e->program, e->encodings[op] | class_ << WIDTH_AT | rd << RD_AT | rs1 << RS1_AT | rs2 << RS2_AT);
}

void opennpu_lower_emit_fma(opennpu_lower_emitter *e, opennpu_insn op, unsigned rd, unsigned rs1, unsigned rs2,
                            unsigned rs3)
{
    invalidate_known(e, rd);
    tv_builder_word(&e->program, e->encodings[op] | rd << RD_AT | rs1 << RS1_AT | rs2 << RS2_AT | rs3 << RS3_AT);
}

/* ---- Words behind the end of the program ----
 *
 * Functions named put_… write words at `at` and return the location after them. */

enum { SET_WORDS = 4, LOAD_WORDS = SET_WORDS + 1 }; /* at most */

/* Space for `words` words; NULL: out of memory, of which the program knows. */
static uint8_t *begin_words(opennpu_lower_emitter *e, size_t words)
{
    return tv_buf_reserve(&e->program.words, words * WORD_BYTES);
}

/* Makes the words before `end` part of the program. */
static void end_words(opennpu_lower_emitter *e, const uint8_t *end)
{
    e->program.words.len = (size_t)(end - e->program.words.data);
}

static uint8_t *put_word(uint8_t *at, uint32_t word)
{
    tv_store_le(at, word, WORD_BYTES);
    return at + WORD_BYTES;
}

static uint8_t *put_immediate(const opennpu_lower_emitter *e, uint8_t *at, opennpu_insn op, unsigned rd, unsigned rs1,
                              int64_t imm)
{
    return put_word(at, e->encodings[op] | rd << RD_AT | rs1 << RS1_AT | (uint32_t)imm << IMM_AT);
}

/* ---- Addresses ---- */

/* Sets the bytes in which `bits` differ from what is known. */
static uint8_t *put_set(opennpu_lower_emitter *e, uint8_t *at, unsigned vr, uint32_t bits)
{
    const int64_t known = e->known[vr];
    const uint32_t differ = known < 0 ? UINT32_MAX : bits ^ (uint32_t)known;
    for (unsigned p = 0; p < 4; p++)
        if (differ >> (8 * p) & 0xFF)
            at = put_immediate(e, at, OPENNPU_BCAST_IMM, opennpu_lower_reg(vr, OPENNPU_VX) + p, 0,
                               (int8_t)(bits >> (8 * p) & 0xFF));
    e->known[vr] = bits;
    return at;
}

void opennpu_lower_set(opennpu_lower_emitter *e, unsigned vr, uint32_t bits)
{
    uint8_t *at = begin_words(e, SET_WORDS);
    if (at)
        end_words(e, put_set(e, at, vr, bits));
}

/* A load or store through VR `base`, which is set where `address` is not reachable from it. A new base is as high as
 * possible, because following accesses are mostly at higher addresses, and its lowest byte is 0, so one or two byte
 * broadcasts make it. */
static inline uint8_t *put_access(opennpu_lower_emitter *e, uint8_t *at, opennpu_insn op, unsigned rd, unsigned base,
                                  uint64_t address)
{
    int64_t from = e->known[base], imm = (int64_t)address - from;
    if (from < 0 || imm < -2048 || imm > 2047) {
        const uint64_t high = (address + 2048) & ~UINT64_C(0xFF);
        at = put_set(e, at, base, (uint32_t)high);
        imm = (int64_t)address - (int64_t)high;
    }
    return put_immediate(e, at, op, rd, base, imm);
}

static inline uint8_t *put_load(opennpu_lower_emitter *e, uint8_t *at, unsigned class_, unsigned rd, unsigned base,
                                uint64_t address)
{
    at = put_access(e, at, (opennpu_insn)(OPENNPU_LD_VX + class_), rd, base, address);
    invalidate_known(e, rd >> (2 - class_));
    return at;
}

void opennpu_lower_load(opennpu_lower_emitter *e, unsigned class_, unsigned rd, unsigned base, uint64_t address)
{
    uint8_t *at = begin_words(e, LOAD_WORDS);
    if (at)
        end_words(e, put_load(e, at, class_, rd, base, address));
}

static void emit_access(opennpu_lower_emitter *e, opennpu_insn op, unsigned reg, unsigned base, uint64_t address)
{
    uint8_t *at = begin_words(e, LOAD_WORDS);
    if (at)
        end_words(e, put_access(e, at, op, reg, base, address));
}

void opennpu_lower_store(opennpu_lower_emitter *e, unsigned class_, unsigned rd, unsigned base, uint64_t address)
{
    emit_access(e, (opennpu_insn)(OPENNPU_ST_VX + class_), rd, base, address);
}

void opennpu_lower_load_indirect(opennpu_lower_emitter *e, unsigned class_, unsigned rd, unsigned base, int32_t offset)
{
    tv_builder_word(&e->program,
                    e->encodings[OPENNPU_LD_VX + class_] | rd << RD_AT | base << RS1_AT | (uint32_t)offset << IMM_AT);
    invalidate_known(e, rd >> (2 - class_));
}

void opennpu_lower_access_lane0(opennpu_lower_emitter *e, opennpu_insn op, unsigned reg, unsigned base,
                                uint64_t address)
{
    emit_access(e, op, reg, base, address);
    if (op == OPENNPU_LD_B || op == OPENNPU_LD_W)
        invalidate_known(e, op == OPENNPU_LD_W ? reg : reg / 4);
}

/* ---- Vectors for products ---- */

/* A pack is [period][zeros, K lanes, zeros]: one copy of the vector per lane number modulo `period`. */
static uint64_t copy_bytes(const opennpu_lower_emitter *e, unsigned class_)
{
    return (uint64_t)(e->k + 2 * e->period) << class_;
}

uint64_t opennpu_lower_pack_bytes(const opennpu_lower_emitter *e, unsigned class_)
{
    return e->period * copy_bytes(e, class_);
}

bool opennpu_lower_pack_at(const opennpu_lower_emitter *e, const opennpu_lower_input *input, uint32_t i,
                           opennpu_lower_pack *out)
{
    uint32_t chunks = (input->columns + e->k - 1) / e->k, fours = chunks / 4, pairs = chunks % 4 / 2, ones = chunks % 2;
    uint32_t class_ = i < fours ? OPENNPU_VR : i < fours + pairs ? OPENNPU_VE : OPENNPU_VX;
    *out = (opennpu_lower_pack){input->at, class_, 4 * (i < fours ? i : fours)};
    out->at += (uint64_t)(i < fours ? i : fours) * opennpu_lower_pack_bytes(e, OPENNPU_VR);
    if (class_ == OPENNPU_VX && pairs) {
        out->at += opennpu_lower_pack_bytes(e, OPENNPU_VE);
        out->chunk += 2;
    }
    return i < fours + pairs + ones;
}

uint64_t opennpu_lower_input_bytes(const opennpu_lower_emitter *e, uint32_t columns)
{
    opennpu_lower_pack pack;
    opennpu_lower_input input = {0, columns};
    uint64_t end = 0;
    for (uint32_t i = 0; opennpu_lower_pack_at(e, &input, i, &pack); i++)
        end = pack.at + opennpu_lower_pack_bytes(e, pack.class_);
    return end;
}

uint64_t opennpu_lower_lane_addr(const opennpu_lower_emitter *e, const opennpu_lower_pack *pack, uint32_t lane,
                                 uint32_t block)
{
    return pack->at + lane % e->period * copy_bytes(e, pack->class_) +
           ((uint64_t)(e->period + lane - 2 * block) << pack->class_);
}

void opennpu_lower_split_bytes(opennpu_lower_emitter *e, unsigned plane)
{
    opennpu_lower_emit_vr(e, OPENNPU_VADD, 2, 2, 6); /* rounds the high byte and makes the low byte signed */
    opennpu_lower_emit(e, OPENNPU_VCVT_S16_S32, opennpu_lower_reg(3, OPENNPU_VE), 2, 0);
    opennpu_lower_emit_sized(e, OPENNPU_VXOR, OPENNPU_VX, opennpu_lower_reg(0, OPENNPU_VX) + plane,
                             opennpu_lower_reg(3, OPENNPU_VX), opennpu_lower_reg(6, OPENNPU_VX));
    opennpu_lower_emit_sized(e, OPENNPU_VOR, OPENNPU_VX, opennpu_lower_reg(1, OPENNPU_VX) + plane,
                             opennpu_lower_reg(3, OPENNPU_VX) + 1, opennpu_lower_reg(3, OPENNPU_VX) + 1);
}

/* Copy c has the low bytes of the lanes that are c modulo the period, each followed by its high byte. The high bytes
 * move one lane up by a store and a load; the last copy is used as scratch because its highest lane needs the one that
 * wraps around. */
void opennpu_lower_store_pack(opennpu_lower_emitter *e, const opennpu_lower_pack *pack)
{
    unsigned c = pack->class_, low = opennpu_lower_reg(0, c), high = opennpu_lower_reg(1, c),
             mask[2] = {opennpu_lower_reg(2, c), opennpu_lower_reg(3, c)}, y = opennpu_lower_reg(6, c);
    uint64_t unit = UINT64_C(1) << c,
             last = opennpu_lower_lane_addr(e, pack, 0, 0) + (e->period - 1) * copy_bytes(e, c);
    opennpu_lower_store(e, c, high, OPENNPU_LOWER_VR_X, last + unit);
    opennpu_lower_load(e, c, high, OPENNPU_LOWER_VR_X, last);
    opennpu_lower_load(e, c, mask[0], OPENNPU_LOWER_VR_W, e->masks[c] + e->period * unit);
    for (uint32_t i = 0; i < e->period; i++) {
        unsigned here = mask[i % 2], next = mask[(i + 1) % 2];
        opennpu_lower_load(e, c, next, OPENNPU_LOWER_VR_W, e->masks[c] + (e->period - i - 1) * unit);
        opennpu_lower_emit_sized(e, OPENNPU_VAND, c, y, low, here);
        opennpu_lower_emit_sized(e, OPENNPU_VAND, c, here, high, next);
        opennpu_lower_emit_sized(e, OPENNPU_VOR, c, y, y, here);
        opennpu_lower_store(e, c, y, OPENNPU_LOWER_VR_X, opennpu_lower_lane_addr(e, pack, 0, 0) + i * copy_bytes(e, c));
    }
}

/* ---- Products ---- */

static uint32_t encode_product(const opennpu_lower_emitter *e, unsigned a, unsigned b, bool keep)
{
    return e->encodings[OPENNPU_MMA] | (uint32_t)keep << KEEP_AT | a << RS1_AT | b << RS2_AT;
}

void opennpu_lower_outer_product(opennpu_lower_emitter *e, unsigned a, unsigned b, bool keep)
{
    tv_builder_word(&e->program, encode_product(e, a, b, keep));
}

/* Multiplies planes [from, to) of a product whose weights are in slot `w`, its activations in slot `x` of their
 * rings. */
static uint8_t *put_products(const opennpu_lower_emitter *e, uint8_t *at, const opennpu_lower_product *p, unsigned w,
                             unsigned x, unsigned from, unsigned to, bool *first)
{
    const uint32_t next_plane = UINT32_C(1) << RS1_AT | UINT32_C(1) << RS2_AT, keep = UINT32_C(1) << KEEP_AT;
    const unsigned weights = (w << p->class_) + from, activations = (x << p->class_) + from;
    uint32_t word =
        encode_product(e, p->transposed ? activations : weights, p->transposed ? weights : activations, true);
    for (unsigned i = from; i < to; i++, word += next_plane) {
        at = put_word(at, *first ? word & ~keep : word);
        *first = false;
    }
    return at;
}

static uint8_t *put_activations(opennpu_lower_emitter *e, uint8_t *at, const opennpu_lower_product *p, unsigned slot)
{
    if (!p->xs && !p->x_stride)
        return put_load(e, at, p->class_, slot, OPENNPU_LOWER_VR_X, p->x);
    for (unsigned i = 0; i < p->planes; i++)
        at = put_load(e, at, OPENNPU_VX, (slot << p->class_) + i, OPENNPU_LOWER_VR_X,
                      p->xs ? p->xs[i] : p->x + (uint64_t)i * p->x_stride);
    return at;
}

/* Products of one class: VR 0 and 1 are a ring of weights, VR 2 and 3 a ring of activations. Loads are issued `ahead`
 * products before their use, since a load takes four ticks, between products that use the ticks in which the port is
 * busy. Weights shared with the previous product are not loaded again. */
static void accumulate_class(opennpu_lower_emitter *e, const opennpu_lower_product *list, size_t count, bool *first)
{
    enum { PLANES_MAX = 4, WORDS = LOAD_WORDS + PLANES_MAX * (LOAD_WORDS + 1) }; /* of a product, at most */
    unsigned c = list->class_, ring = 8u >> c, ahead = c == OPENNPU_VR ? 1 : 3, last = 0, slots[4] = {0};
    uint8_t *at = begin_words(e, (count + ahead) * WORDS);
    if (!at)
        return;
    for (size_t i = 0; i < count + ahead; i++) {
        const opennpu_lower_product *current = i >= ahead ? &list[i - ahead] : NULL,
                                    *next = i < count ? &list[i] : NULL;
        assert(!next || next->planes <= PLANES_MAX);
        unsigned half = current ? (current->planes + 1u) / 2 : 0, w = slots[(i + 4 - ahead) % 4],
                 x = ring + ((unsigned)(i - ahead) & (ring - 1));
        bool loaded = next && i > 0 && next->w == list[i - 1].w;
        if (next && !loaded) {
            last = (last + 1) & (ring - 1);
            at = put_load(e, at, c, last, OPENNPU_LOWER_VR_W, next->w);
        }
        slots[i % 4] = last;
        if (current)
            at = put_products(e, at, current, w, x, 0, half, first);
        if (next)
            at = put_activations(e, at, next, ring + ((unsigned)i & (ring - 1)));
        if (current)
            at = put_products(e, at, current, w, x, half, current->planes, first);
    }
    end_words(e, at);
}

/* Drains two columns per block and applies its epilogue. Loads are issued before the wait for the array where
 * possible. */
static void drain_blocks(opennpu_lower_emitter *e, const opennpu_lower_epilogue *blocks, uint32_t count)
{
    bool is_float = blocks->scale != 0;
    opennpu_lower_set(e, OPENNPU_LOWER_VR_W, is_float ? OPENNPU_CONST_F_256 : OPENNPU_CONST_SHIFT_8);
    for (uint32_t b = 0; b < count; b++)
        if (is_float || blocks[b].limit)
            opennpu_lower_load(e, OPENNPU_VR, b, OPENNPU_LOWER_VR_X, is_float ? blocks[b].scale : blocks[b].limit);
    for (uint32_t b = 0; b < count; b++) {
        opennpu_lower_emit(e, OPENNPU_MMA_LAST, 6, 0, 0);
        opennpu_lower_emit(e, OPENNPU_MMA_LAST, 7, 0, 0);
        if (is_float) {
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 6, 6, 0);
            opennpu_lower_emit(e, OPENNPU_VCVT_F32_S32, 7, 7, 0);
            opennpu_lower_emit_fma(e, OPENNPU_VFMA, 7, 7, OPENNPU_LOWER_VR_W, 6);
            opennpu_lower_emit(e, OPENNPU_VFMUL, 7, 7, b);
        } else {
            opennpu_lower_emit_vr(e, OPENNPU_VSLL, 7, 7, OPENNPU_LOWER_VR_W);
            opennpu_lower_emit_vr(e, OPENNPU_VADD, 7, 7, 6);
        }
        if (!is_float && blocks[b].limit)
            opennpu_lower_emit_vr(e, OPENNPU_VMIN, 7, 7, b);
        if (!is_float && blocks[b].limit_before) {
            opennpu_lower_load(e, OPENNPU_VR, b, OPENNPU_LOWER_VR_X, blocks[b].limit_before);
            opennpu_lower_emit_vr(e, OPENNPU_VMIN, 7, 7, b);
        }
        if (blocks[b].bias) {
            opennpu_lower_load(e, OPENNPU_VR, b, OPENNPU_LOWER_VR_X, blocks[b].bias);
            opennpu_lower_emit(e, OPENNPU_VFADD, 7, 7, b);
        }
        if (blocks[b].add) {
            opennpu_lower_load(e, OPENNPU_VR, b, OPENNPU_LOWER_VR_X, blocks[b].add);
            opennpu_lower_emit(e, OPENNPU_VFADD, 7, 7, b);
        }
        opennpu_lower_store(e, OPENNPU_VR, 7, OPENNPU_LOWER_VR_X, blocks[b].out);
    }
}

void opennpu_lower_accumulate(opennpu_lower_emitter *e, const opennpu_lower_product *list, size_t count)
{
    bool first = true;
    opennpu_lower_run_full_segment(e);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && list[end].class_ == list[i].class_; end++)
            continue;
        accumulate_class(e, list + i, end - i, &first);
    }
}

void opennpu_lower_multiply(opennpu_lower_emitter *e, const opennpu_lower_product *list, size_t count,
                            const opennpu_lower_epilogue *blocks, uint32_t block_count)
{
    opennpu_lower_accumulate(e, list, count);
    drain_blocks(e, blocks, block_count);
}
