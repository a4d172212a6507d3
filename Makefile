# Wraps the portable commands; everything here can also be typed by hand (see CONTRIBUTING.md).
#
#   make demo   set up .venv and run `relcode demo`
#   make test   linters, types, tests (what .ci/run calls); `make browser` first, for the explorer's tests
#   make soak   fuzz for long: a million spoilt files, run folders and weights, and a quarter of a million guided by coverage (CASES=1000000 SEED=0)
#   make bench  every program under benchmarks/
#   make format let the formatter rewrite the sources
#   make clean  remove what these targets made

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
FILES  := pyproject.toml constraints.txt
SOURCES = $(wildcard src tests benchmarks scripts)

# A stamp stands for "this set of packages is installed"; it ages when the requirements change.
DEMO_READY := $(VENV)/.demo-ready
TEST_READY := $(VENV)/.test-ready

.DEFAULT_GOAL := help
.PHONY: help demo test browser lint format bench soak clean

help:
	@sed -n 's/^#   make/make/p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "relcode needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(DEMO_READY): $(FILES) | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[analysis,explorer,rdf]'
	@touch $@

# All the extras that the tests use; `compare` (PyKEEN) for the comparison program's own test.
$(TEST_READY): $(FILES) | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[dev,rdf,analysis,explorer,compare]'
	@touch $@ $(DEMO_READY)

demo: $(DEMO_READY)
	$(BIN)/relcode demo

lint: $(TEST_READY)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

# A browser for the explorer's tests: one that is there ($RELCODE_CHROMIUM, or on the path), else Debian's where apt and the rights are.
# Without one those tests are skipped, or fail where RELCODE_REQUIRE_BROWSER is set, as in CI.
browser:
	@for name in "$$RELCODE_CHROMIUM" chromium chromium-browser google-chrome chrome; do command -v "$$name" > /dev/null && exit 0; done; \
	if ! command -v apt-get > /dev/null; then echo "no Chromium, and no apt-get to install it"; exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then as=env; elif sudo -n true 2> /dev/null; then as="sudo -n env"; else echo "no Chromium, and no right to install it"; exit 0; fi; \
	echo "installing Debian's chromium"; get="$$as DEBIAN_FRONTEND=noninteractive apt-get -qq"; \
	$$get install -y chromium > /dev/null 2>&1 || { $$get update && $$get install -y chromium > /dev/null; } || echo "Chromium could not be installed"

test: lint browser
	$(BIN)/python -m pytest -q

format: $(TEST_READY)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: $(TEST_READY)
	@set -e; for program in $(wildcard benchmarks/bench_*.py); do echo "# $$program"; $(BIN)/python $$program; done

CASES ?= 1000000
SEED  ?= 0
soak: $(TEST_READY)
	-$(PIP) install -c constraints.txt -e '.[soak]'
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak/run.py --cases $(CASES) --seed $(SEED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak/guided.py --cases $$(( $(CASES) / 4 )) --seed $(SEED)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
