/* SPDX-License-Identifier: Apache-2.0 */
/* Test cases of ONNX's backend suite: folders with model.onnx and test_data_set_N. */
#ifndef TESTS_NETWORKS_ONNX_CASE_H
#define TESTS_NETWORKS_ONNX_CASE_H

#include "graph/graph.h"
#include "import/onnx_file.h"

enum { CASE_FILES_MAX = 16, CASE_PATH_MAX = 4096 };

/* The first error of a sink. */
typedef struct case_report {
    char text[1024];
} case_report;

void case_keep_error(void *user, const tv_diag *diag); /* `user` is a case_report */

typedef struct case_tensors {
    tv_tensor data[CASE_FILES_MAX];
    size_t count;
} case_tensors;

/* Reads input_0.pb and so on of a data set, or, with the kind "output", its outputs; an unreadable one ends the list.
 */
void case_read_tensors(const char *folder, int set, const char *kind, case_tensors *out);
void case_free_tensors(case_tensors *t);

/* The suite stores bfloat16 as uint16 of the same bits. */
void case_correct_bfloat16(tv_tensor *t, tv_element expected);

bool case_same_dims(const tv_tensor *a, const tv_tensor *b); /* and element types */

/* Which inputs are constants of the graph. */
typedef enum case_constants {
    CASE_NO_CONSTANTS,
    CASE_SMALL_CONSTANTS, /* small ones after the first */
    CASE_WEIGHTS          /* all after the first */
} case_constants;

/* Imports with the shapes of the inputs; bound[i] tells whether input i is a constant. As tv_onnx_import_file. */
tv_status case_import(const tv_onnx *file, const case_tensors *inputs, case_constants constants,
                      bool bound[CASE_FILES_MAX], case_report *error, tv_graph **out);

#endif
