/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include <string.h>
#include <zlib.h>

#include "base/diag.h"

/* ---- Deflated bytes in base64 ---- */

struct tv_page_encoder {
    FILE *out;
    z_stream zip;
    uint8_t carry[3]; /* bytes that do not fill a group of three yet */
    unsigned carried;
    bool failed;
};

static void write_group(tv_page_encoder *e, unsigned n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t v = (uint32_t)e->carry[0] << 16 | (n > 1 ? (uint32_t)e->carry[1] << 8 : 0) | (n > 2 ? e->carry[2] : 0u);
    char text[4] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                    n > 2 ? digits[v & 63] : '='};
    fwrite(text, 1, 4, e->out);
}

static void write_bytes(tv_page_encoder *e, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        e->carry[e->carried++] = bytes[i];
        if (e->carried == 3) {
            write_group(e, 3);
            e->carried = 0;
        }
    }
}

static void run_deflate(tv_page_encoder *e, int flush)
{
    uint8_t block[16384];
    int status;
    do {
        e->zip.next_out = block;
        e->zip.avail_out = sizeof block;
        status = deflate(&e->zip, flush);
        e->failed = e->failed || status == Z_STREAM_ERROR;
        write_bytes(e, block, sizeof block - e->zip.avail_out);
    } while (!e->failed && (e->zip.avail_out == 0 || (flush == Z_FINISH && status != Z_STREAM_END)));
}

void tv_page_encode(tv_page_encoder *e, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    while (size && !e->failed) {
        uInt n = (uInt)tv_min_u64(size, 1 << 20);
        e->zip.next_in = (z_const Bytef *)(uintptr_t)p;
        e->zip.avail_in = n;
        run_deflate(e, Z_NO_FLUSH);
        p += n;
        size -= n;
    }
}

static void finish_data(tv_page_encoder *e)
{
    run_deflate(e, Z_FINISH);
    if (e->carried)
        write_group(e, e->carried);
}

/* ---- The page ---- */

static void write_title(const char *text, FILE *out)
{
    for (; *text; text++)
        if (strchr("<>&\"'", *text))
            fprintf(out, "&#%d;", *text);
        else if ((unsigned char)*text >= ' ')
            putc(*text, out);
}

/* Replaces @NAME@ in the page. */
static void write_placeholder(const char *name, size_t n, const tv_page *page, tv_page_encoder *e)
{
    if (n == 5 && memcmp(name, "TITLE", n) == 0) {
        write_title(page->title, e->out);
    } else if (n == 5 && memcmp(name, "STYLE", n) == 0) {
        fwrite(page->css, 1, page->css_size, e->out);
    } else if (n == 6 && memcmp(name, "SCRIPT", n) == 0) {
        fwrite(page->js, 1, page->js_size, e->out);
    } else if (n == 4 && memcmp(name, "DATA", n) == 0) {
        page->write_data(page->user, e);
        finish_data(e);
    }
}

tv_status tv_page_write(const tv_page *page, FILE *out, const tv_diag_sink *sink)
{
    tv_page_encoder e = {.out = out};
    if (deflateInit(&e.zip, 7) != Z_OK)
        return tv_fail_memory(sink);
    const char *p = (const char *)page->html, *end = p + page->html_size;
    while (p < end) {
        const char *mark = memchr(p, '@', (size_t)(end - p)),
                   *close = mark ? memchr(mark + 1, '@', (size_t)(end - mark - 1)) : NULL;
        fwrite(p, 1, (size_t)((close ? mark : end) - p), out);
        if (!close)
            break;
        write_placeholder(mark + 1, (size_t)(close - mark - 1), page, &e);
        p = close + 1;
    }
    deflateEnd(&e.zip);
    if (e.failed)
        return tv_fail(sink, TV_ERR_IO, TV_CODE(FILE_WRITE), NULL, "the page's data could not be compressed");
    return TV_OK;
}
