/* SPDX-License-Identifier: MIT */
/* The quern command: finds the verb and hands over. */
#include "command/command.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct verb {
    const char *name;
    const char *full_name; /* what its messages start with */
    verb_function *function;
    const char *summary;
};

static const struct verb verbs[] = {
    {"prewarm", "quern prewarm", verb_prewarm, "compile, store and verify a model's kernels"},
    {"build", "quern build", verb_build, "write a launch plan and its code objects"},
    {"run", "quern run", verb_run, "run a layer on files of operands"},
    {"sim", "quern sim", verb_sim, "run a launch plan on the software GPU"},
    {"profile", "quern profile", verb_profile, "count and model what kernels do"},
    {"source", "quern source", verb_source, "print a kernel's source"},
    {"inspect", "quern inspect", verb_inspect, "show what a code object or launch plan holds"},
    {"lint", "quern lint", verb_lint, "scan a code object for hazards and missing waits"},
    {"explain", "quern explain", verb_explain, "say which kernel serves a layer, and why"},
    {"bench", "quern bench", verb_bench, "compare with a peer's kernels on the software GPU"},
    {"targets", "quern targets", verb_targets, "list the GPUs that there are kernels for"},
    {"cache", "quern cache", verb_cache, "look after the cache of kernels"},
    {"bundle", "quern bundle", verb_bundle, "many kernels in one file, signed or not"},
    {"quantize", "quern quantize", verb_quantize, "quantise a weight matrix"},
    {"repack", "quern repack", verb_repack, "reorder int4 weights, or read a checkpoint's"},
    {"tune", "quern tune", verb_tune, "measure shapes of kernels on a GPU, and note the fastest"},
    {"probe", "quern probe", verb_probe, "measure what kernels assume of a GPU"},
    {"time", "quern time", verb_time, "measure a layer on a GPU"},
    {"doctor", "quern doctor", verb_doctor, "check compiler, worker, cache and device"},
};
#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

static const struct verb *find(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

static void print_help(void)
{
    printf("Usage: quern VERB [OPTION]... [ARGUMENT]...\n"
           "Makes GPU kernels for the linear layers of a model, to order.\n\nVerbs:\n");
    for (size_t i = 0; i < VERB_COUNT; i++)
        printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    printf("\n'quern VERB --help' shows the options of a verb; man quern tells the rest.\n"
           "Exit status: 0 done, 1 the work failed, 2 the request made no sense.\n");
}

static int unknown_verb(const char *name)
{
    char list[256] = "";

    for (size_t i = 0; i < VERB_COUNT; i++) {
        strcat(list, i ? ", " : "");
        strcat(list, verbs[i].name);
    }
    return misuse("no verb '%s' in this version; the verbs are %s", name, list);
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN); /* a file beyond a limit is an error like any other */
    if (!begin_output())
        return fail("out of memory");
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--json"))
            command_set_json();
    if (argc < 2)
        return misuse("which verb? 'quern --help' lists them");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ||
        (!strcmp(argv[1], "help") && argc == 2)) {
        print_help();
        return finish_output();
    }
    if (!strcmp(argv[1], "--version")) {
        printf("quern %d.%d.%d\n", QUERN_VERSION_MAJOR, QUERN_VERSION_MINOR, QUERN_VERSION_PATCH);
        return finish_output();
    }
    const int help = !strcmp(argv[1], "help");
    const struct verb *verb = find(argv[help ? 2 : 1]);
    if (!verb)
        return unknown_verb(argv[help ? 2 : 1]);
    command_set_name(verb->full_name);
    if (help) {
        char option[] = "--help", *arguments[] = {argv[2], option, NULL};
        return verb->function(2, arguments);
    }
    return verb->function(argc - 1, argv + 1);
}
