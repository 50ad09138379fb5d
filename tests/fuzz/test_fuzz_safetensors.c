/* SPDX-License-Identifier: MIT */
/* safetensors files of any bytes: refused with a line, or tensors that lie in the file. */
#include "files/safetensors.h"
#include "silent.h"

static void read_header(const uint8_t *data, size_t size)
{
    struct safetensors s;
    char path[64], *bytes;
    const int fd = fuzz_file(data, size, path);

    complaints = 0;
    if (safetensors_read(path, &s) == EXIT_OK) {
        for (size_t n = 0; n < s.count; n++) {
            const struct tensor *const t = &s.tensors[n];
            FUZZ_CHECK(t->bytes <= size && t->begin <= size - t->bytes);
            FUZZ_CHECK(safetensors_find(&s, t->name));
            for (size_t d = 0; d < t->rank && d < TENSOR_RANK_MAX; d++)
                FUZZ_CHECK(t->shape[d] >= 0);
            if (safetensors_data(t, 4096, &bytes) == EXIT_OK) {
                FUZZ_CHECK(t->bytes <= 4096 && !bytes[t->bytes]);
                free(bytes);
            }
        }
    } else {
        FUZZ_CHECK(complaints == 1);
    }
    safetensors_free(&s);
    close(fd);
}

/* As it is, and as a header whose length is right, with some data behind it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { DATA = 272 }; /* what the headers of the corpus make it */
    const uint64_t length = size;

    read_header(data, size);
    uint8_t *const whole = calloc(1, sizeof length + size + DATA);
    FUZZ_CHECK(whole);
    memcpy(whole, &length, sizeof length);
    if (size)
        memcpy(whole + sizeof length, data, size);
    read_header(whole, sizeof length + size + DATA);
    free(whole);
    return 0;
}

FUZZ_MAIN("safetensors", 3000)
