/* SPDX-License-Identifier: MIT */
/* Disassembly, metadata and the list of targets: AMD's code object manager, met by dlopen. Its few
 * declarations are repeated here, because a machine that builds quern need not have its headers. */
#include "compile/worker.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Handles are structs of one 64-bit number, passed by value. */
typedef struct {
    uint64_t handle;
} handle;

enum { SUCCESS = 0, KIND_EXECUTABLE = 8 };
enum { NODE_NULL, NODE_STRING, NODE_MAP, NODE_LIST };

#define ISA_PREFIX "amdgcn-amd-amdhsa--"

typedef uint64_t (*read_memory)(uint64_t from, char *to, uint64_t size, void *user);
typedef void (*print_text)(const char *text, void *user);
typedef void (*print_address)(uint64_t address, void *user);

/* What is called, as X(name, result, function without its prefix, parameters). */
#define COMGR_FUNCTIONS(X)                                                                         \
    X(version, void, "get_version", (size_t *, size_t *))                                          \
    X(isa_count, int, "get_isa_count", (size_t *))                                                 \
    X(isa_name, int, "get_isa_name", (size_t, const char **))                                      \
    X(disassembler, int, "create_disassembly_info",                                                \
      (const char *, read_memory, print_text, print_address, handle *))                            \
    X(disassemble, int, "disassemble_instruction", (handle, uint64_t, void *, uint64_t *))         \
    X(disassembler_free, int, "destroy_disassembly_info", (handle))                                \
    X(data, int, "create_data", (int, handle *))                                                   \
    X(data_set, int, "set_data", (handle, size_t, const char *))                                   \
    X(data_release, int, "release_data", (handle))                                                 \
    X(metadata, int, "get_data_metadata", (handle, handle *))                                      \
    X(metadata_free, int, "destroy_metadata", (handle))                                            \
    X(node_kind, int, "get_metadata_kind", (handle, int *))                                        \
    X(node_string, int, "get_metadata_string", (handle, size_t *, char *))                         \
    X(node_map, int, "iterate_map_metadata", (handle, int (*)(handle, handle, void *), void *))    \
    X(node_count, int, "get_metadata_list_size", (handle, size_t *))                               \
    X(node_at, int, "index_list_metadata", (handle, size_t, handle *))

static struct {
    void *library;
    COMGR_FUNCTIONS(WORKER_POINTER)
} comgr;

static bool load(const struct worker_config *config, struct reply *reply)
{
    if (comgr.library)
        return true;
    if (!*config->disassembler) {
        reply_unable(reply, "this compiler comes without a disassembler");
        return false;
    }
    void *const library = dlopen(config->disassembler, RTLD_NOW);
    if (!library) {
        reply_unable(reply, "cannot load comgr: %s", dlerror());
        return false;
    }

    const struct worker_function needed[] = {
#define NEEDED(name, result, symbol, parameters) {(void **)&comgr.name, symbol},
        COMGR_FUNCTIONS(NEEDED)
#undef NEEDED
    };
    if (!find_functions(library, config->disassembler, "amd_comgr_", needed,
                        sizeof needed / sizeof *needed, reply))
        return false;
    comgr.library = library;
    return true;
}

bool comgr_version(const struct worker_config *config, struct reply *reply)
{
    char text[64];
    size_t major = 0, minor = 0;

    if (!load(config, reply))
        return false;
    comgr.version(&major, &minor);
    snprintf(text, sizeof text, "comgr %zu.%zu", major, minor);
    fields_add_raw(&reply->data, text, strlen(text));
    return true;
}

void job_targets(const struct worker_config *config, struct field_reader *request,
                 struct reply *reply)
{
    size_t count = 0;

    (void)request;
    if (!load(config, reply))
        return;
    comgr.isa_count(&count);
    for (size_t i = 0; i < count; i++) {
        const char *name = NULL;
        if (comgr.isa_name(i, &name) != SUCCESS || !name)
            continue;
        if (!strncmp(name, ISA_PREFIX, strlen(ISA_PREFIX)))
            name += strlen(ISA_PREFIX);
        if (reply->data.size)
            fields_add_raw(&reply->data, " ", 1);
        fields_add_raw(&reply->data, name, strlen(name));
    }
    reply->outcome = REPLY_DONE;
}

/* ---- Disassembly ----------------------------------------------------------------------------- */

struct code {
    const uint8_t *bytes;
    size_t size;
};

/* comgr gives one user pointer to all three callbacks, per instruction. */
struct instruction {
    const struct code *code;
    uint64_t older; /* at this offset read_code gives the form that older compilers know: */
    uint32_t clear; /* these bits of the second word are cleared */
    char text[UINT16_MAX];
    size_t length;
};

#define NOWHERE UINT64_MAX

/* The fields of the third operand, and of the second and third, in the second word of a VOP3
 * instruction, and what LLVM 24 puts there when an instruction lacks those operands: the constant
 * 0. Earlier releases put zero bits there, and do not know the instruction otherwise. */
static const uint32_t no_operand[] = {UINT32_C(0x80) << 18, UINT32_C(0x80) << 18 | 0x80 << 9};
static const uint32_t operands[] = {UINT32_C(0x1ff) << 18, UINT32_C(0x1ff) << 18 | 0x1ff << 9};

/* Whether what is at an offset is a VOP3 instruction (110100 in the first word's upper bits on
 * gfx9, 110101 later) that may lack these operands (the third; the second and the third). */
static bool may_lack(const struct code *code, uint64_t at, size_t which)
{
    uint32_t words[2];

    if (code->size - at < sizeof words)
        return false;
    memcpy(words, code->bytes + at, sizeof words);
    return words[0] >> 27 == 0x1a && (words[1] & operands[which]) == no_operand[which];
}

static uint64_t read_code(uint64_t from, char *to, uint64_t size, void *user)
{
    const struct instruction *const i = user;
    const struct code *const code = i->code;

    if (from >= code->size)
        return 0;
    if (size > code->size - from)
        size = code->size - from;
    memcpy(to, code->bytes + from, size);
    if (from == i->older && size >= 8) {
        uint32_t word;
        memcpy(&word, to + 4, sizeof word);
        word &= ~i->clear;
        memcpy(to + 4, &word, sizeof word);
    }
    return size;
}

static void take_text(const char *text, void *user)
{
    struct instruction *const i = user;

    text += strspn(text, " \t");
    i->length = strnlen(text, sizeof i->text);
    memcpy(i->text, text, i->length);
}

/* A callback of comgr's for branch targets, which are ignored: the text has them as offsets. */
static void ignore_address(uint64_t address, void *user)
{
    (void)address;
    (void)user;
}

/* Disassembles the instruction at an offset: returns its size, with its text in *i; 0: what is
 * there is no instruction. */
static uint64_t disassemble_one(handle disassembler, struct instruction *i, uint64_t at)
{
    uint64_t size = 0;

    i->length = 0;
    const int status = comgr.disassemble(disassembler, at, i, &size);
    return status == SUCCESS && size <= i->code->size - at ? size : 0;
}

static void disassemble(handle disassembler, const struct code *code, struct fields *out)
{
    static struct instruction instruction;
    uint64_t at = 0;

    instruction.code = code;
    while (at < code->size) {
        instruction.older = NOWHERE;
        uint64_t size = disassemble_one(disassembler, &instruction, at);
        for (size_t i = 0; !size && i < 2 && may_lack(code, at, i); i++) {
            instruction.older = at;
            instruction.clear = operands[i];
            size = disassemble_one(disassembler, &instruction, at);
        }
        if (!size) { /* no instruction: the next one may start a word further on */
            instruction.length = 0;
            size = code->size - at < 4 ? code->size - at : 4;
        }
        const struct packed_instruction packed = {(uint32_t)at, (uint16_t)size,
                                                  (uint16_t)instruction.length};
        fields_add_raw(out, &packed, sizeof packed);
        fields_add_raw(out, instruction.text, instruction.length);
        at += size;
    }
}

void job_disassemble(const struct worker_config *config, struct field_reader *request,
                     struct reply *reply)
{
    struct code code = {0};
    handle disassembler = {0};
    char isa[128];
    char *const processor = field_text(request);

    code.bytes = field_bytes(request, &code.size);
    snprintf(isa, sizeof isa, ISA_PREFIX "%s", processor);
    if (!fields_done(request)) {
        reply_unable(reply, "the request cannot be read");
    } else if (load(config, reply)) {
        if (comgr.disassembler(isa, read_code, take_text, ignore_address, &disassembler) !=
            SUCCESS) {
            reply_unable(reply, "comgr has no disassembler for %s", isa);
        } else {
            disassemble(disassembler, &code, &reply->data);
            comgr.disassembler_free(disassembler);
            reply->outcome = REPLY_DONE;
        }
    }
    free(processor);
}

/* ---- Metadata -------------------------------------------------------------------------------- */

struct printer {
    struct fields *out;
    int indent;
};

static void print_node(handle node, int indent, struct fields *out);

static void print_indent(int indent, struct fields *out)
{
    for (int i = 0; i < indent; i++)
        fields_add_raw(out, "  ", 2);
}

static int node_kind(handle node)
{
    int kind = NODE_NULL;

    comgr.node_kind(node, &kind);
    return kind;
}

/* Prints a string and ends the line. */
static void print_string(handle node, struct fields *out)
{
    size_t size = 0;

    if (comgr.node_string(node, &size, NULL) != SUCCESS)
        return;
    char *const text = calloc(1, size + 1);
    if (text && comgr.node_string(node, &size, text) == SUCCESS)
        fields_add_raw(out, text, strlen(text));
    free(text);
}

static int print_entry(handle key, handle value, void *user)
{
    const struct printer *const p = user;

    print_indent(p->indent, p->out);
    print_string(key, p->out);
    fields_add_raw(p->out, ":", 1);
    if (node_kind(value) == NODE_STRING) {
        fields_add_raw(p->out, " ", 1);
        print_string(value, p->out);
        fields_add_raw(p->out, "\n", 1);
    } else {
        fields_add_raw(p->out, "\n", 1);
        print_node(value, p->indent + 1, p->out);
    }
    return SUCCESS;
}

/* Metadata that nest deeper are cut short; no compiler's do. */
#define DEPTH_MAX 16

static void print_node(handle node, int indent, struct fields *out)
{
    struct printer printer = {out, indent};
    size_t count = 0;

    if (indent > DEPTH_MAX)
        return;
    switch (node_kind(node)) {
    case NODE_MAP:
        comgr.node_map(node, print_entry, &printer);
        break;
    case NODE_LIST:
        comgr.node_count(node, &count);
        for (size_t i = 0; i < count; i++) {
            handle item;
            if (comgr.node_at(node, i, &item) != SUCCESS)
                break;
            print_indent(indent, out);
            fields_add_raw(out, "-\n", 2);
            print_node(item, indent + 1, out);
            comgr.metadata_free(item);
        }
        break;
    case NODE_STRING:
        print_indent(indent, out);
        print_string(node, out);
        fields_add_raw(out, "\n", 1);
        break;
    default:
        break;
    }
}

void job_metadata(const struct worker_config *config, struct field_reader *request,
                  struct reply *reply)
{
    handle data = {0}, node = {0};
    size_t size = 0;
    const uint8_t *const object = field_bytes(request, &size);

    if (!fields_done(request)) {
        reply_unable(reply, "the request cannot be read");
        return;
    }
    if (!load(config, reply))
        return;
    if (comgr.data(KIND_EXECUTABLE, &data) != SUCCESS) {
        reply_unable(reply, "comgr takes no data");
        return;
    }
    if (comgr.data_set(data, size, (const char *)object) != SUCCESS ||
        comgr.metadata(data, &node) != SUCCESS) {
        reply->outcome = REPLY_REJECTED;
        static const char why[] = "comgr finds no metadata in these bytes";
        fields_add_raw(&reply->message, why, sizeof why - 1);
    } else {
        print_node(node, 0, &reply->data);
        comgr.metadata_free(node);
        reply->outcome = REPLY_DONE;
    }
    comgr.data_release(data);
}
