# Every target works on a fresh clone by itself: the stamp rule below makes .venv and installs the package into it.

PYTHON ?= python3
# Four more than there are cores: tests of engines wait for leases to end for more than half of their time.
JOBS ?= $(shell expr 4 + $$(getconf _NPROCESSORS_ONLN))
SEEDS ?= 5000
# Tests start hundreds of processes: each would compile what it imports of tenure, up to a third of its work.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-matrix check lint packages engines sim sim-million bench docs clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(STAMP)  ## Freeze and kill leaders of a real ledger, and see which writes count
	$(BIN)/tenure demo

test: lint packages  ## Everything that must pass before a merge: linters and all tests
	$(BIN)/pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder tests

test-matrix: $(STAMP) packages  ## Let zombies write by every kind of store to every kind of sink, and show what was accepted
	$(BIN)/pytest -q tests/chaos/test_matrix.py tests/chaos/test_set.py

check: lint  ## The quick part of test, under two minutes, and a short simulation
	$(BIN)/pytest -n $(JOBS) tests/unit tests/scripts tests/tidy tests/contract
	$(BIN)/tenure sim --seeds 200 --jobs $(JOBS)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

packages: $(STAMP)
	@$(BIN)/python tools/install_engines.py

engines: $(STAMP)  ## Build the newest engines, and the programs that tests contend with, into the user's cache folder
	@$(BIN)/python tools/build_engines.py

sim: $(STAMP)  ## Simulate SEEDS elections (default 5000)
	$(BIN)/tenure sim --seeds $(SEEDS) --jobs $(JOBS)

sim-million: $(STAMP)  ## Simulate until a million tenures have been served
	$(BIN)/tenure sim --tenures 1000000 --jobs $(JOBS)

# What cannot be installed or built is no reason to measure nothing: its figures are in the table as not measured.
bench: $(STAMP)  ## Install and build engines and peers, measure the figures beside them and print them as a table
	-@$(BIN)/python tools/install_engines.py
	-@$(BIN)/python tools/build_engines.py
	$(BIN)/python bench/run.py

docs: $(STAMP)  ## Write the generated parts of docs/ anew and build the site into site/
	$(BIN)/python tools/generate_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove everything that make has made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis site dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is touched last, so an installation that broke half-way is tried again.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "tenure needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1): say make PYTHON=python3.11" >&2; \
		exit 1; \
	}
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
