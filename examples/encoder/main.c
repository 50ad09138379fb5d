/* SPDX-License-Identifier: MIT */
/*
 * Embeds sentences with a BERT encoder three times: with its own weights, with its linear layers
 * quantised to NF4 and multiplied in double on the CPU, and with the same NF4 weights multiplied by
 * quern on a software GPU. The last two must agree.
 */
#include "backend.h"
#include "bert.h"
#include "../fail.h"
#include "model.h"
#include "report.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "Usage: encoder [OPTION]... MODEL_DIRECTORY SENTENCE...\n"
    "Embed sentences with a BERT encoder whose linear layers run through quern, on a software "
    "GPU,\n"
    "and compare with the same encoder on the CPU.\n"
    "\n"
    "MODEL_DIRECTORY holds config.json, model.safetensors and vocab.txt. Write -- before the\n"
    "first sentence if one starts with a dash.\n"
    "\n"
    "  --target=GFX    the GPU to be simulated (default gfx1151)\n"
    "  --gpu           use the GPU of this machine, and simulate none (QUERN_DEVICE says of which\n"
    "                  make: hip or cuda)\n"
    "  --dtype=TYPE    activations on the GPU: f32 (default), f16 or bf16\n"
    "  --no-device     stop after the two encoders on the CPU\n"
    "  --tokens        only tokenise\n"
    "  --json          print one JSON object, with token ids and embeddings\n"
    "  --help          print this help\n"
    "\n"
    "Exit status: 0 if every embedding by quern has a cosine of at least 0.9999 with the CPU's,\n"
    "1 if not or if something failed, 2 for a wrong command line.\n";

struct options {
    const char *target, *dtype_name;
    enum quern_dtype dtype;
    int no_device, tokens, json;
};

_Noreturn static void usage(const char *message, const char *value)
{
    fprintf(stderr, "encoder: %s%s\nTry 'encoder --help'.\n", message, value);
    exit(2);
}

static enum quern_dtype dtype_of(const char *name)
{
    static const struct {
        const char *name;
        enum quern_dtype dtype;
    } types[] = {{"f32", QUERN_F32}, {"f16", QUERN_F16}, {"bf16", QUERN_BF16}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return types[i].dtype;
    usage("--dtype takes f32, f16 or bf16, not ", name);
}

static struct options read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"target", required_argument, NULL, 't'}, {"gpu", no_argument, NULL, 'g'},
        {"dtype", required_argument, NULL, 'd'},  {"no-device", no_argument, NULL, 'n'},
        {"tokens", no_argument, NULL, 'k'},       {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    struct options o = {.target = "gfx1151", .dtype_name = "f32"};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 't':
            o.target = optarg;
            break;
        case 'g':
            o.target = NULL;
            break;
        case 'd':
            o.dtype_name = optarg;
            break;
        case 'n':
            o.no_device = 1;
            break;
        case 'k':
            o.tokens = 1;
            break;
        case 'j':
            o.json = 1;
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default: /* getopt has said what */
            fputs("Try 'encoder --help'.\n", stderr);
            exit(2);
        }
    o.dtype = dtype_of(o.dtype_name);
    if (optind == argc)
        usage("MODEL_DIRECTORY is missing", "");
    if (optind + 1 == argc)
        usage("at least one SENTENCE is needed", "");
    return o;
}

/* ---- Work ------------------------------------------------------------------------------------ */

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct sentence *tokenise(const struct model *model, char **texts, size_t count)
{
    struct sentence *const sentences = allocate(count, sizeof *sentences);

    for (size_t i = 0; i < count; i++) {
        struct sentence *const s = &sentences[i];
        int dropped;

        s->text = texts[i];
        s->ids = allocate(model->token_limit, sizeof *s->ids);
        s->count =
            tokenizer_encode(model->tokenizer, texts[i], s->ids, model->token_limit, &dropped);
        if (dropped)
            fprintf(stderr, "encoder: sentence %zu is cut to %zu tokens, the model's limit\n",
                    i + 1, model->token_limit);
    }
    return sentences;
}

/* Embeds all sentences by one encoder, closes its back end, and says how long it took. */
static void embed(const struct model *model, struct backend *backend, enum encoder encoder,
                  struct sentence *sentences, size_t count, const char *name)
{
    const double start = seconds();

    for (size_t i = 0; i < count; i++) {
        double *const out = allocate(model->hidden, sizeof *out);

        bert_embed(model, backend, sentences[i].ids, sentences[i].count, out);
        sentences[i].embedding[encoder] = out;
    }
    fprintf(stderr, "encoder: %s: %.2f s\n", name, seconds() - start);
    backend->close(backend);
}

/* Runs the encoders that were asked for, the slowest last. Returns how many. */
/* `target` receives what quern ran on. */
static size_t run_encoders(const struct model *model, const struct options *o,
                           struct sentence *sentences, size_t count, char target[64])
{
    if (o->tokens)
        return 0;
    double start = seconds();
    struct quantised *const quantised = quantise_model(model, o->dtype);
    fprintf(stderr, "encoder: %zu linear layers quantised to NF4: %.2f s\n", model->linear_count,
            seconds() - start);
    embed(model, backend_plain(model), UNQUANTISED, sentences, count, "unquantised on the CPU");
    embed(model, backend_nf4(model, quantised), NF4_CPU, sentences, count, "NF4 on the CPU");
    if (!o->no_device) {
        start = seconds();
        struct backend *const backend = backend_quern(model, quantised, o->target);
        snprintf(target, 64, "%s", backend->target);
        fprintf(stderr, "encoder: kernels for %s: %.2f s\n", target, seconds() - start);
        embed(model, backend, NF4_QUERN, sentences, count,
              o->target ? "NF4 by quern on the software GPU" : "NF4 by quern on the GPU");
    }
    quantised_free(quantised, model->linear_count);
    return o->no_device ? NF4_QUERN : ENCODERS;
}

int main(int argc, char **argv)
{
    const struct options o = read_options(argc, argv);
    struct model *const model = model_open(argv[optind]);
    const size_t count = (size_t)(argc - optind - 1);
    struct sentence *const sentences = tokenise(model, argv + optind + 1, count);
    char target[64] = "";
    const struct report report = {
        .model = model,
        .sentences = sentences,
        .count = count,
        .encoders = run_encoders(model, &o, sentences, count, target),
        .target = target,
        .dtype = o.dtype_name,
    };
    if (o.json)
        report_json(&report);
    else
        report_text(&report);
    const int good = report_worst(&report) >= COSINE_LEAST;
    if (fflush(stdout) || ferror(stdout))
        fail("cannot write to standard output");

    for (size_t i = 0; i < count; i++) {
        free(sentences[i].ids);
        for (int e = 0; e < ENCODERS; e++)
            free(sentences[i].embedding[e]);
    }
    free(sentences);
    model_close(model);
    return good ? 0 : 1;
}
