/* SPDX-License-Identifier: MIT */
/* Model manifests, a model's config.json and manifests of layers, of any bytes: refused with a line
 * that names what is wrong, or within their limits. */
#include "model/manifest.h"
#include "model/model.h"
#include "silent.h"

static void read_model(const char *path)
{
    static const int tp[] = {1, 2, 4, 8};
    static struct model_layer layers[MODEL_PROBLEMS_MAX];
    struct model model;
    size_t count;

    complaints = 0;
    if (model_read(path, &model) == EXIT_OK) {
        model_layers(&model, tp, 4, layers, &count);
        for (size_t n = 0; n < count; n++) {
            FUZZ_CHECK((layers[n].reason[0] ? !layers[n].n : layers[n].n > 0 && layers[n].k > 0) &&
                       layers[n].names[0] &&
                       (!layers[n].scheme || layers[n].scheme < model.scheme_count));
            FUZZ_CHECK(!layers[n].experts || layers[n].single ||
                       (layers[n].top_k > 0 && layers[n].rows > 0 &&
                        layers[n].top_k * layers[n].rows == model.mixture.top_k));
        }
    } else {
        FUZZ_CHECK(complaints == 1);
    }
}

static void read_layers(const char *path)
{
    struct manifest manifest = {0};

    complaints = 0;
    if (manifest_read(path, &manifest) == EXIT_OK) {
        for (size_t n = 0; n < manifest.count; n++) {
            struct quern_problem problem = QUERN_INIT(struct quern_problem);
            FUZZ_CHECK(quern_problem_parse(manifest.lines[n].text, &problem) == QUERN_OK);
        }
        manifest_free(&manifest);
    } else {
        FUZZ_CHECK(complaints > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    const int fd = fuzz_file(data, size, path);

    read_model(path);
    read_layers(path);
    close(fd);
    return 0;
}

FUZZ_MAIN("model", 3000)
