/* SPDX-License-Identifier: Apache-2.0 */
/* Every lane that an OpenNPU instruction writes, against a second machine that keeps the registers as byte planes and
 * computes with GMP's integers: each result exactly first, then cut, limited or rounded as section 3 of the
 * specification says.
 *
 * The machine is seen through the public interface only. It may hold registers in other forms than byte planes, so that
 * operands come through the host's spaces or out of other instructions, registers overlap in all ways, and nobody looks
 * in between. */
#include "opennpu_reference.h"
#include "trivet/trivet.h"

/* ---- Both machines side by side ---- */

typedef struct pair {
    npu s;
    tv_machine *machine;
    tv_program *loaded;
} pair;

/* `kernels` is a set of the host's kernels (tv_kernels_at); NULL: the one it would take by itself. */
static void pair_init(pair *p, unsigned k, unsigned l, tv_mode mode, const char *kernels)
{
    tv_config *config;
    const char *wanted = getenv("TRIVET_KERNELS");
    char text[16], before[16] = "";
    memset(p, 0, sizeof *p);
    p->s.k = k;
    p->s.l = l;
    assert_int_equal(tv_config_new("opennpu", NULL, &config), TV_OK);
    snprintf(text, sizeof text, "%u", k);
    assert_int_equal(tv_config_set(config, "vector.k", text, NULL), TV_OK);
    snprintf(text, sizeof text, "%u", l);
    assert_int_equal(tv_config_set(config, "vector.l", text, NULL), TV_OK);
    snprintf(text, sizeof text, "%d", MEM_BYTES);
    assert_int_equal(tv_config_set(config, "mem.bytes", text, NULL), TV_OK);
    if (kernels) {
        snprintf(before, sizeof before, "%s", wanted ? wanted : "");
        setenv("TRIVET_KERNELS", kernels, 1);
    }
    assert_int_equal(tv_machine_new(config, mode, NULL, &p->machine), TV_OK);
    if (kernels)
        setenv("TRIVET_KERNELS", before, 1);
    tv_config_free(config);
}

/* The host's sets of kernels but the last, which it takes by itself; NULL past those. */
static const char *lesser_kernels(unsigned i) { return tv_kernels_at(i + 1) ? tv_kernels_at(i) : NULL; }

static tv_program *program_of(const insn *code, unsigned count)
{
    static char text[64 + 24 * WORDS_MAX];
    tv_program *program;
    assert_true(count <= WORDS_MAX);
    int at = snprintf(text, sizeof text, "        .target opennpu\n");
    for (unsigned n = 0; n < count; n++)
        at += snprintf(text + at, sizeof text - (size_t)at, "        .word 0x%08x\n", (unsigned)encode(&code[n]));
    assert_int_equal(tv_program_assemble("lanes.s", text, (size_t)at, NULL, NULL, &program), TV_OK);
    return program;
}

/* The register's bytes as the spaces show them: lane after lane. */
static size_t register_bytes(const npu *s, unsigned class_, unsigned reg, uint8_t *out)
{
    size_t n = 0;
    for (unsigned j = 0; j < s->k; j++)
        for (unsigned b = 0; b < 1u << class_; b++)
            out[n++] = s->plane[(reg << class_) + b][j];
    return n;
}

static void write_register(pair *p, unsigned class_, unsigned reg)
{
    uint8_t bytes[4 * K_MAX];
    size_t n = register_bytes(&p->s, class_, reg, bytes);
    assert_int_equal(tv_machine_write(p->machine, space_of[class_], reg, bytes, n, NULL), TV_OK);
}

/* The first difference between the machines, as text; registers are looked at as `class_`. */
static bool differ(const pair *p, const npu *s, unsigned class_, char text[160])
{
    uint8_t got[4 * K_MAX * K_MAX], want[4 * K_MAX];
    assert_int_equal(tv_machine_read(p->machine, space_of[class_], 0, got, s->k * s->l, NULL), TV_OK);
    for (unsigned reg = 0; reg < s->l >> class_; reg++) {
        size_t n = register_bytes(s, class_, reg, want), at = 0;
        if (memcmp(got + reg * n, want, n) == 0)
            continue;
        while (got[reg * n + at] == want[at])
            at++;
        snprintf(text, 160, "byte %u of lane %u of %s%u is %02x, not %02x", (unsigned)at & ((1u << class_) - 1),
                 (unsigned)at >> class_, space_of[class_], reg, want[at], got[reg * n + at]);
        return true;
    }
    const struct {
        const char *name;
        const void *bytes;
        size_t count;
    } others[] = {{"lut_a", s->lut[0], 256},
                  {"lut_b", s->lut[1], 256},
                  {"mem", s->mem, MEM_BYTES},
                  {"acc", s->acc, 4ul * s->k * s->k}};
    for (size_t o = 0; o < COUNT(others); o++) {
        assert_int_equal(tv_machine_read(p->machine, others[o].name, 0, got, others[o].count, NULL), TV_OK);
        size_t at = 0;
        while (at < others[o].count && got[at] == ((const uint8_t *)others[o].bytes)[at])
            at++;
        if (at < others[o].count) {
            snprintf(text, 160, "byte %zu of %s is %02x, not %02x", at, others[o].name,
                     ((const uint8_t *)others[o].bytes)[at], got[at]);
            return true;
        }
    }
    return false;
}

/* Loads the program and runs it, in one go or in steps. False and why in `text`: it faults. */
static bool run_or_say(pair *p, const insn *code, unsigned count, bool in_steps, char text[160])
{
    tv_program *program = program_of(code, count);
    tv_stop_reason why = TV_STOP_UNTIL;
    assert_int_equal(tv_machine_load(p->machine, program, NULL), TV_OK);
    tv_program_free(p->loaded);
    p->loaded = program;
    while (why == TV_STOP_UNTIL)
        if ((in_steps ? tv_machine_step(p->machine, &why) : tv_machine_run(p->machine, NULL, &why)) != TV_OK) {
            const tv_fault *fault = tv_machine_fault(p->machine);
            snprintf(text, 160, "%s faults: %s", fault->disassembly, fault->message);
            return false;
        }
    return true;
}

static void run(pair *p, const insn *code, unsigned count)
{
    char text[160];
    if (!run_or_say(p, code, count, false, text))
        fail_msg("K = %u: %s", p->s.k, text);
}

static void pair_fini(pair *p)
{
    tv_machine_free(p->machine);
    tv_program_free(p->loaded);
}

/* The drain column has no space: it is turned to where it must be. */
static void write_all(pair *p, const npu *s)
{
    insn code[1 + K_MAX] = {{.family = MMA, .funct3 = 2}};
    for (unsigned n = 0; n < s->column; n++)
        code[1 + n] = (insn){.family = MMA, .funct3 = 1};
    run(p, code, 1 + s->column);
    p->s = *s;
    for (unsigned reg = 0; reg < s->l; reg++)
        write_register(p, VX, reg);
    tv_machine_write(p->machine, "lut_a", 0, s->lut[0], 256, NULL);
    tv_machine_write(p->machine, "lut_b", 0, s->lut[1], 256, NULL);
    tv_machine_write(p->machine, "mem", 0, s->mem, MEM_BYTES, NULL);
    tv_machine_write(p->machine, "acc", 0, s->acc, 4ul * s->k * s->k, NULL);
}

/* After a difference: the shortest beginning of the program that shows one. */
static void blame(pair *p, const npu *start, const insn *code, unsigned count, const char *text)
{
    char now[160];
    npu s = *start;
    for (unsigned n = 0; n < count; n++) {
        step(&s, &code[n]);
        write_all(p, start);
        bool ran = run_or_say(p, code, n + 1, false, now);
        for (unsigned class_ = VX; class_ <= VR; class_++)
            if (!ran || differ(p, &s, class_, now)) {
                for (unsigned w = 0; w <= n; w++)
                    print_error("        .word 0x%08x\n", (unsigned)encode(&code[w]));
                fail_msg("K = %u, L = %u: after these %u words %s", s.k, s.l, n + 1, now);
            }
    }
    fail_msg("K = %u, L = %u: %s; not seen again when the program of %u words is repeated", s.k, s.l, text, count);
}

/* Both run the program, the second machine first; then everything is compared, the registers as `class_`. */
static void check_program(pair *p, const insn *code, unsigned count, unsigned class_, bool in_steps)
{
    static npu start;
    char text[160];
    start = p->s;
    for (unsigned n = 0; n < count; n++)
        step(&p->s, &code[n]);
    if (!run_or_say(p, code, count, in_steps, text) || differ(p, &p->s, class_, text))
        blame(p, &start, code, count, text);
}

/* ---- Operands ---- */

static uint32_t integer(unit_rng *rng, unsigned bits)
{
    static const int roots[] = {11, 12, 181, 182, 46340, 46341};
    uint32_t x = (uint32_t)unit_sized(rng, bits), d = (uint32_t)unit_below(rng, 3) - 1,
             mask = (uint32_t)((1ull << bits) - 1);
    switch (unit_below(rng, 8)) {
    case 0:
        x = d;
        break;
    case 1:
        x = (1u << (bits - 1)) + d;
        break; /* both ends */
    case 2:
        x = (1u << unit_below(rng, bits)) + d;
        break;
    case 3:
        x = (uint32_t)roots[unit_below(rng, COUNT(roots))];
        break; /* products about the ends */
    case 4:
        x = (uint32_t)unit_next(rng);
        break;
    case 5:
        x = (uint32_t)unit_next(rng) & UINT32_MAX << unit_below(rng, bits);
        break;
    default:
        break;
    }
    return (unit_below(rng, 2) ? x : 0 - x) & mask;
}

static const uint32_t float_corners[] = {
    0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x0C000000,
    0x1FFFFFFF, 0x20000000, 0x33800000, 0x34000000, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001,
    0x3FC00000, 0x40000000, 0x4B000001, 0x4B800000, 0x5F7FFFFF, 0x5F800000, 0x7F000000, 0x7F7FFFFE,
    0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF,
};
enum { FLOAT_CORNERS = 2 * COUNT(float_corners) };

static uint32_t float_corner(uint64_t n) { return float_corners[n / 2 % COUNT(float_corners)] | (n & 1 ? SIGN : 0); }

static int about(unit_rng *rng, int centre, unsigned width)
{
    return centre + (int)unit_below(rng, 2 * width + 1) - (int)width;
}

/* A float of this biased exponent: any significand, few significant bits (ties), or nearly the next power of two. */
static uint32_t float_at(unit_rng *rng, int exponent)
{
    uint64_t r = unit_next(rng);
    uint32_t man = (uint32_t)r & 0x7FFFFF;
    if (r >> 32 & 1)
        man &= UINT32_C(0x7FFFFF) << (r >> 33) % 24;
    if ((r >> 40 & 7) == 0)
        man = 0x7FFFFF - (uint32_t)(r >> 44 & 3);
    exponent = exponent < 0 ? 0 : exponent > 255 ? 255 : exponent;
    return (r >> 63 ? SIGN : 0) | (uint32_t)exponent << 23 | man;
}

static int exponent_of(uint32_t a) { return (int)(a >> 23 & 0xFF); }

/* What cancels a but for a few last places. */
static uint32_t nearly_minus(unit_rng *rng, uint32_t a) { return (a ^ SIGN) + (uint32_t)unit_below(rng, 5) - 2; }

/* Operand `n` of an operation, into v[RS1] …; corners first where they can be counted. */
typedef void operands(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS]);

static void two_integers(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    unsigned bits = 8u << i->width;
    bool counted = bits == 8 && n < 65536;
    v[RS1] = counted ? (uint32_t)n & 255 : integer(rng, bits);
    v[RS2] = counted ? (uint32_t)n >> 8 : integer(rng, bits);
}

/* All lanes of a register of one sort: a few bits missing or set, all large, all corners. */
static void one_register(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    unsigned bits = 8u << i->width;
    uint32_t high = UINT32_MAX >> (33 - bits), bit = unit_below(rng, 40) ? 0 : 1u << unit_below(rng, bits);
    switch (n / K_MAX % 8) {
    case 0:
        v[RS1] = ~bit;
        break;
    case 1:
        v[RS1] = bit;
        break;
    case 2:
        v[RS1] = high - (uint32_t)unit_below(rng, 3);
        break;
    case 3:
        v[RS1] = high + 1 + (uint32_t)unit_below(rng, 3);
        break;
    case 4:
        v[RS1] = (uint32_t)unit_next(rng);
        break;
    default:
        v[RS1] = integer(rng, bits);
        break;
    }
}

static void sum_operands(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    *a = float_at(rng, e);
    switch (unit_below(rng, 8)) {
    case 0:
        *a = (uint32_t)unit_next(rng), *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *b = float_at(rng, about(rng, e, 3));
        break;
    case 2:
        *b = float_at(rng, about(rng, e - 24, 3));
        break;
    case 3:
        *b = nearly_minus(rng, *a);
        break;
    case 4:
        *a = float_at(rng, about(rng, 253, 2)), *b = float_at(rng, about(rng, 253, 2));
        break;
    case 5:
        *a = float_at(rng, about(rng, 3, 3)), *b = float_at(rng, about(rng, 3, 3));
        break;
    case 6:
        *a = float_at(rng, about(rng, 253, 1)), *b = float_at(rng, about(rng, 229, 2));
        break;
    default:
        *b = float_corner(unit_next(rng) >> 8);
        break;
    }
}

static void product_operands(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    *a = float_at(rng, e);
    switch (unit_below(rng, 6)) {
    case 0:
        *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *b = float_at(rng, about(rng, 381 - e, 2));
        break; /* about the largest */
    case 2:
        *b = float_at(rng, about(rng, 128 - e, 2));
        break; /* about the least normal number */
    case 3:
        *b = float_at(rng, about(rng, 115 - e, 14));
        break; /* where subnormals would be */
    case 4:
        *b = float_at(rng, about(rng, 127, 20));
        break;
    default:
        *b = float_corner(unit_next(rng) >> 8);
        break;
    }
}

static void two_floats(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    if (n < FLOAT_CORNERS * FLOAT_CORNERS)
        v[RS1] = float_corner(n % FLOAT_CORNERS), v[RS2] = float_corner(n / FLOAT_CORNERS);
    else if (i->funct3 == 2)
        product_operands(rng, &v[RS1], &v[RS2]);
    else
        sum_operands(rng, &v[RS1], &v[RS2]);
    if (i->funct3 == 5 || i->funct3 == 6)
        v[RS2] ^= n & 1 ? SIGN : 0; /* close numbers of one sign */
}

static void three_floats(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    uint32_t *a = &v[RS1], *b = &v[RS2], *c = &v[RS3];
    product_operands(rng, a, b);
    int e = exponent_of(*a) + exponent_of(*b) - 127;
    switch (unit_below(rng, 8)) {
    case 0:
        *c = (uint32_t)unit_next(rng);
        break;
    case 1:
        *c = float_at(rng, about(rng, e, 3));
        break;
    case 2:
        *c = float_at(rng, about(rng, e + 24, 4));
        break;
    case 3:
        *c = float_at(rng, about(rng, e - 24, 26));
        break;
    case 4:
        *c = nearly_minus(rng, product(*a, *b, NEAREST)) ^ (n & 1 ? SIGN : 0);
        break; /* what rounding of the product drops */
    case 5:
        *c = float_corner(unit_next(rng) >> 8);
        break;
    case 6:
        sum_operands(rng, b, c);
        *a = unit_below(rng, 2) ? ONE : float_at(rng, about(rng, 127, 2));
        break;
    default:
        *a = float_corner(unit_next(rng)), *b = float_corner(unit_next(rng)), *c = float_corner(unit_next(rng));
        break;
    }
    (void)i;
}

/* About the boundaries of a format with `kept` bits of significand. */
static uint32_t float_about_tie(unit_rng *rng, unsigned kept, int exponent)
{
    uint32_t last = 1u << (23 - kept), middle = last / 2;
    const uint32_t tails[] = {0, 1, middle - 1, middle, middle + 1, last - 1, (uint32_t)unit_next(rng) & (last - 1)};
    uint32_t man = ((uint32_t)unit_next(rng) & 0x7FFFFF & ~(last - 1)) | tails[unit_below(rng, COUNT(tails))];
    return (float_at(rng, exponent) & 0xFF800000) | man;
}

/* A whole number over a power of two, or its neighbour: ties and the ends of s32, s16 or s8. */
static uint32_t float_about_integer(unit_rng *rng, unsigned bits)
{
    float f = (float)((double)integer(rng, 32) / (double)(1u << unit_below(rng, bits == 8 ? 26 : 4)));
    uint32_t a;
    memcpy(&a, &f, sizeof a);
    return (a + (uint32_t)unit_below(rng, 3) - 1) ^ (unit_below(rng, 2) ? SIGN : 0);
}

/* n / 4, or its neighbour. */
static uint32_t quarters(uint64_t n, uint64_t neighbour)
{
    float f = (float)((double)n / 4);
    uint32_t a;
    memcpy(&a, &f, sizeof a);
    return a + (uint32_t)neighbour - 1;
}

static void one_to_convert(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    unsigned to = i->funct3;
    if (i->from != F32) {
        unsigned bits = 8u << class_of_format[i->from];
        v[RS1] = bits < 32 && n < 1u << bits ? (uint32_t)n
                 : i->from == BF16           ? (uint32_t)unit_next(rng)
                                             : integer(rng, bits);
    } else if (n < 8 * FLOAT_CORNERS) {
        v[RS1] = float_corner(n) + (uint32_t)(n / FLOAT_CORNERS);
    } else if (to <= S32 && n < 16384) { /* every tie and both ends of s8 */
        v[RS1] = quarters(n % 1365, n / 1365 % 3) ^ (n / 4096 & 1 ? SIGN : 0);
    } else if (to <= S32) {
        v[RS1] = n & 3 ? float_about_integer(rng, 8u << to) : float_at(rng, about(rng, 142, 22));
    } else if (to == BF16) {
        v[RS1] = float_about_tie(rng, 7, (int)unit_below(rng, 256));
    } else {
        v[RS1] = n & 7 ? float_about_tie(rng, i->e5m2 ? 2 : 3, about(rng, 127, 20)) : (uint32_t)unit_next(rng);
    }
}

/* ---- One operation on many operands ---- */

/* The first with all operands, the others with fewer: of other sizes, then of the first's with other kernels. */
enum { SIZES = 5, PAIRS = SIZES + 4 };
static const unsigned lane_counts[SIZES] = {K_MAX, 8, 4, 16, 32};
static pair pairs[PAIRS];
static unsigned pair_count;

static int setup(void **state)
{
    (void)state;
    while (pair_count < SIZES || (pair_count < PAIRS && lesser_kernels(pair_count - SIZES))) {
        unsigned n = pair_count++;
        pair_init(&pairs[n], n < SIZES ? lane_counts[n] : K_MAX, L_MAX, n & 1 ? TV_MODE_FULL : TV_MODE_FUNCTIONAL,
                  n < SIZES ? NULL : lesser_kernels(n - SIZES));
    }
    return setup_numbers();
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned n = 0; n < pair_count; n++)
        pair_fini(&pairs[n]);
    return teardown_numbers();
}

/* Bits that the instruction does not look at. */
static void add_noise(unit_rng *rng, insn *i)
{
    unsigned c[FIELDS], f = i->funct3;
    classes_of(i, c);
    for (unsigned r = RD; r < RS3; r++)
        if (c[r] == NONE)
            i->reg[r] = (unsigned)unit_below(rng, 32);
    i->dtype = (unsigned)unit_below(rng, 3);
    if (i->family == FP || i->family == MMA || i->family == LUT)
        i->width = (unsigned)unit_below(rng, 3);
    if (i->family < CVT || i->family == BCAST || i->family == MOV || (i->family == FP && f > 2))
        i->round = (unsigned)unit_below(rng, 4);
    if ((i->family > ARITH && i->family != CVT) || (i->family == MMA && f == 2))
        i->sat = (unsigned)unit_below(rng, 2);
}

/* Distinct sources; a destination that overlaps them one time in three. */
static void choose_registers(unit_rng *rng, insn *i, unsigned l)
{
    unsigned c[FIELDS];
    classes_of(i, c);
    do {
        for (unsigned r = RS1; r < FIELDS; r++)
            i->reg[r] = c[r] == NONE ? 40 + r : (unsigned)unit_below(rng, l >> c[r]);
    } while (i->reg[RS1] == i->reg[RS2] || i->reg[RS1] == i->reg[RS3] || i->reg[RS2] == i->reg[RS3]);
    unsigned of = RS1 + (unsigned)unit_below(rng, 3), row = (unsigned)unit_below(rng, l);
    if (unit_below(rng, 3) == 0 && c[of] != NONE)
        row = (i->reg[of] << c[of]) + (unsigned)unit_below(rng, 1u << c[of]);
    i->reg[RD] = row >> c[RD];
}

/* Instructions before it that bring its sources into the form of their own class, of bytes, or leave them as the host
 * wrote them. */
static unsigned lead_in(const insn *i, unsigned form, insn *code)
{
    unsigned c[FIELDS], n = 0;
    classes_of(i, c);
    for (unsigned r = RS1; r < FIELDS; r++) {
        if (c[r] == NONE || form == 0)
            continue;
        if (form == 1)
            code[n++] = (insn){.family = MOV, .width = c[r], .reg = {i->reg[r], i->reg[r]}};
        for (unsigned b = 0; form == 2 && b < 1u << c[r]; b++) {
            unsigned row = (i->reg[r] << c[r]) + b;
            code[n++] = (insn){.family = LOGIC, .funct3 = 6, .reg = {row, row, row}};
        }
    }
    code[n++] = *i;
    return n;
}

static void fail_lane(const pair *p, const insn *i, uint32_t v[FIELDS][K_MAX], unsigned class_, const uint8_t *got)
{
    for (unsigned j = 0; j < p->s.k; j++) {
        uint32_t want = lane(&p->s, class_, i->reg[RD], j), x = 0;
        for (unsigned b = 0; b < 1u << class_; b++)
            x |= (uint32_t)got[(j << class_) + b] << 8 * b;
        if (x != want)
            fail_msg("K = %u: .word 0x%08x: lane %u of sources %08x %08x %08x is %08x, not %08x", p->s.k,
                     (unsigned)encode(i), j, (unsigned)v[RS1][j], (unsigned)v[RS2][j], (unsigned)v[RS3][j],
                     (unsigned)want, (unsigned)x);
    }
}

/* Lanes n … of the operands through one choice of registers; returns how many. */
static uint64_t check_once(pair *p, unit_rng *rng, const insn *i, operands *make, uint64_t n)
{
    uint32_t v[FIELDS][K_MAX] = {{0}}, x[FIELDS] = {0};
    uint8_t got[4 * K_MAX], want[4 * K_MAX];
    unsigned c[FIELDS];
    tv_stop_reason why;
    classes_of(i, c);
    for (unsigned j = 0; j < p->s.k; j++) {
        make(rng, i, n + j, x);
        for (unsigned r = RS1; r < FIELDS; r++)
            if (c[r] != NONE)
                set_lane(&p->s, c[r], i->reg[r], j, v[r][j] = x[r]);
    }
    for (unsigned r = RS1; r < FIELDS; r++)
        if (c[r] != NONE)
            write_register(p, c[r], i->reg[r]);
    step(&p->s, i);
    tv_machine_load(p->machine, p->loaded, NULL);
    if (tv_machine_run(p->machine, NULL, &why) != TV_OK)
        fail_msg(".word 0x%08x: %s", (unsigned)encode(i), tv_machine_fault(p->machine)->message);
    size_t bytes = register_bytes(&p->s, c[RD], i->reg[RD], want);
    tv_machine_read(p->machine, space_of[c[RD]], i->reg[RD], got, bytes, NULL);
    if (memcmp(got, want, bytes) != 0)
        fail_lane(p, i, v, c[RD], got);
    return p->s.k;
}

static void check_registers(pair *p, unit_rng *rng, const insn *i, operands *make, uint64_t *n, uint64_t end)
{
    static unsigned form;
    insn code[WORDS_MAX];
    char text[160];
    run(p, code, lead_in(i, form++ % 3, code)); /* whatever it does now is overwritten or compared */
    for (unsigned m = 0, count = lead_in(i, 0, code); m < count; m++)
        step(&p->s, &code[m]);
    while (*n < end)
        *n += check_once(p, rng, i, make, *n);
    if (differ(p, &p->s, form % 3, text)) /* nothing else has changed */
        fail_msg("K = %u: .word 0x%08x: %s", p->s.k, (unsigned)encode(i), text);
}

static void check_variant(const insn *variant, operands *make)
{
    unit_rng rng = {encode(variant)};
    for (unsigned b = 0; b < pair_count; b++) {
        insn i = *variant;
        uint64_t lanes = b == 0 ? LANES : b < SIZES ? LANES / 16 : LANES / 4, n = 0;
        write_all(&pairs[b], &pairs[b].s); /* alike, whatever came before */
        for (unsigned choice = 1; choice <= REGISTER_CHOICES; choice++) {
            choose_registers(&rng, &i, L_MAX);
            add_noise(&rng, &i);
            check_registers(&pairs[b], &rng, &i, make, &n, lanes * choice / REGISTER_CHOICES);
        }
        i.reg[RS1] = i.reg[RS2] = i.reg[RS3] =
            (unsigned)unit_below(&rng, L_MAX / 4); /* sources alike, then the destination too */
        check_registers(&pairs[b], &rng, &i, make, &n, n + lanes / 64);
        i.reg[RD] = i.reg[RS1];
        check_registers(&pairs[b], &rng, &i, make, &n, n + lanes / 64);
    }
}

static void integer_results_are_exact_then_cut_or_limited(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 8; funct3++)
        for (unsigned width = VX; width <= VR; width++)
            for (unsigned sat = 0; sat < 2; sat++)
                check_variant(&(insn){.family = ARITH, .funct3 = funct3, .width = width, .sat = sat}, two_integers);
}

static void shifts_and_bits_take_amounts_from_their_own_lane(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 8; funct3++)
        for (unsigned width = VX; width <= VR; width++)
            check_variant(&(insn){.family = LOGIC, .funct3 = funct3, .width = width}, two_integers);
}

static void reductions_extend_their_lanes_and_fill_a_vr(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 6; funct3++)
        for (unsigned width = VX; width <= VR; width++)
            check_variant(&(insn){.family = REDUCE, .funct3 = funct3, .width = width}, one_register);
}

static void float_results_are_rounded_once_in_the_mode_of_the_field(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 7; funct3++)
        for (unsigned round = 0; round < (funct3 < 3 ? MODES : 1); round++)
            check_variant(&(insn){.family = FP, .funct3 = funct3, .round = round}, two_floats);
}

static void fused_results_are_rounded_once_in_the_mode_of_the_field(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 4; funct3++)
        for (unsigned round = 0; round < MODES; round++)
            check_variant(&(insn){.family = FMA, .funct3 = funct3, .round = round}, three_floats);
}

/* Every attribute also where the pair does not look at it. */
static void conversions_round_limit_and_flush(void **state)
{
    (void)state;
    for (size_t n = 0; n < COUNT(conversions); n++)
        for (unsigned v = 0; v < 16; v++) {
            insn i = {.family = CVT,
                      .funct3 = conversions[n].to,
                      .from = conversions[n].from,
                      .sat = v & 1,
                      .round = v >> 1 & 3,
                      .e5m2 = v >> 3};
            bool rounds = i.from == F32 || (i.from == S32 && i.funct3 == F32),
                 has_bf8 = i.from == BF8 || i.funct3 == BF8;
            bool limits = i.funct3 <= S32 && (i.from == F32 || i.from == S32);
            if ((rounds || !i.round || v == 6) && (has_bf8 || !i.e5m2 || v == 15) && (limits || !i.sat || v == 15))
                check_variant(&i, one_to_convert);
        }
}

static void broadcasts_and_moves_work_at_every_width(void **state)
{
    (void)state;
    for (unsigned width = VX; width <= VR; width++) {
        check_variant(&(insn){.family = BCAST, .width = width}, two_integers);
        check_variant(&(insn){.family = MOV, .width = width}, two_integers);
    }
}

/* ---- Programs ---- */

/* A register of the class; half the time one of the first eight rows, where the classes meet. */
static unsigned any_register(unit_rng *rng, unsigned class_, unsigned l)
{
    unsigned rows = l > 8 && unit_below(rng, 2) ? 8 : l;
    return (unsigned)unit_below(rng, rows >> class_);
}

static void any_registers(unit_rng *rng, insn *i, const npu *s)
{
    unsigned c[FIELDS];
    classes_of(i, c);
    for (unsigned r = RD; r < FIELDS; r++)
        i->reg[r] = c[r] == NONE ? 0 : any_register(rng, c[r], s->l);
    if (unit_below(rng, 6) == 0 && c[RS1] == c[RS2])
        i->reg[RS2] = i->reg[RS1];
    if (unit_below(rng, 6) == 0 && c[RS1] == c[RD])
        i->reg[RD] = i->reg[RS1];
    add_noise(rng, i);
}

static unsigned one(unit_rng *rng, const npu *s, insn i, insn *code)
{
    any_registers(rng, &i, s);
    *code = i;
    return 1;
}

/* A load or store. Its base, lane 0 of a VR, comes out of writes to single bytes of it, and half the time once more as
 * VR: 2048 to 4095. */
static unsigned memory_insns(unit_rng *rng, const npu *s, insn *code)
{
    unsigned base = any_register(rng, VR, s->l);
    insn i = {.family = LD + (unsigned)unit_below(rng, 2),
              .funct3 = (unsigned)unit_below(rng, 6),
              .imm = (int)unit_below(rng, 4096) - 2048};
    any_registers(rng, &i, s);
    i.reg[RS1] = base;
    code[0] = (insn){.family = MOV, .funct3 = 2, .reg = {2 * base}, .imm = 8 + (int)unit_below(rng, 8)};
    code[1] = (insn){.family = MOV, .funct3 = 1, .reg = {4 * base + 2}, .imm = 0};
    code[2] = (insn){.family = MOV, .funct3 = 2, .reg = {2 * base + 1}, .imm = 256};
    code[3] = (insn){.family = MOV, .width = VR, .reg = {base, base}};
    unsigned n = 3 + (unsigned)unit_below(rng, 2);
    code[n] = i;
    return n + 1;
}

static unsigned table_insns(unit_rng *rng, const npu *s, insn *code)
{
    bool set = unit_below(rng, 4) == 0;
    unsigned bank = (unsigned)unit_below(rng, 2);
    return one(rng, s, (insn){.family = LUT, .funct3 = bank + (set ? 4 : 0), .imm = (int)unit_below(rng, 64 / s->k)},
               code);
}

/* movi, movh and bcast.imm in turn, each with every immediate in turn. */
static unsigned immediate_insns(unit_rng *rng, const npu *s, insn *code)
{
    static unsigned turn;
    unsigned funct3 = 1 + turn % 3;
    int imm = (int)(turn / 3 % 4096) - 2048;
    turn++;
    return one(rng, s, (insn){.family = funct3 == 3 ? BCAST : MOV, .funct3 = funct3 == 3 ? 1 : funct3, .imm = imm},
               code);
}

static unsigned mma_insns(unit_rng *rng, const npu *s, insn *code)
{
    unsigned what = (unsigned)unit_below(rng, 20);
    return one(rng, s, (insn){.family = MMA, .funct3 = what == 0 ? 2 : what % 2, .sat = unit_below(rng, 4) != 0}, code);
}

/* Up to five instructions of any family. */
static unsigned any_insns(unit_rng *rng, const npu *s, insn *code)
{
    static const unsigned char families[] = {ARITH, ARITH, ARITH, ARITH, ARITH, LOGIC, LOGIC, LOGIC, LOGIC, REDUCE,
                                             CVT,   CVT,   CVT,   CVT,   FP,    FP,    FMA,   FMA,   FMA,   BCAST,
                                             MOV,   MOV,   MOV,   LUT,   LUT,   MMA,   LD,    LD,    NOP};
    static const unsigned char counts[] = {
        [NOP] = 8, [ARITH] = 8, [LOGIC] = 8, [REDUCE] = 6, [CVT] = 1, [BCAST] = 1, [FP] = 7, [FMA] = 4, [MOV] = 1};
    insn i = {.family = families[unit_below(rng, COUNT(families))]};
    switch (i.family) {
    case LD:
        return memory_insns(rng, s, code);
    case MMA:
        return mma_insns(rng, s, code);
    case LUT:
        return table_insns(rng, s, code);
    case BCAST:
    case MOV:
        if (unit_below(rng, 2))
            return immediate_insns(rng, s, code);
        break;
    default:
        break;
    }
    i.funct3 = (unsigned)unit_below(rng, counts[i.family]);
    i.width = (unsigned)unit_below(rng, 3);
    i.sat = (unsigned)unit_below(rng, 2);
    i.round = (unsigned)unit_below(rng, MODES);
    if (i.family == CVT) {
        size_t n = (size_t)unit_below(rng, COUNT(conversions));
        i.funct3 = conversions[n].to;
        i.from = conversions[n].from;
        i.e5m2 = (unsigned)unit_below(rng, 2);
    }
    return one(rng, s, i, code);
}

/* Four bytes of a register: two sorts of floats, integers of the class, anything. */
static uint32_t any_bytes(unit_rng *rng, unsigned sort, unsigned class_)
{
    static const uint32_t repeat[] = {0x01010101, 0x00010001, 1};
    switch (sort) {
    case 0:
        return float_at(rng, about(rng, 127, 30));
    case 1:
        return float_corner(unit_next(rng) >> 8);
    case 2:
        return integer(rng, 8u << class_) * repeat[class_];
    default:
        return (uint32_t)unit_next(rng);
    }
}

/* The host writes from the beginning of a register on: a register, or any number of bytes, through any of the three
 * spaces. */
static void host_writes_registers(pair *p, unit_rng *rng)
{
    uint8_t bytes[K_MAX * L_MAX];
    unsigned class_ = (unsigned)unit_below(rng, 3), reg = any_register(rng, class_, p->s.l),
             sort = (unsigned)unit_below(rng, 4);
    size_t whole = (size_t)p->s.k << class_, most = (size_t)p->s.k * (p->s.l - (reg << class_));
    size_t n = unit_below(rng, 2) ? whole : 1 + (size_t)unit_below(rng, most);
    uint32_t x = 0;
    for (size_t at = 0; at < n; at++) {
        size_t of = reg + at / whole, in_register = at % whole;
        x = at % 4 ? x >> 8 : any_bytes(rng, sort, class_);
        bytes[at] = (uint8_t)x;
        p->s.plane[(of << class_) + in_register % (1u << class_)][in_register >> class_] = bytes[at];
    }
    assert_int_equal(tv_machine_write(p->machine, space_of[class_], reg, bytes, n, NULL), TV_OK);
}

static void host_writes_memory_and_tables(pair *p, unit_rng *rng)
{
    for (unsigned n = 0; n < MEM_BYTES; n++)
        p->s.mem[n] = (uint8_t)unit_next(rng);
    for (unsigned n = 0; n < 512; n++)
        p->s.lut[n / 256][n % 256] = (uint8_t)unit_next(rng);
    assert_int_equal(tv_machine_write(p->machine, "mem", 0, p->s.mem, MEM_BYTES, NULL), TV_OK);
    assert_int_equal(tv_machine_write(p->machine, "lut_a", 0, p->s.lut[0], 256, NULL), TV_OK);
    assert_int_equal(tv_machine_write(p->machine, "lut_b", 0, p->s.lut[1], 256, NULL), TV_OK);
}

/* ACC near its ends, so that sums wrap. */
static void host_writes_acc(pair *p, unit_rng *rng)
{
    for (unsigned n = 0; n < p->s.k * p->s.k; n++)
        p->s.acc[n] = (int32_t)((unit_below(rng, 2) ? SIGN : 0x7FFFFFFF) + (uint32_t)unit_below(rng, 60000) - 30000);
    assert_int_equal(tv_machine_write(p->machine, "acc", 0, p->s.acc, 4ul * p->s.k * p->s.k, NULL), TV_OK);
}

typedef unsigned generator(unit_rng *rng, const npu *s, insn *code);

/* Programs of up to `longest` instructions until `total` have run; the machines meet at the end of each program only.
 */
static void check_programs_with(const char *kernels, unsigned k, unsigned l, generator *next, unsigned total,
                                unsigned longest)
{
    static pair p;
    unit_rng rng = {k * 1000 + l};
    unsigned done = 0;
    pair_init(&p, k, l, k == K_MAX ? TV_MODE_FUNCTIONAL : TV_MODE_FULL, kernels);
    while (done < total) {
        insn code[WORDS_MAX];
        unsigned count = 0, length = 1 + (unsigned)unit_below(&rng, longest);
        while (count < length)
            count += next(&rng, &p.s, code + count);
        for (unsigned n = (unsigned)unit_below(&rng, 6); n > 0; n--)
            host_writes_registers(&p, &rng);
        if (unit_below(&rng, 16) == 0)
            host_writes_acc(&p, &rng);
        if (unit_below(&rng, 16) == 0)
            host_writes_memory_and_tables(&p, &rng);
        check_program(&p, code, count, (unsigned)unit_below(&rng, 3), unit_below(&rng, 8) == 0);
        done += count;
    }
    pair_fini(&p);
}

/* … and a quarter of them with each other set of kernels, which differ for the most lanes only. */
static void check_programs(unsigned k, unsigned l, generator *next, unsigned total, unsigned longest)
{
    const char *kernels;
    check_programs_with(NULL, k, l, next, total, longest);
    for (unsigned i = 0; k == K_MAX && (kernels = lesser_kernels(i)); i++)
        check_programs_with(kernels, k, l, next, total / 4, longest);
}

static void mixed_programs_leave_the_same_bits_everywhere(void **state)
{
    (void)state;
    check_programs(64, 32, any_insns, 90000, 50);
    check_programs(64, 4, any_insns, 30000, 12);
    check_programs(64, 8, any_insns, 30000, 40);
    check_programs(8, 32, any_insns, 60000, 250);
    check_programs(4, 16, any_insns, 40000, 30);
    check_programs(16, 8, any_insns, 30000, 30);
    check_programs(32, 12, any_insns, 30000, 30);
}

static void immediates_reach_one_byte_or_one_register(void **state)
{
    (void)state;
    check_programs(64, 32, immediate_insns, 3 * 4096, 100);
    check_programs(8, 32, immediate_insns, 3 * 4096, 100);
}

static void tables_are_written_in_segments_and_read_by_lanes(void **state)
{
    (void)state;
    static const unsigned ks[] = {64, 32, 16, 8, 4};
    for (size_t n = 0; n < COUNT(ks); n++)
        check_programs(ks[n], 32, table_insns, 2500, 20);
}

/* Outer products many in a row, so that any that wait are too many; then columns, past the last. */
static unsigned mma_burst(unit_rng *rng, const npu *s, insn *code)
{
    unsigned n = 0, products = (unsigned)unit_below(rng, 280), columns = (unsigned)unit_below(rng, s->k + 3);
    if (unit_below(rng, 4))
        n += one(rng, s, (insn){.family = MMA, .funct3 = unit_below(rng, 4) ? 0 : 2}, code);
    for (unsigned m = 0; m < products && n < WORDS_MAX - K_MAX - 8; m++) {
        if (unit_below(rng, 3) == 0) /* an operand changes right behind its use */
            n += one(rng, s, (insn){.family = ARITH, .funct3 = (unsigned)unit_below(rng, 8)}, code + n);
        n += one(rng, s, (insn){.family = MMA, .sat = 1}, code + n);
    }
    for (unsigned m = 0; m < columns; m++)
        n += one(rng, s, (insn){.family = MMA, .funct3 = 1, .sat = unit_below(rng, 4) == 0}, code + n);
    return n;
}

static void outer_products_add_up_and_leave_by_columns(void **state)
{
    (void)state;
    check_programs(64, 32, mma_burst, 9000, 1);
    check_programs(8, 32, mma_burst, 12000, 1);
    check_programs(4, 4, mma_burst, 4000, 1);
    check_programs(16, 32, mma_burst, 4000, 1);
    check_programs(32, 16, mma_burst, 4000, 1);
}

/* ---- Overlap, with numbers from the specification's formulas ---- */

static void expect_vr(pair *p, unsigned reg, uint32_t want)
{
    uint8_t got[4 * K_MAX];
    assert_int_equal(tv_machine_read(p->machine, "vr", reg, got, 4 * p->s.k, NULL), TV_OK);
    for (unsigned j = 0; j < p->s.k; j++)
        for (unsigned n = 0; n < 4; n++)
            assert_int_equal(got[4 * j + n], want >> 8 * n & 0xFF);
}

static insn bcast(unsigned row, int imm) { return (insn){.family = BCAST, .funct3 = 1, .reg = {row}, .imm = imm}; }

static void a_register_is_the_bytes_of_its_rows_whoever_wrote_them(void **state)
{
    (void)state;
    for (unsigned b = 0; b < pair_count; b++) {
        pair *p = &pairs[b];
        const insn rows[] = {bcast(4, 1), bcast(5, 2), bcast(6, 3), bcast(7, 4)};
        run(p, rows, 4);
        expect_vr(p, 1, 0x04030201);
        run(p, (insn[]){{.family = ARITH, .width = VR, .reg = {1, 1, 1}}}, 1);
        expect_vr(p, 1, 0x08060402);
        run(p, (insn[]){{.family = ARITH, .width = VE, .funct3 = 3, .reg = {3, 2}}, bcast(5, 0xFF)},
            2); /* ve3 = -0x0402 */
        expect_vr(p, 1, 0xFBFEFF02);
        run(p, (insn[]){{.family = REDUCE, .width = VX, .reg = {1, 7}}}, 1); /* K * -5 into its own rows */
        expect_vr(p, 1, 0u - 5 * p->s.k);
        run(p, (insn[]){{.family = CVT, .funct3 = F32, .from = S8, .reg = {1, 7}}}, 1); /* -1 */
        expect_vr(p, 1, 0xBF800000);
        run(p, (insn[]){{.family = CVT, .funct3 = BF16, .from = F32, .reg = {2, 1}}},
            1); /* 0xBF80 into its own low half */
        expect_vr(p, 1, 0xBF80BF80);
        run(p, (insn[]){{.family = CVT, .funct3 = S32, .from = F32, .reg = {1, 1}}}, 1); /* -1.0058 */
        expect_vr(p, 1, 0xFFFFFFFF);
    }
}

/* ---- Ticks ---- */

static void take_no_event(void *user, const tv_event *event)
{
    (void)event;
    ++*(unsigned *)user;
}

enum { PLAIN, TRACED, LIMITED, STEPPED, LOOKS };

static void run_looked_at(tv_machine *machine, const tv_program *program, unsigned look)
{
    const tv_run_limits limits = {sizeof limits, UINT64_MAX, UINT64_MAX - 1};
    unsigned events = 0;
    const tv_trace_sink sink = {take_no_event, &events};
    tv_stop_reason why = TV_STOP_UNTIL;
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    if (look == TRACED)
        tv_machine_trace(machine, &sink);
    while (why == TV_STOP_UNTIL)
        assert_int_equal(look == STEPPED ? tv_machine_step(machine, &why)
                                         : tv_machine_run(machine, look == LIMITED ? &limits : NULL, &why),
                         TV_OK);
    if (look == TRACED) {
        tv_machine_trace(machine, NULL);
        assert_true(events > 0);
    }
}

static void expect_the_same_books(const tv_machine *a, const tv_machine *b)
{
    tv_stats x = {.size = sizeof x};
    tv_stats y = {.size = sizeof y};
    tv_machine_stats(a, &x);
    tv_machine_stats(b, &y);
    assert_int_equal(x.cycles, y.cycles);
    assert_int_equal(x.macs, y.macs);
    for (unsigned e = 0; e < x.engine_count; e++) {
        assert_int_equal(x.engines[e].busy, y.engines[e].busy);
        assert_int_equal(x.engines[e].idle, y.engines[e].idle);
        for (unsigned c = 0; c < x.stall_reason_count; c++)
            assert_int_equal(x.engines[e].stalled[c], y.engines[e].stalled[c]);
    }
    for (unsigned n = 0; n < x.path_count; n++)
        assert_int_equal(x.paths[n].bytes, y.paths[n].bytes);
}

/* One machine is traced all the time, the other is looked at in a new way each program. */
static void whoever_looks_the_ticks_are_the_same(void **state)
{
    (void)state;
    static pair always, now_and_then;
    unit_rng rng = {7};
    unsigned turns[LOOKS] = {0};
    for (unsigned k = 8; k <= 64; k *= 8) {
        pair_init(&always, k, 32, TV_MODE_TIMING, NULL);
        pair_init(&now_and_then, k, 32, TV_MODE_TIMING, NULL);
        for (unsigned round = 0; round < 1500; round++) {
            insn code[WORDS_MAX];
            unsigned count = 0, length = 1 + (unsigned)unit_below(&rng, 60), look = (unsigned)unit_below(&rng, LOOKS);
            while (count < length)
                count += any_insns(&rng, &always.s, code + count);
            tv_program *program = program_of(code, count);
            run_looked_at(always.machine, program, TRACED);
            run_looked_at(now_and_then.machine, program, look);
            turns[look]++;
            expect_the_same_books(always.machine, now_and_then.machine);
            tv_program_free(always.loaded);
            always.loaded = program;
        }
        pair_fini(&now_and_then);
        pair_fini(&always);
    }
    for (unsigned n = 0; n < LOOKS; n++)
        assert_true(turns[n] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_register_is_the_bytes_of_its_rows_whoever_wrote_them),
        cmocka_unit_test(integer_results_are_exact_then_cut_or_limited),
        cmocka_unit_test(shifts_and_bits_take_amounts_from_their_own_lane),
        cmocka_unit_test(reductions_extend_their_lanes_and_fill_a_vr),
        cmocka_unit_test(float_results_are_rounded_once_in_the_mode_of_the_field),
        cmocka_unit_test(fused_results_are_rounded_once_in_the_mode_of_the_field),
        cmocka_unit_test(conversions_round_limit_and_flush),
        cmocka_unit_test(broadcasts_and_moves_work_at_every_width),
        cmocka_unit_test(immediates_reach_one_byte_or_one_register),
        cmocka_unit_test(tables_are_written_in_segments_and_read_by_lanes),
        cmocka_unit_test(outer_products_add_up_and_leave_by_columns),
        cmocka_unit_test(mixed_programs_leave_the_same_bits_everywhere),
        cmocka_unit_test(whoever_looks_the_ticks_are_the_same),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
