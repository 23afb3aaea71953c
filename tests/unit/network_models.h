/* SPDX-License-Identifier: Apache-2.0 */
/* Networks that several machines run: the function of a row in a table of networks. Of rows x is [11][24], of images
 * [2][16][10][8] unless a table says otherwise. */
#ifndef UNIT_NETWORK_MODELS_H
#define UNIT_NETWORK_MODELS_H

#include "network_maker.h"

#define NO TV_ACTIVATION_NONE
/* clang-format off */
#define ROWS {2, {11, 24}}
#define IMAGES {4, {2, 16, 10, 8}}
/* clang-format on */

uint32_t perceptron(maker *m);
uint32_t residual_linear(maker *m);
uint32_t clipped_linear(maker *m);
uint32_t convolution(maker *m);
uint32_t strided(maker *m);
uint32_t strided7(maker *m);
uint32_t strided1(maker *m);
uint32_t patches(maker *m);
uint32_t dilated(maker *m);
uint32_t unpadded(maker *m);
uint32_t depthwise(maker *m);
uint32_t depthwise_strided(maker *m);
uint32_t grouped(maker *m);
uint32_t residual_conv(maker *m);
uint32_t upsample(maker *m);
uint32_t overlapped(maker *m);
uint32_t transposed_dilated(maker *m);
uint32_t transposed_groups(maker *m);
uint32_t transposed_depthwise(maker *m);
uint32_t gaps(maker *m);
uint32_t transposed1(maker *m);
uint32_t few_channels(maker *m);
uint32_t max_pool(maker *m);
uint32_t mean_pool(maker *m);
uint32_t lenet(maker *m);
uint32_t pyramid(maker *m);
uint32_t sum(maker *m);
uint32_t difference(maker *m);
uint32_t product(maker *m);
uint32_t maximum(maker *m);
uint32_t minimum(maker *m);
uint32_t quotient(maker *m);
uint32_t softmax(maker *m);
uint32_t means(maker *m);
uint32_t layer_norm(maker *m);
uint32_t attention(maker *m);
uint32_t concatenation(maker *m);
uint32_t concatenated_rows(maker *m);
uint32_t crossed(maker *m);
uint32_t joined(maker *m);
uint32_t padded(maker *m);
uint32_t flattened(maker *m);
uint32_t flattened_image(maker *m);
uint32_t enlarged(maker *m);

#endif
