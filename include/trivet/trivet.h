/* SPDX-License-Identifier: Apache-2.0 */
/* Everything the Trivet library offers. */
#ifndef TRIVET_TRIVET_H
#define TRIVET_TRIVET_H

#include "trivet/codec.h"
#include "trivet/config.h"
#include "trivet/debug.h"
#include "trivet/diag.h"
#include "trivet/dtype.h"
#include "trivet/file.h"
#include "trivet/machine.h"
#include "trivet/program.h"
#include "trivet/report.h"
#include "trivet/status.h"
#include "trivet/trace.h"
#include "trivet/trace_file.h"

#endif
