# make report: everything, from a bare machine to an HTML verdict · make test · make lab · make lock
SHELL := /bin/sh
STUDY ?= nginx-directives
LOADBOOK := .venv/bin/loadbook
TOOLS := nginx=nginx-light wrk=wrk httperf=httperf sshd=openssh-server ssh-keyscan=openssh-client taskset=util-linux git=git
NETNS := ip=iproute2 nft=nftables
# A line per study, `STUDY COMMAND=PACKAGE ...` (make packages): known before loadbook is installed, so that one apt
# command line names all. A study that is not in it is asked for its packages afterwards.
PACKAGES := scripts/packages.txt
OF_ALL_STUDIES := $$(cut -s -d' ' -f2- $(PACKAGES) | tr ' ' '\n' | sort -u)
OF_STUDY := $$(sed -n 's/^$(STUDY) //p' $(PACKAGES))

.PHONY: help setup setup-test setup-live services packages generators report site docs setup-docs test test-live test-all test-faults test-faults-root test-long check lint types lab jmeter lock clean
help:
	@echo 'make report   install what is missing, run the study $(STUDY) in the lab, write reports/'
	@echo '              (another one: make report STUDY=<name>; its programs are installed, too)'
	@echo 'make services install what every study needs: servers, load generators, what builds applications, JMeter'
	@echo 'make site     make services, then every smoke study and every report: loadbook report --all'
	@echo 'make test     lint, the tests that need only Python, and a short study through real parts: 2 to 7 minutes'
	@echo 'make test-live   types, and every test with real servers, SSH, processes and browsers'
	@echo 'make test-all    both'
	@echo 'make test-faults        inject every fault that needs no root, and print what was seen'
	@echo 'make test-faults-root   the same for those that need root: network namespaces'
	@echo 'make test-long          the other tests that take minutes: notebooks in JupyterLab'
	@echo 'make docs     build the documentation as a searchable site, build/docs/index.html; broken links fail'
	@echo 'make lab      open JupyterLab on this folder, at notebooks/explore.ipynb'
	@echo 'make jmeter   install Apache JMeter for the lab (72 MB below .cache, checksummed)'
	@echo 'make generators  install vegeta, k6, oha, autocannon and Locust for this user'
	@echo 'make clean    take the lab down and remove the environment (data/ and reports/ stay)'

setup:
	@scripts/setup.sh requirements.lock $(TOOLS)

BROWSER := chromium=chromium,fonts-dejavu-core
setup-test:
	@scripts/setup.sh requirements-dev.lock $(TOOLS) $(BROWSER)
setup-live:
	@scripts/setup.sh requirements-dev.lock $(TOOLS) $(BROWSER) busybox=busybox dash=dash $(NETNS) $(OF_ALL_STUDIES)
	@.venv/bin/python scripts/generators.py vegeta || true

# What studies name as their programs; JMeter is in no Debian that works, so it has a target of its own. A study whose
# generator could not be installed is named as not run; a test that needs it is skipped, and says so.
services:
	@scripts/setup.sh requirements.lock $(TOOLS) $(NETNS) $(OF_ALL_STUDIES)
	@scripts/setup.sh requirements.lock $(TOOLS) $(NETNS) $$($(LOADBOOK) studies --packages 2>/dev/null)
	@$(MAKE) -s jmeter
	@.venv/bin/python scripts/generators.py vegeta k6 || true

# As root in the namespace lab, where a host may change what some studies change; else those are named as not run.
site: services
	@test "$$(id -u)" != 0 || $(LOADBOOK) lab up --kind netns || true
	@$(LOADBOOK) report --all

report:
	@scripts/setup.sh requirements.lock $(TOOLS) $(OF_STUDY)
	@grep -q '^$(STUDY)\( \|$$\)' $(PACKAGES) || scripts/setup.sh requirements.lock $(TOOLS) $$($(LOADBOOK) studies --packages $(STUDY) 2>/dev/null)
	@! $(LOADBOOK) studies --packages $(STUDY) 2>&1 | grep -q 'make jmeter' || $(MAKE) -s jmeter
	@.venv/bin/python scripts/generators.py --study $(STUDY)
	@$(LOADBOOK) lab up
	@$(LOADBOOK) run $(STUDY)
	@$(LOADBOOK) report $(STUDY)

# What a developer runs: lint, everything that needs only Python, and a short look at real parts. Then the rest.
# Both end within seconds of Ctrl-C and leave nothing behind (scripts/run_tests.py has the phases).
RUN_TESTS := exec .venv/bin/python scripts/run_tests.py
test: setup-test
	@$(RUN_TESTS) quick
test-live: setup-live
	@$(RUN_TESTS) live
test-all:
	@$(MAKE) -s test
	@$(MAKE) -s test-live

# Every fault of docs/reliability.md, injected for real; the table at the end says what was seen. Half an hour each.
test-faults: setup-live
	@rm -f .cache/faults.json
	@$(RUN_TESTS) faults
test-faults-root: setup-live
	@test "$$(id -u)" = 0 || { echo 'make test-faults-root needs root: network namespaces, links, kernel settings' >&2; exit 2; }
	@rm -f .cache/faults.json
	@$(RUN_TESTS) faults-root

# What takes minutes and injects no fault: every notebook in a real JupyterLab, a run of 120 trials in a cell.
test-long: setup-live
	@$(RUN_TESTS) long

docs: setup-docs
	@.venv/bin/python -m sphinx -q -E -W --keep-going -d .cache/doctrees -c docs . build/docs
	@echo build/docs/index.html
setup-docs:
	@.venv/bin/python -c 'import furo, myst_parser, sphinx' 2>/dev/null || scripts/setup.sh requirements-dev.lock $(TOOLS)

check: lint types
lint:
	@.venv/bin/ruff check lib tests benchmarks scripts
	@.venv/bin/ruff format --check lib tests benchmarks scripts
types:
	@.venv/bin/mypy

# Jupyter asks root for a word of consent; it listens on loopback only, with its token.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
lab: setup
	@$(LOADBOOK) lab up
	@.venv/bin/python -m jupyterlab --ServerApp.ip=127.0.0.1 --LabApp.default_url=/lab/tree/notebooks/explore.ipynb --LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate $(AS_ROOT) $(JUPYTER_ARGS)

# After a change of studies/ or of what a service needs: tests/live/project/test_packages_live.py compares.
packages:
	@for file in studies/*.toml; do \
		study=$$(basename $$file .toml); \
		echo $$study $$($(LOADBOOK) studies --packages $$study 2>/dev/null); \
	done >$(PACKAGES)

# What no distribution packages, from the registries of Go, Rust, Node and Python, for this user alone; what is there stays.
generators: setup
	@.venv/bin/python scripts/generators.py

jmeter:
	@scripts/setup.sh requirements.lock $(TOOLS) java=default-jre-headless mvn=maven
	@scripts/jmeter.sh .cache/jmeter

# Needs uv. Locks hold hashes and no address of any index, so that they work with every mirror.
LOCK := uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-header --extra build pyproject.toml
lock:
	@$(LOCK) -o requirements.lock
	@$(LOCK) --extra dask --extra explore --extra dev --extra docs -o requirements-dev.lock
	@echo uv | uv pip compile -q --generate-hashes --universal --no-emit-index-url --no-header -o scripts/uv.lock -

clean:
	@test ! -x $(LOADBOOK) || $(LOADBOOK) lab down
	@rm -rf build .venv .cache .pytest_cache .ruff_cache .mypy_cache .hypothesis
