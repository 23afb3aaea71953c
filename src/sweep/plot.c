/* SPDX-License-Identifier: Apache-2.0 */
/* The plot of a validation: modelled over measured cycles, both logarithmic with one scale, as SVG without scripts. The
 * diagonal is exact agreement, the band around it 15 %. */
#include <math.h>

#include "base/c_locale.h"
#include "base/sv.h"
#include "sweep/validation.h"
#include "trivet/text.h"

enum { SIDE = 560, LEFT = 84, TOP = 24, SPACE_BELOW = 76, SPACE_RIGHT = 24 };

typedef struct scale {
    double low, high; /* logarithms of the ends, base 10 */
} scale;

static double position(const scale *s, double value) { return SIDE * (log10(value) - s->low) / (s->high - s->low); }

static double x_of(const scale *s, double value) { return LEFT + position(s, value); }

static double y_of(const scale *s, double value) { return TOP + SIDE - position(s, value); }

/* A text of the table, for XML. */
static void print_text(const char *text, FILE *file)
{
    char safe[256];
    tv_text_escape(text, safe, sizeof safe);
    for (const char *p = safe; *p; p++)
        switch (*p) {
        case '<':
            fputs("&lt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default:
            fputc((unsigned char)*p, file);
        }
}

/* All values, with 10 % of room at both ends; modelled cycles of 0 are left out. */
static scale find_scale(const tv_validation *v)
{
    double low = INFINITY, high = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        const tv_validation_case *c = &v->cases[i];
        low = fmin(low, c->modelled > 0 ? fmin(c->measured, c->modelled) : c->measured);
        high = fmax(high, fmax(c->measured, c->modelled));
    }
    return (scale){log10(low / 1.1), log10(high * 1.1)};
}

static void print_tick(const scale *s, double value, FILE *file)
{
    if (log10(value) < s->low || log10(value) > s->high)
        return;
    fprintf(file, "<path class=\"grid\" d=\"M%.1f %dV%dM%d %.1fH%d\"/>\n", x_of(s, value), TOP, TOP + SIDE, LEFT,
            y_of(s, value), LEFT + SIDE);
    fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n", x_of(s, value), TOP + SIDE + 20,
            value);
    fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8, y_of(s, value) + 4, value);
}

/* At powers of ten, and below three decades at twice and five times of them. */
static void print_axes(const scale *s, FILE *file)
{
    bool dense = s->high - s->low < 3;
    double skipped = ceil((s->high - s->low) / 8); /* of more than eight decades not every one */
    for (double power = floor(s->low); power <= s->high; power += dense ? 1 : skipped) {
        print_tick(s, pow(10, power), file);
        if (dense)
            print_tick(s, 2 * pow(10, power), file);
        if (dense)
            print_tick(s, 5 * pow(10, power), file);
    }
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">measured cycles</text>\n", LEFT + SIDE / 2,
            TOP + SIDE + 44);
    fprintf(file,
            "<text x=\"20\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 20 %d)\">modelled cycles</text>\n",
            TOP + SIDE / 2, TOP + SIDE / 2);
}

/* The band is a parallelogram along the diagonal, cut by the frame. */
static void print_diagonal(const scale *s, FILE *file)
{
    double up = SIDE * log10(1.15) / (s->high - s->low), down = SIDE * log10(1 / 0.85) / (s->high - s->low);
    fprintf(file,
            "<clipPath id=\"frame\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n"
            "<path class=\"band\" clip-path=\"url(#frame)\" d=\"M%d %.1fL%d %.1fV%.1fL%d %.1fZ\"/>\n",
            LEFT, TOP, SIDE, SIDE, LEFT, TOP + SIDE - up, LEFT + SIDE, TOP - up, TOP + down, LEFT, TOP + SIDE + down);
    fprintf(file, "<path class=\"line\" d=\"M%d %dL%d %d\"/>\n", LEFT, TOP + SIDE, LEFT + SIDE, TOP);
    fprintf(file, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP, SIDE, SIDE);
}

static void print_points(const tv_validation *v, const scale *s, FILE *file)
{
    for (uint64_t i = 0; i < v->count; i++) {
        const tv_validation_case *c = &v->cases[i];
        if (!(c->modelled > 0))
            continue;
        fprintf(file, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>",
                v->parameter_count && c->fitted ? "fitted" : "case", x_of(s, c->measured), y_of(s, c->modelled));
        print_text(c->name, file);
        fprintf(file, ": measured %.0f, modelled %.0f cycles, %+.1f %%</title></circle>\n", c->measured, c->modelled,
                c->error);
    }
}

static void print_legend(const tv_validation *v, FILE *file)
{
    int y = TOP + SIDE + 64;
    fprintf(file,
            "<rect class=\"band\" x=\"%d\" y=\"%d\" width=\"14\" height=\"10\"/><text x=\"%d\" y=\"%d\">15 %%</text>\n",
            LEFT, y - 9, LEFT + 20, y);
    if (!v->parameter_count)
        return;
    fprintf(file, "<circle class=\"case\" cx=\"%d\" cy=\"%d\" r=\"5\"/><text x=\"%d\" y=\"%d\">reported</text>\n",
            LEFT + 87, y - 4, LEFT + 100, y);
    fprintf(file, "<circle class=\"fitted\" cx=\"%d\" cy=\"%d\" r=\"5\"/><text x=\"%d\" y=\"%d\">fitted</text>\n",
            LEFT + 187, y - 4, LEFT + 200, y);
}

void tv_validation_write_svg(const tv_validation *validation, FILE *file)
{
    static const char style[] =
        "<style>svg{background:#fff;color:#1b1b1b;font:13px sans-serif}text{fill:currentColor}"
        ".grid{stroke:#8884;fill:none}.frame{stroke:#888;fill:none}.line{stroke:currentColor;stroke-dasharray:5 4}"
        ".band{fill:#2a7de133}.case{fill:#1f66c1}.fitted{fill:none;stroke:#b3541e;stroke-width:2}"
        "@media(prefers-color-scheme:dark){svg{background:#16181c;color:#e6e6e6}.case{fill:#6fb1ff}"
        ".fitted{stroke:#ffab70}}</style>\n";
    tv_c_locale locale = tv_c_locale_begin();
    scale s = find_scale(validation);
    int width = LEFT + SIDE + SPACE_RIGHT, height = TOP + SIDE + SPACE_BELOW;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n"
            "<title>Modelled and measured cycles of %llu programs</title>\n%s",
            width, height, (unsigned long long)validation->count, style);
    print_axes(&s, file);
    print_diagonal(&s, file);
    print_points(validation, &s, file);
    print_legend(validation, file);
    fputs("</svg>\n", file);
    tv_c_locale_end(locale);
}
