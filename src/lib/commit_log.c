/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a commit log, of any target. */
#include "cosim/log.h"

tv_status tv_commit_log_config(const tv_commit_log_reader *reader, const tv_diag_sink *sink, tv_config **out)
{
    tv_config *config;
    TV_TRY(tv_config_new(tv_commit_log_target(reader), sink, &config));
    tv_status status = TV_OK;
    for (const tv_json_value *v = tv_json_first(tv_log_settings(reader)); v && status == TV_OK; v = v->next)
        status = tv_config_set(config, v->key, v->type == TV_JSON_STRING ? v->text : "", sink);
    if (status != TV_OK) {
        tv_config_free(config);
        return status;
    }
    *out = config;
    return TV_OK;
}
