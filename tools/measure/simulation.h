/* SPDX-License-Identifier: MIT */
/* A launch plan with its operands on the software GPU: what quern sim and quern profile share. */
#ifndef TOOLS_SIMULATION_H
#define TOOLS_SIMULATION_H

#include "files/files.h"
#include "command/options.h"
#include "files/launch_json.h"
#include "measure/choices.h"

/* Memory that the launches see under a name. */
struct buffer {
    const char *name;
    char *owned_name; /* `name`, if the plan has no list of operands */
    const char *path; /* its file; null: it has none (a workspace, or it is made up) */
    uint64_t bytes;
    enum quern_sim_access access;
    void *memory;
    void *before; /* of a plan without a list: the file's bytes, to see what launches changed */
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
    enum choices_law choices; /* of experts that are made up */
    size_t object_count;
    struct plan_object *objects; /* looked in before the plan's directory */
    struct buffer buffers[OPERAND_FILES_MAX];
    size_t buffer_count;
    char target[64];
    quern_ctx *ctx; /* whose disassembler is used; simulation_open opens one if it is null */
    quern_sim *sim;
};

/* Reads the plan that the first argument names, and the operand files behind it. */
int simulation_read(struct simulation *s, const struct common *common);
/* Makes memory for every operand of s->plan, filled from files or made up, and checks that every
 * pointer that the launches take has some. */
int simulation_operands(struct simulation *s);
/* Opens a software GPU with the operands mapped, of the target that --target names, else the
 * plan's. `options` says what the plan does not: checks, and the order of waves. */
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
