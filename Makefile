# Everything is one word: `make test` on a fresh machine with Python 3.11, pip and make is enough.
# ONLY=name narrows bench and torture; PYTEST_ARGS replaces pytest's arguments.

PYTHON ?= python3
PYTEST_ARGS ?= -n 3 --dist worksteal
ONLY ?=

BIN := .venv/bin
UV := .boot/bin/uv
# The interpreter is the one present, and a virtualenv active in the shell is left alone.
export UV_PYTHON_DOWNLOADS := never
# Trust the certificates the machine trusts, also behind a company's proxy.
export UV_SYSTEM_CERTS := true
UV_PIP := $(UV) pip --quiet --no-progress

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test check format docs dist bench torture corpus mutants lock clean

help:
	@echo 'make setup    create .venv from the pinned requirements'
	@echo 'make run      run the service with the example handler'
	@echo 'make test     check, then every test'
	@echo 'make check    format, lint, import rules, types'
	@echo 'make format   format and fix'
	@echo 'make docs     build the pages as a site, into build/site'
	@echo 'make dist     build the wheel and the sdist, into dist'
	@echo 'make bench    measure          (ONLY=name)'
	@echo 'make torture  kill and recover (ONLY=name)'
	@echo 'make corpus   find codes and links in real mail, and count'
	@echo 'make mutants  plant faults and see the tests catch them'
	@echo 'make lock     pin the newest dependencies'
	@echo 'make clean    remove everything these targets made'

setup: .venv/.ready

run: setup
	$(BIN)/oncebox serve examples.hello:box

test: check
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# A broken link or anchor is an error.
docs: setup
	rm -rf build/site
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m tests.docs.handbook build/site

dist: setup
	rm -rf dist
	$(BIN)/python -m hatchling build

bench: setup
	$(BIN)/python -m bench $(ONLY)

torture: setup
	$(BIN)/python -m tests.torture $(ONLY)

corpus: setup
	$(BIN)/python -m tests.corpus $(ONLY)

mutants: setup
	$(BIN)/python -m tests.mutants

# uv comes by pip into a folder of its own: no virtualenv, no system package is needed.
.boot/.ready: requirements/boot.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Oncebox needs Python 3.11 or newer, and $(PYTHON) is not. Try: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -m pip --version >/dev/null 2>&1 || { \
	  echo "$(PYTHON) has no pip. On Debian: apt-get install python3-pip" >&2; \
	  exit 1; }
	rm -rf .boot
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-script-location \
	  --root-user-action=ignore --require-hashes --no-deps --only-binary :all: \
	  --target .boot -r requirements/boot.txt
	@touch $@

.venv/.deps: requirements/dev.txt .boot/.ready
	test -x $(BIN)/python || $(UV) venv --quiet \
	  --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	$(UV_PIP) sync --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.txt
	@touch $@

.venv/.ready: pyproject.toml .venv/.deps
	$(UV_PIP) install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	@touch $@

COMPILE = $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 \
  --generate-hashes --no-header --no-annotate

lock: .boot/.ready
	$(COMPILE) requirements/boot.in -o requirements/boot.txt
	$(COMPILE) pyproject.toml --extra postgres --extra mcp --group dev -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra postgres --extra mcp --constraints requirements/dev.txt \
	  -o requirements/run.txt
	$(COMPILE) requirements/build.in --constraints requirements/dev.txt -o requirements/build.txt
	$(if $(wildcard requirements/bench.in),$(COMPILE) requirements/bench.in \
	  --constraints requirements/dev.txt -o requirements/bench.txt)

clean:
	rm -rf .boot .venv .venv-bench .venv-wheel .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .cache build dist
	find src tests bench examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
