# `make serve` starts a broker, `make test` runs the tests. Both set up what they need first.
# The first of these that is new enough; PYTHON=... selects another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
LINT   := .tools/deploy/bin
PYTEST := $(BIN)/python -m pytest
# Tests of processes and clients wait a third of their time.
WORKERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) * 3 // 2)')
ACTIONLINT := v1.7.12
# Where it is set, every process that a test starts would compile Penstock first.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help serve test test-quick coverage check format docs bench package setup lock clean fuzz docs-site \
  test-slow test-browser test-clients test-cluster test-deploy test-failover test-observability test-package

# In the order of this file: what people use every day comes first.
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

serve: $(VENV)/.serves ## start the broker; ARGS="--port 9400 --memory" is passed on
	@exec $(BIN)/penstock serve $(ARGS)

test: setup ## run the tests, in five minutes; ARGS="-k fifo" is passed on
	$(PYTEST) -n $(WORKERS) --dist worksteal -m 'not slow' $(ARGS)

# The rules and all that is tested in the process of the test: no server processes, no PostgreSQL.
IN_PROCESS := auth broker metrics patterns publishing queues services sim store topics wire \
  test_architecture.py test_cache.py test_generated.py test_promise.py test_turns.py
test-quick: setup ## run the tests of rules, broker, store, wire, auth and services, in a minute
	$(PYTEST) -n auto --dist worksteal -m 'not slow and not postgres' $(IN_PROCESS:%=tests/%) $(ARGS)

check: setup ## format, lint, types, and the structure of the source
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) tests/test_architecture.py

format: setup ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## write the generated pages of docs/: the command line, its man page, compatibility
	$(BIN)/python tools/reference.py
	PYTHONPATH=tests $(BIN)/python tools/compatibility.py

bench: setup ## compare with other servers; QUICK=1 takes two minutes; ARGS="--only send,life" is passed on
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(ARGS)

package: .tools/package/.ready ## build the wheel and the source distribution in dist
	rm -rf dist
	.tools/package/bin/python -m build --outdir dist .
	.tools/package/bin/twine check --strict dist/*
	.tools/package/bin/check-wheel-contents dist/*.whl

coverage: setup ## run the quick tests and those of alarms, and print which share of each package they reach
	$(MAKE) test-quick ARGS="tests/monitoring --cov=penstock --cov-report= $(ARGS)"
	$(BIN)/coverage json --quiet -o - | $(BIN)/python tools/covered.py

setup: $(VENV)/.develops ## create a virtual environment in .venv with the developer tools

docs-site: setup .tools/docs/.ready ## build the docs as a site in site/
	$(BIN)/python website/pages.py .tools/docs/pages
	NO_MKDOCS_2_WARNING=1 .tools/docs/bin/mkdocs build --quiet --config-file website/mkdocs.yml
	$(PYTEST) tests/website.py $(ARGS)
	@echo 'To read it: python3 -m http.server --bind 127.0.0.1 --directory site'

test-slow: setup ## run the tests that start many processes, kill or load them, and generated tests with many examples
	PENSTOCK_EXAMPLES=many $(PYTEST) -n $(WORKERS) --dist worksteal -m 'slow or hypothesis' $(ARGS)

test-browser: setup ## use the web console in Chromium; SCREENSHOTS=DIR takes pictures; CHROMIUM=/path/to/it
	$(BIN)/python -m pip install --quiet $(call constrained,dev) --group browser
	$(PYTEST) tests/browser/console.py tests/browser/topics.py -rs $(ARGS)

test-clients: setup ## run clients of other languages and frameworks; ARGS="go rust" selects some
	PYTHONPATH=tests $(BIN)/python tests/clients/run.py $(ARGS)

test-cluster: setup ## kill, pause and cut off nodes of a cluster under load; ROUNDS=30 kills so many nodes
	CLUSTER_ROUNDS=$(or $(ROUNDS),5) $(PYTEST) -s tests/cluster/failures.py $(ARGS)

test-failover: setup ## kill a PostgreSQL primary under load and promote its standby; takes a minute
	$(PYTEST) -s tests/store/failover.py $(ARGS)

test-package: setup package ## install what is in dist into empty environments and use it
	$(PYTEST) tests/package.py $(ARGS)

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
	$(PYTEST) tests/test_image.py tests/test_deploy.py $(ARGS)

test-observability: setup ## test the alert rules with promtool, and that they and the dashboard ask for metrics that exist
	sh tests/observability.sh
	$(PYTEST) tests/test_observability.py $(ARGS)

fuzz: setup ## coverage-guided fuzzing; SECONDS=600 or RUNS=1000000 in total; ARGS="policy sigv4" selects some
	-@$(BIN)/python -m pip install --quiet --only-binary :all: $(call constrained,dev) --group fuzz
	@PYTHONPATH=tests $(BIN)/python -m fuzz.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

# Each environment has its file: they need different versions of the same packages.
lock: ## install the newest versions that pyproject.toml allows, and write them to constraints/
	rm -rf $(VENV) .tools constraints
	mkdir constraints
	$(MAKE) setup .tools/deploy/.ready .tools/docs/.ready .tools/package/.ready
	$(BIN)/python -m pip install --quiet --group browser --group fuzz
	$(BIN)/python -m pip freeze --exclude-editable > constraints/dev.txt
	for tool in deploy docs package; do .tools/$$tool/bin/python -m pip freeze > constraints/$$tool.txt; done
	PYTHONPATH=tests $(BIN)/python tools/lock_clients.py

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .clients .bench .fuzz build dist site .tools

# -- environments ----------------------------------------------------------------------------------------------

constrained = $(patsubst %,--constraint %,$(wildcard constraints/$(1).txt))

$(BIN)/python:
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Penstock needs Python 3.11 or newer. Install one, or select it: make serve PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Two marks of what is installed: what serving needs, and the developer tools in addition.
$(VENV)/.serves: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.develops: pyproject.toml $(wildcard constraints/dev.txt) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1,<27'
	$(BIN)/python -m pip install --quiet $(call constrained,dev) --editable . --group dev
	@touch $(VENV)/.serves $@

# Tools that need other versions than those in .venv: a group of pyproject.toml each.
.tools/%/.ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv .tools/$*
	.tools/$*/bin/python -m pip install --quiet --upgrade 'pip>=25.1,<27'
	.tools/$*/bin/python -m pip install --quiet $(call constrained,$*) --group $*
	@touch $@
