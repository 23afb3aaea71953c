/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on a host without memory, and the progress of long ones. */
#include <errno.h>

#include "failures.h"
#include "graph/resize.h"
#include "operator_case.h"

static tv_status run_graph(const operator_graph *g)
{
    void *state = NULL;
    tv_status status = tv_network_host.create(g->graph, &(tv_network_options){.threads = 1}, NULL, &state);
    if (status == TV_OK)
        status = tv_network_host.run(state, g->inputs, NULL);
    tv_network_host.destroy(state);
    return status;
}

/* Requires TV_ERR_MEMORY from each allocation that fails. */
static void fail_each(tv_graph_op op, const operand *inputs, size_t count, const tv_graph_attrs *attrs)
{
    operator_graph g;
    unsigned paths;
    operator_graph_init(&g, op, inputs, count, attrs);
    failures_count(FAILURE_MEMORY);
    assert_int_equal(run_graph(&g), TV_OK);
    failures_paths(&paths);
    assert_true(paths > 4); /* the state, and the output */
    for (unsigned i = 0;; i++) {
        failures_begin(FAILURE_MEMORY, i, ENOMEM, false);
        tv_status status = run_graph(&g);
        if (!failures_end())
            break;
        if (status != TV_ERR_MEMORY)
            fail_msg("%s: status %d when allocation %u fails", tv_graph_op_infos[op].name, (int)status, i);
    }
    operator_graph_fini(&g);
}

static void each_allocation_that_fails_is_reported(void **state)
{
    (void)state;
    tv_graph_lists lists = {.kernel = {2}, .stride = {1}, .dilation = {1}, .scale = {1, 1, 2}};
    tv_graph_attrs attrs = {.lists = &lists, .groups = 1, .shape = {3, {1, 2, 6}}}, two = attrs;
    const operand x = ZEROS(F32, DIMS(1, 2, 3)), w = ZEROS(F32, DIMS(2, 2, 2)), each = ZEROS(F32, DIMS(2, 1, 2)),
                  half = ZEROS(F16, DIMS(1, 2, 3)), integers = ZEROS(I8, DIMS(1, 2, 3)), k = ZEROS(I8, DIMS(2, 2, 2));
    two.groups = 2;
    fail_each(TV_OP_CONV, INPUTS(x, w), &attrs);
    fail_each(TV_OP_CONV, INPUTS(x, each), &two);
    fail_each(TV_OP_CONV, INPUTS(integers, k), &attrs);
    fail_each(TV_OP_CONV, INPUTS(half, ZEROS(F16, DIMS(2, 2, 2)), ZEROS(F16, DIMS(2))), &attrs);
    fail_each(TV_OP_CONV_TRANSPOSE, INPUTS(x, w), &attrs);
    fail_each(TV_OP_MATMUL, INPUTS(ZEROS(F32, DIMS(2, 2)), x), NULL);
    attrs.mode = tv_resize_pack((tv_resize){.method = TV_RESIZE_LINEAR});
    fail_each(TV_OP_RESIZE, INPUTS(x), &attrs);
    attrs.mode = 0;
    fail_each(TV_OP_RESIZE, INPUTS(integers), &attrs);
    fail_each(TV_OP_TOP_K, INPUTS(x), &(tv_graph_attrs){.end = 2});
    fail_each(TV_OP_MATMUL, INPUTS(ZEROS(I8, DIMS(2, 2)), integers), NULL);
    fail_each(TV_OP_SOFTMAX, INPUTS(half), NULL);
}

/* 2^45 bytes. */
static void networks_larger_than_memory_are_rejected(void **state)
{
    (void)state;
    operator_graph g;
    operator_graph_init(&g, TV_OP_EXPAND, INPUTS(ZEROS(U8, DIMS(1))),
                        &(tv_graph_attrs){.shape = {2, {1 << 20, 1 << 25}}});
    assert_int_equal(run_graph(&g), TV_ERR_MEMORY);
    operator_graph_fini(&g);
}

/* ---- Progress ---- */

typedef struct progress_log {
    unsigned count;
    uint64_t last, total;
} progress_log;

static int log_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    progress_log *log = user;
    assert_string_equal(what, "computing on the host");
    assert_true(done >= log->last && done <= total && (log->count == 0 || total == log->total));
    log->last = done;
    log->total = total;
    log->count++;
    return 0;
}

/* 2^29 operations: a step has 2^28. */
static void long_nodes_report_their_steps(void **state)
{
    (void)state;
    operator_graph g;
    void *host = NULL;
    progress_log log = {0};
    const operand a = ZEROS(F32, DIMS(512, 1024)), b = ZEROS(F32, DIMS(1024, 512));
    operator_graph_init(&g, TV_OP_MATMUL, INPUTS(a, b), NULL);
    tv_network_options options = {.threads = 2, .progress = {.report = log_progress, .user = &log}};
    assert_int_equal(tv_network_host.create(g.graph, &options, NULL, &host), TV_OK);
    assert_int_equal(tv_network_host.run(host, g.inputs, NULL), TV_OK);
    tv_network_host.destroy(host);
    operator_graph_fini(&g);
    assert_true(log.count >= 3);
    assert_true(log.last == log.total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_that_fails_is_reported),
        cmocka_unit_test(networks_larger_than_memory_are_rejected),
        cmocka_unit_test(long_nodes_report_their_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
