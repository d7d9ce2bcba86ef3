# Needs Python 3.11 or newer and make; every target creates .venv if it is missing.
# PYTHON=... selects the interpreter, ARGS=... is passed to the command.

.DEFAULT_GOAL := help
.PHONY: help demo test soak mutants check bench bench-live bench-move benchmark conformance differential controlplane manifests e2e compat audit image image-lock sbom wheel sign lock format clean
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Tests start hundreds of processes; without bytecode files each of them would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

PY := .venv/bin/python
RUNTIME := .venv/runtime.stamp
DEV := .venv/dev.stamp
CORPUS ?= $(firstword $(wildcard ../shared/conformance) tests/conformance/recorded)
DATA ?= $(firstword $(wildcard ../shared/data))
CASES ?= 500
SEED ?= 1
MYPY_ROOTS = $(wildcard src tests/build.py tools bench)
COMPILE = $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url $(ARGS)

# Finds the first interpreter that is new enough and can create an environment; runs only if .venv is missing or outdated.
define BOOTSTRAP
for python in $(if $(PYTHON),"$(PYTHON)",python3 python3.11 python3.12 python3.13 python3.14 python); do \
	if "$$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		exec "$$python" tools/bootstrap.py
endef
define NO_PYTHON
fi; done; echo "Trimtab needs Python 3.11 or newer (with the venv module): install it, or name it with PYTHON=/path/to/python3.11" >&2; exit 1
endef

$(RUNTIME): requirements.lock requirements-build.lock pyproject.toml
	@$(BOOTSTRAP) runtime; $(NO_PYTHON)

$(DEV): requirements-dev.lock requirements.lock requirements-build.lock pyproject.toml
	@$(BOOTSTRAP) dev; $(NO_PYTHON)

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "make %-14s %s\n", $$1, $$2 }'

demo: $(RUNTIME) ## run a simulated cluster in the terminal; no Kubernetes needed
	@.venv/bin/python -m trimtab demo $(ARGS)

# pytest exits with 5 if ARGS selects no test of this half. Tests that fail are run once more, alone.
# The builder exits with 3 if Go or its modules are not available: live tests are then skipped, except in CI.
test: $(DEV) ## run all tests, the live ones on a real control plane
	@$(PY) tools/controlplane/build.py >/dev/null || { code=$$?; [ $$code -eq 3 ] && [ -z "$$CI" ] || exit $$code; }
	@$(PY) -m tools.programs >/dev/null
	@$(PY) -m tools.retry_failed -q -n 2 -m "not live and not soak" $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])
	@$(PY) -m tools.retry_failed -q -n 4 --dist loadfile --no-loadscope-reorder -m "live and not soak" $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])

soak: $(DEV) ## run the tests that take minutes each, such as outages of five minutes
	@$(PY) tools/controlplane/build.py >/dev/null
	@$(PY) -m pytest -q -n 1 -rP -m soak $(ARGS)

mutants: $(DEV) ## break the code in known ways and see that tests notice: ARGS="--area fences"
	@$(PY) -m tools.mutants $(ARGS)

check: $(DEV) ## run linters, type checks, import contracts, house rules, dead links
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy $(MYPY_ROOTS)
	@.venv/bin/lint-imports --no-logo
	@$(PY) -m tools.house_rules
	@$(PY) -m tools.dead_links

bench: $(DEV) ## measure decisions, decoding and events without a cluster
	@$(PY) -m bench $(ARGS)

bench-live: $(DEV) ## measure against kube-scheduler on a real control plane
	@$(PY) -m bench.live $(ARGS)

bench-move: $(DEV) ## let Trimtab and the real descheduler take turns on a live cluster; writes docs/bench-move.md
	@$(PY) -m bench.move --page docs/bench-move.md $(ARGS)

benchmark: $(DEV) ## compare all policies on traces and scenarios; writes docs/benchmark.md: DATA=dir
	@$(PY) -m bench.benchmark $(if $(DATA),--data "$(DATA)") $(ARGS)

conformance: $(DEV) ## compare every plugin with recorded results: CORPUS=dir
	@$(PY) -m tests.conformance "$(CORPUS)"

differential: $(DEV) ## compare with kube-scheduler's code on random clusters: CASES=n SEED=n
	@$(PY) tools/controlplane/build.py >/dev/null
	@$(PY) -m tests.differential --cases $(CASES) --seed $(SEED) $(ARGS)

controlplane: $(DEV) ## build the real control plane; prints its directory last
	@$(PY) tools/controlplane/build.py $(ARGS)

manifests: $(DEV) ## write the files in deploy/ that are made from others
	@$(PY) -m tools.manifests

e2e: $(DEV) ## run Kubernetes' own scheduling specs with Trimtab and with kube-scheduler
	@$(PY) -m tools.e2e $(ARGS)

compat: $(DEV) ## run the live tests on other releases: VERSIONS="1.33.13 1.37.1"
	@$(PY) -m tools.compat $(VERSIONS) $(if $(ARGS),--tests $(ARGS))

audit: $(DEV) ## look the locked packages up in a vulnerability database; needs the network
	@$(PY) -m tools.audit $(ARGS)

image: $(RUNTIME) ## build the container image into dist/, without a registry: ARGS="--architecture arm64"
	@$(PY) -m tools.image build $(ARGS)

image-lock: $(RUNTIME) ## take the newest Debian packages into the image's lock file; needs apt
	@$(PY) -m tools.image lock

wheel: $(RUNTIME) ## build the wheel into dist/
	@$(PY) -m tools.image wheel $(ARGS)

sbom: $(RUNTIME) ## write the bill of materials of requirements.lock (CycloneDX) into dist/
	@$(PY) -m tools.image sbom $(ARGS)

sign: $(RUNTIME) ## sign everything in dist/: KEY=file, a private Ed25519 key in PEM
	@$(PY) -m tools.image sign --key "$(KEY)" $(ARGS)

lock: $(DEV) ## refresh the lock files: ARGS=--upgrade for newer versions
	@$(COMPILE) --group dev --output-file requirements-dev.lock pyproject.toml
	@$(COMPILE) --constraint requirements-dev.lock --output-file requirements.lock pyproject.toml
	@$(COMPILE) --group build --output-file requirements-build.lock

format: $(DEV) ## format the code and apply ruff's fixes
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

clean: ## remove .venv and all tool caches
	@rm -rf .venv .venv.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
