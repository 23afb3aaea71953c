/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a specification in either syntax. */
#include "sweep/spec.h"
#include "trivet/file.h"

enum { FILE_LIMIT = 1 << 24 };

tv_status tv_spec_parse(sweep_spec *spec, const char *path, const char *data, size_t size, const tv_diag_sink *sink)
{
    spec->sink = sink;
    spec->path = tv_arena_str(&spec->arena, tv_sv_of(path));
    if (!spec->path)
        return tv_fail_memory(sink);
    if (size > FILE_LIMIT)
        return tv_fail(sink, TV_ERR_INPUT, TV_CODE(FILE_SIZE), NULL, "'%.200s' has more than 16 MiB", path);
    tv_sv text = {data, size};
    size_t blanks = 0;
    while (blanks < size && strchr(" \t\r\n", data[blanks]) && data[blanks])
        blanks++;
    if (blanks < size && data[blanks] == '{')
        tv_spec_parse_json(spec, text);
    else
        tv_spec_parse_ini(spec, text);
    if (spec->status == TV_OK)
        tv_spec_finish(spec);
    return spec->status == TV_ERR_MEMORY ? tv_fail_memory(sink) : spec->status;
}

tv_status tv_spec_read(sweep_spec *spec, const char *path, const tv_diag_sink *sink)
{
    tv_input input;
    TV_TRY(tv_input_open(path, sink, &input));
    tv_status status = tv_spec_parse(spec, path, (const char *)input.data, input.size, sink);
    tv_input_close(&input);
    return status;
}
