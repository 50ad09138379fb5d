/* SPDX-License-Identifier: MIT */
/*
 * What the pool and a worker say to each other, and the library and the helper that fetches from a
 * remote cache (remote.h). This header is all that they share: worker and helper are executables of
 * their own and link nothing of the library.
 *
 * A worker has a stream socket as descriptor 0 and a pipe as 1 and 2. Frames cross the socket, both
 * ways; each is a header and a payload. The host speaks first (FRAME_CONFIGURE), the worker answers
 * FRAME_READY, and from then on each request of the host gets one FRAME_REPLY with its id. What the
 * compiler prints goes to the pipe. When the process that holds the compiler dies, the worker's
 * supervisor writes a report there (REPORT_MARK) before it closes the socket.
 *
 * Payloads are sequences of fields: u32, u64, and byte strings (u32 length, then the bytes). Both
 * ends run on one machine, so numbers are in its byte order. A frame whose magic, version, id,
 * length or digest is not what it should be ends the worker: nobody could tell where the next frame
 * begins.
 */
#ifndef QUERN_COMPILE_PROTOCOL_H
#define QUERN_COMPILE_PROTOCOL_H

#include <quern/quern.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define PROTOCOL_MAGIC    0x4e525551u /* "QURN" */
#define PROTOCOL_VERSION  7
#define PROTOCOL_TEXT_(x) #x
#define PROTOCOL_TEXT(x)  PROTOCOL_TEXT_(x)

/* Both ends must have been built from the same release: the handshake compares this. */
#define PROTOCOL_RELEASE                                                                           \
    PROTOCOL_TEXT(QUERN_VERSION_MAJOR)                                                             \
    "." PROTOCOL_TEXT(QUERN_VERSION_MINOR) "." PROTOCOL_TEXT(QUERN_VERSION_PATCH)
#define PROTOCOL_BUILD "quern " PROTOCOL_RELEASE " protocol " PROTOCOL_TEXT(PROTOCOL_VERSION)

/* The largest frame. Objects and their disassemblies are far smaller: a larger length is refused as
 * nonsense. */
#define FRAME_BYTES_MAX ((uint64_t)256 << 20)
/* The most bytes that are fetched, or put, at once: an entry (store/entry.h) and its seal. */
#define FETCH_BYTES_MAX (((size_t)16 << 20) + 4096)

enum frame_kind {
    FRAME_CONFIGURE = 1, /* build; prefix, code, target, file, environment (compilers.h); compiler,
                            builtins, disassembler, root, libraries, temporary directory. To the
                            helper that fetches: build; url, whether to follow redirections and
                            milliseconds for one fetch (u32 each), certificates, and of the
                            credentials region, key, secret and token */
    FRAME_READY,         /* build, sandbox text; of the helper also why it cannot work, or "", and
                            libcurl's version */
    FRAME_COMPILE,       /* processor, options one per line, source */
    FRAME_DISASSEMBLE,   /* processor, code */
    FRAME_METADATA,      /* object */
    FRAME_TARGETS,       /* - */
    FRAME_VERSION,       /* - */
    FRAME_REPLY,         /* outcome u32, microseconds u64, message, data */
    FRAME_FETCH,         /* name; to the helper that fetches (remote.h), as is the next */
    FRAME_CANCEL,        /* -; the id is that of the FRAME_FETCH that wants no reply any more */
    FRAME_STORE          /* name, SHA-256 as text, only where nothing is (u32), bytes; to the same
                            helper, which puts them on the server */
};

enum reply_outcome {
    REPLY_DONE = 1, /* message: the compiler's log; data: object, instructions or text */
    REPLY_REJECTED, /* message: the compiler's log */
    REPLY_UNABLE,   /* message: why a library could not be loaded or failed otherwise */
    REPLY_ABSENT,   /* to FRAME_FETCH: the server has no such thing */
    REPLY_TAKEN     /* to FRAME_STORE where nothing may be: something is there */
};

/* The data of a FRAME_DISASSEMBLE reply: for each instruction, in order, without gaps. */
struct packed_instruction {
    uint32_t offset; /* from the start of the code */
    uint16_t size;   /* in bytes */
    uint16_t text;   /* bytes of text that follow this struct, no NUL; 0: no instruction */
};

/* The report, on the pipe: REPORT_MARK, then "exit N" or "signal N", and a newline. The NUL keeps
 * it apart from what compilers print. */
#define REPORT_MARK       "\0quern-worker: "
#define REPORT_MARK_BYTES (sizeof REPORT_MARK - 1)

struct frame_header {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;
    uint64_t id;    /* of the request; replies repeat it */
    uint64_t bytes; /* of the payload */
    uint64_t digest;
};
_Static_assert(sizeof(struct frame_header) == 32, "no padding");

/* XXH3-64 of the payload, seeded with that of the header's other fields. */
static inline uint64_t frame_digest(const struct frame_header *h, const void *payload)
{
    const uint64_t seed = XXH3_64bits(h, offsetof(struct frame_header, digest));
    return XXH3_64bits_withSeed(payload, h->bytes, seed);
}

static inline struct frame_header frame_make(enum frame_kind kind, uint64_t id, const void *payload,
                                             size_t bytes)
{
    struct frame_header h = {.magic = PROTOCOL_MAGIC,
                             .version = PROTOCOL_VERSION,
                             .kind = (uint16_t)kind,
                             .id = id,
                             .bytes = bytes};

    h.digest = frame_digest(&h, payload);
    return h;
}

/* Whether a header can be that of a frame at all, before its payload is there. */
static inline bool frame_plausible(const struct frame_header *h)
{
    return h->magic == PROTOCOL_MAGIC && h->version == PROTOCOL_VERSION &&
           h->bytes <= FRAME_BYTES_MAX;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* A growing payload. `grow` is realloc, or the library's table entry for it. */
struct fields {
    uint8_t *bytes;
    size_t size, capacity;
    bool failed; /* out of memory or over the limit: nothing more is added */
    void *(*grow)(void *, size_t);
};

static inline void fields_add_raw(struct fields *f, const void *bytes, size_t n)
{
    if (f->failed || n > FRAME_BYTES_MAX - f->size) {
        f->failed = true;
        return;
    }
    if (f->size + n > f->capacity) {
        const size_t capacity = (f->size + n) * 2;
        uint8_t *const grown = f->grow(f->bytes, capacity);
        if (!grown) {
            f->failed = true;
            return;
        }
        f->bytes = grown;
        f->capacity = capacity;
    }
    if (n)
        memcpy(f->bytes + f->size, bytes, n);
    f->size += n;
}

static inline void fields_add_u32(struct fields *f, uint32_t x)
{
    fields_add_raw(f, &x, sizeof x);
}
static inline void fields_add_u64(struct fields *f, uint64_t x)
{
    fields_add_raw(f, &x, sizeof x);
}

static inline void fields_add_bytes(struct fields *f, const void *bytes, size_t n)
{
    fields_add_u32(f, (uint32_t)n);
    fields_add_raw(f, bytes, n);
}

static inline void fields_add_text(struct fields *f, const char *text)
{
    fields_add_bytes(f, text, strlen(text));
}

/* Reads fields in order. When one is missing, `failed` is set and stays, and all further results
 * are empty. */
struct field_reader {
    const uint8_t *next, *end;
    bool failed;
};

static inline const uint8_t *field_raw(struct field_reader *r, size_t n)
{
    const uint8_t *const p = r->next;

    if (r->failed || (size_t)(r->end - p) < n) {
        r->failed = true;
        return NULL;
    }
    r->next += n;
    return p;
}

static inline uint32_t field_u32(struct field_reader *r)
{
    const uint8_t *const p = field_raw(r, sizeof(uint32_t));
    uint32_t x = 0;

    if (p)
        memcpy(&x, p, sizeof x);
    return x;
}

static inline uint64_t field_u64(struct field_reader *r)
{
    const uint8_t *const p = field_raw(r, sizeof(uint64_t));
    uint64_t x = 0;

    if (p)
        memcpy(&x, p, sizeof x);
    return x;
}

/* The bytes stay where they are; *n is their number. */
static inline const uint8_t *field_bytes(struct field_reader *r, size_t *n)
{
    const size_t length = field_u32(r);
    const uint8_t *const p = field_raw(r, length);

    *n = p ? length : 0;
    return p ? p : (const uint8_t *)"";
}

/* Whether everything was there and nothing is left over. */
static inline bool fields_done(const struct field_reader *r)
{
    return !r->failed && r->next == r->end;
}

#endif
