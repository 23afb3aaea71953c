; SPDX-License-Identifier: Apache-2.0
        .target pccx
        .include "err_include_itself.s"
