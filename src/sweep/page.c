/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/page.h"

#include "report/page.h"

/* Made by the build from web/. */
extern const unsigned char tv_sweep_page_html[], tv_sweep_page_css[], tv_sweep_page_js[];
extern const size_t tv_sweep_page_html_size, tv_sweep_page_css_size, tv_sweep_page_js_size;

typedef struct text {
    const char *json;
    size_t length;
} text;

static void write_data(void *user, tv_page_encoder *encoder)
{
    const text *data = user;
    tv_page_encode(encoder, data->json, data->length);
}

tv_status tv_sweep_page_write(const char *json, size_t length, const char *title, FILE *out, const tv_diag_sink *sink)
{
    text data = {json, length};
    const tv_page page = {.html = tv_sweep_page_html,
                          .css = tv_sweep_page_css,
                          .js = tv_sweep_page_js,
                          .html_size = tv_sweep_page_html_size,
                          .css_size = tv_sweep_page_css_size,
                          .js_size = tv_sweep_page_js_size,
                          .title = title,
                          .write_data = write_data,
                          .user = &data};
    return tv_page_write(&page, out, sink);
}
