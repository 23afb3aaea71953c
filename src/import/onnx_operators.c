/* SPDX-License-Identifier: Apache-2.0 */
/* Finds operators in the table. */
#include "import/onnx_operators.h"

#include <inttypes.h>
#include <stdio.h>

#define ALL TV_ONNX_OPSET_MAX
#define NONE TV_OPS
#define TV_OP_NONE TV_OPS

static const tv_onnx_op rows[] = {
#define TV_ONNX_ROW(domain, name, first, last, function, op)                                                           \
    {TV_ONNX_##domain, name, first, last, tv_onnx_import_##function, TV_OP_##op},
#include "import/onnx_ops.def"
#undef TV_ONNX_ROW
};

enum { ROWS = sizeof rows / sizeof *rows };

static const struct {
    const char *name, *reason;
} rejections[] = {
#define TV_ONNX_REJECTION(name, reason) {name, reason},
#include "import/onnx_rejected.def"
#undef TV_ONNX_REJECTION
};

static bool is_domain(const char *domain, tv_onnx_domain expected)
{
    bool standard = !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
    return expected == TV_ONNX_STANDARD ? standard : domain && strcmp(domain, "com.microsoft") == 0;
}

/* Says which opsets are known, why the operator is not supported, or what is nearest. */
static const tv_onnx_op *reject(const tv_onnx_node *n, int64_t first, int64_t last)
{
    const char *name = n->proto->op_type ? n->proto->op_type : "";
    tv_nearest nearest = tv_nearest_to(tv_sv_of(name));
    if (first) {
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the operator is supported from opset %" PRId64 " to %" PRId64, first,
                       last);
        return NULL;
    }
    if (!is_domain(n->proto->domain, TV_ONNX_STANDARD) && !is_domain(n->proto->domain, TV_ONNX_MICROSOFT)) {
        tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "its domain '%.100s' is not supported", n->proto->domain);
        return NULL;
    }
    for (size_t i = 0; i < sizeof rejections / sizeof *rejections; i++)
        if (strcmp(rejections[i].name, name) == 0) {
            tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the operator is not supported: %s", rejections[i].reason);
            return NULL;
        }
    for (size_t i = 0; i < ROWS; i++)
        tv_nearest_offer(&nearest, rows[i].name);
    tv_onnx_reject(n, TV_ONNX_UNSUPPORTED, "the operator is unknown%s%s%s", nearest.best ? "; did you mean '" : "",
                   nearest.best ? nearest.best : "", nearest.best ? "'?" : "");
    return NULL;
}

const tv_onnx_op *tv_onnx_find_operator(const tv_onnx_node *n)
{
    int64_t first = 0, last = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (!n->proto->op_type || strcmp(rows[i].name, n->proto->op_type) != 0 ||
            !is_domain(n->proto->domain, rows[i].domain))
            continue;
        if (n->opset >= rows[i].first && n->opset <= rows[i].last)
            return &rows[i];
        first = first && first < rows[i].first ? first : rows[i].first;
        last = last > rows[i].last ? last : rows[i].last;
    }
    return reject(n, first, last);
}
