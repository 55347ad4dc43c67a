# Everything is one word: `make test` on a fresh machine with Python 3.11, pip and make is enough.
# ONLY=name narrows bench and torture; PYTEST_ARGS replaces pytest's arguments.

PYTHON ?= python3
# Many tests wait for another process or for a time-out, so two cores have work for four workers.
PYTEST_ARGS ?= -n 4 --dist worksteal
ONLY ?=

BIN := .venv/bin
UV := .boot/bin/uv
# The interpreter is the one present, and a virtualenv active in the shell is left alone.
export UV_PYTHON_DOWNLOADS := never
# Trust the certificates the machine trusts, also behind a company's proxy.
export UV_SYSTEM_CERTS := true
UV_PIP := $(UV) pip --quiet --no-progress
# Compiled tests are kept, whatever the shell says, so that they are collected faster next time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup install run test quick check compiled format sync-client docs dist bench torture corpus mutants lock clean

help:
	@echo 'make setup    create .venv with everything for development'
	@echo 'make install  create .venv with the service and its command line only'
	@echo 'make run      make install, then run the service with the example handler'
	@echo 'make test     check, then every test, and where the time went'
	@echo 'make quick    the unit and contract tests, on SQLite only'
	@echo 'make check    format, lint, import rules, types'
	@echo 'make format   format and fix'
	@echo 'make sync-client  generate the sync client from the async client'
	@echo 'make docs     build the pages as a site, into build/site'
	@echo 'make dist     build the wheel and the sdist, into dist'
	@echo 'make bench    measure          (ONLY=name)'
	@echo 'make torture  kill and recover (ONLY=name)'
	@echo 'make corpus   find codes and links in real mail, and count'
	@echo 'make mutants  plant faults and see the tests catch them'
	@echo 'make lock     pin the newest dependencies'
	@echo 'make clean    remove everything these targets made'

setup: .venv/.ready

# The service needs the runtime requirements only; a full environment has them already.
install: $(if $(wildcard .venv/.ready),setup,.venv/.runtime)

run: install
	ONCEBOX_HTTP__DRAIN=0 $(BIN)/oncebox serve examples.hello:box

test: setup
	@$(MAKE) --no-print-directory --jobs=2 check compiled
	$(BIN)/python -m pytest --timetable $(PYTEST_ARGS)

# No checks and no server: what to run after every change.
quick: setup
	$(BIN)/python -m pytest --sqlite-only --timetable $(PYTEST_ARGS) tests/core tests/model tests/db tests/ledger tests/contract

# pytest rewrites every test once, and keeps the result; done here, no worker has to do it again.
# mypy has the other core meanwhile. Errors in a test are reported when it runs.
compiled: setup
	-@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sync-client: setup
	$(BIN)/python -m tools.sync_client

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

VENV = test -x $(BIN)/python || $(UV) venv --quiet \
  --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
SYNC = $(UV_PIP) sync --compile-bytecode --python $(BIN)/python --require-hashes
EDITABLE = $(UV_PIP) install --python $(BIN)/python --no-deps --no-build-isolation --editable .

.venv/.runtime: pyproject.toml requirements/run.txt requirements/build.txt .boot/.ready
	$(VENV)
	$(SYNC) requirements/run.txt requirements/build.txt
	$(EDITABLE)
	$(BIN)/python -m compileall -q src
	@touch $@

.venv/.deps: requirements/dev.txt .boot/.ready
	$(VENV)
	$(SYNC) requirements/dev.txt
	@touch $@

.venv/.ready: pyproject.toml .venv/.deps
	$(EDITABLE)
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
