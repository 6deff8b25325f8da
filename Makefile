# `make serve` starts a broker, `make test` runs the tests. Both set up what they need first.
# The first of these that is new enough; PYTHON=... selects another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
LINT   := .tools/deploy/bin
ACTIONLINT := v1.7.12
.PHONY: help setup serve test test-cluster test-failover test-clients test-package package test-deploy test-browser fuzz bench check docs docs-site format clean test-observability

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Penstock needs Python 3.11 or newer. Install one, or select it: make serve PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Two marks of what is installed: what serving needs, and the tools of developers in addition.
$(VENV)/.serves: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.develops: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1,<27'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $(VENV)/.serves $@

# Tools that need other versions than those in .venv: a group of pyproject.toml each.
.tools/%/.ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv .tools/$*
	.tools/$*/bin/python -m pip install --quiet --upgrade 'pip>=25.1,<27'
	.tools/$*/bin/python -m pip install --quiet --group $*
	@touch $@

setup: $(VENV)/.develops ## create a virtual environment in .venv with the tools of developers

serve: $(VENV)/.serves ## start the broker; ARGS="--port 9400 --memory" is passed on
	@exec $(BIN)/penstock serve $(ARGS)

test: setup ## run the tests; ARGS="-k fifo" is passed on
	$(BIN)/python -m pytest -n auto $(ARGS)

test-cluster: setup ## kill, pause and cut off nodes of a cluster under load; ROUNDS=30 kills so many nodes
	CLUSTER_ROUNDS=$(or $(ROUNDS),5) $(BIN)/python -m pytest -s tests/cluster/failures.py $(ARGS)

test-failover: setup ## kill a PostgreSQL primary under load and promote its standby; takes a minute
	$(BIN)/python -m pytest -s tests/store/failover.py $(ARGS)

package: .tools/package/.ready ## build the wheel and the source distribution in dist
	rm -rf dist
	.tools/package/bin/python -m build --outdir dist .
	.tools/package/bin/twine check --strict dist/*
	.tools/package/bin/check-wheel-contents dist/*.whl

test-package: setup package ## install what is in dist into empty environments and use it
	$(BIN)/python -m pytest tests/package.py $(ARGS)

test-deploy: setup .tools/deploy/.ready ## lint the files for Docker, Compose, Kubernetes, GitHub and pre-commit
	$(LINT)/hadolint deploy/Dockerfile
	$(LINT)/kubernetes-validate --strict --quiet $(filter-out %/kustomization.yaml,$(wildcard deploy/kubernetes/*/*.yaml))
	$(LINT)/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	$(LINT)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(LINT)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/wish.yml
	$(LINT)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(LINT)/pre-commit validate-config
	$(LINT)/shellcheck .ci/run
	@if command -v go > /dev/null; then \
	  PATH="$(CURDIR)/$(LINT):$$PATH" go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT) && echo "actionlint: ok"; \
	  else echo "actionlint: skipped, because Go is not installed"; fi
	$(BIN)/python -m pytest tests/test_image.py tests/test_deploy.py $(ARGS)

bench: setup ## compare with other servers; QUICK=1 takes two minutes; ARGS="--only send,life" is passed on
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(ARGS)

test-browser: setup ## use the web console in Chromium; SCREENSHOTS=DIR takes pictures; CHROMIUM=/path/to/it
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest tests/browser/console.py -rs $(ARGS)

test-clients: setup ## run clients of other languages and frameworks; ARGS="go rust" selects some
	PYTHONPATH=tests $(BIN)/python tests/clients/run.py $(ARGS)

test-observability: setup ## test the alert rules with promtool, and that they and the dashboard ask for metrics that exist
	sh tests/observability.sh
	$(BIN)/python -m pytest -q tests/test_observability.py $(ARGS)

fuzz: setup ## coverage-guided fuzzing; SECONDS=600 or RUNS=1000000 in total; ARGS="policy sigv4" selects some
	-@$(BIN)/python -m pip install --quiet --only-binary :all: --group fuzz
	@PYTHONPATH=tests $(BIN)/python -m fuzz.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

check: setup ## format, lint, types, and the structure of the source
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py

docs: setup ## write the documents that are generated: the command line, its man page, compatibility
	$(BIN)/python tests/reference.py
	$(BIN)/python tests/compatibility.py

docs-site: setup .tools/docs/.ready ## build the documents as a site in site/
	$(BIN)/python website/pages.py .tools/docs/pages
	NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs build --quiet --config-file website/mkdocs.yml
	$(BIN)/python -m pytest tests/website.py $(ARGS)
	@echo 'To read it: python3 -m http.server --bind 127.0.0.1 --directory site'

format: setup ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .clients .bench .fuzz build dist site .tools
