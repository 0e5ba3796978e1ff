# The same words locally and in CI; `make` alone prints them.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
DEMO := $(VENV)/.demo-ready
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
k ?=
args ?=

.DEFAULT_GOAL := help
.PHONY: help setup fix check test demo run bench environments clean

help: ## print these words
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

setup: $(READY) ## make the virtual environment

$(READY): pyproject.toml
	python3 -m venv $(VENV)
	$(PIP) -e '.[dev]'
	@touch $@ $(DEMO)

$(DEMO): pyproject.toml # less than `setup`: the demo should not wait for test tools
	python3 -m venv $(VENV)
	$(PIP) -e '.[demo]'
	@touch $@

demo: $(DEMO) ## the incident, before and after, on a real SDK agent
	$(VENV)/bin/a2a-sidecar demo

test: $(READY) ## every test; `make test k=stream` narrows
	$(PY) -m pytest -n 2 --dist worksteal $(if $(k),-k '$(k)') $(args)

check: $(READY) ## format, lint, types, import directions, policies, manifests
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(PY) -m pytest -q -p no:cacheprovider tests/test_architecture.py tests/test_docs.py tests/unit/test_deploy.py
	$(VENV)/bin/a2a-sidecar check policies

fix: $(READY) ## format and auto-fix
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

run: $(READY) ## run the sidecar: `make run args='--policy FILE'`
	$(VENV)/bin/a2a-sidecar run $(args)

bench: $(READY) ## measure side by side; see tests/bench/README.md
	$(PIP) -e '.[bench]'
	PATH="$(VENV)/bin:$$PATH" $(PY) -m tests.bench $(args)

environments: $(READY) ## build the SDK environments the end-to-end tests use
	$(PY) -m tests.e2e.environments

clean: ## remove everything made here
	rm -rf $(VENV) .environments .pytest_cache .mypy_cache .ruff_cache
