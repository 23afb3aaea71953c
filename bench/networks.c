/* SPDX-License-Identifier: Apache-2.0 */
/* The products and convolutions of published networks, with the host's operators on random numbers: for each distinct
 * layer a graph of one node, which runs as often as the network has it. */
#include "networks.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/network.h"

/* `count` layers. A convolution of in x extent x extent, or, with kernel 0, a product of in vectors of `extent`
 * elements with a matrix of `out` rows; with groups, of as many pairs of computed matrices. */
typedef struct layer {
    int count;
    int64_t in, extent, out, kernel, stride, groups;
} layer;

static const layer resnet50[] = {
    {1, 3, 224, 64, 7, 2, 1},     {1, 64, 56, 64, 1, 1, 1},    {3, 64, 56, 64, 3, 1, 1},    {4, 64, 56, 256, 1, 1, 1},
    {2, 256, 56, 64, 1, 1, 1},    {1, 256, 56, 128, 1, 1, 1},  {1, 128, 56, 128, 3, 2, 1},  {4, 128, 28, 512, 1, 1, 1},
    {1, 256, 56, 512, 1, 2, 1},   {3, 512, 28, 128, 1, 1, 1},  {3, 128, 28, 128, 3, 1, 1},  {1, 512, 28, 256, 1, 1, 1},
    {1, 256, 28, 256, 3, 2, 1},   {6, 256, 14, 1024, 1, 1, 1}, {1, 512, 28, 1024, 1, 2, 1}, {5, 1024, 14, 256, 1, 1, 1},
    {5, 256, 14, 256, 3, 1, 1},   {1, 1024, 14, 512, 1, 1, 1}, {1, 512, 14, 512, 3, 2, 1},  {3, 512, 7, 2048, 1, 1, 1},
    {1, 1024, 14, 2048, 1, 2, 1}, {2, 2048, 7, 512, 1, 1, 1},  {2, 512, 7, 512, 3, 1, 1},   {1, 1, 2048, 1000, 0, 0, 0},
};

static const layer mobilenetv2[] = {
    {1, 3, 224, 32, 3, 2, 1},     {1, 32, 112, 32, 3, 1, 32},   {1, 32, 112, 16, 1, 1, 1},
    {1, 16, 112, 96, 1, 1, 1},    {1, 96, 112, 96, 3, 2, 96},   {1, 96, 56, 24, 1, 1, 1},
    {2, 24, 56, 144, 1, 1, 1},    {1, 144, 56, 144, 3, 1, 144}, {1, 144, 56, 24, 1, 1, 1},
    {1, 144, 56, 144, 3, 2, 144}, {1, 144, 28, 32, 1, 1, 1},    {3, 32, 28, 192, 1, 1, 1},
    {2, 192, 28, 192, 3, 1, 192}, {2, 192, 28, 32, 1, 1, 1},    {1, 192, 28, 192, 3, 2, 192},
    {1, 192, 14, 64, 1, 1, 1},    {4, 64, 14, 384, 1, 1, 1},    {4, 384, 14, 384, 3, 1, 384},
    {3, 384, 14, 64, 1, 1, 1},    {1, 384, 14, 96, 1, 1, 1},    {3, 96, 14, 576, 1, 1, 1},
    {2, 576, 14, 576, 3, 1, 576}, {2, 576, 14, 96, 1, 1, 1},    {1, 576, 14, 576, 3, 2, 576},
    {1, 576, 7, 160, 1, 1, 1},    {3, 160, 7, 960, 1, 1, 1},    {3, 960, 7, 960, 3, 1, 960},
    {2, 960, 7, 160, 1, 1, 1},    {1, 960, 7, 320, 1, 1, 1},    {1, 320, 7, 1280, 1, 1, 1},
    {1, 1, 1280, 1000, 0, 0, 0},
};

/* 128 tokens. */
static const layer bert_base[] = {
    {48, 128, 768, 768, 0, 0, 0}, {12, 128, 768, 3072, 0, 0, 0}, {12, 128, 3072, 768, 0, 0, 0},
    {12, 128, 64, 128, 0, 0, 12}, {12, 128, 128, 64, 0, 0, 12},
};

typedef struct network {
    const char *name;
    const layer *layers;
    size_t count;
    double goal; /* s on one thread; 0: none */
} network;

static const network networks[] = {
    {"ResNet-50", resnet50, sizeof resnet50 / sizeof resnet50[0], 3},
    {"MobileNetV2", mobilenetv2, sizeof mobilenetv2 / sizeof mobilenetv2[0], 0},
    {"BERT-base, 128 tokens", bert_base, sizeof bert_base / sizeof bert_base[0], 0},
};

/* A prepared layer. */
typedef struct task {
    tv_graph *graph;
    void *state;
    tv_tensor inputs[2];
    int count;
} task;

static void check_status(tv_status status)
{
    if (status == TV_OK)
        return;
    fprintf(stderr, "bench: %s\n", tv_status_text(status));
    exit(3);
}

static tv_tensor random_tensor(uint32_t rank, const int64_t *dims)
{
    tv_tensor t;
    uint32_t state = 1;
    check_status(tv_tensor_init(&t, TV_ELEMENT_F32, rank, dims, NULL));
    for (uint64_t i = 0; i < tv_tensor_count(&t); i++) {
        state = state * 1664525 + 1013904223;
        ((float *)t.data)[i] = (float)(state >> 16) / 32768 - 1;
    }
    return t;
}

static uint32_t add_input(tv_graph_builder *b, const tv_tensor *t)
{
    tv_graph_shape dims = {.rank = t->rank};
    for (uint32_t i = 0; i < t->rank; i++)
        dims.dims[i] = t->dims[i];
    return tv_graph_input(b, "x", TV_ELEMENT_F32, &dims);
}

static uint32_t add_convolution(tv_graph_builder *b, const layer *l, task *t)
{
    t->inputs[0] = random_tensor(4, (int64_t[]){1, l->in, l->extent, l->extent});
    tv_tensor w = random_tensor(4, (int64_t[]){l->out, l->in / l->groups, l->kernel, l->kernel});
    int64_t pad = l->kernel / 2;
    tv_graph_lists lists = {.kernel = {l->kernel, l->kernel},
                            .stride = {l->stride, l->stride},
                            .dilation = {1, 1},
                            .pad_begin = {pad, pad},
                            .pad_end = {pad, pad}};
    tv_graph_attrs attrs = {.lists = &lists, .groups = (uint32_t)l->groups, .activation = TV_ACTIVATION_RELU};
    uint32_t inputs[2] = {add_input(b, &t->inputs[0]), tv_graph_tensor(b, "w", &w, false)};
    tv_tensor_fini(&w);
    return tv_graph_add(b, TV_OP_CONV, "y", inputs, 2, &attrs);
}

static uint32_t add_product(tv_graph_builder *b, const layer *l, task *t)
{
    if (l->groups) {
        t->inputs[0] = random_tensor(3, (int64_t[]){l->groups, l->in, l->extent});
        t->inputs[1] = random_tensor(3, (int64_t[]){l->groups, l->extent, l->out});
        return tv_graph_add2(b, TV_OP_MATMUL, "y", add_input(b, &t->inputs[0]), add_input(b, &t->inputs[1]));
    }
    t->inputs[0] = random_tensor(2, (int64_t[]){l->in, l->extent});
    tv_tensor w = random_tensor(2, (int64_t[]){l->out, l->extent});
    uint32_t inputs[2] = {add_input(b, &t->inputs[0]), tv_graph_tensor(b, "w", &w, false)};
    tv_tensor_fini(&w);
    return tv_graph_add(b, TV_OP_GEMM, "y", inputs, 2, NULL);
}

static task create_task(const layer *l, unsigned threads)
{
    task t = {.count = l->count};
    tv_graph_builder b;
    tv_graph_begin(&b, 0, 0, NULL);
    b.block = TV_BLOCK_NONE;
    tv_graph_add_output(&b, "y", l->kernel ? add_convolution(&b, l, &t) : add_product(&b, l, &t));
    check_status(tv_graph_finish(&b, TV_NO_VALUE, &t.graph));
    check_status(tv_network_host.create(t.graph, &(tv_network_options){.threads = threads}, NULL, &t.state));
    return t;
}

static double macs_of(const layer *l)
{
    double to = l->kernel ? (double)((l->extent + 2 * (l->kernel / 2) - l->kernel) / l->stride + 1) : 0;
    double each = l->kernel ? to * to * (double)(l->in / l->groups * l->kernel * l->kernel)
                            : (double)(l->in * l->extent * (l->groups ? l->groups : 1));
    return l->count * each * (double)l->out;
}

typedef struct tasks {
    task *list;
    size_t count;
} tasks;

static void run_tasks(void *user)
{
    const tasks *all = user;
    for (size_t i = 0; i < all->count; i++)
        for (int n = 0; n < all->list[i].count; n++)
            check_status(tv_network_host.run(
                all->list[i].state, (const tv_tensor *[]){&all->list[i].inputs[0], &all->list[i].inputs[1]}, NULL));
}

static bench_times measure_network(const bench_report *r, const network *n, unsigned threads)
{
    tasks all = {calloc(n->count, sizeof *all.list), n->count};
    if (!all.list)
        exit(3);
    for (size_t i = 0; i < n->count; i++)
        all.list[i] = create_task(&n->layers[i], threads);
    bench_times t = (r->rows_only ? bench_measure_cold : bench_measure)(run_tasks, &all, r->runs);
    for (size_t i = 0; i < n->count; i++) {
        tv_network_host.destroy(all.list[i].state);
        tv_graph_free(all.list[i].graph);
        tv_tensor_fini(&all.list[i].inputs[0]);
        tv_tensor_fini(&all.list[i].inputs[1]);
    }
    free(all.list);
    return t;
}

void network_rows(const bench_report *report)
{
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            const network *n = &networks[i];
            char name[96];
            double macs = 0;
            for (size_t k = 0; k < n->count; k++)
                macs += macs_of(&n->layers[k]);
            snprintf(name, sizeof name, "host, binary32: products of %s (%.2f GMAC)%s", n->name, macs / 1e9,
                     threads > 1 ? ", 2 threads" : "");
            if (!bench_selected(report, name))
                continue;
            bench_print_row(report, &(bench_row){.name = name,
                                                 .unit = "s",
                                                 .value = measure_network(report, n, threads),
                                                 .goal = threads > 1 ? 0 : n->goal,
                                                 .lower = true});
        }
}
