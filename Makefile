# SPDX-License-Identifier: MIT
# quern: `make` builds it, and `make help` lists what else can be made.
# This file is long because all that is built, tested and installed has its rule here.
# B is the build directory, SAN a list for -fsanitize: make B=build/asan SAN=address,undefined all

B      ?= build/release
SAN    ?=
ifeq ($(origin CC),default)
CC     := gcc
endif
DEPS   := build/deps
ROCM   := build/rocm

# What a sanitizer instruments takes the compiler twice as long at -O2, and runs little faster.
CFLAGS   ?= $(if $(SAN),-O1 -g1,-O2 -g)
WARN     := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
            -Wno-missing-field-initializers -Wno-psabi
STD      := -std=c11 -D_GNU_SOURCE
DEPINC   := $(if $(wildcard $(DEPS)/usr),-isystem $(DEPS)/usr/include)
override CPPFLAGS += -Iinclude -Isrc -I$(B)/gen $(DEPINC)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
# A section for each function and object, so that the shared library leaves out what the command
# alone uses.
COMPILE  = $(CC) $(STD) $(CPPFLAGS) $(CFLAGS) $(SANFLAGS) $(WARN) -fPIC -fvisibility=hidden \
           -ffunction-sections -fdata-sections -pthread -MMD -MP
comma    := ,
DEPDIR   := $(DEPS)/usr/lib/x86_64-linux-gnu
DEPLIB   := $(if $(wildcard $(DEPS)/usr),-L$(DEPDIR) -Wl$(comma)-rpath$(comma)$(abspath $(DEPDIR)))
LDLIBS   := -pthread -ldl -lm
# Inside the library, so that hosts need none of their own: zstd for offload bundles, sodium for
# the signatures of bundles (the command has it once more, to make them).
SODIUM   := -l:libsodium.a
INSIDE   := $(if $(wildcard $(DEPS)/usr),-L$(DEPS)/usr/lib/x86_64-linux-gnu) -l:libzstd.a $(SODIUM)
# Of the command alone: regular expressions of configurations.
PCRE2    := -l:libpcre2-8.a
# `make V=1` shows the commands.
Q        := $(if $(V),,@)
say       = @printf '  %-6s %s\n' $(1) $(2)
# Writes a text to the target, which stays as old as it is if it holds that already.
keep      = $(Q)mkdir -p $(@D); printf '%s' '$(1)' | cmp -s - $@ || printf '%s' '$(1)' > $@

# ---- the library --------------------------------------------------------------------------------
# The software GPU's instruction bodies, src/sim/exec/, are not in the library: they are shared
# libraries of their own beside the worker, one for each instruction set, loaded when a software GPU
# is opened. Sanitized builds, which stay on the machine that makes them, have one set under the
# plain name, with the instructions that this machine has: the other sets are the same source.
# `make check` compiles those that this machine can run: a set takes as long as all else together.
ISAS     ?= x86_64 x86_64_v3 x86_64_v4
RUNNABLE := $(if $(shell grep -sw avx2 /proc/cpuinfo),x86_64_v3) \
            $(if $(shell grep -sw avx512dq /proc/cpuinfo),x86_64_v4)
PLAIN    := x86-64$(if $(SAN),$(if $(filter x86_64_v3,$(RUNNABLE)),-v3))
EXEC_SRC := $(wildcard src/sim/exec/*.c src/sim/exec/*/*.c)
BODIES   := $(patsubst %,$(B)/libexec/quern/quern-sim-%.so,$(if $(SAN),x86_64,$(ISAS)))
LIB_SRC  := $(filter-out $(EXEC_SRC) src/compile/worker%.c src/compile/remote_helper%.c,\
              $(wildcard src/*/*.c src/*/*/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/%.o) $(B)/gen/templates.o $(B)/gen/base_shipped.o
WORKER_SRC := $(wildcard src/compile/worker*.c)
# Shares with the worker how it is confined, and how frames are read and written.
REMOTE_SRC := $(wildcard src/compile/remote_helper*.c) \
              $(addprefix src/compile/worker_,calls.c frames.c library.c reply.c sandbox.c)
TOOL_SRC := $(filter-out tools/bnb/%,$(wildcard tools/*/*.c))
# AMD's, and below cuda/ NVIDIA's.
TEMPLATES := $(sort $(wildcard templates/*/*.hip templates/cuda/*/*.cu))

WORKER   := $(B)/libexec/quern/quern-worker
REMOTE   := $(B)/libexec/quern/quern-remote
COMMAND  := $(B)/bin/quern
BNB      := $(B)/lib/libquern_bnb.so

# What a failed command left half written would count as made.
.DELETE_ON_ERROR:

# On all CPUs, unless the caller's make says how many.
JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$$(nproc))

.PHONY: all demo check check-hw check-long setup setup-build setup-compile setup-cuda clean \
        format tables examples fakehip tests sanitized
all: setup-build
	@$(MAKE) --no-print-directory $(JOBS) build

define HELP
make               the library, the command and the examples, in build/release
make demo          sets up a compiler and makes, verifies and runs a model's kernels, without a GPU
make install       installs into PREFIX, /usr/local unless it is given (and DESTDIR, LIBDIR)
make uninstall     removes from PREFIX what make install puts there
make wheel         the Python package for pip, in build/release/wheel
make base          base kernels, which make install and make wheel then take: for BASE_TARGETS
make setup-cuda    fetches NVIDIA's compiler, which kernels for its GPUs need
make check         every test, under three sanitizers too
make check-hw      the tests that judge kernels on the GPU of this machine
make bench         what launches, lookups and compiles cost on this machine
make clean         removes what was built, but not what was fetched
With V=1 commands are shown. CONTRIBUTING.md has more, for whoever changes quern.
endef
.PHONY: help
help:
	@:$(info $(HELP))

.PHONY: build
build: $(B)/lib/libquern.a $(B)/lib/libquern.so $(BNB) $(COMMAND) $(WORKER) $(REMOTE) $(BODIES) \
       examples

# What a program needs that is linked with the checkout's library: see CMakeLists.txt.
.PHONY: hosts
hosts: setup-build
	@$(MAKE) --no-print-directory $(JOBS) $(B)/lib/libquern.a $(WORKER) $(REMOTE) $(BODIES)

# DEVICE=cuda is for NVIDIA's GPUs alone: it builds the same, and fetches nothing of AMD's.
DEVICE ?=
SETUP  := build/.setup$(DEVICE:%=-%)
# What the tests need, too; setup-build: what building, installing and the demo do; setup-compile:
# also what compiling the tests does.
setup: $(SETUP)
setup-build: $(SETUP)-build
setup-compile: $(SETUP)-compile
# NVIDIA's compiler, for those who want it: tools/setup_cuda.sh names its licence.
setup-cuda: setup-build
	@sh tools/setup_cuda.sh
$(SETUP): tools/setup.sh
	@DEVICE=$(DEVICE) sh tools/setup.sh
	@touch $@ $@-build $@-compile
$(SETUP)-compile: tools/setup.sh
	@DEVICE=$(DEVICE) sh tools/setup.sh compile
	@touch $@ $(SETUP)-build
$(SETUP)-build: tools/setup.sh
	@DEVICE=$(DEVICE) sh tools/setup.sh build
	@touch $@

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -c $< -o $@
$(B)/tools/%.o: override CPPFLAGS += -Itools

# The guest's integers wrap.
EXECFLAGS := -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math
# Sanitizers' checks in a thousand lane loops take the compiler minutes at -O3.
EXECFLAGS += -g1 $(if $(SAN),-Og,-O3)

# What is in exec/wave/ writes nothing but the registers of its wave, and their shadow, which no
# other thread sees: with ThreadSanitizer's calls in it, it runs thirty times slower and shows
# nothing. So the thread build takes the release build's objects of it, and so does the address
# build, for which they take a third of its compiler's time: WATCH_WAVES=1, as check-long has it,
# compiles them for AddressSanitizer.
WATCH_WAVES ?=
ifneq ($(filter thread,$(SAN))$(if $(WATCH_WAVES),,$(SAN)),)
UNWATCHED    := $(filter $(B)/src/sim/exec/wave/%,$(EXEC_SRC:%.c=$(B)/%.x86_64.o))
WAVE_ISA     := $(or $(filter x86_64_v3,$(RUNNABLE)),x86_64)
RELEASE_WAVE := $(UNWATCHED:$(B)/%.x86_64.o=build/release/%.$(WAVE_ISA).o)
$(RELEASE_WAVE) &: always
	@+$(MAKE) --no-print-directory B=build/release SAN= $(RELEASE_WAVE)
endif

# gen/waves names the objects that a library of bodies is linked from. Make compares times alone: it
# would keep a library of the release build's objects where WATCH_WAVES asks for others.
$(B)/gen/waves: always
	$(call keep,$(or $(RELEASE_WAVE),its own))

# Bodies call nothing outside their library but libc's and libm's functions.
define EXEC_RULE
$(B)/src/sim/exec/%.$(1).o: src/sim/exec/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(COMPILE) $$(EXECFLAGS) -march=$(2) -c $$< -o $$@
$(B)/src/sim/exec/exec_export.$(1).o: $(B)/gen/sim_stamp.h
$(B)/libexec/quern/quern-sim-$(1).so: $(filter-out $(UNWATCHED),$(EXEC_SRC:%.c=$(B)/%.$(1).o)) \
    $(RELEASE_WAVE) $(B)/src/sim/fault.o $(B)/src/sim/guest.o $(B)/gen/waves
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) -shared $$(SANFLAGS) $$(if $$(SAN),,-Wl$$(comma)--no-undefined) -o $$@ \
	    $$(filter %.o,$$^) -pthread -lm
endef
$(eval $(call EXEC_RULE,x86_64,$(PLAIN)))
ifeq ($(SAN),)
$(eval $(call EXEC_RULE,x86_64_v3,x86-64-v3))
$(eval $(call EXEC_RULE,x86_64_v4,x86-64-v4))
endif

# ---- base kernels -------------------------------------------------------------------------------
# `make base`: the bundles of base kernels, build/base/TARGET.qkb, that installed libraries and
# wheels carry, and the build's own library serves from. BASE_TARGETS: which targets. Some minutes;
# equal sources and compilers give equal bytes. BASE: where `make install` takes them from. Those of
# NVIDIA's targets are left out unless they are named: nothing scans their code.
# bench_base is linked again if it is there: it holds the library's objects, and with the digests of
# before it would take the new bundles for a stranger's.
BASE ?= build/base
BASE_TARGETS ?= $(shell $(COMMAND) targets --json | python3 -c 'import json, sys; \
    print(*(t["name"] for t in json.load(sys.stdin) if t["verified"] and t["vendor"] == "AMD"))')
# What is installed: of the targets that were named, or else all that there is.
BASE_FILES = $(if $(filter file,$(origin BASE_TARGETS)),$(wildcard $(BASE)/*.qkb),\
               $(BASE_TARGETS:%=$(BASE)/%.qkb))
.PHONY: base
base: all
	@targets='$(strip $(BASE_TARGETS))' && test -z "$$targets" || \
	  python3 tools/base.py make $(COMMAND) build/base "$$(echo $$targets | tr ' ' ,)"
	@ln -sfn ../../../base $(B)/libexec/quern/base
	@$(MAKE) --no-print-directory -j$$(nproc) build $(wildcard $(B)/tests/bench/bench_base)

# Another stamp when any header changes that says how the library and the bodies share memory.
$(B)/src/sim/bodies.o: $(B)/gen/sim_stamp.h
$(B)/gen/sim_stamp.h: $(sort $(wildcard src/sim/*.h src/sim/*/*.h src/sim/exec/wave/*.h \
                                        include/quern/*.h) src/object/object.h src/target/target.h)
	@mkdir -p $(@D)
	$(Q)printf '#define SIM_STAMP "%s"\n' $$(cat $^ | sha256sum | cut -c1-16) > $@.tmp
	$(Q)cmp -s $@.tmp $@ && rm $@.tmp || mv $@.tmp $@

$(B)/gen/templates.c: tools/embed.sh $(TEMPLATES)
	@mkdir -p $(@D)
	$(Q)sh tools/embed.sh $(TEMPLATES) > $@.tmp && mv $@.tmp $@
$(B)/tools/profile/profile_html.o: $(B)/gen/profile_page.h
$(B)/gen/profile_page.h: tools/embed.sh $(wildcard tools/profile/profile_page.*)
	@mkdir -p $(@D)
	$(Q)sh tools/embed.sh --text $(filter-out %.sh,$^) > $@.tmp && mv $@.tmp $@
$(B)/src/cpu/cpu.o: $(B)/gen/machine_text.h
$(B)/gen/machine_text.h: tools/embed.sh $(wildcard src/cpu/*pp)
	@mkdir -p $(@D)
	$(Q)sh tools/embed.sh --text $(filter %pp,$^) > $@.tmp && mv $@.tmp $@
# The digests of the base bundles that `make base` has made, if it has. They decide nothing about
# the bundles, so that the command which makes the bundles may be of a library with other digests.
# Its new file is named by the shell's process id, as several tests may run make at a time.
define SHIPPED_RULE
$(1)/base_shipped.c: always
	@mkdir -p $$(@D)
	$$(Q)new=$$@.$$$$$$$$ && python3 tools/base.py table $(2) > $$$$new && \
	  { cmp -s $$$$new $$@ && rm $$$$new || mv $$$$new $$@; }
$(1)/base_shipped.o: $(1)/base_shipped.c
	$$(call say,CC,$$@)
	$$(Q)$$(COMPILE) -c $$< -o $$@
endef
$(eval $(call SHIPPED_RULE,$(B)/gen,build/base))
$(B)/gen/templates.o: $(B)/gen/templates.c
	$(call say,CC,$@)
	$(Q)$(COMPILE) -c $< -o $@

# tests reach inside: they link every object
$(B)/lib/libquern-all.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)ar rcs $@ $^

# One relocatable object whose hidden symbols are made local, so that names inside the library
# cannot clash with the host's; and the shared library. Of $(1), a directory, from the objects $(2).
define LIBRARY_RULE
$(1)/libquern.a: $(2)
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(call say,AR,$$@)
	$$(Q)$$(CC) -r -nostdlib -o $(1)/quern.o $(2) $$(INSIDE)
	$$(Q)objcopy -w --keep-global-symbol='quern_*' $(1)/quern.o
	$$(Q)ar rcs $$@ $(1)/quern.o
$(1)/libquern.so: $(2) src/quern.map
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$$(CC) -shared $$(SANFLAGS) -Wl,-soname,libquern.so.0 -Wl,--gc-sections \
	    -Wl,--version-script=src/quern.map $$(if $$(SAN),,-Wl$$(comma)--no-undefined) \
	    -o $$@ $(2) $$(INSIDE) $$(LDLIBS)
	$$(Q)ln -sf libquern.so $(1)/libquern.so.0
endef
$(eval $(call LIBRARY_RULE,$(B)/lib,$$(LIB_OBJ)))

# What bitsandbytes' native library exports, for hosts that load that: finds libquern.so beside it.
$(BNB): tools/bnb/bnb.c tools/bnb/bnb.map $(B)/lib/libquern.so
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COMPILE) -fvisibility=default -shared -MF $(B)/bnb.d -Wl,-soname,libquern_bnb.so.0 \
	    -Wl,--version-script=tools/bnb/bnb.map -Wl,-rpath,'$$ORIGIN' \
	    $(if $(SAN),,-Wl$(comma)--no-undefined) -o $@ $< $(B)/lib/libquern.so -ldl

# ---- the worker: an ordinary program that meets hipRTC and comgr by dlopen ----------------------
# Never sanitized: it runs under the toolchain's own loader and libc.
$(WORKER): $(WORKER_SRC) $(wildcard src/compile/*.h)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(STD) $(CPPFLAGS) $(CFLAGS) $(WARN) -o $@ $(WORKER_SRC) -ldl

# ---- the helper that fetches from a remote cache: meets libcurl by dlopen -----------------------
$(REMOTE): $(REMOTE_SRC) $(wildcard src/compile/*.h)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(STD) $(CPPFLAGS) $(CFLAGS) $(WARN) -o $@ $(REMOTE_SRC) -ldl

# ---- the command --------------------------------------------------------------------------------
TOOL_OBJ := $(TOOL_SRC:%.c=$(B)/%.o)
COMMAND_LINK = $(Q)$(CC) $(SANFLAGS) -o $@ $^ $(DEPLIB) -ljansson $(PCRE2) $(SODIUM) $(LDLIBS)
$(COMMAND): $(TOOL_OBJ) $(B)/lib/libquern.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(COMMAND_LINK)

# ---- HIP: its headers, for what calls the runtime itself (the library does without) --------------
HIP_INCLUDE := $(patsubst %/hip/hip_runtime_api.h,%,$(firstword $(wildcard \
    $(addsuffix /include/hip/hip_runtime_api.h,$(QUERN_ROCM_PATH) $(ROCM_PATH) $(ROCM)/usr \
                                               /opt/rocm /usr))))
ifneq ($(HIP_INCLUDE),)
FAKEHIP     := $(B)/lib/fakehip/libamdhip64.so.6
FAKEBLAS    := $(B)/lib/fakehip/libhipblaslt.so.0
FAKEHIP_OBJ := $(addprefix $(B)/tests/fakehip/,device.o graph.o memory.o module.o stream.o)
FAKECUDA    := $(B)/lib/fakecuda/libcuda.so.1
FAKECUBLAS  := $(B)/lib/fakecuda/libcublasLt.so.12
CUDA_BIN    := $(addprefix $(B)/tests/fakehip/,test_cuda test_cublas test_early)
# The suite of dispatch once more, on GPUs.
DISPATCH_HIP := $(B)/tests/fakehip/test_dispatch_hip_long
FAKEHIP_BIN := $(filter-out $(CUDA_BIN),$(patsubst %.c,$(B)/%,$(wildcard tests/fakehip/test_*.c))) \
               $(B)/tests/bench/bench_hip $(DISPATCH_HIP)
endif

# ---- examples: each folder is one program on the public interface -------------------------------
# Those of GPU_EXAMPLES own a GPU as hosts do: NAME one of HIP's, where there are HIP's headers, and
# NAME_cuda one of CUDA's, where there is cuda.h too. They are linked with a runtime of ours that
# has no place of its own on their path, so that the machine's is met.
GPU_EXAMPLES := graph threads
CUDA_INCLUDE := $(patsubst %/cuda.h,%,$(firstword $(wildcard \
    $(addsuffix /include/cuda.h,$(QUERN_CUDA_PATH) $(CUDA_PATH) /usr/local/cuda build/cuda))))
HIP_EXAMPLES  := $(if $(HIP_INCLUDE),$(GPU_EXAMPLES))
CUDA_EXAMPLES := $(if $(and $(HIP_INCLUDE),$(CUDA_INCLUDE)),$(GPU_EXAMPLES:%=%_cuda))
EXAMPLES := $(filter-out $(GPU_EXAMPLES),$(patsubst examples/%/,%,$(wildcard examples/*/))) \
            $(HIP_EXAMPLES) $(CUDA_EXAMPLES)
examples: $(EXAMPLES:%=$(B)/examples/%)
.SECONDEXPANSION:
$(EXAMPLES:%=$(B)/examples/%): $(B)/examples/%: \
    $$(wildcard $$(subst _cuda,,examples/%/)*.[ch]) $(B)/lib/libquern.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(STD) -Iinclude $(DEPINC) $(EXAMPLE_INC) $(CFLAGS) $(SANFLAGS) $(WARN) \
	    -o $@ $(filter %.c,$^) $(B)/lib/libquern.a $(EXAMPLE_LIB) $(DEPLIB) -ljansson $(LDLIBS)
# Those of MODEL_EXAMPLES read a model.
MODEL_EXAMPLES := encoder moe
$(MODEL_EXAMPLES:%=$(B)/examples/%): $(foreach part,fail safetensors,examples/$(part).c \
    examples/$(part).h)
$(HIP_EXAMPLES:%=$(B)/examples/%): examples/gpu_hip.c examples/gpu.h $(FAKEHIP)
$(CUDA_EXAMPLES:%=$(B)/examples/%): examples/gpu_cuda.c examples/gpu.h $(FAKECUDA)
$(CUDA_EXAMPLES:%=$(B)/examples/%): EXAMPLE_INC = -isystem $(CUDA_INCLUDE)
$(CUDA_EXAMPLES:%=$(B)/examples/%): EXAMPLE_LIB = $(FAKECUDA)
$(HIP_EXAMPLES:%=$(B)/examples/%): EXAMPLE_INC = -isystem $(HIP_INCLUDE)
$(HIP_EXAMPLES:%=$(B)/examples/%): EXAMPLE_LIB = $(FAKEHIP)

# ---- tests --------------------------------------------------------------------------------------
# tests/unit, tests/sim, tests/fault and tests/fuzz: one cmocka program a file, TAP on stdout.
TEST_SRC := $(wildcard tests/unit/test_*.c tests/sim/test_*.c tests/fault/test_*.c \
              tests/fuzz/test_*.c tests/vendor/test_*.c tests/cpu/test_*.c)
TEST_BIN := $(TEST_SRC:%.c=$(B)/%)
# bench_hip.c runs on fakehip, below
BENCH_BIN := $(filter-out %/bench_hip,$(patsubst %.c,$(B)/%,$(wildcard tests/bench/*.c)))
# tests/common/t_threads.c stands in for the functions that start threads.
COMMON_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/common/*.c))
WRAPPED    := pthread_create parallel_for
WRAP        = $(WRAPPED:%=-Wl,--wrap=%)
# gold, where it is there, takes two thirds of the time of ld, and make check links 340 programs.
TEST_LD    := $(if $(shell command -v ld.gold),-fuse-ld=gold)
# Most of their time is the library's, and the compiler takes half as long.
$(addsuffix .o,$(TEST_BIN)): CFLAGS = $(if $(SAN),-O0,-O1) -g1
# readers of the command's files, which are not in the library
READ_plan        := $(wildcard tools/files/*.c)
READ_model       := $(wildcard tools/model/*.c) tools/command/options.c $(READ_plan)
READ_safetensors := $(READ_plan)
READ_index       := $(READ_plan)
# the worker's, but for its main function
READ_request     := $(addprefix src/compile/worker_,serve.c frames.c reply.c library.c rtc.c \
                      comgr.c)
define READ_RULE
$(B)/tests/fuzz/test_fuzz_$(1): $(READ_$(1):%.c=$(B)/%.o)
$(B)/tests/fuzz/test_fuzz_$(1).o: override CPPFLAGS += -Itools
build/fuzz/fuzz_$(1): $(READ_$(1):%.c=build/fuzz/%.o)
endef
$(foreach target,plan model safetensors index request,$(eval $(call READ_RULE,$(target))))
$(B)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -Itests/common -c $< -o $@
$(TEST_BIN) $(BENCH_BIN): $(B)/tests/%: $(B)/tests/%.o $(COMMON_OBJ) $(B)/lib/libquern-all.a
	$(call say,LD,$@)
	$(Q)$(CC) $(SANFLAGS) $(TEST_LD) -pthread -o $@ $(filter %.o,$^) $(B)/lib/libquern-all.a \
	    $(WRAP) $(DEPLIB) $(INSIDE) -lcmocka -ljansson $(PCRE2) $(LDLIBS)
# Functions whose calls between files of the library the test counts.
$(B)/tests/unit/test_once: WRAPPED += object_parse gen_outline gen_source plan_make_up_to \
                                     plan_make_tuned problem_normalise quern_problem_text
# test_lock holds a thread inside of this function, and forks meanwhile.
$(B)/tests/unit/test_lock: WRAPPED += pthread_mutex_init

# tests/vendor: a vendor that is made up, and its compiler, which the worker loads: never sanitized.
VENDOR_OBJ := $(patsubst %.c,$(B)/%.o,$(filter-out %_compiler.c,$(wildcard tests/vendor/mill_*.c)))
$(B)/tests/vendor/libmillrtc.so: tests/vendor/mill_compiler.c tests/vendor/mill.h
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(STD) $(CPPFLAGS) $(CFLAGS) $(WARN) -Wno-missing-prototypes -shared -fPIC \
	    -o $@ $<
$(B)/tests/vendor/test_vendor: $(VENDOR_OBJ) $(B)/tests/vendor/libmillrtc.so

# tests/hw: programs for machines with a GPU; they need no library but libc.
HW_BIN := $(patsubst %.c,$(B)/%,$(wildcard tests/hw/*.c))
$(HW_BIN): $(B)/tests/%: $(B)/tests/%.o $(B)/lib/libquern-all.a
	$(call say,LD,$@)
	$(Q)$(CC) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) $(filter %.a,$^) $(INSIDE) \
	    $(LDLIBS)

# tests/fakehip: a HIP runtime whose GPUs are software GPUs, made from the real headers, and the
# programs that run on it. They find it on their run path, as hosts find the real one.
$(B)/tests/fakehip/%.o: tests/fakehip/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(COMPILE) -fvisibility=default -Itests/common -isystem $(HIP_INCLUDE) -c $< -o $@
$(FAKEHIP): $(FAKEHIP_OBJ) $(B)/tests/fakehip/fakehip.o $(B)/lib/libquern-all.a \
    tests/fakehip/fakehip.map
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(SANFLAGS) -pthread -Wl,-soname,libamdhip64.so.6 \
	    -Wl,--version-script=tests/fakehip/fakehip.map \
	    -o $@ $(filter %.o %.a,$^) $(INSIDE) $(LDLIBS)
$(B)/tests/fakehip/test_cuda_abi.o: override CPPFLAGS += $(CUDA_INCLUDE:%=-isystem %)
# The same behind the names and rules of the CUDA driver, and what runs on it: a program that finds
# fakehip beside it where it looks for a HIP runtime.
$(FAKECUDA): $(FAKEHIP_OBJ) $(addprefix $(B)/tests/fakehip/,fakecuda.o run_text.o) \
    $(B)/lib/libquern-all.a \
    tests/fakehip/fakecuda.map
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(SANFLAGS) -pthread -Wl,-soname,libcuda.so.1 \
	    -Wl,--version-script=tests/fakehip/fakecuda.map \
	    -o $@ $(filter %.o %.a,$^) $(INSIDE) $(LDLIBS)
$(CUDA_BIN): $(B)/tests/%: $(B)/tests/%.o $(COMMON_OBJ) $(B)/lib/libquern-all.a \
    $(FAKECUDA) $(FAKEHIP)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) $(filter %.a,$^) $(FAKECUDA) $(WRAP) \
	    -Wl,-rpath,$(abspath $(B)/lib/fakecuda):$(abspath $(B)/lib/fakehip) \
	    -Wl,--disable-new-dtags $(DEPLIB) $(INSIDE) -lcmocka -ljansson $(LDLIBS)
# Beside it a hipBLASLt of the host's arithmetic, found there as the real one is.
$(FAKEBLAS): $(B)/tests/fakehip/blas.o $(FAKEHIP)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(SANFLAGS) -pthread -Wl,-soname,libhipblaslt.so.0 -o $@ $^ \
	    -Wl,-rpath,'$$ORIGIN'
$(B)/tests/fakehip/test_blas: $(FAKEBLAS)
# And a cuBLASLt, beside fakecuda, for a program to load.
$(FAKECUBLAS): $(B)/tests/fakehip/cublas.o $(FAKECUDA)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(SANFLAGS) -pthread -Wl,-soname,libcublasLt.so.12 -o $@ $^ \
	    -Wl,-rpath,'$$ORIGIN'
$(B)/tests/fakehip/test_cublas: $(FAKECUBLAS)
$(B)/tests/fakehip/test_bnb_threads $(B)/tests/bench/bench_hip: $(B)/tools/bnb/bnb.o
$(B)/tests/bench/bench_hip.o: override CPPFLAGS += -Itests/fakehip
$(DISPATCH_HIP): $(B)/tests/unit/test_dispatch.o $(B)/tests/fakehip/dispatch_hip.o
$(filter-out $(DISPATCH_HIP),$(FAKEHIP_BIN)): $(B)/tests/%: $(B)/tests/%.o
$(FAKEHIP_BIN): $(COMMON_OBJ) $(B)/lib/libquern-all.a $(FAKEHIP)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) $(filter %.a,$^) $(FAKEHIP) $(WRAP) \
	    -Wl,-rpath,$(abspath $(B)/lib/fakehip) -Wl,--disable-new-dtags \
	    $(DEPLIB) $(INSIDE) -lcmocka -ljansson $(LDLIBS)

# `make all tests`: the first, a make of its own, ends before this one begins
$(LIB_OBJ) $(TOOL_OBJ) \
    $(addprefix $(B)/gen/,templates.c sim_stamp.h profile_page.h machine_text.h) \
    $(WORKER) $(REMOTE) $(BODIES) $(FAKEHIP_OBJ): \
    | $(filter all,$(MAKECMDGOALS))
fakehip: $(FAKEHIP) $(FAKEBLAS) $(FAKECUDA)
# The worker's sandbox, which is no part of the library.
$(B)/tests/fault/test_worker_attack: $(addprefix $(B)/src/compile/worker_,sandbox.o calls.o)
# What quern-remote shares with the worker; its own file is part of the test.
$(B)/tests/unit/test_remote_turns: \
    $(patsubst %.c,$(B)/%.o,$(filter-out src/compile/remote_helper.c,$(REMOTE_SRC)))

# The programs that a list of tests/ names.
listed = $(patsubst %,$(B)/%,$(shell sed -n 's/^\(tests[^ ]*\).*/\1/p' tests/$(1).txt))
# What runs in check-long alone is built for that; sanitized, programs of tests/kernels.txt too.
ALL_BIN  := $(TEST_BIN) $(FAKEHIP_BIN) $(CUDA_BIN)
KERNELS  := $(call listed,kernels)
LONG_BIN := $(filter %_long,$(ALL_BIN)) $(if $(SAN),$(KERNELS))
CHECKED  := $(filter-out $(LONG_BIN),$(ALL_BIN))
tests: $(CHECKED) $(BENCH_BIN) $(HW_BIN) $(BODIES) fakehip
.PHONY: long
long: $(LONG_BIN)

# What AddressSanitizer is to see in make check: no library of its own, example or benchmark. What
# ThreadSanitizer is to see; and what more sanitizers are to see in check-long.
THREADED := $(call listed,threads)
SANITIZED_LONG := $(call listed,long)
.PHONY: addressed threaded sanitized_long threaded_long
addressed: $(CHECKED) $(COMMAND) $(WORKER) $(REMOTE) $(BODIES) fakehip
threaded: $(filter-out $(KERNELS),$(THREADED)) $(COMMAND) $(WORKER) $(REMOTE) $(BODIES)
sanitized_long: $(SANITIZED_LONG) $(KERNELS) examples
threaded_long: $(filter $(KERNELS),$(THREADED)) $(filter $(SANITIZED_LONG),$(THREADED:%=%_long))

# `make fuzz FUZZ_SECONDS=600 FUZZ=object`: libFuzzer on the readers, so long on each, instrumented
# by clang; the rest of the library comes from the release build. Finds go to build/fuzz, inputs
# that reach new code to build/fuzz/corpus. FUZZ: which targets, of tests/fuzz/test_fuzz_*.c.
FUZZ      ?= $(patsubst tests/fuzz/test_fuzz_%.c,%,$(wildcard tests/fuzz/test_fuzz_*.c))
FUZZ_SECONDS ?= 60
FUZZ_SRC  := $(wildcard src/base/*.c src/target/*.c src/problem/*.c src/object/*.c) \
             $(wildcard src/object/*/*.c) \
             $(addprefix src/store/,entry.c key.c seal.c revoked.c claim.c source.c bundle.c \
               bundle_entry.c) \
             $(wildcard src/sim/decode/*.c) $(addprefix src/plan/,tuning.c facts.c text_table.c) \
             src/compile/process.c src/compile/compiler.c src/compile/pool.c src/compile/remote.c
FUZZCC    := clang $(STD) -DFUZZING -DFUZZ_WORKER='"build/release/libexec/quern/quern-worker"' \
             $(CPPFLAGS) -Itools -Itests/common -O1 -g -w \
             -fsanitize=address,undefined -fno-sanitize-recover=all
.PHONY: fuzz
fuzz: $(FUZZ:%=build/fuzz/fuzz_%)
	@for f in $(FUZZ); do mkdir -p build/fuzz/corpus/$$f; \
	  build/fuzz/fuzz_$$f -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=20 \
	    -rss_limit_mb=4096 \
	    -artifact_prefix=build/fuzz/$$f- -print_final_stats=1 -verbosity=0 \
	    build/fuzz/corpus/$$f tests/fuzz/corpus/$$f || exit 1; done
# The same for long, with an account of what each has had (tests/fuzz/campaign.py).
.PHONY: fuzz-campaign
fuzz-campaign: $(FUZZ:%=build/fuzz/fuzz_%)
	@python3 tests/fuzz/campaign.py $(FUZZ) --commit "$$(git rev-parse --short HEAD)"
# Whose readers have changed since then; and what each target reads with, for that script.
.PHONY: fuzz-changed fuzz-sources
fuzz-changed:
	@python3 tests/fuzz/campaign.py --changed
fuzz-sources:
	@$(foreach target,$(FUZZ),echo "$(target): $(READ_$(target))";) echo "all: $(FUZZ_SRC)"
build/fuzz/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CLANG,$@)
	$(Q)$(FUZZCC) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@
build/fuzz/fuzz_%: build/fuzz/tests/fuzz/test_fuzz_%.o $(FUZZ_SRC:%.c=build/fuzz/%.o) \
    build/release/lib/libquern-all.a build/release/libexec/quern/quern-sim-x86_64.so
	$(call say,LD,$@)
	$(Q)$(FUZZCC) -fsanitize=fuzzer -o $@ $(filter %.o,$^) build/release/lib/libquern-all.a \
	    $(DEPLIB) $(INSIDE) -ljansson $(PCRE2) $(LDLIBS)

# What the machinery around the kernels costs, in time and, where there is valgrind, instructions.
.PHONY: bench
bench: $(B)/tests/bench/bench_machinery $(B)/tests/bench/bench_compile $(WORKER)
	@mkdir -p $(B)/bench-cache
	$(Q)$(B)/tests/bench/bench_machinery $(B)/bench-cache
	$(Q)$(B)/tests/bench/bench_compile

sanitized:
	@$(MAKE) --no-print-directory $(JOBS) B=build/asan SAN=address,undefined addressed
	@$(MAKE) --no-print-directory $(JOBS) B=build/tsan SAN=thread threaded

# One test: `make test T=test_plan`, a program of tests/*/ or a Python file, release build; with
# SAN=address or SAN=thread, under those sanitizers (address is with undefined behaviour).
.PHONY: test quick
TEST_BUILD = $(if $(filter thread,$(SAN)),tsan,$(if $(SAN),asan,release))
TEST_SRC_T = $(wildcard tests/*/test_$(patsubst test_%,%,$(basename $(T))).c)
test: setup
	@test -n "$(T)" || { echo 'make test T=NAME: which test?' >&2; exit 2; }
	@$(MAKE) --no-print-directory $(JOBS) B=build/$(TEST_BUILD) \
	    SAN=$(if $(filter asan,$(TEST_BUILD)),address$(comma)undefined,$(SAN)) \
	    build $(if $(TEST_SRC_T),$(TEST_SRC_T:%.c=build/$(TEST_BUILD)/%),fakehip)
	@python3 tests/run.py --long --builds $(TEST_BUILD) --only $(T)

# Between two changes: the release build, and what of its tests takes minutes left out.
quick: setup-compile
	@$(MAKE) --no-print-directory $(JOBS) setup build tests
	@python3 tests/run.py --quick

# What these compile, and what their tests install; a set that the machine has better ones than is
# compiled and run by check-long alone.
quick check: export ISAS := $(or $(lastword $(RUNNABLE)),x86_64)
check-long: export ISAS := x86_64 $(RUNNABLE)
check: setup-compile
	@$(MAKE) --no-print-directory $(JOBS) setup build tests
	@$(MAKE) --no-print-directory sanitized
	@python3 tests/run.py

# On the GPU of this machine; the script's exit status is 77 where there is none.
check-hw: build $(B)/tests/sim/test_sim_adders
	@python3 tests/check_hw.py

# What `make check` runs, with other cases where a test walks over some of many, and what is longer.
check-long: setup-compile
	@$(MAKE) --no-print-directory $(JOBS) setup build tests long
	@$(MAKE) --no-print-directory WATCH_WAVES=1 sanitized
	@$(MAKE) --no-print-directory $(JOBS) B=build/asan SAN=address,undefined WATCH_WAVES=1 \
	  sanitized_long
	@$(MAKE) --no-print-directory $(JOBS) B=build/tsan SAN=thread threaded_long
	@python3 tests/run.py --long

# With DEVICE=cuda on the NVIDIA GPU of this machine. Programs without the objects that they are
# made of were built elsewhere: those it takes as they are, and needs no compiler.
demo: $(if $(and $(wildcard $(COMMAND)),$(if $(wildcard $(B)/src),,elsewhere)),,all)
	@DEVICE=$(DEVICE) sh tools/demo.sh

# Every table and chart that a program prints, anew; `make check` compares them. Some minutes.
tables: build tests
	$(Q)T_REGENERATE=1 B=$(B) $(B)/tests/unit/test_sweep
	$(Q)T_REGENERATE=1 B=$(B) $(B)/tests/unit/test_kernel_table
	$(Q)python3 tests/sim_coverage.py --write
	$(Q)python3 tests/doc_tables.py --count

format: setup
	@sh tools/format.sh --all -i

# compile_commands.json, for editors, language servers and clang-tidy.
.PHONY: compdb
compdb: setup $(addprefix $(B)/gen/,templates.c sim_stamp.h profile_page.h machine_text.h)
	@$(MAKE) --no-print-directory -Bn V=1 build tests | python3 tools/compdb.py \
	    > compile_commands.json.tmp && mv compile_commands.json.tmp compile_commands.json

# ---- installation -------------------------------------------------------------------------------
# Everything finds its like relative to itself, so that the installed tree may be moved. What is
# installed is linked once more, because it knows PREFIX, where it looks last, and what is built
# does not; and it is stripped.
PREFIX  ?= /usr/local
LIBDIR  ?= lib
DESTDIR ?=
ROOT     = $(DESTDIR)$(PREFIX)
VERSION := $(shell awk '/define QUERN_VERSION_/ {v = v s $$3; s = "."} END {print v}' \
                       include/quern/quern.h)
SOVERSION := 0
empty   :=
# from LIBDIR back to the prefix
UP       = $(subst $(empty) ,/,$(patsubst %,..,$(subst /, ,$(LIBDIR))))
FILL     = sed -e 's,@version@,$(VERSION),; s,@soversion@,$(SOVERSION),' \
               -e 's,@libdir@,$(LIBDIR),; s,@up@,$(UP),'
# The pages that headers, manual pages and messages name, as they lie in the checkout.
DOC_FILES = README.md CHANGELOG.md LICENSE $(wildcard docs/*.md docs/*/*.md docs/*.svg)
# Verbs that share a page: VERB:PAGE of each but the first that its NAME lists.
MAN_LINKS := $(shell awk '/^\.Sh/ {listed = $$2 == "NAME"; page = ""} \
    /^\.Nm/ && listed {if (page) print $$2 ":" page; else page = $$2}' docs/man/*.1)
SHARE_FILES = $(patsubst docs/man/%,share/man/man1/%,$(wildcard docs/man/*.1)) \
              $(foreach link,$(MAN_LINKS),share/man/man1/$(firstword $(subst :, ,$(link))).1) \
              $(patsubst docs/man/%,share/man/man3/%,$(wildcard docs/man/*.3)) \
              share/man/man5/quern-formats.5 $(DOC_FILES:%=share/doc/quern/%)
INSTALLED = bin/quern libexec/quern/quern-worker libexec/quern/quern-remote $(BODIES:$(B)/%=%) \
            $(patsubst $(ROOT)/%,%,$(wildcard $(ROOT)/libexec/quern/base/*.qkb)) \
            $(LIBDIR)/libquern.so.$(VERSION) \
            $(LIBDIR)/libquern.so.$(SOVERSION) $(LIBDIR)/libquern.so $(LIBDIR)/libquern.a \
            $(LIBDIR)/libquern_bnb.so \
            $(LIBDIR)/pkgconfig/quern.pc $(LIBDIR)/cmake/quern/quernConfig.cmake \
            $(LIBDIR)/cmake/quern/quernConfigVersion.cmake \
            $(wildcard include/quern/*.h*) $(SHARE_FILES) \
            share/bash-completion/completions/quern share/zsh/site-functions/_quern \
            share/fish/vendor_completions.d/quern.fish

READY := $(B)/install
READY_OBJ := $(filter-out $(B)/src/base/place.o $(B)/gen/base_shipped.o,$(LIB_OBJ)) \
             $(READY)/place.o $(READY)/base_shipped.o
$(READY)/prefix: always
	$(call keep,$(PREFIX))
$(READY)/place.o: src/base/place.c $(READY)/prefix
	$(call say,CC,$@)
	$(Q)$(COMPILE) -DQUERN_LIBEXEC='"$(PREFIX)/libexec/quern"' -c $< -o $@
$(eval $(call SHIPPED_RULE,$(READY),$(BASE)))
$(eval $(call LIBRARY_RULE,$(READY),$$(READY_OBJ)))
$(READY)/quern: $(TOOL_OBJ) $(READY)/libquern.a
	$(call say,LD,$@)
	$(COMMAND_LINK)

.PHONY: install uninstall ready always
ready: $(READY)/quern $(READY)/libquern.a $(READY)/libquern.so $(BNB) $(WORKER) $(REMOTE) $(BODIES)
install: setup-build
	@$(MAKE) --no-print-directory $(JOBS) ready
	$(Q)for d in bin libexec/quern include/quern $(LIBDIR)/pkgconfig $(LIBDIR)/cmake/quern \
	    share/man/man1 share/man/man3 share/man/man5 share/bash-completion/completions \
	    share/zsh/site-functions share/fish/vendor_completions.d; do \
	    install -d "$(ROOT)/$$d" || exit; done
	$(Q)install -s -m 755 $(READY)/quern "$(ROOT)/bin/quern"
	$(Q)install -s -m 755 $(WORKER) $(REMOTE) $(BODIES) "$(ROOT)/libexec/quern"
	$(Q)for f in $(BASE_FILES); do if test -f $$f; then \
	    install -D -m 644 $$f "$(ROOT)/libexec/quern/base/$${f##*/}" || exit; fi; done
	$(Q)install -s -m 755 $(READY)/libquern.so "$(ROOT)/$(LIBDIR)/libquern.so.$(VERSION)"
	$(Q)ln -sf libquern.so.$(VERSION) "$(ROOT)/$(LIBDIR)/libquern.so.$(SOVERSION)"
	$(Q)ln -sf libquern.so.$(SOVERSION) "$(ROOT)/$(LIBDIR)/libquern.so"
	$(Q)install -s -m 755 $(BNB) "$(ROOT)/$(LIBDIR)/libquern_bnb.so"
	$(Q)strip -g -o $(READY)/stripped.a $(READY)/libquern.a
	$(Q)install -m 644 $(READY)/stripped.a "$(ROOT)/$(LIBDIR)/libquern.a"
	$(Q)install -m 644 include/quern/*.h* "$(ROOT)/include/quern"
	$(Q)$(FILL) tools/install/quern.pc.in > "$(ROOT)/$(LIBDIR)/pkgconfig/quern.pc"
	$(Q)for f in quernConfig quernConfigVersion; do $(FILL) \
	    tools/install/$$f.cmake.in > "$(ROOT)/$(LIBDIR)/cmake/quern/$$f.cmake" || exit; done
	$(Q)for n in 1 3; do \
	    install -m 644 docs/man/*.$$n "$(ROOT)/share/man/man$$n" || exit; done
	$(Q)for link in $(MAN_LINKS); do echo ".so man1/$${link#*:}.1" \
	    > "$(ROOT)/share/man/man1/$${link%:*}.1" || exit; done
	$(Q)python3 tools/install/formats_man.py docs/formats.md > \
	    "$(ROOT)/share/man/man5/quern-formats.5"
	$(Q)for f in $(DOC_FILES); do \
	    install -D -m 644 $$f "$(ROOT)/share/doc/quern/$$f" || exit; done
	$(Q)install -m 644 tools/install/quern.bash \
	    "$(ROOT)/share/bash-completion/completions/quern"
	$(Q)install -m 644 tools/install/_quern "$(ROOT)/share/zsh/site-functions/_quern"
	$(Q)install -m 644 tools/install/quern.fish \
	    "$(ROOT)/share/fish/vendor_completions.d/quern.fish"
	@sh tools/install/say_installed.sh "$(ROOT)/bin/quern" "$(ROOT)/$(LIBDIR)"

# A Python package of the library, its worker and a binding, for pip: tools/python.
.PHONY: wheel
wheel: all
	@python3 tools/python/wheel.py $(B) $(B)/wheel $(VERSION) strip

uninstall:
	$(Q)cd "$(ROOT)" && rm -f $(INSTALLED) && rmdir -p --ignore-fail-on-non-empty \
	    $(sort $(dir $(INSTALLED))) 2>/dev/null || true

clean:
	rm -rf build/release build/asan build/tsan build/machine

-include $(shell find $(B) -name '*.d' 2>/dev/null)
