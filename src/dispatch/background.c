/* SPDX-License-Identifier: MIT */
/*
 * Making what an op needs for its rows, on the caller's thread or on one of the library's
 * (QUERN_OP_NO_WAIT). An op has at most one thread of the library, which also makes what is asked
 * for while it runs. It is joined when the op is freed or needs another.
 */
#include "dispatch/dispatch.h"

#include "base/os.h"
#include "base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

quern_status op_make(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit)
{
    TRY(op_grow(op, plans, m_max, jit));
    op_blas_prepare(op, plans, m_max, jit);
    return QUERN_OK;
}

static void keep_failure(struct background *b)
{
    if (!b->failure)
        b->failure = os.calloc(1, sizeof *b->failure);
    if (b->failure) /* without memory for the record, the status alone is kept */
        error_save(b->failure);
}

static void *make(void *user)
{
    quern_op *const op = user;
    struct background *const b = &op->background;
    struct plan_set plans;

    lock_take(&b->lock);
    do {
        const int64_t m_max = b->wanted;
        const enum quern_jit jit = b->jit;
        plans = *b->plans;
        lock_give(&b->lock);
        quern_status status = op_make(op, &plans, m_max, jit);
        if (status != QUERN_OK && atomic_load(&op->base))
            op_keeps_base(op, status);
        else
            status = op_fall_back(op, m_max, status);
        lock_take(&b->lock);
        b->status = status;
        if (status != QUERN_OK)
            keep_failure(b);
    } while (b->status == QUERN_OK && !op_covers(op, b->wanted) &&
             atomic_load(&op->stuck) < b->wanted);
    b->running = false;
    lock_give(&b->lock);
    return NULL;
}

/* Whether the op's thread runs in this process: in a forked child it is the parent's and does not
 * exist. The caller holds the lock. */
static bool is_running(const struct background *b)
{
    return b->running && b->process == (int)getpid();
}

/* Raises what the thread is to make to m_max rows, if it is less. The caller holds the lock. False:
 * out of memory. */
static bool want(struct background *b, const struct plan_set *plans, int64_t m_max)
{
    if (!b->plans)
        b->plans = os.malloc(sizeof *b->plans);
    if (b->plans && m_max > b->wanted) {
        b->wanted = m_max;
        *b->plans = *plans;
    }
    return b->plans != NULL;
}

quern_status background_start(quern_op *op, const struct plan_set *plans, int64_t m_max,
                              enum quern_jit jit)
{
    struct background *const b = &op->background;

    lock_take(&b->lock);
    b->jit = jit;
    int error = want(b, plans, m_max) ? 0 : ENOMEM;
    if (!error && !is_running(b)) {
        if (b->process == (int)getpid())
            pthread_join(b->thread, NULL);
        b->process = 0;
        b->status = QUERN_OK;
        b->running = true;
        error = thread_start(&b->thread, make, op);
        if (error)
            b->running = false;
        else
            b->process = (int)getpid();
    }
    lock_give(&b->lock);
    /* where no thread can be started, the caller's does the work */
    return error ? op_make(op, plans, m_max, jit) : QUERN_OK;
}

quern_status background_state(quern_op *op)
{
    struct background *const b = &op->background;
    quern_status status = QUERN_OK;

    lock_take(&b->lock);
    if (is_running(b))
        status = error_set(QUERN_E_NOT_READY, __FILE__, FAIL_AT(""),
                           "kernels of %s are still being made", op->text);
    else if (b->status != QUERN_OK)
        status = b->failure ? error_restore(b->failure)
                            : error_set(b->status, __FILE__, FAIL_AT(""),
                                        "kernels of %s could not be made", op->text);
    else if (!op_covers(op, b->wanted ? b->wanted : 1) && !atomic_load(&op->kernels) &&
             !atomic_load(&op->stuck))
        status = error_set(QUERN_E_NOT_READY, __FILE__, FAIL_AT(""),
                           "nothing makes the kernels of %s; ask for the op again", op->text);
    lock_give(&b->lock);
    return status;
}

void background_end(quern_op *op)
{
    struct background *const b = &op->background;

    if (b->process == (int)getpid())
        pthread_join(b->thread, NULL);
    b->process = 0;
    os.free(b->plans);
    b->plans = NULL;
    os.free(b->failure);
    b->failure = NULL;
}
