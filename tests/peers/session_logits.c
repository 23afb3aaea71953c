/* SPDX-License-Identifier: Apache-2.0 */
/* The logits of a model after each token: session_logits MODEL TARGET [WEIGHT_BITS [STEP]]. Reads token numbers from
 * standard input, one a line, and writes [tokens][vocabulary] binary32 numbers to standard output. STEP is the number
 * of tokens given to the backend at once; 0: all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/backend.h"
#include "import/model.h"
#include "trivet/config.h"

extern const tv_backend tv_backend_pccx, tv_backend_opennpu, tv_backend_cmdq;

enum { TOKENS_MAX = 1024, SAMPLE = 64 };

static void print(void *user, const tv_diag *diag)
{
    (void)user;
    tv_diag_print(stderr, diag, 0);
}

static const tv_backend *find_backend(const char *name)
{
    const tv_backend *const list[] = {&tv_backend_host, &tv_backend_pccx, &tv_backend_opennpu, &tv_backend_cmdq};
    for (size_t i = 0; i < TV_COUNTOF(list); i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    return NULL;
}

/* Runs the tokens in steps, which are split as the backend likes. */
static tv_status run(const tv_model *model, const tv_backend *backend, const tv_backend_options *options, uint32_t step,
                     const tv_diag_sink *sink)
{
    size_t vocabulary = tv_graph_vocabulary(model->graph);
    uint32_t count = options->context, each = step ? step : count;
    float *logits = malloc(count * vocabulary * sizeof *logits);
    void *state = NULL;
    tv_status status = logits ? backend->create(model->graph, options, sink, &state) : TV_ERR_MEMORY;
    for (uint32_t at = 0; at < count && status == TV_OK; at += each)
        status = backend->step(state, options->sample + at, count - at < each ? count - at : each, at, false,
                               logits + at * vocabulary, sink);
    if (status == TV_OK && fwrite(logits, vocabulary * sizeof *logits, count, stdout) != count)
        status = TV_ERR_IO;
    backend->destroy(state);
    free(logits);
    return status;
}

int main(int argc, char **argv)
{
    const tv_diag_sink sink = {print, NULL};
    const tv_backend *backend = argc > 2 ? find_backend(argv[2]) : NULL;
    int32_t tokens[TOKENS_MAX];
    uint32_t count = 0;
    tv_model *model = NULL;
    tv_config *config = NULL;
    while (count < TOKENS_MAX && scanf("%d", &tokens[count]) == 1)
        count++;
    if (!backend || !count)
        return 2;
    tv_status status = tv_model_open(argv[1], 0, &sink, &model);
    if (status == TV_OK && backend != &tv_backend_host)
        status = tv_config_new(argv[2], &sink, &config);
    tv_backend_options options = {.config = config,
                                  .context = count,
                                  .threads = 1,
                                  .mode = TV_MODE_FULL,
                                  .weight_bits = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0,
                                  .sample = tokens,
                                  .sample_count = count < SAMPLE ? count : SAMPLE};
    if (status == TV_OK)
        status = run(model, backend, &options, argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0, &sink);
    tv_config_free(config);
    tv_model_free(model);
    return status == TV_OK ? 0 : 1;
}
