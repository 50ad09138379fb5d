/* SPDX-License-Identifier: MIT */
/*
 * A feed-forward layer of a BERT encoder, split into a mixture of eight experts that every token
 * chooses all of, with weight 1: their sum must be the layer itself. The mixture is computed by
 * quern, on a software GPU, and the layer in double on the CPU, with the same NF4 weights.
 */
#include "feed_forward.h"
#include "mixture.h"

#include "../fail.h"

#include <quern/quern.h>

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The largest difference that f32 explains, as a part of the largest value. */
#define GOOD 1e-6

#define TOKENS_MAX 1000
#define LAYERS_MAX 1000

static const char help[] =
    "Usage: moe [OPTION]... MODEL_DIRECTORY\n"
    "Split a feed-forward layer of a BERT encoder into eight experts, compute it as a mixture of\n"
    "which every token chooses all, on a software GPU, and compare with the layer on the CPU.\n"
    "\n"
    "MODEL_DIRECTORY holds model.safetensors.\n"
    "\n"
    "  --target=GFX    the GPU to be simulated (default gfx1151)\n"
    "  --gpu           use the GPU of this machine, and simulate none (QUERN_DEVICE says of which\n"
    "                  make: hip or cuda)\n"
    "  --layer=N       which layer of the encoder (default 0)\n"
    "  --tokens=N      how many tokens (default 6)\n"
    "  --without=N     choose no expert N, so that the sum is not the layer\n"
    "  --help          print this help\n"
    "\n"
    "Exit status: 0 if the mixture is the layer, 1 if not or if something failed, 2 for a wrong\n"
    "command line.\n";

struct options {
    const char *target;
    size_t layer, tokens;
    int without; /* an expert, or -1 */
};

_Noreturn static void usage(const char *message, const char *value)
{
    fprintf(stderr, "moe: %s%s\nTry 'moe --help'.\n", message, value);
    exit(2);
}

static size_t number(const char *text, size_t least, size_t most, const char *message)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || value < least || value > most)
        usage(message, text);
    return value;
}

static struct options read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"target", required_argument, NULL, 't'},
        {"gpu", no_argument, NULL, 'g'},
        {"layer", required_argument, NULL, 'l'},
        {"tokens", required_argument, NULL, 'n'},
        {"without", required_argument, NULL, 'w'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options o = {.target = "gfx1151", .tokens = 6, .without = -1};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 't':
            o.target = optarg;
            break;
        case 'g':
            o.target = NULL;
            break;
        case 'l':
            o.layer = number(optarg, 0, LAYERS_MAX - 1, "--layer takes 0 to 999, not ");
            break;
        case 'n':
            o.tokens = number(optarg, 1, TOKENS_MAX, "--tokens takes 1 to 1000, not ");
            break;
        case 'w':
            o.without = (int)number(optarg, 0, EXPERTS - 1, "--without takes 0 to 7, not ");
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default: /* getopt has said what */
            fputs("Try 'moe --help'.\n", stderr);
            exit(2);
        }
    if (optind == argc)
        usage("MODEL_DIRECTORY is missing", "");
    if (optind + 1 < argc)
        usage("one MODEL_DIRECTORY is taken, not also ", argv[optind + 1]);
    return o;
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* Rows of the model's table of words, each with mean 0 and variance 1, as layers are given them. */
static float *read_tokens(const struct safetensors *file, size_t count, size_t hidden)
{
    static const char words[] = "embeddings.word_embeddings.weight";
    const size_t known = safetensors_size(file, words, 0);
    const float *const table = safetensors_f32(file, words, 2, (const size_t[]){known, hidden});
    float *const x = allocate(count * hidden, sizeof *x);

    for (size_t t = 0; t < count; t++) {
        const float *const word = table + t * 1009 % known * hidden; /* a prime: spread over it */
        double mean = 0, variance = 0;

        for (size_t i = 0; i < hidden; i++)
            mean += (double)word[i] / (double)hidden;
        for (size_t i = 0; i < hidden; i++)
            variance += pow((double)word[i] - mean, 2) / (double)hidden;
        for (size_t i = 0; i < hidden; i++)
            x[t * hidden + i] = (float)(((double)word[i] - mean) / sqrt(variance + 1e-12));
    }
    return x;
}

/* In the place of a router: every token has all experts, with weight 1. -1 is no expert. */
static void choose_all(int32_t *ids, float *weights, size_t tokens, int without)
{
    for (size_t i = 0; i < tokens * TOP_K; i++) {
        const int32_t expert = (int32_t)(i % TOP_K);

        ids[i] = expert == without ? -1 : expert;
        weights[i] = 1;
    }
}

static void run_mixture(quern_ctx *ctx, const struct feed_forward *f, const struct options *o,
                        const float *x, float *y, struct mixture_blocks *blocks)
{
    int32_t *const ids = allocate(o->tokens * TOP_K, sizeof *ids);
    float *const weights = allocate(o->tokens * TOP_K, sizeof *weights);
    struct mixture *const mixture = mixture_make(ctx, f, o->tokens);

    choose_all(ids, weights, o->tokens, o->without);
    mixture_apply(mixture, x, ids, weights, y);
    *blocks = mixture_blocks(mixture);
    mixture_free(mixture);
    free(ids);
    free(weights);
}

/* Prints how far y is from what is right, and returns whether that is near enough. */
static int compare(const float *y, const double *right, size_t count)
{
    double difference = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)y[i] - right[i]);
        difference = d <= difference ? difference : d; /* a NaN is a difference */
        largest = fmax(largest, fabs(right[i]));
    }
    const int good = difference <= GOOD * largest;
    printf("largest difference from the layer: %.2g, of values up to %.3g: %s\n", difference,
           largest, good ? "good" : "not good");
    return good;
}

int main(int argc, char **argv)
{
    const struct options o = read_options(argc, argv);
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct quern_device_info info = QUERN_INIT(struct quern_device_info);
    struct mixture_blocks blocks;
    char path[4096];
    quern_ctx *ctx;

    if (snprintf(path, sizeof path, "%s/model.safetensors", argv[optind]) >= (int)sizeof path)
        fail("the path %s/model.safetensors is too long", argv[optind]);
    struct safetensors *const file = safetensors_open(path);
    const struct feed_forward f = feed_forward_read(file, o.layer);
    float *const x = read_tokens(file, o.tokens, f.hidden);
    float *const y = allocate(o.tokens * f.hidden, sizeof *y);
    double *const right = allocate(o.tokens * f.hidden, sizeof *right);

    if (o.target)
        options.device = QUERN_DEVICE_SIM;
    options.target = o.target;
    check(quern_open(&options, &ctx), o.target ? "opening a software GPU" : "opening the GPU");
    check(quern_ctx_device(ctx, &info), "opening a device");
    run_mixture(ctx, &f, &o, x, y, &blocks);
    quern_close(ctx);
    feed_forward_apply(&f, x, o.tokens, right);

    printf("layer %zu, %zu -> %zu -> %zu in NF4, as %d experts of %zu\n", o.layer, f.hidden, f.wide,
           f.hidden, EXPERTS, f.wide / EXPERTS);
    printf(
        "%zu tokens with %d choices each on %s: %d of at most %lld slots used, in blocks of %d\n",
        o.tokens, TOP_K, info.target, blocks.slots_used, (long long)blocks.slots, blocks.rows);
    const int good = compare(y, right, o.tokens * f.hidden);
    if (fflush(stdout) || ferror(stdout))
        fail("cannot write to standard output");
    free(x);
    free(y);
    free(right);
    safetensors_close(file);
    return good ? 0 : 1;
}
