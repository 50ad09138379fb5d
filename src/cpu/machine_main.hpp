/* SPDX-License-Identifier: MIT */
/*
 * The program around a kernel on the CPU's multiprocessor (machine.h): reads a launch from a text
 * file, runs it, and prints "done" or "fault: …" in one line. Exit status 0, 3 for a fault, 2 where
 * the launch could not be read. Lines of a launch, arguments in the kernel's order:
 *
 *     grid X Y | threads N | shared BYTES | seed S
 *     operand NAME FILE read|write     an address: that of the file, mapped
 *     operand NAME FILE late           read, and the launch in front may write it
 *     operand NAME FILE typed          written if the kernel's parameter is no pointer to const
 *     number BYTES VALUE               4 or 8 bytes
 */
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

    return run(path, stored, sizeof...(T), call<T...>::body, &kernel);
}

} // namespace machine

int main(int count, char **arguments)
{
    return count == 2 ? machine::run_kernel(arguments[1], SYMBOL) : 2;
}

#endif
