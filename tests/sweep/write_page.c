/* SPDX-License-Identifier: Apache-2.0 */
/* write_page DATA.json OUT.html: the page of a sweep whose data the test made. */
#include <stdio.h>
#include <stdlib.h>

#include "sweep/page.h"

enum { SIZE_MAX_DATA = 64 << 20 };

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL, *out = in ? fopen(argv[2], "wb") : NULL;
    char *json = malloc(SIZE_MAX_DATA);
    tv_status status = TV_ERR_IO;
    if (out && json)
        status = tv_sweep_page_write(json, fread(json, 1, SIZE_MAX_DATA, in), "A <sweep> & \"its\" title", out, NULL);
    if (out && fclose(out) != 0)
        status = TV_ERR_IO;
    if (in)
        fclose(in);
    free(json);
    return status != TV_OK;
}
