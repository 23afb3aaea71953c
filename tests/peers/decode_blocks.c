/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes blocks of a tensor type from standard input to binary32 on standard output: decode_blocks NUMBER. Without an
 * argument prints the readable types, one a line: number, name, weights per block, bytes per block. */
#include <stdio.h>
#include <stdlib.h>

#include "import/gguf_types.h"

enum { TYPES_MAX = 64, BLOCKS = 256, BLOCK_BYTES_MAX = 512, BLOCK_WEIGHTS_MAX = 256 };

int main(int argc, char **argv)
{
    static uint8_t bytes[BLOCKS * BLOCK_BYTES_MAX];
    static float weights[BLOCKS * BLOCK_WEIGHTS_MAX];
    for (uint32_t type = 0; argc < 2 && type < TYPES_MAX; type++)
        if (tv_gguf_type_readable(type)) {
            const tv_gguf_type_row *row = tv_gguf_type_find(type);
            printf("%u %s %u %u\n", type, row->name, row->block, row->bytes);
        }
    if (argc < 2)
        return 0;
    uint32_t type = (uint32_t)strtoul(argv[1], NULL, 10);
    const tv_gguf_type_row *row = tv_gguf_type_find(type);
    if (!tv_gguf_type_readable(type) || row->bytes > BLOCK_BYTES_MAX || row->block > BLOCK_WEIGHTS_MAX)
        return 2;
    for (size_t blocks; (blocks = fread(bytes, row->bytes, BLOCKS, stdin)) > 0;) {
        tv_gguf_decode((tv_gguf_type)type, bytes, blocks * row->block, weights);
        if (fwrite(weights, row->block * sizeof *weights, blocks, stdout) != blocks)
            return 3;
    }
    return 0;
}
