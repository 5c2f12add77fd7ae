# A thin front to Meson, for people and scripts that expect make.
#   make           build; build/heft runs in place
#   make page      try again to build the page of heft view, where that failed
#   make setup     install what is missing (Debian packages)
#   make demo      set up, build, profile the CSV example and print its report
#   make test      set up, build, run every test; the last line is "N passed, N failed"
#                  SMOKE=1: a part of each stage
#   make fresh     try demo and tests on bare Debian 12 and 13 (as root); ALL=1: every test
#   make fuzz      run every fuzz target with libFuzzer, FUZZ_SECONDS=60 each (docs/fuzzing.md)
#   make format    write every source as .clang-format says
#   make bench     measure against heaptrack, side by side; ARGS=--instructions and others go to bench.py
#   make campaign  attach to hard programs for hours (docs/attach.md); ARGS go to attach_campaign.py
#   make install   DESTDIR= PREFIX=/usr/local
#   make clean
PREFIX ?= /usr/local
DESTDIR ?=
BUILD := build
PYTHON := /usr/bin/python3
MESON := $(if $(wildcard /usr/bin/meson),/usr/bin/meson,meson)

.PHONY: all built page setup demo test fresh fuzz format bench campaign install clean

all: built
	@tools/configure.sh $(BUILD) say

built:
	@tools/configure.sh $(BUILD) --prefix $(PREFIX)
	@ninja -C $(BUILD)

page:
	@tools/configure.sh $(BUILD) again
	@$(MAKE) --no-print-directory all

setup:
	@tools/setup.sh all

demo:
	@tools/setup.sh build
	@if [ -f $(BUILD)/build.ninja ]; then tools/configure.sh $(BUILD) again; fi
	@$(MAKE) --no-print-directory built
	@tools/demo.sh $(BUILD)
	@tools/configure.sh $(BUILD) say

test:
	@tools/setup.sh all
	@$(PYTHON) tools/run_tests.py $(if $(SMOKE),--smoke)

# Both releases of Debian in folders of their own; ALL=1 runs every test. Needs root.
fresh:
	@tools/fresh.sh $(if $(ALL),--all)

fuzz:
	@tools/fuzz.sh $(TARGETS)

format:
	@$(PYTHON) tools/layout_format.py

bench:
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory all
	@$(PYTHON) tests/bench/bench.py $(ARGS)

campaign:
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory all
	@HEFT_BUILD=$(abspath $(BUILD)) $(PYTHON) tests/campaign/attach_campaign.py $(ARGS)

install: all
	@$(MESON) configure $(BUILD) --prefix $(PREFIX)
	@DESTDIR='$(DESTDIR)' $(MESON) install -C $(BUILD)

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz
