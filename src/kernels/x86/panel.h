/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of panel.h for hosts with AVX-512. */
#ifndef TV_KERNELS_X86_PANEL_H
#define TV_KERNELS_X86_PANEL_H

#include "kernels/panel.h"

#if defined(__x86_64__)
extern const tv_panel_fns tv_panel_avx512;
#endif

#endif
