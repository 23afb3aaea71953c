/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of a machine, for tests that compare two machines after every run. */
#ifndef TV_TESTS_DIGEST_H
#define TV_TESTS_DIGEST_H

#include "trivet/trivet.h"
#include "unit.h"

enum { DIGEST_SPACE_BYTES = 1 << 16 };

static inline void digest_bytes(uint64_t *digest, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++)
        *digest = (*digest ^ p[i]) * UINT64_C(0x100000001B3);
}

static inline void digest_number(uint64_t *digest, uint64_t n) { digest_bytes(digest, &n, sizeof n); }

/* All that can be read of a machine, of each address space the first DIGEST_SPACE_BYTES. */
static inline uint64_t digest_machine(tv_machine *machine)
{
    static uint8_t bytes[DIGEST_SPACE_BYTES];
    uint64_t digest = 0;
    tv_state_value value;
    tv_space space;
    tv_stats stats = {.size = sizeof stats};
    tv_energy_stats energy = {.size = sizeof energy};
    digest_number(&digest, tv_machine_next_index(machine));
    digest_number(&digest, tv_machine_clock(machine));
    for (unsigned i = 0; tv_machine_state_at(machine, i, &value); i++)
        digest_bytes(&digest, value.text, strlen(value.text));
    for (unsigned i = 0; tv_machine_space_at(machine, i, &space); i++) {
        uint64_t units = DIGEST_SPACE_BYTES / space.unit_bytes;
        size_t size = (size_t)((space.size < units ? space.size : units) * space.unit_bytes);
        assert_int_equal(tv_machine_read(machine, space.name, 0, bytes, size, NULL), TV_OK);
        digest_bytes(&digest, bytes, size);
    }
    assert_int_equal(tv_machine_stats(machine, &stats), TV_OK);
    assert_int_equal(tv_machine_energy(machine, &energy), TV_OK);
    digest_number(&digest, stats.cycles);
    digest_number(&digest, stats.instructions);
    digest_number(&digest, stats.macs);
    for (unsigned i = 0; i < stats.path_count; i++)
        digest_number(&digest, stats.paths[i].bytes);
    for (unsigned i = 0; i < stats.engine_count; i++) {
        digest_number(&digest, stats.engines[i].busy);
        digest_number(&digest, stats.engines[i].idle);
        digest_bytes(&digest, stats.engines[i].stalled, sizeof stats.engines[i].stalled);
    }
    digest_bytes(&digest, energy.counts, sizeof energy.counts);
    return digest;
}

#endif
