# A thin front to Meson, for people and scripts that expect make.
#   make           build; build/heft runs in place
#   make setup     install what is missing (Debian packages)
#   make demo      set up, build, profile the CSV example and print its report
#   make test      set up, build, run every test; the last line is "N passed, N failed"
#   make bench     measure against heaptrack, side by side
#   make install   DESTDIR= PREFIX=/usr/local
#   make clean
PREFIX ?= /usr/local
DESTDIR ?=
BUILD := build
PYTHON := /usr/bin/python3
MESON := $(if $(wildcard /usr/bin/meson),/usr/bin/meson,meson)

.PHONY: all setup demo test bench install clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# The unit tests are built where their library is; heft itself does not need it.
$(BUILD)/build.ninja:
	@tools/setup.sh check
	@if pkg-config --exists cmocka; then tests=true; else tests=false; \
		echo "make: no cmocka, so no unit tests (make setup installs it)"; fi; \
	$(MESON) setup $(BUILD) --prefix $(PREFIX) -Dtests=$$tests

setup:
	@tools/setup.sh all

demo:
	@tools/setup.sh build
	@$(MAKE) --no-print-directory all
	@tools/demo.sh $(BUILD)

test:
	@tools/setup.sh all
	@$(PYTHON) tools/run_tests.py

bench:
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory all
	@$(PYTHON) tests/bench/bench.py

install: all
	@$(MESON) configure $(BUILD) --prefix $(PREFIX)
	@DESTDIR='$(DESTDIR)' $(MESON) install -C $(BUILD)

clean:
	@rm -rf $(BUILD) build-asan build-tsan
