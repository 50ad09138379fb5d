/* SPDX-License-Identifier: MIT */
/* Compressing the entries of a bundle with its dictionary (bundle_pack.h). */
#include "store/bundle_pack.h"

#include "base/os.h"
#include "base/zstd_memory.h"

/* Of 1 to 19. By the second, 606 kernels take some 10 % less than by the first, and more than twice
 * as long, which is a second or two where there are few. By 19 they would take 0.3 % less still,
 * and a quarter longer. */
#define LEVEL     12
#define LEVEL_FEW 18
#define FEW       512 /* a target's base kernels are some 200 */
/* What zstd's tables are made for: they are copied for each entry, and larger ones take longer. */
#define ENTRY_BYTES_USUAL (64 << 10)

struct packer {
    int level;
    ZSTD_CCtx *zstd;
    const ZSTD_CDict *dictionary; /* null: none */
    void *room;                   /* that it lies in */
};

/* Digests the dictionary in memory of ours: where memory fails, releases of zstd up to 1.5.4 do not
 * notice it in making one themselves. */
static quern_status digest(struct packer *p, const void *dictionary, size_t size)
{
    const ZSTD_compressionParameters params = ZSTD_getCParams(p->level, ENTRY_BYTES_USUAL, size);
    const size_t bytes = ZSTD_estimateCDictSize_advanced(size, params, ZSTD_dlm_byRef);

    p->room = os.malloc(bytes);
    p->dictionary = p->room ? ZSTD_initStaticCDict(p->room, bytes, dictionary, size, ZSTD_dlm_byRef,
                                                   ZSTD_dct_rawContent, params)
                            : NULL;
    FAIL_IF(!p->dictionary, QUERN_E_MEMORY, "no memory to compress by a dictionary");
    return QUERN_OK;
}

quern_status packer_open(size_t count, const void *dictionary, size_t size, struct packer **packer)
{
    struct packer *const p = os.calloc(1, sizeof *p);
    quern_status status = QUERN_OK;

    FAIL_IF(!p, QUERN_E_MEMORY, "no memory for compressing");
    p->level = count <= FEW ? LEVEL_FEW : LEVEL;
    p->zstd = ZSTD_createCCtx_advanced(zstd_memory);
    if (size)
        status = digest(p, dictionary, size);
    /* the index says how long the content is, the bundle which dictionary it has */
    if (status != QUERN_OK || !p->zstd ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, p->level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_contentSizeFlag, 0)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_dictIDFlag, 0)) ||
        ZSTD_isError(ZSTD_CCtx_refCDict(p->zstd, p->dictionary))) {
        packer_close(p);
        return error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!p->zstd"),
                         "no memory for compressing");
    }
    *packer = p;
    return QUERN_OK;
}

quern_status packer_pack(struct packer *p, struct piece_bytes from, void **packed, size_t *size)
{
    const size_t room = ZSTD_compressBound(from.size);
    void *const to = os.malloc(room);

    FAIL_IF(!to, QUERN_E_MEMORY, "no memory to compress %zu bytes", from.size);
    const size_t done = ZSTD_compress2(p->zstd, to, room, from.bytes, from.size);
    void *const fit = ZSTD_isError(done) ? NULL : os.realloc(to, done);
    if (!fit) { /* with that much room, nothing but memory can be wanting */
        os.free(to);
        return error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT("!fit"),
                         "no memory to compress %zu bytes", from.size);
    }
    *packed = fit;
    *size = done;
    return QUERN_OK;
}

void packer_close(struct packer *p)
{
    if (!p)
        return;
    ZSTD_freeCCtx(p->zstd);
    os.free(p->room);
    os.free(p);
}
