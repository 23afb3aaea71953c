/* SPDX-License-Identifier: Apache-2.0 */
/* Images of memory. Which pages have been touched is asked of the kernel (/proc/self/pagemap), so that the price is
 * that of what a program uses and not of what it could use; without an answer every page is looked at. */
#include "sim/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 4096, WINDOW = 8192 }; /* bytes of an image's page; pages asked for at once */

struct tv_image_page {
    uint32_t users;
    uint8_t bytes[PAGE];
};

/* A walk over the pages that may hold something. */
typedef struct walk {
    const tv_memory *memory;
    int pagemap;            /* -1: every page is looked at */
    uint64_t host_page;     /* the kernel's */
    uint64_t next, pages;   /* of PAGE bytes */
    uint64_t window, known; /* first host page of `flags`, and how many */
    uint64_t flags[WINDOW];
} walk;

static walk *walk_begin(const tv_memory *memory)
{
    walk *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->memory = memory;
    w->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    w->host_page = (uint64_t)sysconf(_SC_PAGESIZE);
    w->pages = tv_ceil_div(memory->size, PAGE);
    return w;
}

static void walk_end(walk *w)
{
    if (w && w->pagemap >= 0)
        close(w->pagemap);
    free(w);
}

/* Present, or swapped out. Memory is mapped from a page's start on. */
static bool touched(walk *w, uint64_t page)
{
    uint64_t host = page * PAGE / w->host_page;
    if (w->pagemap < 0)
        return true;
    if (host < w->window || host >= w->window + w->known) {
        uint64_t first = (uint64_t)(uintptr_t)w->memory->bytes / w->host_page + host;
        ssize_t n = pread(w->pagemap, w->flags, sizeof w->flags, (off_t)(first * sizeof *w->flags));
        if (n < (ssize_t)sizeof *w->flags) {
            close(w->pagemap);
            w->pagemap = -1;
            return true;
        }
        w->window = host;
        w->known = (uint64_t)n / sizeof *w->flags;
    }
    return w->flags[host - w->window] >> 62 != 0;
}

static bool walk_next(walk *w, uint64_t *page)
{
    while (w->next < w->pages) {
        uint64_t at = w->next++;
        if (!touched(w, at))
            continue;
        *page = at;
        return true;
    }
    return false;
}

static size_t bytes_in(const tv_memory *memory, uint64_t page)
{
    return (size_t)tv_min_u64(PAGE, memory->size - page * PAGE);
}

static bool is_zero(const uint8_t *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static void drop(tv_image_page *page)
{
    if (--page->users == 0)
        free(page);
}

void tv_image_fini(tv_image *image)
{
    for (size_t i = 0; i < image->entries.count; i++)
        drop(image->entries.data[i].page);
    TV_VEC_FINI(&image->entries);
    *image = (tv_image){0};
}

uint64_t tv_image_bytes(const tv_image *image)
{
    uint64_t sum = image->entries.cap * sizeof *image->entries.data;
    for (size_t i = 0; i < image->entries.count; i++)
        sum += sizeof(tv_image_page) / image->entries.data[i].page->users;
    return sum;
}

static bool add(tv_image *image, uint64_t number, tv_image_page *page)
{
    return TV_VEC_PUSH(&image->entries, ((tv_image_entry){number, page}));
}

static tv_image_page *copy_page(const uint8_t *bytes, size_t size)
{
    tv_image_page *page = malloc(sizeof *page);
    if (!page)
        return NULL;
    page->users = 1;
    memcpy(page->bytes, bytes, size);
    return page;
}

static bool take_page(tv_image *image, const tv_memory *memory, uint64_t number, const tv_image *near, size_t *at,
                      uint64_t *bytes)
{
    const uint8_t *data = memory->bytes + number * PAGE;
    size_t size = bytes_in(memory, number);
    tv_image_page *page = NULL;
    if (is_zero(data, size))
        return true;
    while (near && *at < near->entries.count && near->entries.data[*at].number < number)
        ++*at;
    if (near && *at < near->entries.count && near->entries.data[*at].number == number &&
        memcmp(near->entries.data[*at].page->bytes, data, size) == 0) {
        page = near->entries.data[*at].page;
        page->users++;
    } else {
        page = copy_page(data, size);
        *bytes += sizeof *page;
    }
    *bytes += sizeof(tv_image_entry);
    if (page && add(image, number, page))
        return true;
    if (page)
        drop(page);
    return false;
}

tv_status tv_image_take(tv_image *image, const tv_memory *memory, const tv_image *near, uint64_t limit, uint64_t *bytes)
{
    walk *w = walk_begin(memory);
    uint64_t page;
    size_t at = 0;
    *image = (tv_image){0};
    *bytes = 0;
    bool fine = w != NULL;
    while (fine && walk_next(w, &page))
        fine = take_page(image, memory, page, near, &at, bytes) && *bytes <= limit;
    walk_end(w);
    if (fine)
        return TV_OK;
    tv_image_fini(image);
    return TV_ERR_MEMORY;
}

/* Pages that were touched since, and are in no image, were zero. */
static void zero_others(const tv_image *image, tv_memory *memory)
{
    walk *w = walk_begin(memory);
    uint64_t page;
    size_t at = 0;
    if (!w) { /* the slow way, which needs no memory */
        uint64_t from = 0;
        for (size_t i = 0; i <= image->entries.count; i++) {
            uint64_t to = i < image->entries.count ? image->entries.data[i].number * PAGE : memory->size;
            tv_memory_zero(memory, from, to - from);
            from = tv_min_u64(to + PAGE, memory->size);
        }
        return;
    }
    while (walk_next(w, &page)) {
        uint8_t *data = memory->bytes + page * PAGE;
        size_t size = bytes_in(memory, page);
        while (at < image->entries.count && image->entries.data[at].number < page)
            at++;
        if ((at == image->entries.count || image->entries.data[at].number != page) && !is_zero(data, size))
            memset(data, 0, size);
    }
    walk_end(w);
}

void tv_image_restore(const tv_image *image, tv_memory *memory)
{
    zero_others(image, memory);
    for (size_t i = 0; i < image->entries.count; i++) {
        uint8_t *data = memory->bytes + image->entries.data[i].number * PAGE;
        size_t size = bytes_in(memory, image->entries.data[i].number);
        if (memcmp(data, image->entries.data[i].page->bytes, size) != 0)
            memcpy(data, image->entries.data[i].page->bytes, size);
    }
}
