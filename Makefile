# LiveSVM: `make demo` runs the main job, `make test` the tests; both from nothing but Python 3.11+ and make.
#
#   make install    create .venv, install the service, compile the solvers
#   make demo       forecast the Fisher River with the real service (KEEP=1 leaves the service up)
#   make serve      start the service with the settings in the environment
#   make test       run every test (ARGS="-k name" is handed to pytest)
#   make faults     the fault tests in their long form: 1,000 kills of the service, with a report (KILLS=100 for fewer)
#   make attack     hostile requests by the thousand, and what others see of a hard update (REQUESTS=10000 for fewer)
#   make adapters   the tests with river, sktime, MLflow and DuckDB
#   make browser    the page in a real browser (installs Chromium where there is none; SCREENSHOTS=dir keeps pictures)
#   make operations the parts of production: Redis, nginx, Prometheus, disks that fill (installs those that are not here, as root)
#   make image      the Dockerfile's steps without Docker, and what comes of them (needs debootstrap, and root)
#   make cluster    the demonstration over a Ray cluster of three nodes on this machine
#   make cluster-tests   the service's own tests over Ray, and a campaign of kills (KILLS=40 for fewer)
#   make packages   build the source distribution and the wheel, install that elsewhere, and use it
#   make pythons    the same, and tests, by every Python from 3.11 to 3.14 that is here
#   make docs       the documentation, which the service then serves at /help
#   make docs-serve the documentation while you write it, on http://127.0.0.1:8001
#   make check      ruff, mypy --strict, import-linter, hadolint, words, the documentation
#   make bench      the benchmarks, in their short form
#   make keys       write docker/secrets/: API keys for `make up`
#   make up, down   the service and Prometheus and Grafana in containers (needs Docker)
#   make clean      remove .venv and every cache
#
# PYTHON=/path/to/python chooses the interpreter of .venv.

VENV := .venv
PY := $(VENV)/bin/python
# The source tree keeps its own machine code: see $(VENV)/.compiled.
PIP_INSTALL := LIVESVM_BUILD_CPU=none $(PY) -m pip install --quiet --disable-pip-version-check
SITE := service/api/page/site/index.html
MKDOCS := NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs
COMPOSE := docker compose --file docker/compose.yaml

usable = import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$p -c '$(usable)' >/dev/null 2>&1; then echo $$p; break; fi; done)

# What is imported by hundreds of processes is compiled to bytecode once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.NOTPARALLEL:
.PHONY: install demo serve test adapters cluster cluster-tests browser faults attack operations image packages pythons docs docs-serve check bench keys up down clean

$(VENV)/.created:
	@if ! "$(PYTHON)" -c '$(usable)' >/dev/null 2>&1; then \
		echo "LiveSVM needs Python 3.11 or newer with its venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; \
		echo "Found: $$(python3 --version 2>&1 || echo no python3). Choose another with: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; fi
	@echo "creating $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

# One stamp for what `make demo` needs, one for the tests, one for the checks: nothing is installed twice.
$(VENV)/.installed: $(VENV)/.created pyproject.toml
	@echo "installing LiveSVM"
	@$(PIP_INSTALL) --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml
	@echo "installing LiveSVM and what its tests need"
	@$(PIP_INSTALL) --editable '.[test]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml
	@echo "installing LiveSVM and what its checks need"
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $(VENV)/.installed $(VENV)/.installed-test $(VENV)/.installed-docs $@

$(VENV)/.installed-docs: $(VENV)/.created pyproject.toml
	@echo "installing LiveSVM and what builds its documentation"
	@$(PIP_INSTALL) --editable '.[docs]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-bench: $(VENV)/.created pyproject.toml
	@echo "installing LiveSVM and the rivals it is measured against"
	@$(PIP_INSTALL) --editable '.[bench]'
	@touch $(VENV)/.installed $(VENV)/.installed-test $@

$(VENV)/.installed-adapters: $(VENV)/.created pyproject.toml
	@echo "installing LiveSVM and the libraries that it has adapters for"
	@$(PIP_INSTALL) --editable '.[adapters]'
	@touch $(VENV)/.installed $(VENV)/.installed-test $@

# The solvers are compiled once, here, rather than while someone waits for the service; again when they change.
$(VENV)/.compiled: $(VENV)/.installed $(shell find solvers -name "*.py")
	@echo "compiling the solvers"
	@$(PY) -c "from livesvm.solvers.warm_up import compile_all; compile_all()"
	@touch $@

# What updates need, for who does no more.
$(VENV)/.compiled-updates: $(VENV)/.installed $(shell find solvers -name "*.py")
	@echo "compiling the solvers"
	@$(PY) -c "from livesvm.solvers.warm_up import warm_up; warm_up('updates')"
	@touch $@

install: $(VENV)/.compiled

demo: $(VENV)/.compiled-updates
	@$(PY) -m livesvm.service.demo $(if $(filter-out 0,$(KEEP)),--keep)

serve: $(VENV)/.compiled
	@$(PY) -m livesvm.service

test: $(VENV)/.installed-test $(VENV)/.compiled
	@$(PY) -m pytest $(ARGS)

# River's own checks take minutes.
adapters: $(VENV)/.installed-adapters $(VENV)/.compiled
	@$(PY) -m pytest --timeout=1200 -m "not browser" tests/adapters tests/service/test_arrow.py tests/unit/test_documents.py $(ARGS)

# Debian's Chromium where this may install it, else the one that Playwright brings.
browser: $(VENV)/.installed-test $(VENV)/.compiled
	@for name in chromium chromium-browser google-chrome; do command -v $$name >/dev/null && exit 0; done; \
		echo "installing Chromium"; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
		else $(PY) -m playwright install chromium; fi
	@PAGE_SCREENSHOTS=$(SCREENSHOTS) $(PY) -m pytest -m browser --numprocesses=0 tests/browser $(ARGS)

KILLS ?= 1000

faults: $(VENV)/.installed-test $(VENV)/.compiled
	@$(PY) -m tests.faults.campaign --service-kills $(KILLS) --redis-kills $$(($(KILLS) / 5)) --stops $$(($(KILLS) / 50)) --outages $$(($(KILLS) / 50))
	@MACHINE_EXAMPLES=$$(($(KILLS) / 2)) $(PY) -m pytest --timeout=7200 tests/faults/test_machine.py
	@$(PY) -m tests.faults.feeds --kills $$(($(KILLS) / 5))
	@$(PY) -m tests.faults.feeds --redis --kills $$(($(KILLS) / 5))
	@$(PY) -m tests.faults.fleet --kills $$(($(KILLS) / 10))
	@$(PY) -m tests.faults.feed_source --kills $$(($(KILLS) / 5))
	@$(PY) -m tests.faults.feed_source --store redis --kills $$(($(KILLS) / 10))
	@if command -v mosquitto >/dev/null; then $(PY) -m tests.faults.feed_source --source mqtt --kills $$(($(KILLS) / 10)); fi
	@$(PY) -m pytest -m slow --numprocesses=0 --timeout=600 tests

cluster: $(VENV)/.installed-test $(VENV)/.compiled-updates
	@$(PY) -m tests.demo_on_ray

cluster-tests: $(VENV)/.installed-test $(VENV)/.compiled
	@$(PY) -m pytest --numprocesses=0 -m slow tests/service/test_ray.py tests/service/test_ray_jobs.py tests/service/test_ray_datasets.py tests/service/test_ray_head.py
	@LIVESVM_TEST_RAY=2 $(PY) -m pytest --numprocesses=0 --ignore-glob='*/test_ray*.py' tests/service $(ARGS)
	@$(PY) -m tests.faults.cluster --jobs --kills $$(($(KILLS) / 5))

REQUESTS ?= 100000

# Each is run, also where one before has found something.
attack: $(VENV)/.installed-test $(VENV)/.compiled
	@failed=0; for command in "malformed --requests $(REQUESTS)" "schema_driven --requests $$(($(REQUESTS) / 5))" numbers besides; do \
		echo; echo "== $$command"; $(PY) -m tests.faults.$$command || failed=1; done; exit $$failed

PARTS := redis-server redis-sentinel nginx prometheus

operations: $(VENV)/.installed-test $(VENV)/.compiled
	@for part in $(PARTS); do command -v $$part >/dev/null && continue; \
		echo "installing $$part"; apt-get update -qq && apt-get install -y -qq --no-install-recommends $$part >/dev/null; done
	@$(PY) -m pytest -m operations --numprocesses=0 --timeout=900 tests/operations $(ARGS)

image: $(VENV)/.installed-test
	@$(PY) -m tests.faults.image
	@$(PY) -m tests.faults.image --extra ray

packages: $(VENV)/.installed-dev $(SITE)
	@$(PY) -m tests.packages

pythons: $(VENV)/.installed-dev $(VENV)/.compiled
	@for p in python3.11 python3.12 python3.13 python3.14; do \
		if ! $$p -c '$(usable)' >/dev/null 2>&1; then echo "== $$p is not here"; continue; fi; \
		echo "== $$p"; $(PY) -m tests.packages --python $$p --tests tests/unit tests/property tests/contract || exit 1; done

# Built once for `docs`, `packages` and `check`, and again when a page, or code that it is made from, changes.
$(SITE): $(VENV)/.installed-docs $(VENV)/.compiled mkdocs.yml $(wildcard *.md) deploy/prometheus/alerts.yml \
		$(shell find docs service -name "*.py" -o -name "*.md")
	@echo "building the documentation"
	@$(MKDOCS) build --quiet || { rm -f $@; exit 1; }

docs: $(SITE)

docs-serve: $(VENV)/.installed-docs $(VENV)/.compiled
	@$(MKDOCS) serve --dev-addr 127.0.0.1:8001

check: $(VENV)/.installed-dev $(SITE)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-cache
	@$(VENV)/bin/hadolint docker/Dockerfile
	@$(PY) -m tests.words

bench: $(VENV)/.installed-bench
	@for name in fisher_grid toy growth rivals agreement leave_one_out regularization outliers; do \
		echo; echo "== $$name"; $(PY) -m tests.benchmarks.$$name --quick || exit 1; done
	@echo; echo "== service_load"; $(PY) -m tests.benchmarks.service_load
	@echo; echo "== recovery"; $(PY) -m tests.benchmarks.recovery --crashes 2

keys: docker/secrets/keys/api-keys

docker/secrets/keys/api-keys: | $(VENV)/.installed
	@$(PY) -m docker.make_keys

up: docker/secrets/keys/api-keys
	$(COMPOSE) up --build --detach --wait

down:
	$(COMPOSE) down

clean:
	rm -rf $(VENV) service/api/page/site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .schemathesis
	find -L livesvm tests -name __pycache__ -type d -prune -exec rm -rf {} +
