# Everything runs inside .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench

.DEFAULT_GOAL := help
.PHONY: help install run test check format reproduce ledger bench bench-growth crash fuzz soak clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: $(VENV)/.installed ## Make .venv with the mix2fld command

run: install ## Play the paper's head-to-head on MNIST: FL, FD, MixFLD, Mix2FLD
	$(BIN)/mix2fld run --out runs/head-to-head

test: $(VENV)/.installed-test ## Run checks and tests
	$(MAKE) --no-print-directory check
	$(BIN)/pytest -q -n 2

check: $(VENV)/.installed-test ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed-test ## Format and fix lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

reproduce: install ## Measure every figure, table and claim of the paper again (two hours)
	$(BIN)/mix2fld reproduce all --results results

ledger: install ## Draw and judge again from the committed records
	$(BIN)/mix2fld reproduce all --results results --from-records

bench: $(BENCH)/.installed ## Measure speed against the limit and against peers (half an hour)
	$(BENCH)/bin/python -m benchmarks.run $(ARGS)

bench-growth: install ## Measure time and memory against devices, samples, weights, cores
	$(BIN)/python -m benchmarks.growth $(ARGS)

crash: install ## Kill runs and inject faults until all are survived (half an hour)
	$(BIN)/python -m reliability.crash $(ARGS)
	$(BIN)/python -m reliability.faults

fuzz: $(VENV)/.installed-test ## Give every reader 100,000 hostile inputs, and atheris where it installs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]' || true
	$(BIN)/python -m reliability.fuzz $(ARGS)

soak: install ## Play runs for an hour in one process; memory and files must stay flat
	nice -n 15 $(BIN)/python -m reliability.soak $(ARGS)

clean: ## Remove .venv and caches; runs stay
	rm -rf $(VENV) $(BENCH) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "mix2fld needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.installed

# PyTorch comes first, so that no peer brings another build of it; a peer that cannot be had is left out.
$(BENCH)/.installed: pyproject.toml constraints.txt benchmarks/peers.txt benchmarks/constraints.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	while read -r peer; do $(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c benchmarks/constraints.txt "$$peer" || echo "not installed: $$peer"; done < benchmarks/peers.txt
	@touch $@
