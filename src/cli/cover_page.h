/* SPDX-License-Identifier: Apache-2.0 */
/* A coverage as an HTML page. */
#ifndef TV_CLI_COVER_PAGE_H
#define TV_CLI_COVER_PAGE_H

#include <stdio.h>

#include "trivet/cover.h"

/* Write errors are those of `out`. */
void cover_write_page(const tv_cover *cover, FILE *out);

#endif
