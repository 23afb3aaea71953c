/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the table of the SFU for $readmemh to the file named on the command line: for each function of CVO that has
 * one argument and each BF16 input the result in binary32 and in BF16, 48 bits. Row: function * 65536 + input. */
#include <stdio.h>

#include "num/float.h"
#include "num/func.h"

int main(int argc, char **argv)
{
    static const struct {
        unsigned cvo_func;
        tv_func func;
    } functions[] = {{0, TV_FUNC_EXP}, {1, TV_FUNC_SQRT}, {2, TV_FUNC_GELU},
                     {3, TV_FUNC_SIN}, {4, TV_FUNC_COS},  {7, TV_FUNC_RECIP}};
    FILE *file = argc == 2 ? fopen(argv[1], "w") : NULL;
    if (!file)
        return 2;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        fprintf(file, "@%x\n", functions[f].cvo_func << 16);
        for (unsigned bits = 0; bits < 0x10000; bits++) {
            float x = tv_bf16_to_f32((uint16_t)bits);
            uint32_t wide = tv_f32_bits(tv_func_f32(functions[f].func, x));
            fprintf(file, "%08x%04x\n", (unsigned)wide, tv_func_bf16(functions[f].func, x));
        }
    }
    return fclose(file) == 0 ? 0 : 3;
}
