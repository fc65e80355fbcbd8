# One command for each thing there is to do here. Every target prepares what it needs by itself:
# nothing has to be installed by hand beyond Python 3.11 or newer (and gcc, to compile).
#
#     make install   make run       the broker in .venv, and its demonstration
#     make test                     what matters of the tests, in a few minutes
#     make test-all                 all of them: test-disk, -clients, -spark, -long, -compiled, -compiled-long,
#                                   -install (an hour)
#     make test-spark-versions      the connector in Spark 4.0, 4.1 and 4.2 (500 MB of disk each)
#     make suites                   other projects' own tests, the long ones too (half an hour)
#     make lint      types  format  ruff, mypy
#     make wheel                    this machine's compiled wheel, in dist/
#     make bench     sim    fuzz    measure, simulate, feed garbage
#     make sim-cluster              2,000 clusters in trouble, on a virtual clock (ten minutes)
#     make model                    a long run of the queue with rules against its naive twin
#     make crash                    a million crash states of the message store (a quarter of an hour)
#     make crash-kill               kill -9 at 300 calls to the disk, and in a compaction (half an hour)
#     make crash-live               a hundred power cuts, long histories, large queues (ten minutes)
#     make bench-smoke              every benchmark briefly: does anything get lost?
#     make cluster-nemeses          three nodes, kills and partitions (three and a half hours)
#     make attack                   what one client can do to everybody else
#     make docs                     rewrite the pages that are printed from tables
#     make site                     the pages as a web site, in site/
#     make lock                     choose the exact versions of all dependencies again
#     make clean                    remove everything these targets have made

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

# Another interpreter:  make PYTHON=python3.13 test
# It has environments of its own, .venv-test-3.13, beside those of the usual one.
PYTHON ?=
PYTEST_ARGS ?=
# Three at a time, because some wait, a file as a whole: sessions of Spark and brokers are shared
# within files. In the order of tests/layers.py, the longest first.
WORKERS ?= -n 3 --dist loadfile --no-loadscope-reorder
BENCH_ARGS ?=
SIM_ARGS ?= --seconds 60
SIM_CLUSTER_ARGS ?=
FUZZ_ARGS ?=
export PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Both would let something else than the prepared environment be imported.
unexport PYTHONPATH PYTHONHOME

# abiflags: "t" where there is no global lock. Of what is no Python, prepare_venv says so.
VERSION := $(if $(PYTHON),-$(or $(shell $(PYTHON) -c 'import sys; \
	print("%d.%d" % sys.version_info[:2] + sys.abiflags)' 2> /dev/null),unknown))
RUN := .venv$(VERSION)
TEST := .venv-test$(VERSION)
COMPILED := .venv-compiled$(VERSION)
LOCK := .venv-lock$(VERSION)
BARE := .venv-bare$(VERSION)
WHEEL := .venv-wheel$(VERSION)

# Where a machine sets that variable, each Python of Spark and each broker compiles all it imports
# anew: 0.7 s of a processor for `penstock serve` instead of 0.15 s. So does each worker of pytest
# with all tests: 37 s of a processor instead of 8 s, to collect those of `core`.
CACHED := env -u PYTHONDONTWRITEBYTECODE

EXTRAS := demo,spark,spark-jre,pipelines,tls,oauth,management,cluster
SPARK_VERSIONS ?= 4.0 4.1 4.2
SOURCES := $(shell find src/penstock examples -type f -not -name '*.pyc')
DEPENDENCIES := pyproject.toml setup.py scripts/prepare_venv scripts/install.py
BUILD := $(DEPENDENCIES) native_build.py compile_list.txt $(SOURCES)

.PHONY: help install run wheel test test-disk test-clients test-spark test-long test-compiled
.PHONY: test-compiled-long test-install test-all test-spark-versions suites lint types format bench bench-smoke attack cluster-nemeses soak sim sim-cluster fuzz fuzz-guided docs site
.PHONY: lock clean crash crash-kill crash-live model

help:
	@sed -n 's/^# \{4,\}//p' Makefile

install: $(RUN)/.stamp

run: $(RUN)/.stamp
	$(RUN)/bin/penstock run

$(RUN)/.stamp: $(BUILD) requirements/run.lock
	@scripts/prepare_venv $(RUN) requirements/run.lock $(EXTRAS)
	@$(RUN)/bin/python scripts/show_build.py
	@touch $@

# To be installed elsewhere, without a compiler. Others are made as [tool.cibuildwheel] says.
wheel: $(WHEEL)/.stamp

$(WHEEL)/.stamp: $(BUILD) README.md
	@PENSTOCK_COMPILE=require scripts/prepare_venv $(WHEEL) requirements/run.lock '' --wheel dist
	@touch $@

# Interpreted: an editable installation is always plain Python, and follows every edit of src/.
$(TEST)/.stamp: $(DEPENDENCIES) requirements/dev.lock
	@PENSTOCK_PURE=1 scripts/prepare_venv $(TEST) requirements/dev.lock \
		$(EXTRAS),test,dev --editable
	@touch $@

$(COMPILED)/.stamp: $(BUILD) requirements/dev.lock
	@PENSTOCK_COMPILE=require scripts/prepare_venv $(COMPILED) requirements/dev.lock \
		$(EXTRAS),test
	@$(COMPILED)/bin/python scripts/show_build.py
	@touch $@

# What each layer is, and why: tests/layers.py and CONTRIBUTING.md.
test: $(TEST)/.stamp
	$(CACHED) PENSTOCK_TEST_BUILD=interpreted $(TEST)/bin/python -m pytest --layer core $(WORKERS) $(PYTEST_ARGS)

test-disk: $(COMPILED)/.stamp
	$(CACHED) PENSTOCK_TEST_BUILD=compiled $(COMPILED)/bin/python -m pytest --layer disk $(WORKERS) $(PYTEST_ARGS)

test-clients: $(COMPILED)/.stamp
	$(CACHED) PENSTOCK_TEST_BUILD=compiled $(COMPILED)/bin/python -m pytest --layer clients $(WORKERS) $(PYTEST_ARGS)

test-spark: $(TEST)/.stamp
	$(CACHED) PENSTOCK_TEST_BUILD=interpreted $(TEST)/bin/python -m pytest --layer spark $(WORKERS) $(PYTEST_ARGS)

test-long: $(TEST)/.stamp
	$(CACHED) PENSTOCK_TEST_BUILD=interpreted $(TEST)/bin/python -m pytest --layer long $(WORKERS) $(PYTEST_ARGS)

test-compiled: $(COMPILED)/.stamp
	$(CACHED) PENSTOCK_TEST_BUILD=compiled $(COMPILED)/bin/python -m pytest --layer compiled $(WORKERS) $(PYTEST_ARGS)

test-compiled-long: $(COMPILED)/.stamp
	$(CACHED) PENSTOCK_TEST_BUILD=compiled $(COMPILED)/bin/python -m pytest --layer compiled-long $(WORKERS) $(PYTEST_ARGS)

# Only PySpark is another one; whatever else is installed is found behind it.
test-spark-versions: $(TEST)/.stamp $(SPARK_VERSIONS:%=.venv-spark-%/.stamp)
	for version in $(SPARK_VERSIONS); do \
		PYTHONPATH=$(CURDIR)/.venv-spark-$$version PENSTOCK_TEST_BUILD=interpreted \
			$(TEST)/bin/python -m pytest tests/spark/test_versions.py $(PYTEST_ARGS); \
	done

.venv-spark-%/.stamp: $(TEST)/.stamp
	rm -rf .venv-spark-$*
	$(TEST)/bin/python -m pip install --quiet --target .venv-spark-$* 'pyspark==$*.*'
	@touch $@

# The wheel in an empty environment without a compiler: does it serve a message? The package alone,
# with the demonstration's clients, and whole: does every command answer?
test-install: $(RUN)/.stamp $(WHEEL)/.stamp
	$(WHEEL)/bin/python scripts/try_wheel.py dist requirements/run.lock
	scripts/prepare_venv $(BARE) requirements/run.lock ''
	$(BARE)/bin/python scripts/ask_commands.py $(BARE) ''
	scripts/prepare_venv $(BARE) requirements/run.lock demo
	$(BARE)/bin/python scripts/ask_commands.py $(BARE) demo
	$(RUN)/bin/python scripts/ask_commands.py $(RUN) $(EXTRAS)
	rm -rf $(BARE)

test-all: test test-disk test-clients test-spark test-compiled test-install test-long test-compiled-long

# Without the limit for a test that hangs: the long ones take longer, and have limits of their own.
suites: $(TEST)/.stamp
	PENSTOCK_LONG_SUITES=1 $(TEST)/bin/python -m pytest -o faulthandler_timeout=0 \
		tests/conformance/test_suites.py $(PYTEST_ARGS)

lint: $(TEST)/.stamp
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .

types: $(TEST)/.stamp
	$(TEST)/bin/mypy --strict src tests bench fuzz scripts examples native_build.py setup.py

format: $(TEST)/.stamp
	$(TEST)/bin/ruff check --fix .
	$(TEST)/bin/ruff format .

# One file with everything that is compared, and a page: build/bench/result.json, build/bench/page.html.
# What changed since another one: python bench/compare.py OTHER.json build/bench/result.json
BENCHED := build/bench
bench: $(RUN)/.stamp
	mkdir -p $(BENCHED)
	rm -f $(BENCHED)/*.json
	$(RUN)/bin/python bench/run.py --repeats 5 --out $(BENCHED)/result.json $(BENCH_ARGS)
	$(RUN)/bin/python bench/feature_costs.py --python $(RUN)/bin/python --out $(BENCHED)/features.json
	$(RUN)/bin/python bench/tails.py --python $(RUN)/bin/python --out $(BENCHED)/tails.json
	if command -v strace > /dev/null; then $(RUN)/bin/python bench/system_calls.py \
		--python $(RUN)/bin/python --out $(BENCHED)/system-calls.json; fi
	$(RUN)/bin/python bench/page.py $(BENCHED)/result.json $(BENCHED)/page.html \
		$$(find $(BENCHED) -name '*.json' ! -name result.json)
	$(RUN)/bin/python bench/cores.py --python $(RUN)/bin/python
	$(RUN)/bin/python bench/flow_cost.py --python $(RUN)/bin/python
	$(RUN)/bin/python bench/flow_live.py --python $(RUN)/bin/python
	$(RUN)/bin/python bench/backlog.py --python $(RUN)/bin/python
	$(RUN)/bin/python bench/recovery.py --python $(RUN)/bin/python
	$(RUN)/bin/python bench/spark_speed.py --python $(RUN)/bin/python
	$(RUN)/bin/python bench/spark_pace.py --python $(RUN)/bin/python
	$(RUN)/bin/python bench/pipeline.py
	$(RUN)/bin/python bench/cluster.py

bench-smoke: $(RUN)/.stamp
	$(RUN)/bin/python bench/run.py --smoke $(BENCH_ARGS)
	$(RUN)/bin/python bench/feature_costs.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/tails.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/cores.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/flow_cost.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/flow_live.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/backlog.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/recovery.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/spark_speed.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/spark_pace.py --smoke --python $(RUN)/bin/python
	$(RUN)/bin/python bench/pipeline.py --smoke
	$(RUN)/bin/python bench/pipeline_growth.py all --smoke
	$(RUN)/bin/python bench/pipeline_growth.py executors --share 0.5 --smoke
	$(RUN)/bin/python bench/cluster.py --smoke
	$(RUN)/bin/python bench/http_load.py --smoke --python $(RUN)/bin/python

# What one client can do to everybody else: every attack beside a ping-pong client, about four minutes.
attack: $(RUN)/.stamp
	$(RUN)/bin/python bench/outside/attack.py $(ATTACK_ARGS)

# Three minutes of each kind of kill, stop, partition, etcd, disk and clock, then NEMESES rounds of
# all of them, each with a seed of its own; all of it once more with two workers a node. Root,
# iproute2 and an etcd.
NEMESES ?= 2
cluster-nemeses: $(TEST)/.stamp
	for kind in $$(seq 1 26); do \
		$(TEST)/bin/python -m tests.cluster.nemeses --seconds 180 --alone $$kind || exit 1; \
	done
	for seed in $$(seq 1 $(NEMESES)); do \
		$(TEST)/bin/python -m tests.cluster.nemeses --seconds 180 --seed $$seed || exit 1; \
	done
	for kind in $$(seq 1 29); do \
		$(TEST)/bin/python -m tests.cluster.nemeses --cores 2 --seconds 180 --alone $$kind || exit 1; \
	done
	for seed in $$(seq 1 $(NEMESES)); do \
		$(TEST)/bin/python -m tests.cluster.nemeses --cores 2 --seconds 180 --seed $$seed || exit 1; \
	done

# Half an hour of clients that come and go: what grows, and what do they leave behind?
soak: $(RUN)/.stamp
	$(RUN)/bin/python bench/outside/soak.py $(SOAK_ARGS)

# At least 1,000 random graphs with deaths, however long that takes, and every scenario in between,
# for a minute or more; one of them again:  python -m penstock.simulation run SCENARIO --seed N
sim: $(RUN)/.stamp
	$(RUN)/bin/python -m penstock.simulation sweep $(SIM_ARGS)

# Whole clusters in a simulated world; SIM_CLUSTER_ARGS="--seeds 100" for fewer than 2,000.
sim-cluster: $(TEST)/.stamp
	$(TEST)/bin/python -m penstock.simulation cluster $(SIM_CLUSTER_ARGS)

fuzz: $(TEST)/.stamp
	$(TEST)/bin/python fuzz/codec.py $(FUZZ_ARGS)
	HYPOTHESIS_PROFILE=long $(TEST)/bin/python -m pytest tests/property $(PYTEST_ARGS)

# FUZZ_RUNS executions of each target, those inputs kept that reach something new. About three hours
# for 5,000,000 of all but `connection` and `control`, which take as long each.
FUZZ_RUNS ?= 5000000
FUZZ_TARGETS ?= codec log stream control connection
fuzz-guided: $(TEST)/.stamp
	test -x .venv-fuzz/bin/python || $(TEST)/bin/python -m venv .venv-fuzz
	.venv-fuzz/bin/python -m pip install --quiet -r requirements/fuzz.lock
	for target in $(FUZZ_TARGETS); do \
		PYTHONPATH=src:.:$$($(TEST)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))") \
		.venv-fuzz/bin/python fuzz/guided.py $$target --runs $(FUZZ_RUNS) --keep || exit 1; \
	done

model: $(TEST)/.stamp
	PENSTOCK_QUEUE_EXAMPLES=2000 PENSTOCK_QUEUE_STEPS=50 $(TEST)/bin/python -m pytest \
		-o faulthandler_timeout=0 tests/property/test_queue_twin.py $(PYTEST_ARGS)

# Every state in which a crash may leave the scripted histories of the store, and every flipped bit.
crash: $(TEST)/.stamp
	PENSTOCK_CRASH_STATES=1000000 $(TEST)/bin/python -m pytest -s -o faulthandler_timeout=0 \
		tests/crash/test_crash_states.py tests/crash/test_stream_crash_states.py $(PYTEST_ARGS)
	PENSTOCK_TWO_LIVES=1000 $(TEST)/bin/python -m pytest -o faulthandler_timeout=0 \
		tests/crash/test_store_rows.py $(PYTEST_ARGS)

# Every call to the disk up to the 300th of a scripted life, and up to the 60th of a compaction.
crash-kill: $(TEST)/.stamp
	PENSTOCK_KILL_CALLS=300 PENSTOCK_COMPACTION_CALLS=60 $(TEST)/bin/python -m pytest \
		-o faulthandler_timeout=0 tests/crash/test_kill_at_calls.py $(PYTEST_ARGS)

# Root, loop devices and 4 GB of room: power cuts, a million messages before a start, 1 GB purged.
crash-live: $(TEST)/.stamp
	PENSTOCK_POWER_CUTS=100 PENSTOCK_HISTORY=1000000 PENSTOCK_PURGE_MB=1000 \
		$(TEST)/bin/python -m pytest -s -o faulthandler_timeout=0 tests/crash/test_power_cut.py \
		tests/crash/test_live_rows.py $(PYTEST_ARGS)

docs: $(TEST)/.stamp
	$(TEST)/bin/python scripts/limits_page.py > docs/limits.md
	$(TEST)/bin/python scripts/state_machines_page.py > docs/state-machines.md
	$(TEST)/bin/python scripts/config_example.py > packaging/penstock.toml
	$(TEST)/bin/python scripts/flow_board.py > packaging/grafana/penstock-flow.json
	$(TEST)/bin/python scripts/openapi_page.py > docs/openapi.json
	$(TEST)/bin/python scripts/commands_page.py > docs/commands.md

# Every warning is an error: a link to a page, a heading or a file that is not there.
site: .venv-site/.stamp
	.venv-site/bin/python scripts/web_site.py

.venv-site/.stamp: $(TEST)/.stamp requirements/docs.lock
	$(TEST)/bin/python -m venv --clear .venv-site
	.venv-site/bin/python -m pip install --quiet -r requirements/docs.lock
	@touch $@

# Resolved in an empty environment, so that nothing left over from earlier ends up in the lists.
lock:
	rm -rf $(LOCK)
	PENSTOCK_PURE=1 scripts/prepare_venv $(LOCK) /dev/null $(EXTRAS) --editable
	echo '# Exact versions of what `make install` installs. Written by `make lock`.' \
		> requirements/run.lock
	$(LOCK)/bin/python -m pip freeze --exclude penstock-mq >> requirements/run.lock
	PENSTOCK_PURE=1 scripts/prepare_venv $(LOCK) requirements/run.lock $(EXTRAS),test,dev --editable
	echo '# Exact versions of what the tests and checks install. Written by `make lock`.' \
		> requirements/dev.lock
	$(LOCK)/bin/python -m pip freeze --exclude penstock-mq >> requirements/dev.lock
	rm -rf $(LOCK)

clean:
	rm -rf .venv .venv-* .wheels .ci-logs build dist site src/*.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
