/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse memory by anonymous mappings without reservation. */
#include "sim/memory.h"

#include <inttypes.h>
#include <sys/mman.h>

/* Memories of 2 MiB up to this size, such as scratchpads, are mostly used as a whole: with huge pages they have fewer
 * page faults. A mapping of 2 MiB begins at a huge page from Linux 6.7 on. */
enum { HUGE_PAGES_MAX = 32 << 20 };

tv_status tv_memory_init(tv_memory *memory, uint64_t size, const tv_diag_sink *sink)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return tv_fail(sink, TV_ERR_MEMORY, TV_CODE(NO_MEMORY), "make the simulated memory smaller with -D",
                       "the host cannot reserve %" PRIu64 " bytes of simulated memory", size);
    if (size <= HUGE_PAGES_MAX)
        madvise(p, size, MADV_HUGEPAGE); /* a hint: it may fail */
    *memory = (tv_memory){p, size, false};
    return TV_OK;
}

void tv_memory_fini(tv_memory *memory)
{
    if (memory->bytes && !memory->external)
        munmap(memory->bytes, memory->size);
    *memory = (tv_memory){0};
}

void tv_memory_map(tv_memory *memory, void *bytes)
{
    uint64_t size = memory->size;
    tv_memory_fini(memory);
    *memory = (tv_memory){bytes, size, true};
}

void tv_memory_write(tv_memory *memory, uint64_t addr, const void *bytes, uint64_t size)
{
    enum { LARGE = 1 << 16 };
    const uint64_t page = (uint64_t)2 << 20;
    uint64_t first = addr / page * page, last = (addr + size + page - 1) / page * page;
    if (size >= LARGE && !memory->external)
        madvise(memory->bytes + first, (last < memory->size ? last : memory->size) - first,
                MADV_HUGEPAGE); /* a hint: it may fail */
    if (size)
        memcpy(memory->bytes + addr, bytes, size);
}

void tv_memory_zero(tv_memory *memory, uint64_t addr, uint64_t size)
{
    const uint64_t page = 65536; /* a multiple of every page size but that of huge pages, which a hole splits */
    uint64_t first = (addr + page - 1) / page * page, last = (addr + size) / page * page;
    if (memory->external || memory->size <= HUGE_PAGES_MAX || first >= last ||
        madvise(memory->bytes + first, last - first, MADV_DONTNEED) != 0) {
        memset(memory->bytes + addr, 0, size);
        return;
    }
    memset(memory->bytes + addr, 0, first - addr);
    memset(memory->bytes + last, 0, addr + size - last);
}
