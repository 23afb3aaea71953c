/* SPDX-License-Identifier: Apache-2.0 */
/* Images of memory. The host's kernel lists the pages that have been touched (/proc/self/pagemap), so that the cost
 * follows the memory that a program uses and not the size of the memory; without that list every page is compared. */
#include "sim/image.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 4096, WINDOW = 8192 }; /* bytes of an image's page; entries of the page map per read */

struct tv_image_page {
    uint32_t users;
    uint8_t bytes[PAGE];
};

/* An iterator over the pages that may not be zero. */
typedef struct page_iterator {
    const tv_memory *memory;
    int pagemap;            /* -1: every page is returned */
    uint64_t host_page;     /* the kernel's */
    uint64_t next, pages;   /* of PAGE bytes */
    uint64_t window, known; /* first host page of `flags`, and how many */
    uint64_t flags[WINDOW];
} page_iterator;

static page_iterator *page_iterator_new(const tv_memory *memory)
{
    page_iterator *it = malloc(sizeof *it);
    if (!it)
        return NULL;
    it->memory = memory;
    it->next = it->window = it->known = 0; /* the flags are read when they are needed */
    it->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    it->host_page = (uint64_t)sysconf(_SC_PAGESIZE);
    it->pages = tv_ceil_div(memory->size, PAGE);
    return it;
}

static void page_iterator_free(page_iterator *it)
{
    if (it && it->pagemap >= 0)
        close(it->pagemap);
    free(it);
}

/* Present, or swapped out. Memory is mapped from the start of a host page. */
static bool is_touched(page_iterator *it, uint64_t page)
{
    uint64_t host = page * PAGE / it->host_page;
    if (it->pagemap < 0)
        return true;
    if (host < it->window || host >= it->window + it->known) {
        uint64_t first = (uint64_t)(uintptr_t)it->memory->bytes / it->host_page + host;
        uint64_t left = tv_ceil_div((it->pages - page) * PAGE, it->host_page);
        size_t bytes = sizeof *it->flags * (size_t)tv_min_u64(WINDOW, left);
        ssize_t n = pread(it->pagemap, it->flags, bytes, (off_t)(first * sizeof *it->flags));
        if (n < (ssize_t)bytes) {
            close(it->pagemap);
            it->pagemap = -1;
            return true;
        }
        it->window = host;
        it->known = (uint64_t)n / sizeof *it->flags;
    }
    return it->flags[host - it->window] >> 62 != 0;
}

static bool next_page(page_iterator *it, uint64_t *page)
{
    while (it->next < it->pages) {
        uint64_t at = it->next++;
        if (!is_touched(it, at))
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

static void unref_page(tv_image_page *page)
{
    if (--page->users == 0)
        free(page);
}

void tv_image_fini(tv_image *image)
{
    for (size_t i = 0; i < image->entries.count; i++)
        unref_page(image->entries.data[i].page);
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

static bool append_page(tv_image *image, uint64_t number, tv_image_page *page)
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
    if (page && append_page(image, number, page))
        return true;
    if (page)
        unref_page(page);
    return false;
}

tv_status tv_image_take(tv_image *image, const tv_memory *memory, const tv_image *near, uint64_t limit, uint64_t *bytes)
{
    page_iterator *it = page_iterator_new(memory);
    uint64_t page;
    size_t at = 0;
    *image = (tv_image){0};
    *bytes = 0;
    bool taken = it != NULL;
    while (taken && next_page(it, &page))
        taken = take_page(image, memory, page, near, &at, bytes) && *bytes <= limit;
    page_iterator_free(it);
    if (taken)
        return TV_OK;
    tv_image_fini(image);
    return TV_ERR_MEMORY;
}

/* Zeroes the touched pages that are not in the image. */
static void zero_missing_pages(const tv_image *image, tv_memory *memory)
{
    page_iterator *it = page_iterator_new(memory);
    uint64_t page;
    size_t at = 0;
    if (!it) { /* slower, but needs no memory */
        uint64_t from = 0;
        for (size_t i = 0; i <= image->entries.count; i++) {
            uint64_t to = i < image->entries.count ? image->entries.data[i].number * PAGE : memory->size;
            tv_memory_zero(memory, from, to - from);
            from = tv_min_u64(to + PAGE, memory->size);
        }
        return;
    }
    while (next_page(it, &page)) {
        uint8_t *data = memory->bytes + page * PAGE;
        size_t size = bytes_in(memory, page);
        while (at < image->entries.count && image->entries.data[at].number < page)
            at++;
        if ((at == image->entries.count || image->entries.data[at].number != page) && !is_zero(data, size))
            memset(data, 0, size);
    }
    page_iterator_free(it);
}

void tv_image_restore(const tv_image *image, tv_memory *memory)
{
    zero_missing_pages(image, memory);
    for (size_t i = 0; i < image->entries.count; i++) {
        uint8_t *data = memory->bytes + image->entries.data[i].number * PAGE;
        size_t size = bytes_in(memory, image->entries.data[i].number);
        if (memcmp(data, image->entries.data[i].page->bytes, size) != 0)
            memcpy(data, image->entries.data[i].page->bytes, size);
    }
}
