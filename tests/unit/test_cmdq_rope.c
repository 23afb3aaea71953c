/* SPDX-License-Identifier: Apache-2.0 */
/* VE_ROPE_TILE rotates every position by its own angle, whatever the cache holds: more rows than its entries, heads too
 * large for it, the same positions with another base. Expected cosines and sines are computed in long double and
 * rounded. */
#include <math.h>

#include "test_cmdq.h"

enum { ROWS = 70, WIDEST = 512 };

static float input_at(unsigned row, unsigned i) { return (float)((int)((row * 7 + i * 3) % 19) - 9) * 0.25f; }

static void check(tv_machine *machine, unsigned head, unsigned position, double theta, bool apart)
{
    static float in[ROWS * WIDEST], out[ROWS * WIDEST];
    unsigned rows = head > 64 ? 3 : ROWS;
    queue_text q = {0};
    queue_add(&q,
              "\"opcode\": \"VE_ROPE_TILE\", \"ve_id\": 0, \"rows\": %u, \"length\": %u, \"head_dim\": %u, "
              "\"position\": %u, \"theta\": %g, \"pairing\": \"%s\", \"qbits_activation\": 32, "
              "\"in_bank\": 0, \"in_offset\": 0, \"out_bank\": 1, \"out_offset\": 0",
              rows, head, head, position, theta, apart ? "half" : "adjacent");
    tv_program *program = queue_open(&q);
    for (unsigned i = 0; i < rows * head; i++)
        in[i] = input_at(i / head, i % head);
    assert_int_equal(tv_machine_write(machine, "spm", 0, in, rows * head * sizeof *in, NULL), TV_OK);
    run_all(machine, program);
    assert_int_equal(tv_machine_read(machine, "spm", 1 << 18, out, rows * head * sizeof *out, NULL), TV_OK);
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < head / 2; i++) {
            double angle = (double)(position + r) * pow((double)(float)theta, -2.0 * i / head);
            volatile float c = (float)cosl((long double)angle), s = (float)sinl((long double)angle);
            unsigned first = apart ? i : 2 * i, second = apart ? head / 2 + i : 2 * i + 1;
            float a = input_at(r, first), b = input_at(r, second);
            volatile float ac = a * c, bs = b * s, as = a * s, bc = b * c;
            assert_true(out[r * head + first] == ac - bs && out[r * head + second] == as + bc);
        }
    tv_program_free(program);
}

static void every_position_has_its_own_angle(void **state)
{
    (void)state;
    tv_machine *machine = machine_with(TV_MODE_FUNCTIONAL, NULL);
    for (unsigned twice = 0; twice < 2; twice++)
        for (unsigned head = 8; head <= WIDEST; head *= 8)
            for (unsigned position = 0; position < 100; position += 33) {
                check(machine, head, position, 10000, false);
                check(machine, head, position, 500, true);
            }
    tv_machine_free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_position_has_its_own_angle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
