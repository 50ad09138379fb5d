/* SPDX-License-Identifier: MIT */
/*
 * Forks at every moment at which the host's end of the helper that fetches has given memory back:
 * what the child finds is whole, and it closes its context without a word to the parent's helper.
 */
#include "base/os.h"
#include "t_context.h"
#include "t_paths.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static quern_ctx *ctx;
static bool armed;
static unsigned children, broken;
static void (*real_free)(void *);

/* Stands for os.free. */
static void free_and_fork(void *p)
{
    int status = -1;

    real_free(p);
    if (!armed)
        return;
    armed = false;
    const pid_t child = fork();
    if (child == 0) {
        quern_close(ctx);
        _exit(0);
    }
    waitpid(child, &status, 0);
    children++;
    broken += status != 0;
    armed = true;
}

/* Looks for kernels of layers that are nowhere. */
static void look(unsigned layers)
{
    char text[80];

    for (unsigned i = 1; i <= layers; i++) {
        quern_op *op = NULL;
        snprintf(text, sizeof text, "wq=nf4 n=%u k=64 a=f16", 64 * i);
        const struct quern_problem problem = t_problem(text);
        assert_int_equal(quern_op_create(ctx, &problem, 1, &op), QUERN_E_WOULD_COMPILE);
    }
}

static void fork_while_it_serves(const char *worker)
{
    char *const directory = t_temp_dir();
    struct quern_options options = QUERN_INIT(struct quern_options);

    options.target = "gfx1151";
    options.cache_dir = directory;
    options.jit = QUERN_JIT_OFF;
    options.base = QUERN_BASE_OFF;
    options.worker_path = worker;
    options.remote = "http://127.0.0.1:1"; /* where nobody listens */
    options.remote_trust = QUERN_REMOTE_TRUST_TRANSPORT;
    assert_int_equal(quern_open(&options, &ctx), QUERN_OK);
    real_free = os.free;
    os.free = free_and_fork;
    children = broken = 0;
    armed = true;
    look(3);
    armed = false;
    os.free = real_free;
    quern_close(ctx);
    t_remove(directory);
    assert_true(children > 10);
    if (broken)
        fail_msg("%u of %u children did not end well", broken, children);
}

static void a_child_of_a_host_whose_helper_answers(void **state)
{
    (void)state;
    fork_while_it_serves(NULL);
}

/* Beside the path of the worker the helper is looked for. */
static void a_child_of_a_host_whose_helper_ends(void **state)
{
    char *const directory = t_temp_dir(), line[PATH_MAX + 64], worker[PATH_MAX];

    (void)state;
    snprintf(line, sizeof line, "cp /bin/true '%s/quern-remote'", directory);
    assert_int_equal(system(line), 0);
    snprintf(worker, sizeof worker, "%s/quern-worker", directory);
    fork_while_it_serves(worker);
    t_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_of_a_host_whose_helper_answers),
        cmocka_unit_test(a_child_of_a_host_whose_helper_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
