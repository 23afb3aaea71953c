/* SPDX-License-Identifier: Apache-2.0 */
/* Lockstep by files: `lockstep_log events TARGET COUNT SEED` writes random events for log_bench.sv to standard output;
 * `lockstep_log compare TARGET COUNT SEED` reads the log of the design from standard input, and compares it with the
 * model on the same events. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep.h"

static void print_event(lockstep *l)
{
    uint32_t kind, addr, d[4];
    lockstep_next(l, &kind, &addr, d);
    printf("%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "\n", kind, addr, d[3], d[2],
           d[1], d[0]);
    if (kind == LOCKSTEP_INSTRUCTION)
        lockstep_skip(l);
}

static void next_instruction(lockstep *l)
{
    uint32_t kind, addr, data[4];
    do
        lockstep_next(l, &kind, &addr, data);
    while (kind != LOCKSTEP_INSTRUCTION);
}

/* Passes a line between the begin of an instruction and the next one. Returns 1 at a mismatch. */
static int compare_line(lockstep *l, const char *line)
{
    uint32_t space, addr, d[4], mask, fault;
    if (sscanf(line, "W %" SCNx32 " %" SCNx32 " %8" SCNx32 "%8" SCNx32 "%8" SCNx32 "%8" SCNx32 " %" SCNx32, &space,
               &addr, &d[3], &d[2], &d[1], &d[0], &mask) == 7)
        lockstep_write(l, space, addr, d, mask);
    else if (sscanf(line, "V %" SCNx32 " %" SCNx32 " %" SCNx32, &space, &addr, &d[0]) == 3)
        lockstep_value(l, space, addr, d[0]);
    else if (sscanf(line, "R %" SCNx32, &fault) == 1)
        return lockstep_retire(l, fault);
    else
        return lockstep_bad_line(l, line);
    return 0;
}

/* Reads the log until `count` instructions have ended. */
static void compare_log(lockstep *l, uint64_t count)
{
    char line[128];
    int executes = 0, mismatch = 0;
    while (!mismatch && lockstep_instructions(l) < count) {
        int ends = !fgets(line, sizeof line, stdin), begins = !ends && line[0] == 'I';
        if (!executes && (ends || begins))
            next_instruction(l);
        else if (begins)
            ends = 1; /* the one before has not ended */
        mismatch = ends ? lockstep_hang(l, 0) : !begins && compare_line(l, line);
        executes = begins || (executes && line[0] != 'R');
    }
}

int main(int argc, char **argv)
{
    if (argc != 5 || (strcmp(argv[1], "events") != 0 && strcmp(argv[1], "compare") != 0)) {
        fprintf(stderr, "usage: lockstep_log events|compare TARGET COUNT SEED\n");
        return 2;
    }
    uint64_t count = strtoull(argv[3], NULL, 0);
    lockstep *l = lockstep_new(argv[2], (unsigned)strtoul(argv[4], NULL, 0));
    if (!l)
        return 3;
    if (strcmp(argv[1], "events") == 0) {
        while (lockstep_instructions(l) < count)
            print_event(l);
        printf("%048d\n", 0);
        lockstep_free(l);
        return 0;
    }
    compare_log(l, count);
    return lockstep_finish(l);
}
