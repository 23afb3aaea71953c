/* SPDX-License-Identifier: Apache-2.0 */
/* The accuracy of a classifier on the machines: runs a network from an ONNX file once for each image, on the host and
 * on the other targets, and compares the largest output with the label.
 *
 *   classify MODEL.onnx IMAGES.npy LABELS.npy CALIBRATION [TARGET[,TARGET...] [COUNT [POINTS]]]
 *
 * IMAGES.npy has uint8 and an image for each element of LABELS.npy, which has uint8, too; the input of the network is
 * float32. CALIBRATION is a folder as for `trivet infer --calibrate`. TARGET is a machine or `all`, the default; of all
 * machines, one that cannot execute the network gets the reason instead of a row. COUNT images are classified, spread
 * evenly over the file; 0: all of them. Exit status 1 when the accuracy on a target is more than POINTS percentage
 * points below that of the host, 2 on errors. Build: cc classify.c $(pkg-config --cflags --libs trivet) */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <trivet/network.h>
#include <trivet/trivet.h>

struct array {
    tv_input file;
    const uint8_t *elements;
    size_t count;
};

struct task {
    const char *targets, *calibration;
    tv_network *network;
    tv_network_tensor input;
    float *values; /* of the input */
    struct array images, labels;
    size_t image_size, count;
};

struct row {
    size_t right;
    uint64_t first_cycles;   /* of the first image, with the transfers of constants that then stay on the chip */
    tv_network_summary last; /* of the last image */
    const char *bound;       /* of the layer with most cycles */
};

static char reason[512]; /* of the last error */

static void keep_reason(void *user, const tv_diag *diag)
{
    (void)user;
    if (diag->severity == TV_ERROR)
        snprintf(reason, sizeof reason, "%s", diag->message);
}

static const tv_diag_sink sink = {keep_reason, NULL};

static void fail(const char *what)
{
    fprintf(stderr, "classify: %s\n", what);
    exit(2);
}

static void check(tv_status status)
{
    if (status != TV_OK)
        fail(reason[0] ? reason : tv_status_text(status));
}

/* Opens a .npy file of version 1 with elements of uint8. */
static struct array open_array(const char *path)
{
    struct array a;
    check(tv_input_open(path, &sink, &a.file));
    const uint8_t *bytes = a.file.data;
    char header[256] = "";
    size_t length = a.file.size < 10 ? 0 : bytes[8] + 256u * bytes[9];
    if (a.file.size < 10 || memcmp(bytes, "\x93NUMPY\x01", 7) != 0 || length > a.file.size - 10 || length >= 256)
        fail("the images and labels are .npy files of version 1");
    memcpy(header, bytes + 10, length);
    if (!strstr(header, "'|u1'") || !strstr(header, "'fortran_order': False"))
        fail("the images and labels are arrays of uint8 in C order");
    a.elements = bytes + 10 + length;
    a.count = a.file.size - 10 - length;
    return a;
}

static void open_task(struct task *t, char **paths)
{
    check(tv_network_open(paths[0], NULL, &sink, &t->network));
    if (!tv_network_input_at(t->network, 0, &t->input) || strcmp(t->input.type, "float32") != 0)
        fail("the first input of the network is not float32");
    t->image_size = t->input.bytes / sizeof(float);
    t->images = open_array(paths[1]);
    t->labels = open_array(paths[2]);
    t->calibration = paths[3];
    t->values = malloc(t->input.bytes);
    if (!t->values)
        fail("out of memory");
    if (!t->labels.count || t->images.count != t->labels.count * t->image_size)
        fail("the images are not as many as the labels, or not of the size of the input");
}

static void close_task(struct task *t)
{
    free(t->values);
    tv_input_close(&t->images.file);
    tv_input_close(&t->labels.file);
    tv_network_free(t->network);
}

static void set_image(const struct task *t, size_t image)
{
    for (size_t i = 0; i < t->image_size; i++)
        t->values[i] = t->images.elements[image * t->image_size + i];
    check(tv_network_set_input(t->network, t->input.name, t->values, t->input.bytes, &sink));
}

/* Index of the largest element of the first output. */
static size_t answer(const tv_network_session *session)
{
    tv_network_tensor out;
    size_t best = 0;
    if (!tv_network_session_output_at(session, 0, &out) || strcmp(out.type, "float32") != 0)
        fail("the first output of the network is not float32");
    const float *logits = out.data;
    for (size_t i = 1; i < out.bytes / sizeof(float); i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static const char *bound_of_run(const tv_network_session *session)
{
    tv_network_layer layer, longest = {0};
    for (unsigned i = 0; tv_network_session_layer_at(session, i, &layer); i++)
        if (layer.cycles > longest.cycles)
            longest = layer;
    return longest.bound ? longest.bound : "";
}

/* Classifies the images on a target. False: it cannot execute the network, and `reason` says why. */
static bool classify(const struct task *t, const char *target, const tv_config *config, struct row *out)
{
    tv_network_session_options options = {.size = sizeof options, .target = target, .config = config};
    options.calibrate = config ? t->calibration : NULL;
    tv_network_session *session;
    if (tv_network_session_new(t->network, &options, &sink, &session) != TV_OK)
        return false;
    *out = (struct row){.last = {.size = sizeof out->last}};
    for (size_t i = 0; i < t->count; i++) {
        size_t image = i * t->labels.count / t->count;
        set_image(t, image);
        check(tv_network_session_run(session, &sink));
        check(tv_network_session_summary(session, &out->last));
        out->first_cycles = i ? out->first_cycles : out->last.cycles;
        out->right += answer(session) == t->labels.elements[image];
    }
    out->bound = bound_of_run(session);
    printf("%-8s %6zu %8.2f %%", target, out->right, 100 * (double)out->right / (double)t->count);
    if (config)
        printf(" %12llu %9llu %9.2f %9llu  %s", (unsigned long long)out->first_cycles,
               (unsigned long long)out->last.cycles, 1e6 * (double)out->last.cycles / out->last.clock_hz,
               (unsigned long long)out->last.bytes, out->bound);
    putchar('\n');
    tv_network_session_free(session);
    return true;
}

/* Classifies on machine `name`. Returns the points that it is below the host. */
static double classify_on(const struct task *t, const char *name, const struct row *host)
{
    tv_config *config;
    struct row row;
    check(tv_config_new(name, &sink, &config));
    bool ran = classify(t, name, config, &row);
    if (!ran && strcmp(t->targets, "all") != 0)
        fail(reason);
    if (!ran)
        printf("%-8s cannot execute the network: %s\n", name, reason);
    tv_config_free(config);
    return ran ? 100 * ((double)host->right - (double)row.right) / (double)t->count : 0;
}

int main(int argc, char **argv)
{
    struct task task = {0};
    struct row host;
    if (argc < 5)
        fail("MODEL.onnx IMAGES.npy LABELS.npy CALIBRATION [TARGET[,TARGET...] [COUNT [POINTS]]]");
    open_task(&task, argv + 1);
    task.targets = argc > 5 ? argv[5] : "all";
    size_t count = argc > 6 ? strtoul(argv[6], NULL, 10) : 0;
    double points = argc > 7 ? strtod(argv[7], NULL) : 100, lost = 0;
    task.count = count && count < task.labels.count ? count : task.labels.count;

    printf("%-8s %6s %10s %12s %9s %9s %9s  %s\n", "target", "right", "accuracy", "first cycles", "cycles", "µs",
           "bytes", "bound by");
    if (!classify(&task, "host", NULL, &host))
        fail(reason);
    for (unsigned i = 1; tv_network_target_at(i); i++)
        if (strcmp(task.targets, "all") == 0 || strstr(task.targets, tv_network_target_at(i))) {
            double below = classify_on(&task, tv_network_target_at(i), &host);
            lost = below > lost ? below : lost;
        }
    printf("%zu images\n", task.count);
    close_task(&task);
    return lost > points;
}
