/* SPDX-License-Identifier: MIT */
/*
 * The calls of quern.h and weights.h for hosts in C++, from C++11 on: handles that close themselves
 * and structs that begin as QUERN_INIT makes them. Header only; it throws nothing, needs neither
 * exceptions nor RTTI, and adds no rules: what a function does, blocks on, returns and may be
 * called from is what the C function of that name says. A status is returned, and last_error() has
 * the details.
 *
 * Ops and buffers may be closed before their context or after it; a launch needs it open.
 */
#ifndef QUERN_QUERN_HPP
#define QUERN_QUERN_HPP

#include <quern/weights.h>

namespace quern
{

/* A struct with `size` whose other fields are 0, and which passes as the C struct everywhere. */
template <class T> struct Sized : T {
    Sized() : T() { this->size = sizeof(T); }
};

typedef Sized<quern_options> Options;
typedef Sized<quern_device_info> DeviceInfo;

struct Problem : Sized<quern_problem> {
    quern_status parse(const char *text) { return quern_problem_parse(text, this); }
    quern_status text(char *to, size_t bytes) const { return quern_problem_text(this, to, bytes); }
    quern_status operands(int64_t m, quern_operand *operands, size_t *count) const
    {
        return quern_problem_operands(this, m, operands, count);
    }
    quern_status repack(quern_layout to, const void *b, void *out) const
    {
        return quern_repack(this, to, b, out);
    }
    /* Of op=moe, with the block_rows of Op::block_rows; align of op=moe_align, too. */
    quern_status slots(int64_t m, int64_t *slots) const { return quern_moe_slots(this, m, slots); }
    quern_status align(int64_t m, const int32_t *topk_ids, int32_t *rows_out, int32_t *experts_out,
                       int32_t *rows_used_out) const
    {
        return quern_moe_align(this, m, topk_ids, rows_out, experts_out, rows_used_out);
    }
};

struct Args : Sized<quern_args> {
    quern_status set(const char *name, const void *address)
    {
        return quern_args_set(this, name, address);
    }
    void *get(const char *name) const { return quern_args_get(this, name); }
    /* All operands of a problem, in the order of Problem::operands. */
    quern_status set_all(const quern_problem &problem, const void *const *addresses, size_t count)
    {
        return quern_problem_args(&problem, addresses, count, this);
    }
};

inline const quern_error &last_error()
{
    return *quern_last_error();
}

/* Owns one handle of the C interface, which it closes. It can be moved, and not be copied. */
template <class T, void (*close_it)(T *)> class Handle
{
    T *handle_;

  public:
    Handle() : handle_(nullptr) {}
    explicit Handle(T *handle) : handle_(handle) {}
    Handle(Handle &&other) noexcept : handle_(other.release()) {}
    Handle &operator=(Handle &&other) noexcept
    {
        if (this != &other)
            reset(other.release());
        return *this;
    }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() { close_it(handle_); /* null is allowed */ }

    T *get() const { return handle_; }
    explicit operator bool() const { return handle_ != nullptr; }
    /* Gives the handle up: the caller closes it. */
    T *release()
    {
        T *const handle = handle_;
        handle_ = nullptr;
        return handle;
    }
    /* Closes the handle, and owns another in its place. */
    void reset(T *handle = nullptr)
    {
        close_it(handle_);
        handle_ = handle;
    }

  protected:
    /* Takes over what a C function made, if it did. */
    quern_status made(quern_status status, T *handle)
    {
        if (status == QUERN_OK)
            reset(handle);
        return status;
    }
};

class Op : public Handle<quern_op, quern_op_release>
{
    friend class Context;

  public:
    quern_status launch(const quern_args &args, int64_t m, void *stream = nullptr) const
    {
        return quern_op_launch(get(), &args, m, stream);
    }
    quern_status ready() const { return quern_op_ready(get()); }
    unsigned generation() const { return quern_op_generation(get()); }
    quern_status block_rows(int64_t m, int *rows) const
    {
        return quern_op_block_rows(get(), m, rows);
    }
    size_t workspace(int64_t m) const { return quern_op_workspace(get(), m); }
    size_t explain(int64_t m, char *text, size_t size) const
    {
        return quern_op_explain(get(), m, text, size);
    }
};

/* Memory of a context's device, the only one that a software GPU sees. */
class Buffer : public Handle<quern_buffer, quern_buffer_destroy>
{
    friend class Context;

  public:
    void *address() const { return quern_buffer_address(get()); }
    quern_status write(const void *from, size_t bytes)
    {
        return quern_buffer_write(get(), from, bytes);
    }
    quern_status read(void *to, size_t bytes) const { return quern_buffer_read(get(), to, bytes); }
};

class Context : public Handle<quern_ctx, quern_close>
{
  public:
    quern_status open() { return open_with(nullptr); }
    quern_status open(const quern_options &options) { return open_with(&options); }
    /* `flags`: those of enum quern_op_flags. */
    quern_status create(const quern_problem &problem, int64_t m_max, Op &op, unsigned flags = 0)
    {
        quern_op *made = nullptr;
        const quern_status status = quern_op_create_flags(get(), &problem, m_max, flags, &made);
        return op.made(status, made);
    }
    quern_status create_on(const quern_problem &problem, int64_t m_max, void *stream, Op &op)
    {
        quern_op *made = nullptr;
        const quern_status status = quern_op_create_on(get(), &problem, m_max, stream, &made);
        return op.made(status, made);
    }
    quern_status device(quern_device_info &info) const { return quern_ctx_device(get(), &info); }
    /* `access`: of enum quern_access. */
    quern_status create_buffer(size_t bytes, int access, Buffer &buffer, const char *name = nullptr)
    {
        quern_buffer *made = nullptr;
        const quern_status status = quern_buffer_create(get(), bytes, access, name, &made);
        return buffer.made(status, made);
    }
    quern_status prewarm(const quern_problem *problems, size_t count, int64_t m_max,
                         quern_progress_fn progress = nullptr, void *user = nullptr)
    {
        return quern_prewarm(get(), problems, count, m_max, progress, user);
    }
    quern_status preload(const char *path) { return quern_preload(get(), path); }
    quern_status stats(uint64_t *values, size_t count) const
    {
        return quern_stats(get(), values, count);
    }
    bool all_served() const { return quern_all_served(get()) != 0; }

  private:
    quern_status open_with(const quern_options *options)
    {
        quern_ctx *ctx = nullptr;
        const quern_status status = quern_open(options, &ctx);
        return made(status, ctx);
    }
};

/* The operands that quantising or importing makes, on the host. It can be moved, and not be copied.
 */
class Weights
{
    quern_quantized operands_[QUERN_OPERANDS_MAX];
    size_t count_;

    quern_status taken(quern_status status, const quern_quantized *made, size_t count)
    {
        if (status != QUERN_OK)
            return status;
        clear();
        for (size_t i = 0; i < count; i++)
            operands_[i] = made[i];
        count_ = count;
        return status;
    }

  public:
    Weights() : operands_(), count_(0) {}
    Weights(Weights &&other) noexcept : operands_(), count_(0)
    {
        *this = static_cast<Weights &&>(other);
    }
    Weights &operator=(Weights &&other) noexcept
    {
        if (this != &other) {
            taken(QUERN_OK, other.operands_, other.count_);
            other.count_ = 0;
        }
        return *this;
    }
    Weights(const Weights &) = delete;
    Weights &operator=(const Weights &) = delete;
    ~Weights() { clear(); }

    /* w: f32 [N,K]. */
    quern_status quantize(const quern_problem &problem, const float *w)
    {
        quern_quantized made[QUERN_OPERANDS_MAX];
        size_t count = 0;
        const quern_status status = quern_quantize(&problem, w, made, &count);
        return taken(status, made, count);
    }
    quern_status import_checkpoint(const quern_problem &problem, const quern_checkpoint &checkpoint)
    {
        quern_quantized made[QUERN_OPERANDS_MAX];
        size_t count = 0;
        const quern_status status = quern_import(&problem, &checkpoint, made, &count);
        return taken(status, made, count);
    }
    /* w: f32 [N,K], which is written. */
    quern_status dequantize(const quern_problem &problem, float *w) const
    {
        return quern_dequantize(&problem, operands_, count_, w);
    }
    void clear()
    {
        quern_quantized_free(operands_, count_);
        count_ = 0;
    }

    size_t size() const { return count_; }
    const quern_quantized *begin() const { return operands_; }
    const quern_quantized *end() const { return operands_ + count_; }
};

} /* namespace quern */
#endif
