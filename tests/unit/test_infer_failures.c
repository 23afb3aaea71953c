/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on a host whose memory or files fail at one call: calibration, passes, sessions, compiled networks.
 *
 *     test_infer_failures SOURCE_TREE [WORD] */
#include "scenario.h"

#include <sys/stat.h>
#include <unistd.h>

#include "failures.h"
#include "graph/npy.h"
#include "infer/state.h"

extern const tv_network_backend tv_network_cmdq;

static const tv_infer_services services = {tv_program_open, tv_config_new};

static uint32_t constant(tv_graph_builder *b, uint32_t rank, const int64_t *dims)
{
    float data[64];
    tv_tensor t = {.rank = rank, .data = data};
    memcpy(t.dims, dims, rank * sizeof *dims);
    for (unsigned i = 0; i < 64; i++)
        data[i] = (float)(i % 7) / 8 - 0.25F;
    return tv_graph_tensor(b, "w", &t, false);
}

/* Two products with Relu between them. */
static tv_status new_network(scene *s, tv_network **out)
{
    tv_graph_builder b;
    tv_graph *graph;
    tv_graph_begin(&b, 0, 1, &s->sink);
    b.block = TV_BLOCK_NONE;
    tv_graph_shape in = {.rank = 2, .dims = {2, 4}};
    uint32_t x = tv_graph_input(&b, "x", TV_ELEMENT_F32, &in);
    uint32_t h = tv_graph_add2(&b, TV_OP_GEMM, "h", x, constant(&b, 2, (int64_t[]){8, 4}));
    h = tv_graph_add2(&b, TV_OP_ADD, "a", h, constant(&b, 1, (int64_t[]){8}));
    h = tv_graph_add1(&b, TV_OP_RELU, "r", h);
    uint32_t y = tv_graph_add2(&b, TV_OP_GEMM, "y", h, constant(&b, 2, (int64_t[]){3, 8}));
    tv_graph_add_output(&b, "y", y);
    TRY(tv_graph_finish(&b, TV_NO_VALUE, &graph));
    return tv_network_new_of(graph, &(tv_network_open_options){.equalize = 1}, &s->sink, out);
}

static void add_outputs(scene *s, const tv_network_session *session)
{
    tv_network_tensor t;
    tv_network_layer layer;
    for (unsigned i = 0; tv_network_session_output_at(session, i, &t); i++)
        for (size_t k = 0; k < t.bytes / 4; k++)
            add_number(s, (uint64_t)(int64_t)(((const float *)t.data)[k] * 1000));
    for (unsigned i = 0; tv_network_session_layer_at(session, i, &layer); i++) {
        add_text(s, layer.name);
        add_number(s, layer.cycles);
    }
}

static tv_status run_session(scene *s, tv_network_session *session, bool verify)
{
    TRY(tv_network_session_run(session, &s->sink));
    if (verify)
        TRY(tv_network_session_verify(session, &s->sink));
    add_outputs(s, session);
    return TV_OK;
}

static tv_status on_backend(scene *s, const tv_network_backend *backend, const tv_network_session_options *options)
{
    tv_network *network;
    tv_network_session *session;
    TRY(new_network(s, &network));
    tv_status status = tv_network_session_new_on(network, backend, options, &services, &s->sink, &session);
    if (status == TV_OK) {
        status = run_session(s, session, options->verify);
        tv_network_session_free(session);
    }
    tv_network_free(network);
    return status;
}

static tv_status host(scene *s)
{
    return on_backend(s, &tv_network_host, &(tv_network_session_options){.target = "host", .verify = 1});
}

static tv_status on_cmdq(scene *s, tv_network_session_options options)
{
    tv_config *config;
    TRY(tv_config_new("cmdq", &s->sink, &config));
    options.target = "cmdq";
    options.config = config;
    tv_status status = on_backend(s, &tv_network_cmdq, &options);
    tv_config_free(config);
    return status;
}

static tv_status machine(scene *s)
{
    return on_cmdq(
        s, (tv_network_session_options){.verify = 1, .ranges = TV_NETWORK_RANGES_PERCENTILE, .correct_bias = 1});
}

static tv_status calibrated(scene *s)
{
    float x[8] = {1, 2, 3, -4};
    tv_tensor t = {.rank = 2, .dims = {2, 4}, .data = x};
    mkdir(in_folder("samples"), 0700);
    TRY(tv_npy_write(&t, in_folder("samples/x-1.npy"), NULL, &s->sink));
    TRY(tv_npy_write(&t, in_folder("samples/x-2.npy"), NULL, &s->sink));
    return on_cmdq(s, (tv_network_session_options){.calibrate = in_folder("samples"), .ranges = TV_NETWORK_RANGES_MSE});
}

static tv_status save(scene *s, tv_network *network, const tv_network_session_options *options)
{
    tv_network_session *session;
    TRY(tv_network_session_new_on(network, &tv_network_cmdq, options, &services, &s->sink, &session));
    tv_status status = tv_network_session_run(session, &s->sink);
    if (status == TV_OK)
        status = tv_network_session_save_manifest(session, &s->sink);
    if (status == TV_OK)
        status = tv_network_session_save_output(session, "y", in_folder("y.npy"), NULL, NULL, &s->sink);
    if (status == TV_OK)
        status = tv_network_session_save_output(session, "y", in_folder("y.raw"), "int8", NULL, &s->sink);
    tv_network_session_free(session);
    return status;
}

static tv_status compile(scene *s)
{
    tv_network *network;
    tv_config *config;
    tv_network_session_options options = {.target = "cmdq", .emit = in_folder("net")};
    unlink(in_folder("net/weights.bin"));
    unlink(in_folder("net/network.json"));
    unlink(in_folder("net/manifest.json"));
    TRY(tv_config_new("cmdq", &s->sink, &config));
    tv_status status = new_network(s, &network);
    options.config = config;
    if (status == TV_OK) {
        status = save(s, network, &options);
        tv_network_free(network);
    }
    tv_config_free(config);
    if (status == TV_OK)
        add_file(s, in_folder("net/manifest.json"));
    return status;
}

static tv_status run_compiled(scene *s)
{
    tv_network *network;
    tv_network_session *session;
    tv_network_session_options options = {.size = sizeof options, .target = "cmdq"};
    TRY(tv_network_open(in_folder("net"), NULL, &s->sink, &network));
    tv_status status = tv_network_session_new(network, &options, &s->sink, &session);
    if (status == TV_OK) {
        status = run_session(s, session, false);
        tv_network_session_free(session);
    }
    tv_network_free(network);
    return status;
}

/* The folder is written without failures. */
static tv_status compiled(scene *s)
{
    scene quiet = {0};
    failures_pause(true);
    tv_status status = compile(&quiet);
    failures_pause(false);
    return status == TV_OK ? run_compiled(s) : status;
}

static const scenario scenarios[] = {
    {"host", host, TV_OK, false},       {"machine", machine, TV_OK, false},   {"calibrated", calibrated, TV_OK, false},
    {"compile", compile, TV_OK, false}, {"compiled", compiled, TV_OK, false},
};

int main(int argc, char **argv) { return run_scenarios(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
