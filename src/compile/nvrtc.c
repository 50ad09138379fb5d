/* SPDX-License-Identifier: MIT */
/* NVIDIA's compiler: NVRTC of CUDA 12.9 and later, which needs no GPU, driver or header. */
#include "base/installed.h"
#include "base/os.h"
#include "base/place.h"
#include "compile/compilers.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The first release that has every option that kernels are compiled with (-no-cache). */
#define LEAST_MAJOR 12
#define LEAST_MINOR 9

struct builtins {
    unsigned major; /* wanted */
    int minor;      /* of the newest one so far; -1: none */
    char path[PLACE_MAX];
};

/* Takes DIRECTORY/libnvrtc-builtins.so.MAJOR.MINOR if it is of the release, and newer. */
static bool take_builtins(void *user, const char *path)
{
    struct builtins *const b = user;
    unsigned major, minor;
    int end = 0;

    const char *const slash = strrchr(path, '/');
    if (sscanf(slash, "/libnvrtc-builtins.so.%u.%u%n", &major, &minor, &end) != 2 || slash[end] ||
        major != b->major || (int)minor <= b->minor)
        return false;
    b->minor = (int)minor;
    snprintf(b->path, sizeof b->path, "%s", path);
    return false;
}

/* NVRTC has the major number in its soname, and opens its built-ins, whose name has the minor one
 * too, by name: a release is told by them. */
static bool libraries_in(const char *directory, struct toolchain *t)
{
    char name[32];

    for (unsigned major = 13; major >= LEAST_MAJOR; major--) {
        struct builtins b = {.major = major, .minor = -1};
        snprintf(name, sizeof name, "libnvrtc.so.%u", major);
        if (!place_first(directory, (const char *const[]){name}, 1, t->library[LIBRARY_COMPILER]))
            continue;
        installed_versions(directory, "libnvrtc-builtins.so.", take_builtins, &b);
        if (b.minor < (major == LEAST_MAJOR ? LEAST_MINOR : 0))
            continue;
        snprintf(t->library[LIBRARY_BUILTINS], sizeof t->library[0], "%s", b.path);
        return true;
    }
    t->library[LIBRARY_COMPILER][0] = 0;
    return false;
}

struct look {
    bool (*look)(void *user, const char *root);
    void *user;
};

/* The packages of NVIDIA in a directory of Python's library: those that torch's wheels bring. */
static bool in_python(void *user, const char *library)
{
    static const char *const packages[] = {"site-packages", "dist-packages"};
    const struct look *const l = user;
    char root[PLACE_MAX];

    for (size_t i = 0; i < COUNT(packages); i++)
        if (place_join(root, "%s/%s/nvidia", library, packages[i]) && place_exists(root) &&
            l->look(l->user, root))
            return true;
    return false;
}

static bool in_prefix(const struct look *l, const char *prefix, size_t length)
{
    char lib[PLACE_MAX];

    return place_join(lib, "%.*s/lib", (int)length, prefix) &&
           installed_versions(lib, "python3", in_python, (void *)l);
}

/* The packages of each python3 on the path: of a virtual environment, Conda's, the system's. */
static bool in_pythons(const struct look *l)
{
    const char *at = secure_getenv("PATH"), *const home = secure_getenv("HOME");
    char path[PLACE_MAX];

    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        if (n > 4 && !strncmp(at + n - 4, "/bin", 4) &&
            place_join(path, "%.*s/python3", (int)n, at) && place_exists(path) &&
            in_prefix(l, at, n - 4))
            return true;
    }
    return in_prefix(l, "/usr/local", strlen("/usr/local")) ||
           (home && place_join(path, "%s/.local", home) && in_prefix(l, path, strlen(path)));
}

/* NVIDIA's packages that this process has a library of, or the directory of its NVRTC. */
static int note_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
    static const char package[] = "-packages/nvidia/";
    const char *const inside = strstr(info->dlpi_name, package), *const slash =
                                                                     strrchr(info->dlpi_name, '/');
    const char *const end = inside ? inside + sizeof package - 2
                            : slash && !strncmp(slash, "/libnvrtc.so", strlen("/libnvrtc.so"))
                                ? slash
                                : NULL;

    (void)size;
    return end && place_join(user, "%.*s", (int)(end - info->dlpi_name), info->dlpi_name);
}

static bool roots(bool (*look)(void *user, const char *root), void *user)
{
    const struct look l = {look, user};
    char loaded[PLACE_MAX];

    return (dl_iterate_phdr(note_loaded, loaded) && look(user, loaded)) ||
           look(user, "/usr/local/cuda") || installed_versions("/usr/local", "cuda-", look, user) ||
           in_pythons(&l);
}

/* Below a toolkit, below the packages of Python, and what setup-cuda unpacks. */
static const char *const places[] = {"lib64",
                                     "cu13/lib",
                                     "cuda_nvrtc/lib",
                                     "nvidia/cu13/lib",
                                     "nvidia/cuda_nvrtc/lib",
                                     "targets/x86_64-linux/lib",
                                     "lib",
                                     "lib/x86_64-linux-gnu",
                                     ".",
                                     NULL};

const struct compiler_kind compiler_nvidia = {
    .option = "cuda_path",
    .missing = "libnvrtc.so.12 of CUDA 12.9, or .13, with its libnvrtc-builtins beside it",
    .advice = "set QUERN_CUDA_PATH to a directory that has it, or run `make setup-cuda` in quern's "
              "source tree, which fetches it from NVIDIA",
    .prefix = "nvrtc",
    .code = "CUBIN",
    .target = "-arch=",
    .file = "quern.cu",
    .environment = "",
    .trial = "extern \"C\" __global__ void k(float *p) { p[0] += 1; }\n",
    .trial_options = "-std=c++17\n--minimal\n-default-device\n-no-cache\n-diag-error=1097",
    .libraries = {"nvrtc", "builtins"},
    .places = places,
    .libraries_in = libraries_in,
    .variable = "CUDA_PATH",
    .roots = roots,
    .built = "cuda",
};
