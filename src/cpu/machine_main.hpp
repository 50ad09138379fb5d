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

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tuple>
#include <type_traits>

namespace machine {

struct launch {
    uint32_t grid[2] = {1, 1}, shared_bytes = 0;
    std::vector<uint64_t> arguments;
    std::vector<bool> stored; /* by parameter of the kernel: what it points to may be written */
};

static bool map_operand(const char *name, const char *path, bool written, bool late, launch &l)
{
    struct stat st;
    const int fd = open(path, written ? O_RDWR : O_RDONLY);

    if (fd < 0 || fstat(fd, &st) || !st.st_size)
        return false;
    const size_t bytes = (size_t)st.st_size;
    uint8_t *const room = (uint8_t *)mmap(nullptr, bytes + 2 * APART, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *const at = room == MAP_FAILED
                         ? MAP_FAILED
                         : mmap(room + APART, bytes, PROT_READ | (written ? PROT_WRITE : 0),
                                MAP_SHARED | MAP_FIXED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return false;
    operands.push_back(
        {(uint8_t *)at, bytes, written, late, name, std::vector<bool>(written ? bytes : 0)});
    l.arguments.push_back((uint64_t)(uintptr_t)at);
    return true;
}

static bool read_line(const char *line, launch &l)
{
    char name[64], path[4096], access[8];
    unsigned long long value;
    unsigned bytes;

    if (sscanf(line, "grid %u %u", &l.grid[0], &l.grid[1]) == 2 ||
        sscanf(line, "threads %u", &threads) == 1 ||
        sscanf(line, "shared %u", &l.shared_bytes) == 1)
        return true;
    if (sscanf(line, "seed %llu", &value) == 1) {
        random_state = value;
        return true;
    }
    if (sscanf(line, "operand %63s %4095s %7s", name, path, access) == 3) {
        const size_t index = l.arguments.size();
        const bool stored = index < l.stored.size() && l.stored[index];
        return map_operand(name, path, strcmp(access, "typed") ? !strcmp(access, "write") : stored,
                           !strcmp(access, "late"), l);
    }
    if (sscanf(line, "number %u %llu", &bytes, &value) == 2) {
        l.arguments.push_back(value);
        return true;
    }
    return false;
}

static bool read_launch(const char *path, launch &l)
{
    FILE *const file = fopen(path, "r");
    char line[4400];
    bool right = file != nullptr;

    while (right && fgets(line, sizeof line, file))
        right = read_line(line, l);
    if (!right)
        printf("cannot read the launch %s: %s\n", path, file ? line : "no such file");
    return right && threads;
}

/* An argument of a kernel: an address, or a number. */
template <class T> static T argument(uint64_t bits)
{
    T value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

template <class... T> struct call {
    void (*kernel)(T...);
    const launch *l;

    template <size_t... I> void with(std::index_sequence<I...>) const
    {
        kernel(argument<T>(l->arguments[I])...);
    }
    static void run(void *self)
    {
        static_cast<const call *>(self)->with(std::index_sequence_for<T...>());
    }
};

template <class... T> static int run_launch(const char *path, void (*kernel)(T...))
{
    launch l;

    l.stored = {!std::is_const<typename std::remove_pointer<T>::type>::value...};
    if (!read_launch(path, l))
        return 2;
    if (l.arguments.size() != sizeof...(T)) {
        printf("the launch has %zu arguments and the kernel %zu\n", l.arguments.size(),
               sizeof...(T));
        return 2;
    }
    call<T...> c = {kernel, &l};
    body = call<T...>::run;
    body_user = &c;
    for (block[1] = 0; block[1] < l.grid[1]; block[1]++)
        for (block[0] = 0; block[0] < l.grid[0]; block[0]++)
            run_block(l.shared_bytes);
    printf("done\n");
    return 0;
}

} // namespace machine

int main(int count, char **arguments)
{
    return count == 2 ? machine::run_launch(arguments[1], SYMBOL) : 2;
}

#endif
