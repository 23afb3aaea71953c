/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding the library: assemble and run a program, read memory, cycles and faults.
 * Build: cc embed.c $(pkg-config --cflags --libs trivet) */
#include <stdio.h>
#include <string.h>

#include <trivet/trivet.h>

static const char source[] = "        .target pccx\n"
                             "        memset  fmap_shape[0], 8, 1, 1\n"
                             "        memcpy  l2[0], host[x], shape=0\n"
                             "        cvo.exp l2[1], l2[0], len=8\n"
                             "        .data\n"
                             "x:      .bf16 0, 1, 2, 3, -1, -2, -3, 0.5\n";

static void print_diagnostic(void *user, const tv_diag *diag) { tv_diag_print(user, diag, 0); }

static void print_event(void *user, const tv_event *event)
{
    (void)user;
    if (event->kind == TV_EVENT_ENGINE)
        printf("%-4s %-12s cycles %llu to %llu\n", event->engine, event->op, (unsigned long long)event->start,
               (unsigned long long)event->end);
}

int main(void)
{
    tv_diag_sink sink = {print_diagnostic, stderr};
    tv_program *program;
    tv_config *config;
    tv_machine *machine;
    if (tv_program_assemble("exp.s", source, strlen(source), NULL, &sink, &program) != TV_OK ||
        tv_config_new("pccx", &sink, &config) != TV_OK ||
        tv_machine_new(config, TV_MODE_FULL, &sink, &machine) != TV_OK ||
        tv_machine_load(machine, program, &sink) != TV_OK)
        return 2;

    tv_machine_trace(machine, &(tv_trace_sink){.event = print_event});
    if (tv_machine_run(machine, NULL, NULL) == TV_FAULT)
        printf("fault: %s\n", tv_machine_fault(machine)->message);

    unsigned char word[16];
    tv_stats stats = {.size = sizeof stats};
    tv_machine_stats(machine, &stats);
    if (tv_machine_read(machine, "l2", 1, word, sizeof word, &sink) == TV_OK)
        for (int i = 0; i < 8; i++)
            printf("%g ", tv_dtype_value(TV_BF16, word, (uint64_t)i));
    printf("\n%llu cycles, %s\n", (unsigned long long)stats.cycles, stats.bottleneck);

    tv_machine_free(machine);
    tv_config_free(config);
    tv_program_free(program);
    return 0;
}
