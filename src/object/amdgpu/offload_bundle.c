/* SPDX-License-Identifier: MIT */
/* clang's offload bundles (offload_bundle.h): several code objects in one file. */
#include "object/amdgpu/offload_bundle.h"
#include "base/extensible.h"
#include "base/os.h"
#include "base/zstd_memory.h"
#include "object/elf.h"
#include "object/le.h"
#include "object/md5.h"

#include <quern/tool.h>

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#define PLAIN_MAGIC      "__CLANG_OFFLOAD_BUNDLE__"
#define COMPRESSED_MAGIC "CCOB"
enum { PLAIN_MAGIC_BYTES = 24, COMPRESSED_MAGIC_BYTES = 4, PLAIN_HEADER_BYTES = 32 };
enum { ENTRY_BYTES = 24 }; /* offset, size, length of the id; the id follows */
enum { METHOD_ZLIB = 0, METHOD_ZSTD = 1 };

/* The result as it grows. */
struct reader {
    struct bundles *result;
    size_t entry_room, bundle_room;
};

/* Room for one more of `size` bytes each in *array. */
static quern_status make_room(void **array, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return QUERN_OK;
    const size_t more = *room ? *room * 2 : 32;
    void *const grown = os.realloc(*array, more * size);
    FAIL_IF(!grown, QUERN_E_MEMORY, "no memory for a list of %zu offload bundle entries", more);
    *array = grown;
    *room = more;
    return QUERN_OK;
}

static bool all_zero(const uint8_t *p, uint64_t size)
{
    return !size || (!p[0] && !memcmp(p, p + 1, size - 1));
}

/* ---- plain bundles --------------------------------------------------------------------------- */

/* The target id stands behind the environment part of the triple, which is empty ("--") since LLVM
 * 12; older bundles and ones that name an environment are told by "-gfx". */
static unsigned target_start(const char *id)
{
    const char *found = strstr(id, "--");

    if (!strncmp(id, "host-", 5))
        return (unsigned)strlen(id);
    if (found)
        return (unsigned)(found + 2 - id);
    found = strstr(id, "-gfx");
    return found ? (unsigned)(found + 1 - id) : (unsigned)strlen(id);
}

static quern_status copy_id(struct offload_entry *e, const uint8_t *id, uint64_t length)
{
    FAIL_IF(!length || length > OFFLOAD_ID_MAX, QUERN_E_OBJECT,
            "bundle %u: a target's name of %" PRIu64 " characters: 1 to %d are read", e->bundle,
            length, OFFLOAD_ID_MAX);
    for (uint64_t i = 0; i < length; i++)
        FAIL_IF(id[i] <= ' ' || id[i] > '~', QUERN_E_OBJECT,
                "bundle %u: byte %#x in a target's name; only printable ASCII may be", e->bundle,
                id[i]);
    memcpy(e->id, id, length);
    e->target_at = target_start(e->id);
    return QUERN_OK;
}

/* *extent: where the last of its objects ends. */
static quern_status read_plain(struct reader *r, const uint8_t *p, uint64_t size, uint64_t *extent)
{
    struct bundles *const b = r->result;
    const unsigned bundle = b->bundle_count - 1;

    FAIL_IF(size < PLAIN_HEADER_BYTES, QUERN_E_OBJECT,
            "bundle %u: %" PRIu64 " bytes are too few for a header of %d", bundle, size,
            PLAIN_HEADER_BYTES);
    const uint64_t count = le64(p + PLAIN_MAGIC_BYTES);
    FAIL_IF(count > OFFLOAD_ENTRIES_MAX - b->count, QUERN_E_OBJECT,
            "bundle %u: %" PRIu64 " entries and %zu before it: at most %d are read", bundle, count,
            b->count, OFFLOAD_ENTRIES_MAX);
    uint64_t at = PLAIN_HEADER_BYTES;
    *extent = at;
    for (uint64_t i = 0; i < count; i++) {
        struct offload_entry e = {.bundle = bundle};
        FAIL_IF(size - at < ENTRY_BYTES, QUERN_E_OBJECT,
                "bundle %u: ends inside its table of %" PRIu64 " entries", bundle, count);
        const uint64_t offset = le64(p + at), bytes = le64(p + at + 8), length = le64(p + at + 16);
        at += ENTRY_BYTES;
        FAIL_IF(length > size - at, QUERN_E_OBJECT,
                "bundle %u: ends inside its table of %" PRIu64 " entries", bundle, count);
        TRY(copy_id(&e, p + at, length));
        at += length;
        FAIL_IF(offset > size || bytes > size - offset, QUERN_E_OBJECT,
                "bundle %u: the object for %s, %" PRIu64 " bytes at %" PRIu64
                ", is not inside the %" PRIu64 " bytes there are",
                bundle, e.id, bytes, offset, size);
        e.bytes = p + offset;
        e.size = bytes;
        if (offset + bytes > *extent)
            *extent = offset + bytes;
        TRY(make_room((void **)&b->entries, b->count, &r->entry_room, sizeof *b->entries));
        b->entries[b->count++] = e;
    }
    if (at > *extent)
        *extent = at;
    return QUERN_OK;
}

/* ---- compressed bundles ---------------------------------------------------------------------- */

struct compressed {
    const uint8_t *payload;
    uint64_t payload_bytes, raw_bytes;
    uint64_t checksum; /* the first eight bytes of the content's MD5 */
};

/* *extent: header and payload. Version 1 does not say where it ends; the payload does. */
static quern_status read_header(unsigned bundle, const uint8_t *p, uint64_t size,
                                struct compressed *c, uint64_t *extent)
{
    static const unsigned header_bytes[] = {0, 20, 24, 32};

    FAIL_IF(size < 8, QUERN_E_OBJECT, "compressed bundle %u: %" PRIu64 " bytes are too few", bundle,
            size);
    const unsigned version = le16(p + 4), method = le16(p + 6);
    FAIL_IF(version < 1 || version > 3, QUERN_E_OBJECT,
            "compressed bundle %u: version %u: 1 to 3 are read", bundle, version);
    FAIL_IF(method != METHOD_ZSTD, QUERN_E_OBJECT, "compressed bundle %u: %s: only zstd is read",
            bundle, method == METHOD_ZLIB ? "compressed with zlib" : "unknown compression method");
    const unsigned header = header_bytes[version];
    FAIL_IF(size < header, QUERN_E_OBJECT,
            "compressed bundle %u: %" PRIu64 " bytes are too few for a header of %u", bundle, size,
            header);
    c->payload = p + header;
    c->checksum = le64(p + header - 8);
    c->raw_bytes = version == 3 ? le64(p + header - 16) : le32(p + header - 12);
    if (version == 1) {
        const size_t frame = ZSTD_findFrameCompressedSize(c->payload, size - header);
        FAIL_IF(ZSTD_isError(frame), QUERN_E_OBJECT, "compressed bundle %u: zstd: %s", bundle,
                ZSTD_getErrorName(frame));
        *extent = header + frame;
    } else {
        *extent = version == 3 ? le64(p + 8) : le32(p + 8);
    }
    FAIL_IF(*extent < header || *extent > size, QUERN_E_OBJECT,
            "compressed bundle %u: says %" PRIu64 " bytes; the header has %u, the file %" PRIu64,
            bundle, *extent, header, size);
    c->payload_bytes = *extent - header;
    return QUERN_OK;
}

/* Memory is claimed only for a size that the limits allow and that the payload itself agrees to. */
static quern_status check_size(const struct bundles *b, unsigned bundle, const struct compressed *c)
{
    const uint64_t raw = c->raw_bytes;
    const unsigned long long said = ZSTD_getFrameContentSize(c->payload, c->payload_bytes);

    FAIL_IF(raw > OFFLOAD_RAW_MAX - b->raw_bytes, QUERN_E_OBJECT,
            "compressed bundle %u: %" PRIu64 " bytes uncompressed and %" PRIu64
            " before it: at most %" PRIu64 " are read",
            bundle, raw, b->raw_bytes, OFFLOAD_RAW_MAX);
    FAIL_IF(raw / OFFLOAD_RATIO_MAX > c->payload_bytes, QUERN_E_OBJECT,
            "compressed bundle %u: %" PRIu64 " bytes out of %" PRIu64
            " are more than a factor of %d: not a real bundle",
            bundle, raw, c->payload_bytes, OFFLOAD_RATIO_MAX);
    FAIL_IF(said == ZSTD_CONTENTSIZE_ERROR, QUERN_E_OBJECT,
            "compressed bundle %u: its content is not in zstd's format", bundle);
    FAIL_IF(said != ZSTD_CONTENTSIZE_UNKNOWN && said != raw, QUERN_E_OBJECT,
            "compressed bundle %u: its header says %" PRIu64 " bytes uncompressed, zstd's %llu",
            bundle, raw, said);
    return QUERN_OK;
}

static quern_status uncompress(unsigned bundle, const struct compressed *c, uint8_t *raw)
{
    uint8_t digest[16];
    ZSTD_DCtx *const zstd = ZSTD_createDCtx_advanced(zstd_memory);

    FAIL_IF(!zstd, QUERN_E_MEMORY, "no memory to uncompress an offload bundle");
    const size_t done = ZSTD_decompressDCtx(zstd, raw, c->raw_bytes, c->payload, c->payload_bytes);
    ZSTD_freeDCtx(zstd);
    FAIL_IF(ZSTD_isError(done), QUERN_E_OBJECT, "compressed bundle %u: zstd: %s", bundle,
            ZSTD_getErrorName(done));
    FAIL_IF(done != c->raw_bytes, QUERN_E_OBJECT,
            "compressed bundle %u: says %" PRIu64 " bytes uncompressed and has %zu", bundle,
            c->raw_bytes, done);
    md5(raw, c->raw_bytes, digest);
    FAIL_IF(le64(digest) != c->checksum, QUERN_E_OBJECT,
            "compressed bundle %u: damaged: checksum %016" PRIx64 ", its header says %016" PRIx64,
            bundle, le64(digest), c->checksum);
    return QUERN_OK;
}

static quern_status read_compressed(struct reader *r, const uint8_t *p, uint64_t size,
                                    uint64_t *extent)
{
    struct bundles *const b = r->result;
    const unsigned bundle = b->bundle_count - 1;
    struct compressed c = {0};
    uint64_t inner;

    TRY(read_header(bundle, p, size, &c, extent));
    TRY(check_size(b, bundle, &c));
    uint8_t *const raw = b->raw[bundle] = os.malloc(c.raw_bytes ? c.raw_bytes : 1);
    FAIL_IF(!raw, QUERN_E_MEMORY, "no memory for an offload bundle of %" PRIu64 " bytes",
            c.raw_bytes);
    b->raw_bytes += c.raw_bytes;
    TRY(uncompress(bundle, &c, raw));
    FAIL_IF(c.raw_bytes < PLAIN_MAGIC_BYTES || memcmp(raw, PLAIN_MAGIC, PLAIN_MAGIC_BYTES) != 0,
            QUERN_E_OBJECT, "compressed bundle %u: its content does not start with " PLAIN_MAGIC,
            bundle);
    TRY(read_plain(r, raw, c.raw_bytes, &inner));
    FAIL_IF(!all_zero(raw + inner, c.raw_bytes - inner), QUERN_E_OBJECT,
            "compressed bundle %u: bytes of no entry after the last object, at %" PRIu64, bundle,
            inner);
    return QUERN_OK;
}

/* ---- bundles in a row, and in a host's file -------------------------------------------------- */

static bool starts_with(const uint8_t *p, uint64_t size, const char *magic, uint64_t bytes)
{
    return size >= bytes && !memcmp(p, magic, bytes);
}

static quern_status read_row(struct reader *r, const uint8_t *p, uint64_t size)
{
    struct bundles *const b = r->result;

    for (uint64_t at = 0, extent;; at += extent) {
        while (at < size && !p[at])
            at++;
        if (at == size)
            return QUERN_OK;
        const bool plain = starts_with(p + at, size - at, PLAIN_MAGIC, PLAIN_MAGIC_BYTES);
        FAIL_IF(!plain && !starts_with(p + at, size - at, COMPRESSED_MAGIC, COMPRESSED_MAGIC_BYTES),
                QUERN_E_OBJECT,
                "no offload bundle at byte %" PRIu64 ": one starts with " PLAIN_MAGIC
                " or " COMPRESSED_MAGIC,
                at);
        TRY(make_room((void **)&b->raw, b->bundle_count, &r->bundle_room, sizeof *b->raw));
        b->raw[b->bundle_count++] = NULL;
        TRY(plain ? read_plain(r, p + at, size - at, &extent)
                  : read_compressed(r, p + at, size - at, &extent));
    }
}

enum { ELF_HEADER_BYTES = 64, ELF_SECTION_BYTES = 64, ELF_NOBITS = 8, ELF_SHN_XINDEX = 0xffff };
#define ELF_MAGIC   "\177ELF\2\1" /* 64 bits, little-endian */
#define FATBIN_NAME ".hip_fatbin"

/* Where a section lies, from its header. False when that is not inside the file. */
static bool section_bytes(const uint8_t *header, uint64_t size, uint64_t *offset, uint64_t *bytes)
{
    *offset = le64(header + 24);
    *bytes = le32(header + 4) == ELF_NOBITS ? 0 : le64(header + 32);
    return *offset <= size && *bytes <= size - *offset;
}

static quern_status read_host(struct reader *r, const uint8_t *p, uint64_t size)
{
    uint64_t at, bytes, name_bytes, left = size;
    bool found = false;

    FAIL_IF(size < ELF_HEADER_BYTES, QUERN_E_OBJECT,
            "%" PRIu64 " bytes are too few for an ELF header of %d", size, ELF_HEADER_BYTES);
    FAIL_IF(elf_machine(p, size) == ELF_EM_AMDGPU, QUERN_E_OBJECT,
            "a code object for a GPU, not a bundle of them");
    const uint64_t table = le64(p + 40);
    FAIL_IF(table < ELF_HEADER_BYTES || table > size || size - table < ELF_SECTION_BYTES ||
                le16(p + 58) != ELF_SECTION_BYTES,
            QUERN_E_OBJECT,
            "an ELF file without a readable section table; " FATBIN_NAME " is found by its name");
    /* counts that do not fit their fields stand in the first section */
    const uint64_t count = le16(p + 60) ? le16(p + 60) : le64(p + table + 32);
    const uint64_t names = le16(p + 62) == ELF_SHN_XINDEX ? le32(p + table + 40) : le16(p + 62);
    FAIL_IF(count > (size - table) / ELF_SECTION_BYTES || names >= count ||
                !section_bytes(p + table + names * ELF_SECTION_BYTES, size, &at, &name_bytes),
            QUERN_E_OBJECT,
            "an ELF file of %" PRIu64 " bytes whose table of %" PRIu64
            " sections, with names in section %" PRIu64 ", is not inside it",
            size, count, names);
    const uint8_t *const text = p + at;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *const header = p + table + i * ELF_SECTION_BYTES;
        const uint32_t name = le32(header);
        if (name > name_bytes || name_bytes - name < sizeof FATBIN_NAME ||
            memcmp(text + name, FATBIN_NAME, sizeof FATBIN_NAME) != 0)
            continue;
        FAIL_IF(!section_bytes(header, size, &at, &bytes), QUERN_E_OBJECT,
                "section " FATBIN_NAME ", %" PRIu64 " bytes at %" PRIu64
                ", is not inside the file's %" PRIu64,
                bytes, at, size);
        /* else a small file could have the same bytes uncompressed again and again */
        FAIL_IF(bytes > left, QUERN_E_OBJECT, "sections " FATBIN_NAME " overlap each other");
        left -= bytes;
        found = true;
        TRY(read_row(r, p + at, bytes));
    }
    FAIL_IF(!found, QUERN_E_OBJECT, "an ELF file without a section " FATBIN_NAME);
    return QUERN_OK;
}

quern_status bundles_read(const void *bytes, size_t size, struct bundles *bundles)
{
    struct bundles result = {0};
    struct reader r = {.result = &result};
    const bool host = starts_with(bytes, size, ELF_MAGIC, sizeof ELF_MAGIC - 1);
    quern_status status = host ? read_host(&r, bytes, size) : read_row(&r, bytes, size);

    if (!status && !result.bundle_count)
        status = error_set(QUERN_E_OBJECT, __FILE__, FAIL_AT("bundle_count"),
                           "no offload bundle: nothing but zeros in %s", host ? FATBIN_NAME : "it");
    if (status) {
        bundles_free(&result);
        return status;
    }
    *bundles = result;
    return QUERN_OK;
}

void bundles_free(struct bundles *bundles)
{
    for (unsigned i = 0; i < bundles->bundle_count; i++)
        os.free(bundles->raw[i]);
    os.free(bundles->raw);
    os.free(bundles->entries);
    *bundles = (struct bundles){0};
}

/* ---- the public functions of tool.h ---------------------------------------------------------- */

struct quern_offload {
    struct bundles bundles;
};

quern_status quern_offload_open(const void *bytes, size_t size, quern_offload **offload)
{
    FAIL_IF(!bytes || !offload, QUERN_E_ARGUMENT, "%s is null", !bytes ? "bytes" : "offload");
    quern_offload *const o = os.malloc(sizeof *o);
    FAIL_IF(!o, QUERN_E_MEMORY, "no memory for an offload bundle");
    const quern_status status = bundles_read(bytes, size, &o->bundles);
    if (status) {
        os.free(o);
        return status;
    }
    *offload = o;
    return QUERN_OK;
}

size_t quern_offload_count(const quern_offload *offload)
{
    return offload ? offload->bundles.count : 0;
}

quern_status quern_offload_entry(const quern_offload *offload, size_t index,
                                 struct quern_offload_entry *entry)
{
    const struct extensible *const type =
        EXTENSIBLE(quern_offload_entry, QUERN_OFFLOAD_ENTRY_SIZE_MIN);

    FAIL_IF(!offload, QUERN_E_ARGUMENT, "offload is null");
    TRY(extensible_check(type, entry));
    FAIL_IF(index >= offload->bundles.count, QUERN_E_ARGUMENT, "entry %zu: there are %zu", index,
            offload->bundles.count);
    const struct offload_entry *const e = &offload->bundles.entries[index];
    const struct quern_offload_entry own = {.id = e->id,
                                            .target = offload_target(e),
                                            .bundle = e->bundle,
                                            .object = e->bytes,
                                            .object_bytes = e->size};
    extensible_write(type, &own, entry);
    return QUERN_OK;
}

void quern_offload_close(quern_offload *offload)
{
    if (!offload)
        return;
    bundles_free(&offload->bundles);
    os.free(offload);
}
