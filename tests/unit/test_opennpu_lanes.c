/* SPDX-License-Identifier: Apache-2.0 */
/* Compares every lane that an OpenNPU instruction writes with the reference model of opennpu_reference.h, which follows
 * section 3 of the specification.
 *
 * The simulator is accessed through its public interface only. It may store registers in other forms than byte planes,
 * so operands come from host writes or from other instructions, registers overlap in all ways, and states are compared
 * only at the end of a program. */
#include "opennpu_reference.h"
#include "trivet/trivet.h"

/* ---- The simulator and the reference ---- */

typedef struct machine_pair {
    reference_state s;
    tv_machine *machine;
    tv_program *loaded;
} machine_pair;

/* `kernels` is a kernel level of the host (tv_kernels_at); NULL: the default. */
static void pair_init(machine_pair *p, unsigned k, unsigned l, tv_mode mode, const char *kernels)
{
    tv_config *config;
    const char *level = getenv("TRIVET_KERNELS");
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
        snprintf(before, sizeof before, "%s", level ? level : "");
        setenv("TRIVET_KERNELS", kernels, 1);
    }
    assert_int_equal(tv_machine_new(config, mode, NULL, &p->machine), TV_OK);
    if (kernels)
        setenv("TRIVET_KERNELS", before, 1);
    tv_config_free(config);
}

/* The kernel levels of the host below the highest, which is the default; NULL past those. */
static const char *lower_kernel_level(unsigned i) { return tv_kernels_at(i + 1) ? tv_kernels_at(i) : NULL; }

static tv_program *assemble_insns(const insn *code, unsigned count)
{
    static char text[64 + 24 * PROGRAM_MAX];
    tv_program *program;
    assert_true(count <= PROGRAM_MAX);
    int at = snprintf(text, sizeof text, "        .target opennpu\n");
    for (unsigned n = 0; n < count; n++)
        at += snprintf(text + at, sizeof text - (size_t)at, "        .word 0x%08x\n", (unsigned)encode_insn(&code[n]));
    assert_int_equal(tv_program_assemble("lanes.s", text, (size_t)at, NULL, NULL, &program), TV_OK);
    return program;
}

/* The bytes of the register as its address space has them: lane after lane. */
static size_t register_bytes(const reference_state *s, unsigned class_, unsigned reg, uint8_t *out)
{
    size_t n = 0;
    for (unsigned j = 0; j < s->k; j++)
        for (unsigned b = 0; b < 1u << class_; b++)
            out[n++] = s->plane[(reg << class_) + b][j];
    return n;
}

static void write_register(machine_pair *p, unsigned class_, unsigned reg)
{
    uint8_t bytes[4 * K_MAX];
    size_t n = register_bytes(&p->s, class_, reg, bytes);
    assert_int_equal(tv_machine_write(p->machine, space_of[class_], reg, bytes, n, NULL), TV_OK);
}

/* Describes the first difference between the two states in `text`; registers are read as `class_`. False: none. */
static bool find_difference(const machine_pair *p, const reference_state *s, unsigned class_, char text[160])
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

/* Loads and runs the program, at once or in single steps. False: it faults, and `text` has the message. */
static bool try_run(machine_pair *p, const insn *code, unsigned count, bool in_steps, char text[160])
{
    tv_program *program = assemble_insns(code, count);
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

static void run_or_fail(machine_pair *p, const insn *code, unsigned count)
{
    char text[160];
    if (!try_run(p, code, count, false, text))
        fail_msg("K = %u: %s", p->s.k, text);
}

static void pair_fini(machine_pair *p)
{
    tv_machine_free(p->machine);
    tv_program_free(p->loaded);
}

/* Writes *s to both machines. The drain column has no address space: draining columns moves it to its value. */
static void write_state(machine_pair *p, const reference_state *s)
{
    insn code[1 + K_MAX] = {{.family = MMA, .funct3 = 2}};
    for (unsigned n = 0; n < s->column; n++)
        code[1 + n] = (insn){.family = MMA, .funct3 = 1};
    run_or_fail(p, code, 1 + s->column);
    p->s = *s;
    for (unsigned reg = 0; reg < s->l; reg++)
        write_register(p, VX, reg);
    tv_machine_write(p->machine, "lut_a", 0, s->lut[0], 256, NULL);
    tv_machine_write(p->machine, "lut_b", 0, s->lut[1], 256, NULL);
    tv_machine_write(p->machine, "mem", 0, s->mem, MEM_BYTES, NULL);
    tv_machine_write(p->machine, "acc", 0, s->acc, 4ul * s->k * s->k, NULL);
}

/* After a difference: fails with the shortest prefix of the program that shows one. */
static void report_shortest_failure(machine_pair *p, const reference_state *start, const insn *code, unsigned count,
                                    const char *text)
{
    char now[160];
    reference_state s = *start;
    for (unsigned n = 0; n < count; n++) {
        execute(&s, &code[n]);
        write_state(p, start);
        bool ran = try_run(p, code, n + 1, false, now);
        for (unsigned class_ = VX; class_ <= VR; class_++)
            if (!ran || find_difference(p, &s, class_, now)) {
                for (unsigned w = 0; w <= n; w++)
                    print_error("        .word 0x%08x\n", (unsigned)encode_insn(&code[w]));
                fail_msg("K = %u, L = %u: after these %u instructions %s", s.k, s.l, n + 1, now);
            }
    }
    fail_msg("K = %u, L = %u: %s; not reproduced by running the program of %u instructions again", s.k, s.l, text,
             count);
}

/* Runs the program on both machines and compares their states, the registers as `class_`. */
static void compare_program(machine_pair *p, const insn *code, unsigned count, unsigned class_, bool in_steps)
{
    static reference_state start;
    char text[160];
    start = p->s;
    for (unsigned n = 0; n < count; n++)
        execute(&p->s, &code[n]);
    if (!try_run(p, code, count, in_steps, text) || find_difference(p, &p->s, class_, text))
        report_shortest_failure(p, &start, code, count, text);
}

/* ---- Operands ---- */

static uint32_t random_integer(unit_rng *rng, unsigned bits)
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
        break; /* near both ends of the range */
    case 2:
        x = (1u << unit_below(rng, bits)) + d;
        break;
    case 3:
        x = (uint32_t)roots[unit_below(rng, COUNT(roots))];
        break; /* products near the ends of the range */
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

static uint32_t corner_float(uint64_t n) { return float_corners[n / 2 % COUNT(float_corners)] | (n & 1 ? SIGN : 0); }

static int near(unit_rng *rng, int centre, unsigned width)
{
    return centre + (int)unit_below(rng, 2 * width + 1) - (int)width;
}

/* A float of this biased exponent: any significand, few significant bits (ties), or just below a power of two. */
static uint32_t random_float(unit_rng *rng, int exponent)
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

/* A float that cancels a except for a few units in the last place. */
static uint32_t nearly_negated(unit_rng *rng, uint32_t a) { return (a ^ SIGN) + (uint32_t)unit_below(rng, 5) - 2; }

/* Sets v[RS1] … to operands number `n`; corner cases come first where they can be enumerated. */
typedef void generate_operands(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS]);

static void generate_two_integers(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    unsigned bits = 8u << i->width;
    bool counted = bits == 8 && n < 65536;
    v[RS1] = counted ? (uint32_t)n & 255 : random_integer(rng, bits);
    v[RS2] = counted ? (uint32_t)n >> 8 : random_integer(rng, bits);
}

/* Lanes of one register have the same distribution: few bits clear or set, all large, or random. */
static void generate_uniform_register(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
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
        v[RS1] = random_integer(rng, bits);
        break;
    }
}

static void sum_operands(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    *a = random_float(rng, e);
    switch (unit_below(rng, 8)) {
    case 0:
        *a = (uint32_t)unit_next(rng), *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *b = random_float(rng, near(rng, e, 3));
        break;
    case 2:
        *b = random_float(rng, near(rng, e - 24, 3));
        break;
    case 3:
        *b = nearly_negated(rng, *a);
        break;
    case 4:
        *a = random_float(rng, near(rng, 253, 2)), *b = random_float(rng, near(rng, 253, 2));
        break;
    case 5:
        *a = random_float(rng, near(rng, 3, 3)), *b = random_float(rng, near(rng, 3, 3));
        break;
    case 6:
        *a = random_float(rng, near(rng, 253, 1)), *b = random_float(rng, near(rng, 229, 2));
        break;
    default:
        *b = corner_float(unit_next(rng) >> 8);
        break;
    }
}

static void product_operands(unit_rng *rng, uint32_t *a, uint32_t *b)
{
    int e = (int)unit_below(rng, 256);
    *a = random_float(rng, e);
    switch (unit_below(rng, 7)) {
    case 0:
        *b = (uint32_t)unit_next(rng);
        break;
    case 1:
        *b = random_float(rng, near(rng, 381 - e, 2));
        break; /* near the largest number */
    case 2:
        *b = random_float(rng, near(rng, 128 - e, 2));
        break; /* near the smallest normal number */
    case 3:
        *b = random_float(rng, near(rng, 115 - e, 14));
        break; /* in the subnormal range */
    case 4:
        *b = random_float(rng, near(rng, 127, 20));
        break;
    case 5: /* within a few units of the smallest normal number, above and below: nearly a power of two each */
        e = 1 + (int)unit_below(rng, 127);
        *a = ((uint32_t)e << 23) - (uint32_t)unit_below(rng, 5);
        *b = ((uint32_t)(128 - e) << 23) + (uint32_t)unit_below(rng, 5);
        *b ^= (uint32_t)unit_below(rng, 2) << 31;
        break;
    default:
        *b = corner_float(unit_next(rng) >> 8);
        break;
    }
}

static void generate_two_floats(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    if (n < FLOAT_CORNERS * FLOAT_CORNERS)
        v[RS1] = corner_float(n % FLOAT_CORNERS), v[RS2] = corner_float(n / FLOAT_CORNERS);
    else if (i->funct3 == 2)
        product_operands(rng, &v[RS1], &v[RS2]);
    else
        sum_operands(rng, &v[RS1], &v[RS2]);
    if (i->funct3 == 5 || i->funct3 == 6)
        v[RS2] ^= n & 1 ? SIGN : 0; /* close numbers of the same sign */
}

static void generate_three_floats(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    uint32_t *a = &v[RS1], *b = &v[RS2], *c = &v[RS3];
    product_operands(rng, a, b);
    int e = exponent_of(*a) + exponent_of(*b) - 127;
    switch (unit_below(rng, 9)) {
    case 7: /* the smallest normal number, plus or minus a part of its unit */
        *a = random_float(rng, near(rng, 90, 30));
        *b = random_float(rng, near(rng, 127 - 23 - exponent_of(*a), 2));
        *c = 0x00800000 + (uint32_t)unit_below(rng, 2) + ((uint32_t)unit_below(rng, 2) << 31);
        break;
    case 0:
        *c = (uint32_t)unit_next(rng);
        break;
    case 1:
        *c = random_float(rng, near(rng, e, 3));
        break;
    case 2:
        *c = random_float(rng, near(rng, e + 24, 4));
        break;
    case 3:
        *c = random_float(rng, near(rng, e - 24, 26));
        break;
    case 4:
        *c = nearly_negated(rng, multiply_floats(*a, *b, ROUND_NEAREST)) ^ (n & 1 ? SIGN : 0);
        break; /* the rounding error of the product */
    case 5:
        *c = corner_float(unit_next(rng) >> 8);
        break;
    case 6:
        sum_operands(rng, b, c);
        *a = unit_below(rng, 2) ? ONE : random_float(rng, near(rng, 127, 2));
        break;
    default:
        *a = corner_float(unit_next(rng)), *b = corner_float(unit_next(rng)), *c = corner_float(unit_next(rng));
        break;
    }
    (void)i;
}

/* A float near a rounding boundary of a format with `kept` bits of significand. */
static uint32_t float_near_tie(unit_rng *rng, unsigned kept, int exponent)
{
    uint32_t last = 1u << (23 - kept), middle = last / 2;
    const uint32_t tails[] = {0, 1, middle - 1, middle, middle + 1, last - 1, (uint32_t)unit_next(rng) & (last - 1)};
    uint32_t man = ((uint32_t)unit_next(rng) & 0x7FFFFF & ~(last - 1)) | tails[unit_below(rng, COUNT(tails))];
    return (random_float(rng, exponent) & 0xFF800000) | man;
}

/* An integer divided by a power of two, or a neighbor: ties and the ends of s32, s16 or s8. */
static uint32_t float_near_integer(unit_rng *rng, unsigned bits)
{
    float f = (float)((double)random_integer(rng, 32) / (double)(1u << unit_below(rng, bits == 8 ? 26 : 4)));
    uint32_t a;
    memcpy(&a, &f, sizeof a);
    return (a + (uint32_t)unit_below(rng, 3) - 1) ^ (unit_below(rng, 2) ? SIGN : 0);
}

/* n / 4, or a neighbor. */
static uint32_t quarter_or_neighbor(uint64_t n, uint64_t neighbour)
{
    float f = (float)((double)n / 4);
    uint32_t a;
    memcpy(&a, &f, sizeof a);
    return a + (uint32_t)neighbour - 1;
}

static void generate_conversion_operand(unit_rng *rng, const insn *i, uint64_t n, uint32_t v[FIELDS])
{
    unsigned to = i->funct3;
    if (i->from != F32) {
        unsigned bits = 8u << class_of_format[i->from];
        v[RS1] = bits < 32 && n < 1u << bits ? (uint32_t)n
                 : i->from == BF16           ? (uint32_t)unit_next(rng)
                                             : random_integer(rng, bits);
    } else if (n < 8 * FLOAT_CORNERS) {
        v[RS1] = corner_float(n) + (uint32_t)(n / FLOAT_CORNERS);
    } else if (to <= S32 && n < 16384) { /* every tie and both ends of s8 */
        v[RS1] = quarter_or_neighbor(n % 1365, n / 1365 % 3) ^ (n / 4096 & 1 ? SIGN : 0);
    } else if (to <= S32) {
        v[RS1] = n & 3 ? float_near_integer(rng, 8u << to) : random_float(rng, near(rng, 142, 22));
    } else if (to == BF16) {
        v[RS1] = float_near_tie(rng, 7, (int)unit_below(rng, 256));
    } else {
        v[RS1] = n & 7 ? float_near_tie(rng, i->e5m2 ? 2 : 3, near(rng, 127, 20)) : (uint32_t)unit_next(rng);
    }
}

/* ---- Single operations on many operands ---- */

/* The first pair gets all operands; the others, with other K or with lower kernel levels, get fewer. */
enum { SIZES = 5, PAIRS = SIZES + 4 };
static const unsigned lane_counts[SIZES] = {K_MAX, 8, 4, 16, 32};
static machine_pair pairs[PAIRS];
static unsigned pair_count;

static int setup(void **state)
{
    (void)state;
    while (pair_count < SIZES || (pair_count < PAIRS && lower_kernel_level(pair_count - SIZES))) {
        unsigned n = pair_count++;
        pair_init(&pairs[n], n < SIZES ? lane_counts[n] : K_MAX, L_MAX, n & 1 ? TV_MODE_FULL : TV_MODE_FUNCTIONAL,
                  n < SIZES ? NULL : lower_kernel_level(n - SIZES));
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

/* Sets the bits that the instruction ignores to random values. */
static void randomize_ignored_bits(unit_rng *rng, insn *i)
{
    unsigned c[FIELDS], f = i->funct3;
    operand_classes(i, c);
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
    operand_classes(i, c);
    do {
        for (unsigned r = RS1; r < FIELDS; r++)
            i->reg[r] = c[r] == NONE ? 40 + r : (unsigned)unit_below(rng, l >> c[r]);
    } while (i->reg[RS1] == i->reg[RS2] || i->reg[RS1] == i->reg[RS3] || i->reg[RS2] == i->reg[RS3]);
    unsigned of = RS1 + (unsigned)unit_below(rng, 3), row = (unsigned)unit_below(rng, l);
    if (unit_below(rng, 3) == 0 && c[of] != NONE)
        row = (i->reg[of] << c[of]) + (unsigned)unit_below(rng, 1u << c[of]);
    i->reg[RD] = row >> c[RD];
}

/* Emits the instruction after a preamble by `form`: 0 none, so sources are as the host wrote them; 1 moves that bring
 * each source into the form of its class; 2 byte operations that bring them into byte planes. Returns the count. */
static unsigned emit_with_preamble(const insn *i, unsigned form, insn *code)
{
    unsigned c[FIELDS], n = 0;
    operand_classes(i, c);
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

static void fail_lane(const machine_pair *p, const insn *i, uint32_t v[FIELDS][K_MAX], unsigned class_,
                      const uint8_t *got)
{
    for (unsigned j = 0; j < p->s.k; j++) {
        uint32_t want = read_lane(&p->s, class_, i->reg[RD], j), x = 0;
        for (unsigned b = 0; b < 1u << class_; b++)
            x |= (uint32_t)got[(j << class_) + b] << 8 * b;
        if (x != want)
            fail_msg("K = %u: .word 0x%08x: lane %u of sources %08x %08x %08x is %08x, not %08x", p->s.k,
                     (unsigned)encode_insn(i), j, (unsigned)v[RS1][j], (unsigned)v[RS2][j], (unsigned)v[RS3][j],
                     (unsigned)want, (unsigned)x);
    }
}

/* Compares lanes n, n + 1, … of the operands; returns how many. */
static uint64_t compare_lanes(machine_pair *p, unit_rng *rng, const insn *i, generate_operands *make, uint64_t n)
{
    uint32_t v[FIELDS][K_MAX] = {{0}}, x[FIELDS] = {0};
    uint8_t got[4 * K_MAX], want[4 * K_MAX];
    unsigned c[FIELDS];
    tv_stop_reason why;
    operand_classes(i, c);
    for (unsigned j = 0; j < p->s.k; j++) {
        make(rng, i, n + j, x);
        for (unsigned r = RS1; r < FIELDS; r++)
            if (c[r] != NONE)
                write_lane(&p->s, c[r], i->reg[r], j, v[r][j] = x[r]);
    }
    for (unsigned r = RS1; r < FIELDS; r++)
        if (c[r] != NONE)
            write_register(p, c[r], i->reg[r]);
    execute(&p->s, i);
    tv_machine_load(p->machine, p->loaded, NULL);
    if (tv_machine_run(p->machine, NULL, &why) != TV_OK)
        fail_msg(".word 0x%08x: %s", (unsigned)encode_insn(i), tv_machine_fault(p->machine)->message);
    size_t bytes = register_bytes(&p->s, c[RD], i->reg[RD], want);
    tv_machine_read(p->machine, space_of[c[RD]], i->reg[RD], got, bytes, NULL);
    if (memcmp(got, want, bytes) != 0)
        fail_lane(p, i, v, c[RD], got);
    return p->s.k;
}

static void compare_with_registers(machine_pair *p, unit_rng *rng, const insn *i, generate_operands *make, uint64_t *n,
                                   uint64_t end)
{
    static unsigned form;
    insn code[PROGRAM_MAX];
    char text[160];
    run_or_fail(p, code, emit_with_preamble(i, form++ % 3, code)); /* its results are overwritten or compared below */
    for (unsigned m = 0, count = emit_with_preamble(i, 0, code); m < count; m++)
        execute(&p->s, &code[m]);
    while (*n < end)
        *n += compare_lanes(p, rng, i, make, *n);
    if (find_difference(p, &p->s, form % 3, text)) /* nothing else may change */
        fail_msg("K = %u: .word 0x%08x: %s", p->s.k, (unsigned)encode_insn(i), text);
}

static void compare_variant(const insn *variant, generate_operands *make)
{
    unit_rng rng = {encode_insn(variant)};
    for (unsigned b = 0; b < pair_count; b++) {
        insn i = *variant;
        uint64_t lanes = (b == 0 ? LANES : b < SIZES ? LANES / 16 : LANES / 4) / unit_sample(), n = 0;
        write_state(&pairs[b], &pairs[b].s); /* start from equal states */
        for (unsigned choice = 1; choice <= REGISTER_CHOICES; choice++) {
            choose_registers(&rng, &i, L_MAX);
            randomize_ignored_bits(&rng, &i);
            compare_with_registers(&pairs[b], &rng, &i, make, &n, lanes * choice / REGISTER_CHOICES);
        }
        i.reg[RS1] = i.reg[RS2] = i.reg[RS3] =
            (unsigned)unit_below(&rng, L_MAX / 4); /* equal sources, then the destination too */
        compare_with_registers(&pairs[b], &rng, &i, make, &n, n + lanes / 64);
        i.reg[RD] = i.reg[RS1];
        compare_with_registers(&pairs[b], &rng, &i, make, &n, n + lanes / 64);
    }
}

static void integer_results_are_exact_then_truncated_or_saturated(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 8; funct3++)
        for (unsigned width = VX; width <= VR; width++)
            for (unsigned sat = 0; sat < 2; sat++)
                compare_variant(&(insn){.family = ARITH, .funct3 = funct3, .width = width, .sat = sat},
                                generate_two_integers);
}

static void shifts_take_amounts_from_their_own_lane(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 8; funct3++)
        for (unsigned width = VX; width <= VR; width++)
            compare_variant(&(insn){.family = LOGIC, .funct3 = funct3, .width = width}, generate_two_integers);
}

static void reductions_extend_their_lanes_and_fill_a_vr(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 6; funct3++)
        for (unsigned width = VX; width <= VR; width++)
            compare_variant(&(insn){.family = REDUCE, .funct3 = funct3, .width = width}, generate_uniform_register);
}

static void float_results_are_rounded_once_in_the_mode_of_the_field(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 7; funct3++)
        for (unsigned round = 0; round < (funct3 < 3 ? MODES : 1); round++)
            compare_variant(&(insn){.family = FP, .funct3 = funct3, .round = round}, generate_two_floats);
}

static void fused_results_are_rounded_once_in_the_mode_of_the_field(void **state)
{
    (void)state;
    for (unsigned funct3 = 0; funct3 < 4; funct3++)
        for (unsigned round = 0; round < MODES; round++)
            compare_variant(&(insn){.family = FMA, .funct3 = funct3, .round = round}, generate_three_floats);
}

/* Attributes are also set where the pair of formats ignores them. */
static void conversions_round_saturate_and_flush(void **state)
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
                compare_variant(&i, generate_conversion_operand);
        }
}

static void broadcasts_and_moves_work_at_every_width(void **state)
{
    (void)state;
    for (unsigned width = VX; width <= VR; width++) {
        compare_variant(&(insn){.family = BCAST, .width = width}, generate_two_integers);
        compare_variant(&(insn){.family = MOV, .width = width}, generate_two_integers);
    }
}

/* ---- Programs ---- */

/* A register of the class; half the time in the first eight rows, so that classes overlap. */
static unsigned random_register(unit_rng *rng, unsigned class_, unsigned l)
{
    unsigned rows = l > 8 && unit_below(rng, 2) ? 8 : l;
    return (unsigned)unit_below(rng, rows >> class_);
}

static void randomize_registers(unit_rng *rng, insn *i, const reference_state *s)
{
    unsigned c[FIELDS];
    operand_classes(i, c);
    for (unsigned r = RD; r < FIELDS; r++)
        i->reg[r] = c[r] == NONE ? 0 : random_register(rng, c[r], s->l);
    if (unit_below(rng, 6) == 0 && c[RS1] == c[RS2])
        i->reg[RS2] = i->reg[RS1];
    if (unit_below(rng, 6) == 0 && c[RS1] == c[RD])
        i->reg[RD] = i->reg[RS1];
    randomize_ignored_bits(rng, i);
}

static unsigned emit_one(unit_rng *rng, const reference_state *s, insn i, insn *code)
{
    randomize_registers(rng, &i, s);
    *code = i;
    return 1;
}

/* A load or store. Writes to single bytes set its base, lane 0 of a VR, to 2048 to 4095; half the time a move of the VR
 * follows. */
static unsigned emit_memory_access(unit_rng *rng, const reference_state *s, insn *code)
{
    unsigned base = random_register(rng, VR, s->l);
    insn i = {.family = LD + (unsigned)unit_below(rng, 2),
              .funct3 = (unsigned)unit_below(rng, 6),
              .imm = (int)unit_below(rng, 4096) - 2048};
    randomize_registers(rng, &i, s);
    i.reg[RS1] = base;
    code[0] = (insn){.family = MOV, .funct3 = 2, .reg = {2 * base}, .imm = 8 + (int)unit_below(rng, 8)};
    code[1] = (insn){.family = MOV, .funct3 = 1, .reg = {4 * base + 2}, .imm = 0};
    code[2] = (insn){.family = MOV, .funct3 = 2, .reg = {2 * base + 1}, .imm = 256};
    code[3] = (insn){.family = MOV, .width = VR, .reg = {base, base}};
    unsigned n = 3 + (unsigned)unit_below(rng, 2);
    code[n] = i;
    return n + 1;
}

static unsigned emit_table_access(unit_rng *rng, const reference_state *s, insn *code)
{
    bool set = unit_below(rng, 4) == 0;
    unsigned bank = (unsigned)unit_below(rng, 2);
    return emit_one(
        rng, s, (insn){.family = LUT, .funct3 = bank + (set ? 4 : 0), .imm = (int)unit_below(rng, 64 / s->k)}, code);
}

/* movi, movh and bcast.imm in rotation, each with all immediates in order. */
static unsigned emit_immediate(unit_rng *rng, const reference_state *s, insn *code)
{
    static unsigned counter;
    unsigned funct3 = 1 + counter % 3;
    int imm = (int)(counter / 3 % 4096) - 2048;
    counter++;
    return emit_one(rng, s, (insn){.family = funct3 == 3 ? BCAST : MOV, .funct3 = funct3 == 3 ? 1 : funct3, .imm = imm},
                    code);
}

static unsigned emit_mma(unit_rng *rng, const reference_state *s, insn *code)
{
    unsigned what = (unsigned)unit_below(rng, 20);
    return emit_one(rng, s, (insn){.family = MMA, .funct3 = what == 0 ? 2 : what % 2, .sat = unit_below(rng, 4) != 0},
                    code);
}

/* Emits up to five instructions of any family. Returns the count. */
static unsigned emit_any(unit_rng *rng, const reference_state *s, insn *code)
{
    static const unsigned char families[] = {ARITH, ARITH, ARITH, ARITH, ARITH, LOGIC, LOGIC, LOGIC, LOGIC, REDUCE,
                                             CVT,   CVT,   CVT,   CVT,   FP,    FP,    FMA,   FMA,   FMA,   BCAST,
                                             MOV,   MOV,   MOV,   LUT,   LUT,   MMA,   LD,    LD,    NOP};
    static const unsigned char counts[] = {
        [NOP] = 8, [ARITH] = 8, [LOGIC] = 8, [REDUCE] = 6, [CVT] = 1, [BCAST] = 1, [FP] = 7, [FMA] = 4, [MOV] = 1};
    insn i = {.family = families[unit_below(rng, COUNT(families))]};
    switch (i.family) {
    case LD:
        return emit_memory_access(rng, s, code);
    case MMA:
        return emit_mma(rng, s, code);
    case LUT:
        return emit_table_access(rng, s, code);
    case BCAST:
    case MOV:
        if (unit_below(rng, 2))
            return emit_immediate(rng, s, code);
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
    return emit_one(rng, s, i, code);
}

/* Four bytes of a register: floats, corner floats, integers of the class, or random bits. */
static uint32_t random_bytes(unit_rng *rng, unsigned distribution, unsigned class_)
{
    static const uint32_t repeat[] = {0x01010101, 0x00010001, 1};
    switch (distribution) {
    case 0:
        return random_float(rng, near(rng, 127, 30));
    case 1:
        return corner_float(unit_next(rng) >> 8);
    case 2:
        return random_integer(rng, 8u << class_) * repeat[class_];
    default:
        return (uint32_t)unit_next(rng);
    }
}

/* Writes from the beginning of a register on, through any of the three spaces: one register, or any number of bytes. */
static void write_random_registers(machine_pair *p, unit_rng *rng)
{
    uint8_t bytes[K_MAX * L_MAX];
    unsigned class_ = (unsigned)unit_below(rng, 3), reg = random_register(rng, class_, p->s.l),
             distribution = (unsigned)unit_below(rng, 4);
    size_t whole = (size_t)p->s.k << class_, max_bytes = (size_t)p->s.k * (p->s.l - (reg << class_));
    size_t n = unit_below(rng, 2) ? whole : 1 + (size_t)unit_below(rng, max_bytes);
    uint32_t x = 0;
    for (size_t at = 0; at < n; at++) {
        size_t of = reg + at / whole, in_register = at % whole;
        x = at % 4 ? x >> 8 : random_bytes(rng, distribution, class_);
        bytes[at] = (uint8_t)x;
        p->s.plane[(of << class_) + in_register % (1u << class_)][in_register >> class_] = bytes[at];
    }
    assert_int_equal(tv_machine_write(p->machine, space_of[class_], reg, bytes, n, NULL), TV_OK);
}

static void write_random_memory_and_tables(machine_pair *p, unit_rng *rng)
{
    for (unsigned n = 0; n < MEM_BYTES; n++)
        p->s.mem[n] = (uint8_t)unit_next(rng);
    for (unsigned n = 0; n < 512; n++)
        p->s.lut[n / 256][n % 256] = (uint8_t)unit_next(rng);
    assert_int_equal(tv_machine_write(p->machine, "mem", 0, p->s.mem, MEM_BYTES, NULL), TV_OK);
    assert_int_equal(tv_machine_write(p->machine, "lut_a", 0, p->s.lut[0], 256, NULL), TV_OK);
    assert_int_equal(tv_machine_write(p->machine, "lut_b", 0, p->s.lut[1], 256, NULL), TV_OK);
}

/* ACC near the ends of its range, so that sums wrap. */
static void write_random_acc(machine_pair *p, unit_rng *rng)
{
    for (unsigned n = 0; n < p->s.k * p->s.k; n++)
        p->s.acc[n] = (int32_t)((unit_below(rng, 2) ? SIGN : 0x7FFFFFFF) + (uint32_t)unit_below(rng, 60000) - 30000);
    assert_int_equal(tv_machine_write(p->machine, "acc", 0, p->s.acc, 4ul * p->s.k * p->s.k, NULL), TV_OK);
}

typedef unsigned generator(unit_rng *rng, const reference_state *s, insn *code);

/* Runs programs of up to `max_length` instructions until `total` have run, comparing at the end of each program only.
 */
static void compare_programs_at(const char *kernels, unsigned k, unsigned l, generator *next, unsigned total,
                                unsigned max_length)
{
    static machine_pair p;
    unit_rng rng = {k * 1000 + l};
    unsigned done = 0;
    pair_init(&p, k, l, k == K_MAX ? TV_MODE_FUNCTIONAL : TV_MODE_FULL, kernels);
    while (done < total) {
        insn code[PROGRAM_MAX];
        unsigned count = 0, length = 1 + (unsigned)unit_below(&rng, max_length);
        while (count < length)
            count += next(&rng, &p.s, code + count);
        for (unsigned n = (unsigned)unit_below(&rng, 6); n > 0; n--)
            write_random_registers(&p, &rng);
        if (unit_below(&rng, 16) == 0)
            write_random_acc(&p, &rng);
        if (unit_below(&rng, 16) == 0)
            write_random_memory_and_tables(&p, &rng);
        compare_program(&p, code, count, (unsigned)unit_below(&rng, 3), unit_below(&rng, 8) == 0);
        done += count;
    }
    pair_fini(&p);
}

/* Also runs a quarter of the instructions at each lower kernel level, which only matters for the largest K. */
static void compare_programs(unsigned k, unsigned l, generator *next, unsigned total, unsigned max_length)
{
    const char *kernels;
    compare_programs_at(NULL, k, l, next, total, max_length);
    for (unsigned i = 0; k == K_MAX && (kernels = lower_kernel_level(i)); i++)
        compare_programs_at(kernels, k, l, next, total / 4, max_length);
}

static void random_programs_leave_the_state_of_the_reference(void **state)
{
    (void)state;
    compare_programs(64, 32, emit_any, 90000 / unit_sample(), 50);
    compare_programs(64, 4, emit_any, 30000 / unit_sample(), 12);
    compare_programs(64, 8, emit_any, 30000 / unit_sample(), 40);
    compare_programs(8, 32, emit_any, 60000 / unit_sample(), 250);
    compare_programs(4, 16, emit_any, 40000 / unit_sample(), 30);
    compare_programs(16, 8, emit_any, 30000 / unit_sample(), 30);
    compare_programs(32, 12, emit_any, 30000 / unit_sample(), 30);
}

static void immediates_write_one_byte_or_one_register(void **state)
{
    (void)state;
    compare_programs(64, 32, emit_immediate, 3 * 4096, 100);
    compare_programs(8, 32, emit_immediate, 3 * 4096, 100);
}

static void lookup_tables_are_written_in_segments_and_read_by_lanes(void **state)
{
    (void)state;
    static const unsigned ks[] = {64, 32, 16, 8, 4};
    for (size_t n = 0; n < COUNT(ks); n++)
        compare_programs(ks[n], 32, emit_table_access, 2500, 20);
}

/* More outer products in a row than the simulator defers; then columns, past the last. */
static unsigned emit_mma_burst(unit_rng *rng, const reference_state *s, insn *code)
{
    unsigned n = 0, products = (unsigned)unit_below(rng, 280), columns = (unsigned)unit_below(rng, s->k + 3);
    if (unit_below(rng, 4))
        n += emit_one(rng, s, (insn){.family = MMA, .funct3 = unit_below(rng, 4) ? 0 : 2}, code);
    for (unsigned m = 0; m < products && n < PROGRAM_MAX - K_MAX - 8; m++) {
        if (unit_below(rng, 3) == 0) /* changes an operand right after its use */
            n += emit_one(rng, s, (insn){.family = ARITH, .funct3 = (unsigned)unit_below(rng, 8)}, code + n);
        n += emit_one(rng, s, (insn){.family = MMA, .sat = 1}, code + n);
    }
    for (unsigned m = 0; m < columns; m++)
        n += emit_one(rng, s, (insn){.family = MMA, .funct3 = 1, .sat = unit_below(rng, 4) == 0}, code + n);
    return n;
}

static void outer_products_accumulate_and_drain_by_columns(void **state)
{
    (void)state;
    compare_programs(64, 32, emit_mma_burst, 9000, 1);
    compare_programs(8, 32, emit_mma_burst, 12000, 1);
    compare_programs(4, 4, emit_mma_burst, 4000, 1);
    compare_programs(16, 32, emit_mma_burst, 4000, 1);
    compare_programs(32, 16, emit_mma_burst, 4000, 1);
}

/* Short sums of which the first columns are drained, and one of more products than the simulator keeps operands for,
 * of which others are drained than before. */
static unsigned emit_sums(unit_rng *rng, const reference_state *s, insn *code)
{
    enum { SUMS = 4, SHORT = 150, LONG = 1300 };
    unsigned n = 0, is_long = (unsigned)unit_below(rng, SUMS);
    for (unsigned sum = 0; sum < SUMS; sum++) {
        unsigned products = (unsigned)unit_below(rng, sum == is_long ? LONG : SHORT),
                 columns = (unsigned)(unit_below(rng, 4) ? unit_below(rng, 12) : unit_below(rng, s->k + 3));
        if (unit_below(rng, 8))
            n += emit_one(rng, s, (insn){.family = MMA}, code + n);
        for (unsigned m = 0; m < products; m++)
            n += emit_one(rng, s, (insn){.family = MMA, .sat = 1}, code + n);
        for (unsigned m = 0; m < columns && n < PROGRAM_MAX; m++)
            n += emit_one(rng, s, (insn){.family = MMA, .funct3 = 1, .sat = unit_below(rng, 4) == 0}, code + n);
    }
    return n;
}

static void long_sums_of_outer_products_equal_those_of_the_reference(void **state)
{
    (void)state;
    unsigned one_of = unit_sample() < 2 ? 1 : 2; /* a sum takes a thousand instructions */
    compare_programs(64, 32, emit_sums, 20000 / one_of, 1);
    compare_programs(8, 32, emit_sums, 20000 / one_of, 1);
    compare_programs(4, 4, emit_sums, 8000 / one_of, 1);
}

/* ---- Overlapping registers, with numbers from the formulas of the specification ---- */

static void expect_vr(machine_pair *p, unsigned reg, uint32_t want)
{
    uint8_t got[4 * K_MAX];
    assert_int_equal(tv_machine_read(p->machine, "vr", reg, got, 4 * p->s.k, NULL), TV_OK);
    for (unsigned j = 0; j < p->s.k; j++)
        for (unsigned n = 0; n < 4; n++)
            assert_int_equal(got[4 * j + n], want >> 8 * n & 0xFF);
}

static insn broadcast_imm(unsigned row, int imm)
{
    return (insn){.family = BCAST, .funct3 = 1, .reg = {row}, .imm = imm};
}

static void overlapping_registers_share_their_byte_planes(void **state)
{
    (void)state;
    for (unsigned b = 0; b < pair_count; b++) {
        machine_pair *p = &pairs[b];
        const insn rows[] = {broadcast_imm(4, 1), broadcast_imm(5, 2), broadcast_imm(6, 3), broadcast_imm(7, 4)};
        run_or_fail(p, rows, 4);
        expect_vr(p, 1, 0x04030201);
        run_or_fail(p, (insn[]){{.family = ARITH, .width = VR, .reg = {1, 1, 1}}}, 1);
        expect_vr(p, 1, 0x08060402);
        run_or_fail(p, (insn[]){{.family = ARITH, .width = VE, .funct3 = 3, .reg = {3, 2}}, broadcast_imm(5, 0xFF)},
                    2); /* ve3 = -0x0402 */
        expect_vr(p, 1, 0xFBFEFF02);
        run_or_fail(p, (insn[]){{.family = REDUCE, .width = VX, .reg = {1, 7}}}, 1); /* K * -5 into its own rows */
        expect_vr(p, 1, 0u - 5 * p->s.k);
        run_or_fail(p, (insn[]){{.family = CVT, .funct3 = F32, .from = S8, .reg = {1, 7}}}, 1); /* -1 */
        expect_vr(p, 1, 0xBF800000);
        run_or_fail(p, (insn[]){{.family = CVT, .funct3 = BF16, .from = F32, .reg = {2, 1}}},
                    1); /* 0xBF80 into its own low half */
        expect_vr(p, 1, 0xBF80BF80);
        run_or_fail(p, (insn[]){{.family = CVT, .funct3 = S32, .from = F32, .reg = {1, 1}}}, 1); /* -1.0058 */
        expect_vr(p, 1, 0xFFFFFFFF);
    }
}

/* ---- Ticks ---- */

static void count_event(void *user, const tv_event *event)
{
    (void)event;
    ++*(unsigned *)user;
}

enum { UNTRACED, TRACED, LIMITED, STEPPED, OBSERVATIONS };

static void run_observed(tv_machine *machine, const tv_program *program, unsigned observation)
{
    const tv_run_limits limits = {sizeof limits, UINT64_MAX, UINT64_MAX - 1};
    unsigned events = 0;
    const tv_trace_sink sink = {count_event, &events};
    tv_stop_reason why = TV_STOP_UNTIL;
    assert_int_equal(tv_machine_load(machine, program, NULL), TV_OK);
    if (observation == TRACED)
        tv_machine_trace(machine, &sink);
    while (why == TV_STOP_UNTIL)
        assert_int_equal(observation == STEPPED
                             ? tv_machine_step(machine, &why)
                             : tv_machine_run(machine, observation == LIMITED ? &limits : NULL, &why),
                         TV_OK);
    if (observation == TRACED) {
        tv_machine_trace(machine, NULL);
        assert_true(events > 0);
    }
}

static void assert_equal_stats(const tv_machine *a, const tv_machine *b)
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

/* One machine is always traced; the other runs each program untraced, traced, with a limit or in single steps. */
static void ticks_do_not_depend_on_tracing_or_limits(void **state)
{
    (void)state;
    static machine_pair traced, varied;
    unit_rng rng = {7};
    unsigned observed[OBSERVATIONS] = {0};
    for (unsigned k = 8; k <= 64; k *= 8) {
        pair_init(&traced, k, 32, TV_MODE_TIMING, NULL);
        pair_init(&varied, k, 32, TV_MODE_TIMING, NULL);
        for (unsigned round = 0; round < 1500 / unit_sample(); round++) {
            insn code[PROGRAM_MAX];
            unsigned count = 0, length = 1 + (unsigned)unit_below(&rng, 60),
                     observation = (unsigned)unit_below(&rng, OBSERVATIONS);
            while (count < length)
                count += emit_any(&rng, &traced.s, code + count);
            tv_program *program = assemble_insns(code, count);
            run_observed(traced.machine, program, TRACED);
            run_observed(varied.machine, program, observation);
            observed[observation]++;
            assert_equal_stats(traced.machine, varied.machine);
            tv_program_free(traced.loaded);
            traced.loaded = program;
        }
        pair_fini(&varied);
        pair_fini(&traced);
    }
    for (unsigned n = 0; n < OBSERVATIONS; n++)
        assert_true(observed[n] > 100 / unit_sample());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlapping_registers_share_their_byte_planes),
        cmocka_unit_test(integer_results_are_exact_then_truncated_or_saturated),
        cmocka_unit_test(shifts_take_amounts_from_their_own_lane),
        cmocka_unit_test(reductions_extend_their_lanes_and_fill_a_vr),
        cmocka_unit_test(float_results_are_rounded_once_in_the_mode_of_the_field),
        cmocka_unit_test(fused_results_are_rounded_once_in_the_mode_of_the_field),
        cmocka_unit_test(conversions_round_saturate_and_flush),
        cmocka_unit_test(broadcasts_and_moves_work_at_every_width),
        cmocka_unit_test(immediates_write_one_byte_or_one_register),
        cmocka_unit_test(lookup_tables_are_written_in_segments_and_read_by_lanes),
        cmocka_unit_test(outer_products_accumulate_and_drain_by_columns),
        cmocka_unit_test(long_sums_of_outer_products_equal_those_of_the_reference),
        cmocka_unit_test(random_programs_leave_the_state_of_the_reference),
        cmocka_unit_test(ticks_do_not_depend_on_tracing_or_limits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
