/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the products and convolutions of published networks on the host. */
#ifndef TV_BENCH_NETWORKS_H
#define TV_BENCH_NETWORKS_H

#include "harness.h"

void network_rows(const bench_report *report);

#endif
