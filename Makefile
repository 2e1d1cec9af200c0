# Two front doors: `make demo` and `make check`. Both set the machine up by themselves.
BUILD ?= build
export MAYFLY_HOME ?= $(CURDIR)/$(BUILD)/home
export BUILD

.PHONY: all demo demo-consent check check-all bench build fuzz clean install deb format help

all: build

help:
	@echo "make demo     install what is needed, build, run Python in a fresh microVM"
	@echo "make demo-consent  the same with an agent that shops, and you who allow it (ANSWER=yes|no)"
	@echo "make check    install what is needed, build, run the tests: 20 minutes on 2 cores"
	@echo "make check-all  the same with every suite and long fuzzing: some hours"
	@echo "make bench    run the benchmarks"
	@echo "make build    build only"
	@echo "make fuzz     fuzz every target for a minute"
	@echo "make install  install below DESTDIR and the prefix of the build directory"
	@echo "make deb      build the Debian package: $(BUILD)/mayfly_VERSION_amd64.deb"
	@echo "make format   reformat the sources with clang-format"
	@echo "make clean    remove the build directory and stop the emulated KVM host"

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

$(BUILD)/build.ninja:
	@echo "== configuring"
	@/usr/bin/meson setup $(BUILD) -Dwerror=true > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

demo:
	@tools/setup build
	@echo "== building"
	@$(MAKE) --no-print-directory build
	@tools/demo

demo-consent:
	@tools/setup build
	@echo "== building"
	@$(MAKE) --no-print-directory build
	@tools/demo-consent $(ANSWER:%=--%)

check:
	@tools/setup check
	@echo "== building"
	@$(MAKE) --no-print-directory build
	@tests/run

check-all:
	@tools/setup check-all
	@echo "== building"
	@$(MAKE) --no-print-directory build
	@tests/run --all

bench:
	@tools/setup bench
	@$(MAKE) --no-print-directory build
	@bench/run

fuzz:
	@tools/setup check
	@tests/fuzz/run

install: build
	@meson install -C $(BUILD) --no-rebuild

deb:
	@tools/setup check-all
	@tools/deb

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@tools/kvmhost --stop || true
	@rm -rf $(BUILD) build-asan build-fuzz
