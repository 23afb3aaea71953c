/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a model of random weights: random_model OUT DIM HIDDEN LAYERS HEADS KV_HEADS VOCAB CONTEXT. The weights are
 * Q8_0 when DIM and HIDDEN are multiples of 32, otherwise F32; the classifier is tied to the embedding. */
#include "random_model.h"

int main(int argc, char **argv)
{
    uint32_t n[7];
    for (int i = 0; i < 7; i++)
        n[i] = argc == 9 ? (uint32_t)strtoul(argv[2 + i], NULL, 10) : 0;
    if (!n[0] || !n[1] || !n[2] || !n[3] || !n[4] || n[5] < 300 || !n[6]) {
        fputs("usage: random_model OUT DIM HIDDEN LAYERS HEADS KV_HEADS VOCAB CONTEXT\n", stderr);
        return 2;
    }
    random_dims dims = {n[0], n[1], n[2], n[3], n[4], n[5], n[6], true, false};
    return random_model_write(&dims, n[0] % 32 || n[1] % 32 ? TV_GGUF_F32 : TV_GGUF_Q8_0, argv[1]) ? 0 : 1;
}
