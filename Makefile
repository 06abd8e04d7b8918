# Scrubjay: `make run` does the main job, `make test` proves it. Both set up .venv by themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install run test test-all check format bench docs constraints clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Set up .venv with Scrubjay and everything for development

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Scrubjay needs Python 3.11 or newer; set PYTHON=…") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

run: install ## Crawl URL=… if given, then serve on http://127.0.0.1:8642 (data in .scrubjay/)
	$(if $(URL),$(BIN)/scrubjay crawl '$(URL)')
	$(BIN)/scrubjay serve

test: install ## Run the tests but the slowest; what needs a missing server is skipped and says so
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

test-all: install ## Run all tests; a missing server is a failure
	SCRUBJAY_TEST_REQUIRE_SERVERS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --durations=15

check: install ## Lint, types, import layers, generated docs
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m scrubjay.cli.reference --check

format: install ## Format the code
	$(BIN)/ruff check --fix src tests bench
	$(BIN)/ruff format src tests bench

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
