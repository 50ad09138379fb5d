/* SPDX-License-Identifier: MIT */
/*
 * Offload bundles: plain, compressed, in rows and inside a host's file; then files that are cut,
 * flipped, made up or greedy. A refusal must be QUERN_E_OBJECT with a sentence; what is accepted
 * must lie inside memory that is there.
 *
 * This file is long because it makes bundles of every kind and damages each of their fields.
 */
#include "base/os.h"
#include "base/str.h"
#include "object/le.h"
#include "object/md5.h"
#include "object/amdgpu/offload_bundle.h"
#include "t_objects.h"

#include <quern/tool.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- making bundles -------------------------------------------------------------------------- */

static void add_u16(struct str *s, unsigned value)
{
    uint8_t bytes[2];

    le_put(bytes, 2, value);
    str_add_bytes(s, bytes, 2);
}

static void add_u32(struct str *s, uint64_t value)
{
    uint8_t bytes[4];

    le_put(bytes, 4, value);
    str_add_bytes(s, bytes, 4);
}

static void add_u64(struct str *s, uint64_t value)
{
    uint8_t bytes[8];

    le_put(bytes, 8, value);
    str_add_bytes(s, bytes, 8);
}

static void add_zeros(struct str *s, size_t n)
{
    while (n--)
        str_add_bytes(s, "", 1);
}

static void put_u64(struct str *s, size_t at, uint64_t value)
{
    le_put((uint8_t *)s->text + at, 8, value);
}

/* What the bundles here hold: the host's empty entry, and three golden objects. */
static const struct {
    const char *id, *target;
    int golden; /* or none: -1 */
} parts[] = {
    {"host-x86_64-unknown-linux-gnu-", "", -1},
    {"hipv4-amdgcn-amd-amdhsa--gfx1151", "gfx1151", T_AXPY_GFX1151},
    {"hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-", T_AXPY_GFX942},
    {"hip-amdgcn-amd-amdhsa-gfx1201", "gfx1201", T_AXPY_GFX1201}, /* as older compilers spell it */
};

/* Objects start at multiples of `align`, as the driver lays them out. */
static struct str plain_bundle(size_t align)
{
    struct str s = {0};

    str_add(&s, "__CLANG_OFFLOAD_BUNDLE__");
    add_u64(&s, COUNT(parts));
    for (size_t i = 0; i < COUNT(parts); i++) {
        add_u64(&s, 0);
        add_u64(&s, parts[i].golden < 0 ? 0 : t_object(parts[i].golden).size);
        add_u64(&s, strlen(parts[i].id));
        str_add(&s, parts[i].id);
    }
    for (size_t i = 0, entry = 32; i < COUNT(parts); entry += 24 + strlen(parts[i].id), i++) {
        add_zeros(&s, (align - s.length % align) % align);
        put_u64(&s, entry, s.length);
        if (parts[i].golden >= 0)
            str_add_bytes(&s, t_object(parts[i].golden).bytes, t_object(parts[i].golden).size);
    }
    return s;
}

/* `content_size` 0: the zstd frame does not say how long its content is. */
static struct str compressed_of(const void *raw, size_t size, unsigned version, int content_size)
{
    const size_t room = ZSTD_compressBound(size);
    ZSTD_CCtx *const zstd = ZSTD_createCCtx();
    void *const payload = malloc(room);
    struct str s = {0};
    uint8_t digest[16];

    ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, content_size);
    const size_t n = ZSTD_compress2(zstd, payload, room, raw, size);
    assert_false(ZSTD_isError(n));
    ZSTD_freeCCtx(zstd);
    str_add(&s, "CCOB");
    add_u16(&s, version);
    add_u16(&s, 1);
    if (version == 2)
        add_u32(&s, 24 + n);
    if (version == 3)
        add_u64(&s, 32 + n);
    if (version == 3)
        add_u64(&s, size);
    else
        add_u32(&s, size);
    md5(raw, size, digest);
    str_add_bytes(&s, digest, 8);
    str_add_bytes(&s, payload, n);
    free(payload);
    return s;
}

static struct str compressed_bundle(unsigned version)
{
    struct str raw = plain_bundle(4096);
    const struct str s = compressed_of(raw.text, raw.length, version, 1);

    str_free(&raw);
    return s;
}

/* A host's ELF file: sections "", .hip_fatbin, .shstrtab. With `extended`, the numbers of sections
 * and names stand in the first section, as in files with more than 65,279 of them. */
static struct str host_file(const struct str *fatbin, int extended)
{
    static const char names[] = "\0.hip_fatbin\0.shstrtab";
    const size_t fatbin_at = 64, names_at = fatbin_at + fatbin->length;
    const size_t table_at = names_at + sizeof names;
    struct str s = {0};

    str_add_bytes(&s, "\177ELF\2\1\1", 7);
    add_zeros(&s, 9);
    add_u16(&s, 3);
    add_u16(&s, 62);
    add_u32(&s, 1);
    add_zeros(&s, 16);
    add_u64(&s, table_at);
    add_u32(&s, 0);
    for (unsigned i = 0; i < 3; i++)
        add_u16(&s, i ? 0 : 64);
    add_u16(&s, 64);
    add_u16(&s, extended ? 0 : 3);
    add_u16(&s, extended ? 0xffff : 2);
    str_add_bytes(&s, fatbin->text, fatbin->length);
    str_add_bytes(&s, names, sizeof names);
    const uint64_t sections[3][5] = {
        /* name, type, offset, bytes, link */
        {0, 0, 0, extended ? 3 : 0, extended ? 2 : 0},
        {1, 1, fatbin_at, fatbin->length, 0},
        {13, 3, names_at, sizeof names, 0},
    };
    for (unsigned i = 0; i < 3; i++) {
        add_u32(&s, sections[i][0]);
        add_u32(&s, sections[i][1]);
        add_zeros(&s, 16);
        add_u64(&s, sections[i][2]);
        add_u64(&s, sections[i][3]);
        add_u32(&s, sections[i][4]);
        add_zeros(&s, 20);
    }
    return s;
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void check_parts(const struct offload_entry *entries, unsigned bundle)
{
    for (size_t i = 0; i < COUNT(parts); i++) {
        const struct offload_entry *const e = &entries[i];
        assert_string_equal(e->id, parts[i].id);
        assert_string_equal(offload_target(e), parts[i].target);
        assert_int_equal(e->bundle, bundle);
        if (parts[i].golden < 0) {
            assert_int_equal(e->size, 0);
            continue;
        }
        const struct t_object object = t_object(parts[i].golden);
        assert_int_equal(e->size, object.size);
        assert_memory_equal(e->bytes, object.bytes, object.size);
    }
}

/* Reads, checks that it is `bundles` times the parts, and frees the text. */
static void check_read(struct str s, unsigned bundles)
{
    struct bundles b;

    if (bundles_read(s.text, s.length, &b) != QUERN_OK)
        fail_msg("%s", quern_last_error()->message);
    assert_int_equal(b.bundle_count, bundles);
    assert_int_equal(b.count, bundles * COUNT(parts));
    for (unsigned i = 0; i < bundles; i++)
        check_parts(b.entries + i * COUNT(parts), i);
    bundles_free(&b);
    str_free(&s);
}

static void plain_bundles(void **state)
{
    (void)state;
    check_read(plain_bundle(4096), 1);
    check_read(plain_bundle(1), 1);
}

static void compressed_bundles_of_every_version(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 3; version++)
        check_read(compressed_bundle(version), 1);
}

static void a_frame_that_does_not_say_its_size(void **state)
{
    struct str raw = plain_bundle(64);

    (void)state;
    for (unsigned version = 1; version <= 3; version++)
        check_read(compressed_of(raw.text, raw.length, version, 0), 1);
    str_free(&raw);
}

static struct str row_of_five(void)
{
    struct str row = {0};

    for (unsigned i = 0; i < 5; i++) {
        struct str one = i % 4 ? compressed_bundle(i % 4) : plain_bundle(128);
        str_add_bytes(&row, one.text, one.length);
        /* the third and the fourth touch */
        add_zeros(&row, i == 2 ? 0 : 4096 - row.length % 4096);
        str_free(&one);
    }
    return row;
}

static void many_in_a_row(void **state)
{
    (void)state;
    check_read(row_of_five(), 5);
}

static void inside_a_host_file(void **state)
{
    struct str row = row_of_five();

    (void)state;
    check_read(host_file(&row, 0), 5);
    check_read(host_file(&row, 1), 5);
    str_free(&row);
}

static void public_functions(void **state)
{
    struct str s = compressed_bundle(3);
    struct quern_offload_entry entry = QUERN_INIT(struct quern_offload_entry);
    quern_offload *offload;

    (void)state;
    assert_int_equal(quern_offload_open(s.text, s.length, &offload), QUERN_OK);
    assert_int_equal(quern_offload_count(offload), COUNT(parts));
    for (size_t i = 0; i < COUNT(parts); i++) {
        assert_int_equal(quern_offload_entry(offload, i, &entry), QUERN_OK);
        assert_string_equal(entry.id, parts[i].id);
        assert_string_equal(entry.target, parts[i].target);
    }
    assert_int_equal(entry.object_bytes, t_object(T_AXPY_GFX1201).size);
    assert_memory_equal(entry.object, t_object(T_AXPY_GFX1201).bytes, entry.object_bytes);
    assert_int_equal(quern_offload_entry(offload, COUNT(parts), &entry), QUERN_E_ARGUMENT);
    entry.size = 8;
    assert_int_equal(quern_offload_entry(offload, 0, &entry), QUERN_E_ARGUMENT);
    quern_offload_close(offload);
    quern_offload_close(NULL);
    assert_int_equal(quern_offload_open(NULL, 0, &offload), QUERN_E_ARGUMENT);
    assert_int_equal(quern_offload_open(s.text, 10, &offload), QUERN_E_OBJECT);
    str_free(&s);
}

static void md5_of_rfc_1321(void **state)
{
    static const struct {
        const char *text, *hex;
    } vectors[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(vectors); i++) {
        uint8_t digest[16];
        char hex[33];
        md5(vectors[i].text, strlen(vectors[i].text), digest);
        hex_from_bytes(hex, digest, sizeof digest);
        assert_string_equal(hex, vectors[i].hex);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Refused with that phrase in the message; frees the text. */
static void refused(struct str s, const char *phrase)
{
    struct bundles b;

    assert_int_equal(bundles_read(str_text(&s), s.length, &b), QUERN_E_OBJECT);
    if (!strstr(quern_last_error()->message, phrase))
        fail_msg("\"%s\" does not say \"%s\"", quern_last_error()->message, phrase);
    str_free(&s);
}

/* A change of one 64-bit word of a bundle. */
static struct str changed(struct str s, size_t at, uint64_t value)
{
    put_u64(&s, at, value);
    return s;
}

static struct str cut(struct str s, size_t length)
{
    s.length = length;
    return s;
}

static struct str text(const char *bytes, size_t size)
{
    struct str s = {0};

    str_add_bytes(&s, bytes, size);
    return s;
}

static void wrong_plain_bundles(void **state)
{
    const size_t second = 32 + 24 + strlen(parts[0].id);
    const uint64_t end = 1 << 20;

    (void)state;
    refused(text("", 0), "nothing but zeros in it");
    refused(text("\0\0\0\0\0", 5), "nothing but zeros in it");
    refused(text("hello", 5), "no offload bundle at byte 0");
    refused(cut(plain_bundle(64), 31), "too few for a header");
    refused(cut(plain_bundle(64), 40), "ends inside its table");
    refused(cut(plain_bundle(64), 32 + 24 + 5), "ends inside its table");
    refused(changed(plain_bundle(64), 24, 70000), "at most 65536");
    refused(changed(plain_bundle(64), 24, UINT64_MAX), "at most 65536");
    refused(changed(plain_bundle(64), second, end), "is not inside");
    refused(changed(plain_bundle(64), second + 8, UINT64_MAX), "is not inside");
    refused(changed(plain_bundle(64), second + 16, 0), "1 to 127");
    refused(changed(plain_bundle(64), second + 16, 128), "1 to 127");
    refused(changed(plain_bundle(64), second + 16, UINT64_MAX), "ends inside its table");
    refused(changed(plain_bundle(64), second + 24, 0x20676e6f7277), "only printable ASCII");

    struct str s = plain_bundle(64);
    str_add(&s, "x");
    refused(s, "no offload bundle at byte");
}

static void wrong_compressed_bundles(void **state)
{
    struct str raw = plain_bundle(64);

    (void)state;
    refused(cut(compressed_bundle(2), 6), "too few");
    refused(cut(compressed_bundle(2), 20), "too few for a header");
    refused(changed(compressed_bundle(3), 8, 1 << 20), "says 1048576 bytes");
    refused(changed(compressed_bundle(3), 8, 31), "says 31 bytes");
    refused(changed(compressed_bundle(3), 16, 1000), "says 1000 bytes uncompressed, zstd's");
    refused(changed(compressed_bundle(3), 24, 5), "damaged: checksum");
    refused(changed(compressed_bundle(3), 32, 0), "not in zstd's format");
    refused(cut(compressed_bundle(1), 400), "zstd:");

    struct str s = compressed_bundle(2);
    s.text[4] = 4;
    refused(s, "version 4: 1 to 3");
    s = compressed_bundle(2);
    s.text[6] = 0;
    refused(s, "compressed with zlib: only zstd");
    s = compressed_bundle(2);
    s.text[6] = 2;
    refused(s, "unknown compression method");

    /* content that is no bundle, or more than one */
    refused(compressed_of("no", 2, 3, 1), "does not start with");
    struct str nested = compressed_bundle(3);
    refused(compressed_of(nested.text, nested.length, 3, 1), "does not start with");
    str_free(&nested);
    struct str twice = plain_bundle(64);
    str_add_bytes(&twice, raw.text, raw.length);
    refused(compressed_of(twice.text, twice.length, 3, 1), "bytes of no entry after");
    str_free(&twice);

    /* a size that only the header says, and wrongly */
    s = compressed_of(raw.text, raw.length, 3, 0);
    refused(changed(s, 16, raw.length + 1), "uncompressed and has");
    s = compressed_of(raw.text, raw.length, 3, 0);
    refused(changed(s, 16, raw.length - 1), "zstd:");
    str_free(&raw);
}

static size_t most_asked;

static void *watched_malloc(size_t size)
{
    if (size > most_asked)
        most_asked = size;
    return malloc(size);
}

/* Small files that would like much memory. */
static void bombs(void **state)
{
    const size_t size = 64 << 20;
    uint8_t *const zeros = calloc(1, size);
    struct str row = {0};

    (void)state;
    memcpy(zeros, "__CLANG_OFFLOAD_BUNDLE__", 24);
    struct str bomb = compressed_of(zeros, size, 3, 1), quiet = compressed_of(zeros, size, 3, 0);
    free(zeros);
    assert_in_range(bomb.length, 1, size / OFFLOAD_RATIO_MAX);
    os.malloc = watched_malloc;
    most_asked = 0;
    refused(bomb, "more than a factor of 1024");
    refused(quiet, "more than a factor of 1024");
    refused(changed(compressed_bundle(3), 16, OFFLOAD_RAW_MAX + 1), "at most 1073741824");
    refused(changed(compressed_bundle(3), 16, UINT64_MAX), "at most 1073741824");

    /* The entries of many bundles count together. Each of these is one zero-sized entry less than
     * half of what is allowed. */
    struct str half = {0};
    str_add(&half, "__CLANG_OFFLOAD_BUNDLE__");
    add_u64(&half, OFFLOAD_ENTRIES_MAX / 2);
    for (unsigned i = 0; i < OFFLOAD_ENTRIES_MAX / 2; i++) {
        add_u64(&half, 0);
        add_u64(&half, 0);
        add_u64(&half, 1);
        str_add(&half, "x");
    }
    for (unsigned i = 0; i < 3; i++)
        str_add_bytes(&row, half.text, half.length);
    str_free(&half);
    refused(row, "and 65536 before it");
    os.malloc = malloc;
    assert_in_range(most_asked, 0, 1 << 20);
}

static void wrong_host_files(void **state)
{
    struct str fatbin = plain_bundle(64), zeros = {0};
    const struct t_object object = t_object(T_AXPY_GFX1151);

    (void)state;
    const size_t names_at = 64 + fatbin.length, table = names_at + 23;
    refused(cut(host_file(&fatbin, 0), 63), "too few for an ELF header");
    refused(text((const char *)object.bytes, object.size), "a code object for a GPU");
    refused(changed(host_file(&fatbin, 0), 40, 0), "without a readable section table");
    refused(changed(host_file(&fatbin, 0), 40, table + 65), "is not inside it");
    refused(changed(host_file(&fatbin, 0), 40, UINT64_MAX), "without a readable section table");
    refused(changed(host_file(&fatbin, 0), 56, 0x0002ffff00400000), "table of 65535 sections");
    refused(changed(host_file(&fatbin, 0), 56, 0x0003000300400000), "names in section 3");
    refused(changed(host_file(&fatbin, 1), table + 32, UINT64_MAX), "is not inside it");
    refused(changed(host_file(&fatbin, 0), table + 128 + 24, UINT64_MAX), "is not inside it");
    refused(changed(host_file(&fatbin, 0), table + 64 + 32, 1 << 30), "section .hip_fatbin");
    refused(changed(host_file(&fatbin, 0), table + 64, 0x100000002), "without a section");
    refused(changed(host_file(&fatbin, 0), table + 64, 0x1ffffffff), "without a section");
    /* section 0 is a second name for the same bytes */
    refused(changed(changed(changed(host_file(&fatbin, 0), table, 0x100000001), table + 24, 64),
                    table + 32, fatbin.length),
            "overlap each other");
    add_zeros(&zeros, 64);
    refused(host_file(&zeros, 0), "nothing but zeros in .hip_fatbin");
    str_free(&zeros);
    str_free(&fatbin);
}

/* ---- any bytes at all ------------------------------------------------------------------------ */

/* Reads a copy of its exact size, so that a sanitizer sees a step over its end, and touches all. */
static quern_status survive(const void *bytes, size_t size)
{
    uint8_t *const copy = malloc(size ? size : 1);
    struct bundles b;
    static volatile uint8_t sink;

    memcpy(copy, bytes, size);
    const quern_status status = bundles_read(copy, size, &b);
    if (status) {
        assert_int_equal(status, QUERN_E_OBJECT);
        assert_true(strlen(quern_last_error()->message) > 10);
    } else {
        for (size_t i = 0; i < b.count; i++) {
            assert_in_range(strlen(b.entries[i].id), 1, OFFLOAD_ID_MAX);
            assert_in_range(b.entries[i].target_at, 0, strlen(b.entries[i].id));
            for (uint64_t j = 0; j < b.entries[i].size; j++)
                sink ^= b.entries[i].bytes[j];
        }
        bundles_free(&b);
    }
    free(copy);
    return status;
}

static void cut_anywhere(void **state)
{
    struct str files[] = {plain_bundle(64), compressed_bundle(1), compressed_bundle(2),
                          compressed_bundle(3), row_of_five()};
    struct str hosts[] = {host_file(&files[0], 0), host_file(&files[4], 1)};

    (void)state;
    for (unsigned i = 0; i < COUNT(files); i++) {
        /* every length of the headers, then some */
        for (size_t n = 0; n < files[i].length; n += n < 400 ? 1 : 997)
            if (i < 4)
                assert_int_equal(survive(files[i].text, n), QUERN_E_OBJECT);
            else
                survive(files[i].text, n);
        assert_int_equal(survive(files[i].text, files[i].length), QUERN_OK);
    }
    for (unsigned i = 0; i < COUNT(hosts); i++) {
        /* the section table comes last */
        for (size_t n = hosts[i].length - 1; n > hosts[i].length - 300; n--)
            assert_int_equal(survive(hosts[i].text, n), QUERN_E_OBJECT);
        str_free(&hosts[i]);
    }
    for (unsigned i = 0; i < COUNT(files); i++)
        str_free(&files[i]);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void flipped_anywhere(void **state)
{
    struct str files[] = {
        plain_bundle(64), compressed_bundle(1), compressed_bundle(2), compressed_bundle(3), {0}};
    uint64_t seed = 1;

    (void)state;
    files[4] = host_file(&files[0], 0);
    for (unsigned i = 0; i < COUNT(files); i++) {
        const size_t size = files[i].length;
        unsigned refusals = 0;
        for (unsigned round = 0; round < 3000; round++) {
            /* mostly the headers at the front and, of a host's file, at the end */
            const uint64_t r = next_random(&seed), where = next_random(&seed);
            const size_t at = r % 8 == 0   ? where % size
                              : r % 2 == 0 ? where % 64
                                           : (i < 4 ? where % 256 : size - 1 - where % 300);
            const char old = files[i].text[at];
            files[i].text[at] = (char)(r % 3 ? old ^ (char)(1 << r / 8 % 8) : (char)(r >> 32));
            refusals += survive(files[i].text, size) != QUERN_OK;
            files[i].text[at] = old;
        }
        assert_in_range(refusals, 300, 3000);
        /* a checksum guards all of a compressed bundle but the padding inside it */
        if (i == 1 || i == 2 || i == 3)
            assert_in_range(refusals, 1500, 3000);
    }
    for (unsigned i = 0; i < COUNT(files); i++)
        str_free(&files[i]);
}

/* ---- out of memory --------------------------------------------------------------------------- */

static int allocations_left;

static void *failing_malloc(size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

static void *failing_realloc(void *p, size_t size)
{
    return allocations_left-- > 0 ? realloc(p, size) : NULL;
}

static void every_allocation_may_fail(void **state)
{
    struct str row = row_of_five();
    quern_offload *offload;
    int needed = 0;

    (void)state;
    os.malloc = failing_malloc;
    os.realloc = failing_realloc;
    for (;; needed++) {
        allocations_left = needed;
        const quern_status status = quern_offload_open(row.text, row.length, &offload);
        if (status == QUERN_OK)
            break;
        assert_int_equal(status, QUERN_E_MEMORY);
        assert_in_range(needed, 0, 100);
    }
    os.malloc = malloc;
    os.realloc = realloc;
    quern_offload_close(offload);
    str_free(&row);
    /* the handle, two lists, and for each of three compressed bundles its content and a decoder */
    assert_in_range(needed, 1 + 2 + 3 * 2, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_bundles),
        cmocka_unit_test(compressed_bundles_of_every_version),
        cmocka_unit_test(a_frame_that_does_not_say_its_size),
        cmocka_unit_test(many_in_a_row),
        cmocka_unit_test(inside_a_host_file),
        cmocka_unit_test(public_functions),
        cmocka_unit_test(md5_of_rfc_1321),
        cmocka_unit_test(wrong_plain_bundles),
        cmocka_unit_test(wrong_compressed_bundles),
        cmocka_unit_test(bombs),
        cmocka_unit_test(wrong_host_files),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(flipped_anywhere),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
