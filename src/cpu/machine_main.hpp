/* SPDX-License-Identifier: MIT */
/* The program around a kernel on the CPU's multiprocessor (machine.hpp): main, and how a kernel, a
 * function of any parameters, is called with arguments that machine.cpp has read from a file. */
#ifndef QUERN_CPU_MACHINE_MAIN_H
#define QUERN_CPU_MACHINE_MAIN_H

#include <utility>

namespace machine
{

/* An argument of a kernel: an address, or a number. */
template <class T> static T argument(uint64_t bits)
{
    T value;

    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T> struct is_stored {
    static const bool value = true;
};
template <class T> struct is_stored<const T *> {
    static const bool value = false;
};

template <class... T> struct call {
    template <size_t... I>
    static void with(void (*kernel)(T...), const uint64_t *arguments, std::index_sequence<I...>)
    {
        kernel(argument<T>(arguments[I])...);
    }
    static void body(const void *kernel, const uint64_t *arguments)
    {
        with(*static_cast<void (*const *)(T...)>(kernel), arguments,
             std::index_sequence_for<T...>());
    }
};

template <class... T> static int run_kernel(const char *path, void (*kernel)(T...))
{
    const bool stored[] = {is_stored<T>::value..., false};

    return run(path, stored, sizeof...(T), call<T...>::body, &kernel, CLUSTER);
}

} // namespace machine

int main(int count, char **arguments)
{
    return count == 2 ? machine::run_kernel(arguments[1], SYMBOL) : 2;
}

#endif
