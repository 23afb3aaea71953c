/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration as a profile that says what it was validated against. */
#include <inttypes.h>
#include <math.h>

#include "base/c_locale.h"
#include "base/diag.h"
#include "sweep/measurements.h"
#include "sweep/validation.h"

/* The name of the table without its folder; characters that mean something in INI files become `_`. */
static void print_against(const tv_validation *v, FILE *file)
{
    enum { LENGTH = 80 };
    const char *name = tv_measurements_name(v->measurements), *slash = strrchr(name, '/');
    name = slash && slash[1] ? slash + 1 : name;
    for (unsigned i = 0; i < LENGTH && name[i]; i++) {
        bool is_safe = (name[i] >= '0' && name[i] <= '9') || ((name[i] | 0x20) >= 'a' && (name[i] | 0x20) <= 'z') ||
                       strchr("._-+", name[i]);
        fputc(is_safe ? name[i] : '_', file);
    }
}

/* Percent with two decimals, within what profiles can say. */
static double limit_percent(double value) { return fmax(-9e6, fmin(9e6, value)); }

static void print_validation(const tv_validation *v, const tv_accuracy *accuracy, FILE *file)
{
    double low = INFINITY, high = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        low = fmin(low, v->cases[i].measured);
        high = fmax(high, v->cases[i].measured);
    }
    fputs("\n; errors in percent of measured cycles; a run outside of the range of cycles gives a warning\n"
          "[validated]\nagainst = ",
          file);
    print_against(v, file);
    fprintf(file,
            "\ncases = %" PRIu64 "\nmean_error = %.2f\nworst_error = %.2f\nmin_cycles = %.0f\nmax_cycles = %.0f\n",
            accuracy->count, limit_percent(accuracy->mean_absolute), limit_percent(accuracy->worst),
            fmin(floor(low), 9e15), fmin(ceil(high), 9e15));
}

static void print_parameters(const tv_config *config, FILE *file)
{
    tv_config_entry e;
    tv_sv section = {0};
    for (unsigned i = 0; tv_config_at(config, i, &e); i++) {
        tv_sv own = {e.key, strcspn(e.key, ".")};
        if (!tv_sv_eq(own, section))
            fprintf(file, "\n[%.*s]\n", TV_SV_ARG(own));
        section = own;
        fprintf(file, "%s = %s\n", e.key + own.len + 1, e.value);
    }
}

tv_status tv_validation_write_profile(const tv_validation *validation, FILE *file, const tv_diag_sink *sink)
{
    tv_accuracy accuracy;
    bool fitted = validation->parameter_count > 0;
    TV_TRY(tv_validation_cycles(validation, fitted ? TV_VALIDATION_REPORTED : TV_VALIDATION_ALL, sink, &accuracy));
    tv_c_locale locale = tv_c_locale_begin();
    const char *target = tv_config_target(validation->config);
    fprintf(file, "[profile]\ntarget = %s\ndescription = %s, validated against ", target, target);
    print_against(validation, file);
    for (unsigned i = 0; i < validation->parameter_count; i++)
        fprintf(file, "%s%s", i ? ", " : "; fitted: ", validation->parameters[i].key);
    fputc('\n', file);
    print_parameters(validation->config, file);
    print_validation(validation, &accuracy, file);
    tv_c_locale_end(locale);
    return TV_OK;
}
