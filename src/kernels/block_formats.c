/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders of block formats. The comment of each gives the layout in order of its bytes and the value of weight i with
 * integer q[i]. Nibbles of a run of bytes are stored low half first: byte j has weight j in its low nibble and weight
 * j + (number of bytes) in its high one. Inner loops have constant counts, so that the compiler vectorizes them. */
#include "kernels/block_formats.h"

#include "kernels/clones.h"
#include "num/float.h"

enum {
    HALF = TV_BLOCK_SMALL / 2,
    GROUP = 16,                  /* weights per integer scale in Q2_K, Q3_K and Q6_K */
    RUN = TV_BLOCK_SMALL,        /* weights that one loop decodes in Q4_K, Q5_K and IQ4_XS, one integer scale */
    RUNS = TV_BLOCK_LARGE / RUN, /* runs per large block */
};

static inline float load_f16(const uint8_t *p) { return tv_f16_to_f32(tv_load_le16(p)); }

/* ---- Blocks of 32 ---- */

/* d, 16 bytes of nibbles: (q - 8) d */
TV_CLONES void tv_block_decode_q4_0(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q4_0_BYTES, out += TV_BLOCK_SMALL) {
        float d = load_f16(blocks);
        const uint8_t *q = blocks + 2;
        for (unsigned j = 0; j < HALF; j++) {
            out[j] = (float)((q[j] & 15) - 8) * d;
            out[j + HALF] = (float)((q[j] >> 4) - 8) * d;
        }
    }
}

/* d, m, 16 bytes of nibbles: q d + m */
TV_CLONES void tv_block_decode_q4_1(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q4_1_BYTES, out += TV_BLOCK_SMALL) {
        float d = load_f16(blocks), m = load_f16(blocks + 2);
        const uint8_t *q = blocks + 4;
        for (unsigned j = 0; j < HALF; j++) {
            out[j] = (float)(q[j] & 15) * d + m;
            out[j + HALF] = (float)(q[j] >> 4) * d + m;
        }
    }
}

/* q[j] and q[j + 16] of a 5-bit block, without offset: low four bits from a byte, bit 4 from bits j and j + 16. */
TV_INLINE int low_weight(uint8_t nibbles, uint32_t high, unsigned j)
{
    return (nibbles & 15) | (int)(high >> j & 1) << 4;
}

TV_INLINE int high_weight(uint8_t nibbles, uint32_t high, unsigned j)
{
    return nibbles >> 4 | (int)(high >> (j + HALF) & 1) << 4;
}

/* d, 32 high bits, 16 bytes of nibbles: (q - 16) d */
TV_CLONES void tv_block_decode_q5_0(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q5_0_BYTES, out += TV_BLOCK_SMALL) {
        float d = load_f16(blocks);
        uint32_t high = tv_load_le32(blocks + 2);
        const uint8_t *q = blocks + 6;
        for (unsigned j = 0; j < HALF; j++) {
            out[j] = (float)(low_weight(q[j], high, j) - 16) * d;
            out[j + HALF] = (float)(high_weight(q[j], high, j) - 16) * d;
        }
    }
}

/* d, m, 32 high bits, 16 bytes of nibbles: q d + m */
TV_CLONES void tv_block_decode_q5_1(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q5_1_BYTES, out += TV_BLOCK_SMALL) {
        float d = load_f16(blocks), m = load_f16(blocks + 2);
        uint32_t high = tv_load_le32(blocks + 4);
        const uint8_t *q = blocks + 8;
        for (unsigned j = 0; j < HALF; j++) {
            out[j] = (float)low_weight(q[j], high, j) * d + m;
            out[j + HALF] = (float)high_weight(q[j], high, j) * d + m;
        }
    }
}

/* d, 32 signed bytes: q d */
TV_CLONES void tv_block_decode_q8_0(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q8_0_BYTES, out += TV_BLOCK_SMALL) {
        float d = load_f16(blocks);
        for (unsigned j = 0; j < TV_BLOCK_SMALL; j++)
            out[j] = (float)(int8_t)blocks[2 + j] * d;
    }
}

/* ---- Blocks of 256 ---- */

/* 16 bytes of group scales (low nibble s, high nibble o), 64 bytes of 2-bit weights, d, m: (d s) q - (m o).
 * Each half of the block has 32 bytes; bits 2k and 2k + 1 of byte j are weight 32 k + j of the half. */
TV_CLONES void tv_block_decode_q2_k(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q2_K_BYTES, out += TV_BLOCK_LARGE) {
        float d = load_f16(blocks + 80), m = load_f16(blocks + 82);
        for (unsigned g = 0; g < TV_BLOCK_LARGE / GROUP; g++) {
            const uint8_t *q = blocks + 16 + g / 8 * 32 + g % 2 * GROUP;
            unsigned shift = g / 2 % 4 * 2;
            float scale = d * (float)(blocks[g] & 15), offset = m * (float)(blocks[g] >> 4);
            for (unsigned j = 0; j < GROUP; j++)
                out[g * GROUP + j] = scale * (float)(q[j] >> shift & 3) - offset;
        }
    }
}

/* The 6-bit scale of group g, 0 .. 63, from 12 bytes: eight bytes with the low nibbles of groups g and g + 8, four
 * bytes with the high two bits of groups g, g + 4, g + 8 and g + 12. */
static inline int q3_k_scale(const uint8_t *scales, unsigned g)
{
    return (scales[g % 8] >> g / 8 * 4 & 15) | (scales[8 + g % 4] >> g / 4 * 2 & 3) << 4;
}

/* 32 bytes of high bits (bit k of byte j belongs to weight 32 k + j of the block), 64 bytes of low two bits as in Q2_K,
 * 12 bytes of group scales s, d: (d (s - 32)) (q - 4), q = low + 4 high. */
TV_CLONES void tv_block_decode_q3_k(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q3_K_BYTES, out += TV_BLOCK_LARGE) {
        float d = load_f16(blocks + 108);
        for (unsigned g = 0; g < TV_BLOCK_LARGE / GROUP; g++) {
            const uint8_t *q = blocks + 32 + g / 8 * 32 + g % 2 * GROUP, *high = blocks + g % 2 * GROUP;
            unsigned shift = g / 2 % 4 * 2, bit = g / 2;
            float scale = d * (float)(q3_k_scale(blocks + 96, g) - 32);
            for (unsigned j = 0; j < GROUP; j++)
                out[g * GROUP + j] = scale * (float)((q[j] >> shift & 3) + (high[j] >> bit & 1) * 4 - 4);
        }
    }
}

/* The 6-bit scale and offset of run r in Q4_K and Q5_K, from 12 bytes: runs 0 to 3 have theirs in the low six bits of
 * bytes r and r + 4; runs 4 to 7 have the low nibbles in byte r + 4 and the high two bits in the top of bytes r - 4 and
 * r. */
static inline void load_scale_and_offset(const uint8_t *scales, unsigned r, float *scale, float *offset)
{
    if (r < 4) {
        *scale = (float)(scales[r] & 63);
        *offset = (float)(scales[r + 4] & 63);
    } else {
        *scale = (float)((scales[r + 4] & 15) | scales[r - 4] >> 6 << 4);
        *offset = (float)(scales[r + 4] >> 4 | scales[r] >> 6 << 4);
    }
}

/* d, m, 12 bytes of scales s and offsets o, 128 bytes of nibbles (32 bytes per pair of runs): (d s) q - (m o) */
TV_CLONES void tv_block_decode_q4_k(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q4_K_BYTES, out += TV_BLOCK_LARGE) {
        float d = load_f16(blocks), m = load_f16(blocks + 2);
        for (unsigned r = 0; r < RUNS; r++) {
            const uint8_t *q = blocks + 16 + r / 2 * RUN;
            unsigned shift = r % 2 * 4;
            float scale, offset;
            load_scale_and_offset(blocks + 4, r, &scale, &offset);
            scale *= d;
            offset *= m;
            for (unsigned j = 0; j < RUN; j++)
                out[r * RUN + j] = scale * (float)(q[j] >> shift & 15) - offset;
        }
    }
}

/* As Q4_K, with 32 bytes of high bits (bit r of byte j belongs to weight j of run r) before the nibbles. */
TV_CLONES void tv_block_decode_q5_k(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q5_K_BYTES, out += TV_BLOCK_LARGE) {
        float d = load_f16(blocks), m = load_f16(blocks + 2);
        const uint8_t *high = blocks + 16;
        for (unsigned r = 0; r < RUNS; r++) {
            const uint8_t *q = blocks + 48 + r / 2 * RUN;
            unsigned shift = r % 2 * 4;
            float scale, offset;
            load_scale_and_offset(blocks + 4, r, &scale, &offset);
            scale *= d;
            offset *= m;
            for (unsigned j = 0; j < RUN; j++)
                out[r * RUN + j] = scale * (float)((q[j] >> shift & 15) + (high[j] >> r & 1) * 16) - offset;
        }
    }
}

/* 128 bytes of nibbles (per half of the block 64: weights 0 to 63 in the low ones, 64 to 127 in the high ones), 64
 * bytes of high two bits as in Q2_K, 16 signed group scales s, d: (d s) (q - 32). */
TV_CLONES void tv_block_decode_q6_k(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_Q6_K_BYTES, out += TV_BLOCK_LARGE) {
        float d = load_f16(blocks + 208);
        for (unsigned g = 0; g < TV_BLOCK_LARGE / GROUP; g++) {
            const uint8_t *low = blocks + g / 8 * 64 + g % 4 * GROUP, *high = blocks + 128 + g / 8 * 32 + g % 2 * GROUP;
            unsigned low_shift = g / 4 % 2 * 4, high_shift = g / 2 % 4 * 2;
            float scale = d * (float)(int8_t)blocks[192 + g];
            for (unsigned j = 0; j < GROUP; j++)
                out[g * GROUP + j] =
                    scale * (float)((low[j] >> low_shift & 15) + (high[j] >> high_shift & 3) * 16 - 32);
        }
    }
}

/* ---- Formats with a table of values ---- */

static const float iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* d, 16 bytes of nibbles: d values[q] */
void tv_block_decode_iq4_nl(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_IQ4_NL_BYTES, out += TV_BLOCK_SMALL) {
        float d = load_f16(blocks);
        const uint8_t *q = blocks + 2;
        for (unsigned j = 0; j < HALF; j++) {
            out[j] = d * iq4_values[q[j] & 15];
            out[j + HALF] = d * iq4_values[q[j] >> 4];
        }
    }
}

/* d, 16 bits with the high two bits of each run's scale s, 4 bytes with the low nibbles, 128 bytes of nibbles (16 per
 * run): (d (s - 32)) values[q] */
void tv_block_decode_iq4_xs(const uint8_t *blocks, size_t count, float *restrict out)
{
    for (size_t b = 0; b < count; b++, blocks += TV_IQ4_XS_BYTES, out += TV_BLOCK_LARGE) {
        float d = load_f16(blocks);
        unsigned high = tv_load_le16(blocks + 2);
        for (unsigned r = 0; r < RUNS; r++) {
            const uint8_t *q = blocks + 8 + r * HALF;
            int s = (blocks[4 + r / 2] >> r % 2 * 4 & 15) | (int)(high >> 2 * r & 3) << 4;
            float scale = d * (float)(s - 32), scaled[16];
            for (unsigned k = 0; k < 16; k++)
                scaled[k] = scale * iq4_values[k];
            for (unsigned j = 0; j < HALF; j++) {
                out[r * RUN + j] = scaled[q[j] & 15];
                out[r * RUN + HALF + j] = scaled[q[j] >> 4];
            }
        }
    }
}
