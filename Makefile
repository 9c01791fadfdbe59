# Needs python3 (3.11 or later) and make; everything else is installed into .venv and .cache.
# Variables: PYTHON (to make .venv with), PROVIDER (existing, kind, assets, build, kubelet), ONCE=1 (`make run`
# ends by itself), BAYPLAN_CACHE (in place of .cache), ARGS (more arguments for pytest), KUBE=1.34, 1.35, 1.36 (the
# control plane of that version in place of the reference's; `make e2e` then runs what it can judge), CORDON=yes (`make run`
# in a cluster of somebody else may cordon its nodes).
PYTHON ?= python3
BIN := .venv/bin
RUN_READY := .venv/.run-ready
READY := .venv/.ready
export PROVIDER ONCE BAYPLAN_CACHE WORKLOAD NODES PODS PLACED ROUNDS ARRIVAL CONFIG ONLY PROFILE MINUTES BASE KUBE CORDON

COMPILE := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --upgrade --strip-extras --allow-unsafe \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
GROUPS := import sys, tomllib; groups = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]; \
	print(*(entry for name in sys.argv[1:] for entry in groups[name]), sep="\n")

OLDER := scheduling affinity_spread volumes preemption extenders running client content faults

# As many files at a time as there are control planes (e2e/conftest.py), the longest first.
WORKERS := -n auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help venv run test lint docs types unit coverage properties judges e2e load conformance conformance-quota conformance-groups conformance-composites conformance-devices conformance-cel judge-shadow build-controlplane bench bench-page bench-core bench-packing bench-million soak wheel try-wheel krew sbom lock clean

help: ## show this
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

venv: $(READY) ## install bayplan and its tools into .venv

# What `make run` needs; the tools of developers come on top. Locks are complete: nothing is resolved,
# which older versions of pip do with the newest release where a name comes with an extra, too.
$(RUN_READY): requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=...")'
	@echo "== installing into .venv"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-run.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(READY): $(RUN_READY) requirements-dev.lock
	@echo "== installing the tools for developers into .venv"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-dev.lock
	@touch $@

run: $(RUN_READY) ## run bayplan on a real control plane and watch it place Pods
	$(BIN)/python -m e2e.demo

test: lint types unit e2e ## lint, types, unit and e2e, in this order: what continuous integration runs
	@echo "== all tests passed"

lint: $(READY) ## ruff, the contracts between the layers, first lines of docstrings
	@echo "== lint"
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose
	$(MAKE) --no-print-directory docs

docs: $(READY) ## the site with the API pages, into dist/docs
	@echo "== docs"
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir .cache/docs docs dist/docs

types: $(READY) ## mypy --strict
	@echo "== types"
	$(BIN)/mypy

unit: $(READY) ## tests that need no cluster, on two cores
	@echo "== unit tests"
	$(BIN)/pytest -n 2 --durations=20 tests examples $(ARGS)

coverage: $(READY) ## the same, with the branches that they reach
	@echo "== coverage"
	$(BIN)/pytest -n 2 --cov --cov-report=term:skip-covered tests examples $(ARGS)

properties: $(READY) ## the properties among the unit tests, TIMES=20 times as long
	BAYPLAN_PROPERTIES=$(or $(TIMES),20) $(BIN)/pytest -n 2 -m hypothesis tests $(ARGS)

judges: $(READY) ## the end-to-end tests that need no cluster, only programs built from Go
	$(BIN)/pytest $(WORKERS) e2e/judges $(ARGS)

e2e: build-controlplane ## tests on the real control plane
	@echo "== end-to-end tests"
	$(BIN)/pytest $(WORKERS) --durations=20 $(if $(KUBE),$(OLDER:%=e2e/test_%.py),e2e) $(ARGS)

judge-shadow: $(READY) ## N=1000 decisions of kube-scheduler about Pods of all kinds: a shadow finds no difference; SEED=1
	$(BIN)/python -m e2e.shadow_judge --decisions $(or $(N),1000) --seed $(or $(SEED),1) $(ARGS)

conformance: $(READY) ## decisions on CLUSTERS=500 random clusters from SEED=1 against kube-scheduler's
	$(BIN)/python -m e2e.conformance --clusters $(or $(CLUSTERS),500) --seed $(or $(SEED),1) $(ARGS)

conformance-quota: $(READY) ## decisions under ElasticQuotas on N=500 random clusters from SEED=1 against the judge of e2e/oracle
	$(BIN)/python -m e2e.conformance --quotas --nodes 2-8 --pods 4-20 --clusters $(or $(N),500) --seed $(or $(SEED),1) $(ARGS)

conformance-groups: $(READY) ## PodGroups of Kubernetes on N=200 random clusters from SEED=1 against kube-scheduler's own cycle
	$(BIN)/python -m e2e.conformance --groups --nodes 3-25 --pods 5-40 --clusters $(or $(N),200) --seed $(or $(SEED),1) $(ARGS)

conformance-composites: $(READY) ## CompositePodGroups on N=200 random clusters from SEED=1 against kube-scheduler's own cycle
	$(BIN)/python -m e2e.conformance --composites --nodes 3-60 --pods 5-90 --clusters $(or $(N),200) --seed $(or $(SEED),1) $(ARGS)

conformance-devices: $(READY) ## devices for N=5000 random claims from SEED=1 against kube-scheduler's allocator
	$(BIN)/python -m e2e.allocations --number $(or $(N),5000) --seed $(or $(SEED),1) $(ARGS)

conformance-cel: $(READY) ## matches and errors of N=20000 random device selectors from SEED=1 against Kubernetes' own CEL
	$(BIN)/python -m e2e.cel_conformance --count $(or $(N),20000) --seed $(or $(SEED),1) $(ARGS)

bench: build-controlplane ## both schedulers on a real API server; WORKLOAD=a,b|all NODES= PODS= PLACED= ROUNDS= ARRIVAL= MINUTES=
	$(BIN)/python -m bench.run

bench-page: build-controlplane ## the workloads of docs/performance.md in MINUTES=25, and their figures into the page
	$(BIN)/python -m bench.run --workload page --minutes $(or $(MINUTES),25); code=$$?; $(BIN)/python -m bench.report && exit $$code

bench-core: $(READY) ## decisions with no API server, and how their cost grows; WORKLOAD=a,b|all NODES= PLACED= PROFILE=1; BASE=revision: in turns with that code
	$(BIN)/python -m bench.core

bench-packing: $(READY) ## GPUs given out before Pods no longer fit, by policy; TRACE=folder SEEDS=3 POLICIES=a,b LISTS= KINDS= AHEAD=100 LARGEST=1 COMPACT=1 WAITING=0.95
	$(BIN)/python -m bench.packing

bench-million: $(READY) ## a million Pods on a million nodes on one core; NODES= PODS= ONLY=basic,mixed,labels,spread,affinity,sizes,preemption
	$(BIN)/python -m bench.million

soak: build-controlplane ## bayplan under steady change for MINUTES=20: no leak, no Pod lost
	$(BIN)/python -m bench.soak

load: build-controlplane ## faults in the middle of load, and tenants provoked for ten minutes: longer than in `make test`
	BAYPLAN_LOAD=full $(BIN)/pytest e2e/test_faults_under_load.py e2e/test_tenants_faults.py $(ARGS)

build-controlplane: $(READY) ## get the control plane into .cache (minutes the first time)
	@echo "== control plane"
	$(BIN)/python -m e2e.provider build

wheel: $(READY) ## the package, into dist
	rm -rf dist/*.whl dist/*.tar.gz
	$(BIN)/python -m build --quiet --outdir dist .

try-wheel: ## install the wheel of dist into a clean environment and use it
	sh e2e/try-wheel.sh $(PYTHON) .cache/try-wheel

krew: ## of the wheel of dist the archive and the manifest of kubectl's plugin, into dist/krew
	sh deploy/krew/build.sh dist $(REPOSITORY)

sbom: ## a bill of materials (CycloneDX) of the locked dependencies, into dist
	rm -rf .cache/sbom && $(PYTHON) -m venv .cache/sbom
	.cache/sbom/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
	mkdir -p dist
	.cache/sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --validate \
		--output-file dist/bayplan.cdx.json requirements.lock

lock: ## pin the newest versions that pyproject.toml allows (after `make venv`)
	$(COMPILE) --all-extras --output-file requirements.lock pyproject.toml
	$(BIN)/python -c '$(GROUPS)' run | $(COMPILE) --output-file requirements-run.lock pyproject.toml -
	$(BIN)/python -c '$(GROUPS)' run dev bench docs | $(COMPILE) --all-extras --output-file requirements-dev.lock pyproject.toml -

clean: ## remove .venv, .cache and what tools left behind
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
