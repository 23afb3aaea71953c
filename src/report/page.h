/* SPDX-License-Identifier: Apache-2.0 */
/* HTML pages with a script and data: what the build made of a folder `web`, with the data inserted, deflated and in
 * base64. In the page @TITLE@, @STYLE@, @SCRIPT@ and @DATA@ are replaced. */
#ifndef TV_REPORT_PAGE_H
#define TV_REPORT_PAGE_H

#include <stdio.h>

#include "base/base.h"
#include "trivet/diag.h"

typedef struct tv_page_encoder tv_page_encoder;

typedef struct tv_page {
    const unsigned char *html, *css, *js;
    size_t html_size, css_size, js_size;
    const char *title;                                        /* is escaped */
    void (*write_data)(void *user, tv_page_encoder *encoder); /* calls tv_page_encode */
    void *user;
} tv_page;

/* Appends `size` bytes to the data. */
void tv_page_encode(tv_page_encoder *encoder, const void *bytes, size_t size);

/* TV_ERR_MEMORY; TV_ERR_IO: the data could not be compressed. Write errors are those of `out`. */
tv_status tv_page_write(const tv_page *page, FILE *out, const tv_diag_sink *sink);

#endif
