/* SPDX-License-Identifier: MIT */
/*
 * Prints what the planner says of 49 layers of language models: as CSV, of all targets or of those
 * named (docs/sweep.csv has them all), or with --svg as the chart in docs/sweep.svg, or with
 * --crossover that in docs/crossover.svg. Run it in the top directory: bitsandbytes' counts are in
 * a file there.
 */
#include "crossover.h"
#include "sweep.h"

#include <stdlib.h>

static void stop(const char *what)
{
    fprintf(stderr, "sweep: %s\n", what);
    exit(1);
}

static bool print_csv(int argc, char **argv)
{
    const char *targets[32];
    struct sweep_peers peers;

    if (argc > 32)
        stop("too many targets");
    for (int i = 1; i < argc; i++) {
        targets[i - 1] = argv[i];
        if (!target_named(argv[i]))
            stop("usage: sweep [--svg | TARGET...], e.g. sweep gfx1151 gfx942");
    }
    if (!sweep_peers_read(&peers))
        stop(SWEEP_PEER " cannot be read; run it in the top directory");
    if (argc > 1)
        return sweep_csv(stdout, &peers, targets, (size_t)argc - 1);
    return sweep_csv(stdout, &peers, sweep_targets, SWEEP_COUNT(sweep_targets));
}

int main(int argc, char **argv)
{
    const bool chart = argc == 2 && !strcmp(argv[1], "--svg");
    const bool crossover = argc == 2 && !strcmp(argv[1], "--crossover");

    if (!(chart ? sweep_svg(stdout) : crossover ? crossover_svg(stdout) : print_csv(argc, argv)))
        stop(quern_last_error()->message);
    if (fflush(stdout) || ferror(stdout))
        stop("standard output cannot be written");
    return 0;
}
