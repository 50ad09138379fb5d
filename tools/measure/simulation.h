/* SPDX-License-Identifier: MIT */
/* A launch plan with its operands on the software GPU: what quern sim and quern profile share. */
#ifndef TOOLS_SIMULATION_H
#define TOOLS_SIMULATION_H

#include "files/files.h"
#include "command/options.h"
#include "files/launch_json.h"

/* Memory that the launches see under a name. */
struct buffer {
    const char *name;
    char *owned_name; /* of a foreign plan, where names come from the arguments */
    const char *path; /* null: no file (a workspace, or made up) */
    uint64_t bytes;
    enum quern_sim_access access;
    void *memory;
    void *before; /* a foreign plan's: the bytes as read, to see whether they were changed */
    uint64_t address;
};

/* A code object that is not in a file. */
struct plan_object {
    char *name; /* as the plan has it */
    const void *bytes;
    size_t size;
};

/* Zero-initialise it; end it with simulation_free. */
struct simulation {
    struct launch_plan plan;
    char *directory; /* of the plan */
    struct operand_file files[OPERAND_FILES_MAX];
    size_t file_count;
    bool invent; /* operands that have no file are made up instead of being asked for */
    size_t object_count;
    struct plan_object *objects; /* looked in before the plan's directory */
    struct buffer buffers[OPERAND_FILES_MAX];
    size_t buffer_count;
    char target[64];
    quern_ctx *ctx; /* for its disassembler; opened by simulation_open unless there is one */
    quern_sim *sim;
};

/* Reads the plan that the first argument names, and the operand files behind it. */
int simulation_read(struct simulation *s, const struct common *common);
/* Memory for every operand of s->plan, filled from files (or made up), and checks that every
 * pointer that the launches take has got some. */
int simulation_operands(struct simulation *s);
/* Opens a software GPU with the operands mapped, for the plan's target unless --target names one.
 * `options` gives what is not said by the plan: check, order. */
int simulation_open(struct simulation *s, const struct common *common,
                    const struct quern_sim_options *options);

/* A launch made ready. End it with simulation_launch_free, after a failure too. */
struct ready_launch {
    quern_sim_module *module;
    struct quern_sim_launch launch;
    uint8_t *kernarg;
    char *object; /* the file's bytes */
};
int simulation_launch(const struct simulation *s, size_t index, struct ready_launch *ready);
void simulation_launch_free(struct ready_launch *ready);

void simulation_free(struct simulation *s);

#endif
