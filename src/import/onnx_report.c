/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of nodes. */
#include <inttypes.h>
#include <stdio.h>

#include "graph/codes.h"
#include "import/onnx_nodes.h"

enum { NAME_SHOWN = 100, PROBLEM_MAX = 400 };

bool tv_onnx_ok(const tv_onnx_node *n) { return n->c->status == TV_OK; }

uint32_t tv_onnx_fail_memory(tv_onnx_context *c)
{
    if (c->status == TV_OK)
        c->status = tv_fail_memory(c->sink);
    return TV_NO_VALUE;
}

static const tv_code *code_of(tv_onnx_problem problem)
{
    switch (problem) {
    case TV_ONNX_INVALID:
        return TV_LLM_CODE(ONNX_NODE);
    case TV_ONNX_UNSUPPORTED:
        return TV_LLM_CODE(ONNX_OPERATOR);
    case TV_ONNX_DYNAMIC:
        return TV_LLM_CODE(ONNX_DYNAMIC);
    }
    return NULL;
}

static const char *hint_of(tv_onnx_problem problem)
{
    return problem == TV_ONNX_DYNAMIC ? "give the input a constant, or export the network with fixed shapes" : NULL;
}

uint32_t tv_onnx_reject(const tv_onnx_node *n, tv_onnx_problem problem, const char *format, ...)
{
    char text[PROBLEM_MAX];
    va_list args;
    if (!tv_onnx_ok(n))
        return TV_NO_VALUE;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = n->proto->name && *n->proto->name           ? n->proto->name
                       : n->proto->n_output && n->proto->output[0] ? n->proto->output[0]
                                                                   : "";
    n->c->status = tv_fail(n->c->sink, TV_ERR_INPUT, code_of(problem), hint_of(problem),
                           "'%s', node %" PRIu32 " '%.*s' (%.*s, opset %" PRId64 "): %s", n->c->file->path, n->index,
                           NAME_SHOWN, name, NAME_SHOWN, n->proto->op_type ? n->proto->op_type : "", n->opset, text);
    return TV_NO_VALUE;
}
