# Every target sets up what it needs; `make` alone lists them.
# Everything lands in this folder (.venv, .venv-proto, .tools): remove it with `make clean-all`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.ONESHELL:
MAKEFLAGS += --no-print-directory

# A foreign environment must not leak into ours.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
# Without bytecode on the disk every process of a test compiles the whole product again, which takes as long as the tests.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := .venv/bin
KILLS ?= 200
MINUTES ?= 60
TRIALS ?= 200
SUITE := $(wildcard tests/unit tests/contract tests/property tests/fault tests/fault_client tests/fault_fleet tests/fuzz tests/soak tests/integration tests/spark)
TESTS ?= $(SUITE)
MARKS ?= not campaign and not documents
PYTEST_ARGS ?=
PROCESSES ?= 4
BENCH_ARGS ?=
MASS_ARGS ?=
ROUNDS ?= 500
CLIENT_ARGS ?=
ENGINE ?= directory
FREEZES ?= 30
PARTITIONS ?= 30
FLEET_ARGS ?=
POSITION_ARGS ?=
BACKUP_ARGS ?=
VERSIONS ?=
GRPCURL_VERSION := v1.9.3
HELM_VERSION := v3.19.5
# Generators of the Go client of tests/go; its runtime is in tests/go/go.mod.
PROTOC_GEN_GO_VERSION := v1.36.12
PROTOC_GEN_GO_GRPC_VERSION := v1.6.2
# Servers of the tests of saved positions and backups.
MINIO_VERSION := v0.0.0-20260212201848-7aac2a2c5b7c
AZURITE_VERSION := 3.37.0
FAKE_GCS_VERSION := v1.56.1
CASSANDRA_VERSION := 5.0.5
# The Prometheus of compose/compose.yaml, 3.16.0; those of collector and Jaeger are in tests/observability.
PROMETHEUS_VERSION := v0.316.0

# The interpreter that creates the environments; name another with make PYTHON=python3.12.
export PYTHON ?=

# `-m` puts this folder on Python's path: the hooks import docs.generator.
# Not --quiet: it drops the warnings that --strict counts.
MKDOCS = { said=$$(NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict 2>&1) || { echo "$$said" >&2; exit 1; }; }

.PHONY: help venv demo docs test test-browser test-deploy test-go test-observability test-stores quick coverage check release format proto proto-baseline lock bench bench-peers bench-spark fault fault-backup fault-client fault-disk fault-fleet fault-mass fault-positions fault-postgresql fault-shard fault-spark fuzz soak \
	spark-versions compose-test grpcurl stores observability clean clean-all java

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- environments ------------------------------------------------------------------------------------------------

venv: .venv/.installed ## create .venv with the locked dependencies and Forebay itself, editable

# The stamp holds the folder's path: an environment that was copied along with the folder still points to the old one.
MOVED := $(shell [ "$$(cat .venv/.installed 2>/dev/null)" = "$(CURDIR)" ] || echo moved)

.venv/.installed: requirements.lock pyproject.toml $(MOVED)
	@python=$$(.ci/need python)
	echo "forebay: installing requirements.lock into .venv with $$($$python --version) (one to three minutes the first time)"
	[ -z "$(MOVED)" ] && $(BIN)/python -m pip --version >/dev/null 2>&1 || $$python -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	echo "forebay: installing this folder into .venv, editable"
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	echo "$(CURDIR)" >$@

.PHONY: moved

.venv-proto/.installed: protos/requirements.lock
	@python=$$(.ci/need python)
	echo "forebay: creating .venv-proto with the packages of protos/requirements.lock"
	[ -x .venv-proto/bin/python ] && .venv-proto/bin/python -m pip --version >/dev/null 2>&1 || $$python -m venv --clear .venv-proto
	.venv-proto/bin/python -m pip install --quiet --require-hashes -r protos/requirements.lock
	touch $@

# Extras stay in the lock: an older pip (23.2) takes the newest release for `coverage[toml]` beside a pinned `coverage`, and refuses its hash.
UV = $(firstword $(wildcard $(BIN)/uv) $(shell command -v uv))
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)

lock: ## resolve the dependencies again; UPGRADE=1 takes newer versions
	@[ -n "$(UV)" ] || { echo "forebay: uv was not found; run make venv first, or install uv." >&2; exit 1; }
	$(COMPILE) --all-extras --output-file requirements.lock pyproject.toml
	$(COMPILE) --output-file protos/requirements.lock protos/requirements.in
	$(COMPILE) --output-file tests/browser/requirements.lock tests/browser/requirements.in
	$(COMPILE) --output-file tests/deploy/requirements.lock tests/deploy/requirements.in
	if grep -nE '://|(^|[[:space:]=])/' requirements.lock {protos,tests/browser,tests/deploy}/requirements.lock; then
		echo "forebay: an address or a path got into a lock file, see above." >&2; exit 1
	fi
	echo "forebay: wrote requirements.lock and those of protos, tests/browser and tests/deploy"

java:
	@.ci/need java

# --- run and test ------------------------------------------------------------------------------------------------

demo: java venv ## Spark, the broker and a slow system at work, in one terminal
	@$(BIN)/forebay demo

# In CI nothing may be skipped for want of grpcurl; elsewhere its tests are skipped when it is not there.
# Four processes keep two cores busy, since half of the tests wait for something; tests/conftest.py says what stays together.
PYTEST = PATH="$(CURDIR)/.tools/bin:$$PATH" $(BIN)/python -m pytest -n $(PROCESSES) --dist loadgroup

test: java venv .venv/.tests-compiled $(if $(FOREBAY_REQUIRE_GRPCURL),grpcurl) ## run the tests, in PROCESSES processes
	@$(PYTEST) -m '$(MARKS)' $(TESTS) $(PYTEST_ARGS)

test-campaigns: venv ## run a few rounds of each campaign: kills, faults of clients and of a fleet, damaged disks, fuzzing, soak
	@$(PYTEST) -m campaign tests/fault tests/fault_client tests/fault_fleet tests/fuzz tests/soak $(PYTEST_ARGS)

test-docs: java venv $(if $(FOREBAY_REQUIRE_GRPCURL),grpcurl) ## run the code blocks of the documentation
	@$(PYTEST) -m documents tests/unit/test_readmes.py tests/spark/test_documents.py $(PYTEST_ARGS)

# In a new clone each process of the suite would compile all tests, at the same time. What cannot be compiled is reported by the run.
.venv/.tests-compiled: .venv/.installed
	@echo "forebay: compiling the tests, once"
	$(BIN)/python -m pytest --quiet --collect-only tests/unit >/dev/null &
	$(BIN)/python -m pytest --quiet --collect-only $(filter-out tests/unit,$(SUITE)) >/dev/null || true
	wait $$! || true
	touch $@

# Every server is a process on loopback that the tests start and end. In CI none of them may be missing.
test-stores: venv stores ## test saved positions and backups on real servers, which it installs first where Go, npm and Maven are there
	@$(if $(FOREBAY_REQUIRE_STORES),.ci/need postgresql,true)
	PATH="$(CURDIR)/.tools/bin:$$PATH" $(BIN)/python -m pytest -n 2 --dist loadfile tests/stores $(PYTEST_ARGS)

test-go: venv .tools/go-generators ## test the wire contract with a client in Go, generated from the protos
	@.venv-proto/bin/python tests/go/generate.py
	cd tests/go && FOREBAY="$(CURDIR)/$(BIN)/forebay" GOFLAGS=-modcacherw go test -count=1 ./...

.tools/go-generators: Makefile | .venv-proto/.installed
	@.ci/need go "to generate and test the Go client"
	echo "forebay: building protoc-gen-go and protoc-gen-go-grpc into .tools/bin"
	export GOBIN="$(CURDIR)/.tools/bin" GOFLAGS=-modcacherw
	go install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO_VERSION)
	go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC_VERSION)
	touch $@

test-browser: venv .tools/browser/.installed ## test the console in Chromium: each page, at two widths, light and dark, by the rules of axe
	@.ci/need chromium
	PYTHONPATH="$(CURDIR)/.tools/browser" $(BIN)/python -m pytest -n 2 tests/browser $(PYTEST_ARGS)

test-deploy: venv .tools/helm/$(HELM_VERSION)/helm .tools/deploy/.installed ## lint, render and validate the Helm chart, and verify the systemd units
	@PATH="$(CURDIR)/.tools/helm/$(HELM_VERSION):$$PATH" PYTHONPATH="$(CURDIR)/.tools/deploy" $(BIN)/python -m pytest tests/deploy $(PYTEST_ARGS)

.tools/deploy/.installed: tests/deploy/requirements.lock | venv
	@echo "forebay: installing the schemas of Kubernetes into .tools/deploy"
	$(BIN)/python -m pip install --quiet --require-hashes --upgrade --target .tools/deploy -r tests/deploy/requirements.lock
	touch $@

# Beside .venv, which 50 MB of a browser's driver would slow down for all who never need it.
.tools/browser/.installed: tests/browser/requirements.lock | venv
	@echo "forebay: installing the driver of the browser into .tools/browser"
	$(BIN)/python -m pip install --quiet --require-hashes --upgrade --target .tools/browser -r tests/browser/requirements.lock
	touch $@

test-observability: java venv observability ## test dashboard, alerts and the trace of a record with a real Prometheus, collector and Jaeger, which it builds first where Go is there
	@$(BIN)/python -m pytest -n 2 --dist loadfile tests/observability $(PYTEST_ARGS)

# Three processes: each more collects all tests first, which takes 4 s of a processor.
quick: venv ## run the fast unit and contract tests, in less than a minute on two cores
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m 'not slow and not spark' --hypothesis-profile quick \
		tests/unit tests/contract $(PYTEST_ARGS)

coverage: java venv ## measure the branch coverage of unit, contract and property tests; lines are in htmlcov/index.html
	@$(BIN)/python -m pytest -n $(PROCESSES) --dist loadgroup --cov --cov-report=term --cov-report=html \
		tests/unit tests/contract tests/property $(PYTEST_ARGS)

check: venv .venv-proto/.installed ## format, lint, types, generated code, rules of imports, language and background work, documentation
	@echo "forebay: ruff format --check" && $(BIN)/ruff format --check .
	echo "forebay: ruff check" && $(BIN)/ruff check .
	echo "forebay: mypy --strict" && $(BIN)/mypy
	echo "forebay: protos/generate.py --check" && .venv-proto/bin/python protos/generate.py --check
	echo "forebay: rules of imports, of language and of background work" && $(BIN)/python -m pytest --quiet \
		tests/contract/test_{import_rules,import_cycles,language,background_work}.py
	echo "forebay: mkdocs build --strict" && $(MKDOCS)

docs: venv ## build the documentation site into build/site
	@$(MKDOCS)
	echo "forebay: wrote build/site; open build/site/index.html"

format: venv ## format and fix what ruff can fix
	@$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: java venv ## measure; BENCH_ARGS are passed on
	@$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-peers: java venv .tools/kafka/.installed ## measure small records beside Kafka, which it installs first where Maven is there; BENCH_ARGS are passed on
	@$(BIN)/python -m tests.bench.peers $(BENCH_ARGS)

# The checksums are those of the jars that the versions in the POM resolved to; Maven alone compares with the repository only.
.tools/kafka/.installed: tests/support/stores/kafka-pom.xml tests/support/stores/kafka.sha256
	@.ci/need maven "to fetch the jars of Kafka"
	rm -rf .tools/kafka
	mkdir -p .tools/kafka
	echo "forebay: copying Kafka into .tools/kafka"
	mvn --quiet --batch-mode --file tests/support/stores/kafka-pom.xml dependency:copy-dependencies -DincludeScope=runtime \
		-DoutputDirectory="$(CURDIR)/.tools/kafka"
	cd .tools/kafka
	sha256sum --check --quiet --strict "$(CURDIR)/tests/support/stores/kafka.sha256"
	ls | diff - <(awk '{ print $$2 }' "$(CURDIR)/tests/support/stores/kafka.sha256") || {
		echo "forebay: these jars are not those of tests/support/stores/kafka.sha256." >&2; exit 1
	}
	touch .installed

bench-spark: java venv ## measure exactly once from Spark; BENCH_ARGS are passed on
	@$(BIN)/python -m tests.bench.exactly_once $(BENCH_ARGS)

fault: venv ## kill the broker KILLS times while it works and compare what is left with what was promised
	@$(BIN)/python -m tests.fault.campaign --kills $(KILLS)

fault-spark: java venv ## kill driver, executors and broker KILLS times under a query that writes exactly once, and compare
	@$(BIN)/python -m pytest tests/fault_spark
	$(BIN)/python -m tests.fault_spark.campaign --kills $(KILLS)

spark-versions: java venv ## run users' jobs under every supported version of Spark, each in an environment of its own
	@$(BIN)/python -m tests.spark_versions $(VERSIONS)

soak: venv ## work a broker with 200 sinks of all kinds for MINUTES: memory flat, disk back, nothing lost
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

fuzz: venv ## call every rpc for MINUTES with invalid and hostile requests: each gets a typed error, and nothing grows
	@$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

fault-mass: venv ## 10,000 idle strangers, 1,000 slow readers, 1,000 publishers, incomplete requests and 9,000 sinks on one broker, and what the others notice
	@$(BIN)/python -m tests.fault.mass $(MASS_ARGS)

fault-client: venv ## break wires, certificates, clocks, processes and the store ROUNDS times under a publisher and a subscriber
	@$(BIN)/python -m tests.fault_client.campaign --rounds $(ROUNDS) $(CLIENT_ARGS)

fault-shard: venv ## kill the brokers of a shard KILLS times, each time another one takes over, and compare what is left with what was promised
	@$(BIN)/python -m tests.fault.campaign --shard --kills $(KILLS)

fault-fleet: venv ## kill, freeze and cut off the brokers of a shard over ENGINE (directory, minio, kafka): KILLS, FREEZES, PARTITIONS of each kind
	@$(BIN)/python -m tests.fault_fleet.campaign --engine $(ENGINE) --kills $(KILLS) --freezes $(FREEZES) --partitions $(PARTITIONS) $(FLEET_ARGS)

fault-positions: venv ## kill consumers with saved positions KILLS times, over three stores, and compare with what they processed
	@$(BIN)/python -m tests.fault.positions_campaign --kills $(KILLS) $(POSITION_ARGS)

fault-postgresql: venv ## kill a deliverer and the PostgreSQL that it delivers into KILLS times each, and compare the rows
	@.ci/need postgresql
	FOREBAY_POSTGRESQL_KILLS=$(KILLS) $(BIN)/python -m pytest tests/stores/test_postgresql_target.py -k kills -rP $(PYTEST_ARGS)

fault-backup: venv ## back a broker up TRIALS times while it works and is killed, and restore what is complete
	@$(BIN)/python -m tests.fault.backup_campaign --trials $(TRIALS) $(BACKUP_ARGS)

fault-disk: venv ## damage every kind of stored value TRIALS times and check what a start makes of it
	@$(BIN)/python -m tests.fault.disk_campaign --trials $(TRIALS)

compose-test: ## start compose/compose.yaml with a container engine and test it
	@compose/test.sh

# --- wire contract -----------------------------------------------------------------------------------------------

proto: .venv-proto/.installed ## generate the code in protos/forebay/v1, and the settings of a sink in the client
	@.venv-proto/bin/python protos/generate.py

proto-baseline: venv proto ## take the current schema as the one that must stay compatible: at a release only
	@cp protos/forebay/v1/descriptors.binpb tests/contract/baseline.binpb
	echo "forebay: wrote tests/contract/baseline.binpb"

# --- release -----------------------------------------------------------------------------------------------------

release: venv ## build wheel and sdist of the tagged version into dist/; refused without a changelog entry or with changes
	@.ci/release

# --- tools -------------------------------------------------------------------------------------------------------

grpcurl: .tools/bin/grpcurl ## build grpcurl into .tools/bin

.tools/bin/grpcurl:
	@mkdir -p .tools/bin
	if .ci/need go 2>/dev/null; then
		echo "forebay: building grpcurl $(GRPCURL_VERSION) into .tools/bin (about a minute)"
		GOBIN="$(CURDIR)/.tools/bin" GOFLAGS=-modcacherw \
			go install github.com/fullstorydev/grpcurl/cmd/grpcurl@$(GRPCURL_VERSION)
	elif command -v grpcurl >/dev/null; then
		echo "forebay: using the grpcurl of the PATH"
		ln -sf "$$(command -v grpcurl)" $@
	else
		.ci/need go
	fi

.tools/helm/$(HELM_VERSION)/helm:
	@.ci/need go "to build Helm"
	echo "forebay: building Helm $(HELM_VERSION) into .tools/helm (a few minutes)"
	GOBIN="$(CURDIR)/$(@D)" GOFLAGS=-modcacherw go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

# What installs nothing says why; its tests are then skipped, and in CI they fail.
stores:
	@mkdir -p .tools
	[ -x .tools/bin/minio ] || ! .ci/need go "to build MinIO" || {
		echo "forebay: building MinIO into .tools/bin (a few minutes)"
		GOBIN="$(CURDIR)/.tools/bin" GOFLAGS=-modcacherw go install github.com/minio/minio@$(MINIO_VERSION)
	}
	[ -x .tools/bin/fake-gcs-server ] || ! .ci/need go "to build fake-gcs-server" || {
		echo "forebay: building fake-gcs-server into .tools/bin (a few minutes)"
		GOBIN="$(CURDIR)/.tools/bin" GOFLAGS=-modcacherw go install github.com/fsouza/fake-gcs-server@$(FAKE_GCS_VERSION)
	}
	[ -x .tools/azurite/node_modules/.bin/azurite-blob ] || ! .ci/need npm "to install Azurite" || {
		echo "forebay: installing Azurite into .tools/azurite"
		npm install --silent --no-audit --no-fund --prefix .tools/azurite azurite@$(AZURITE_VERSION)
	}
	ls .tools/cassandra/jamm-*.jar >/dev/null 2>&1 || ! .ci/need maven "to fetch the jars of Cassandra" || {
		echo "forebay: copying Cassandra $(CASSANDRA_VERSION) into .tools/cassandra"
		mvn --quiet --batch-mode --file tests/support/stores/cassandra-pom.xml -Dcassandra.version=$(CASSANDRA_VERSION) \
			dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/.tools/cassandra"
	}
	! .ci/need maven "to fetch the jars of Kafka" || $(MAKE) --no-print-directory .tools/kafka/.installed
	.ci/need java && .ci/need postgresql || true

# What builds nothing says why; its tests are then skipped, and in CI they fail.
observability:
	@! .ci/need go "to build Prometheus, the OpenTelemetry Collector and Jaeger" || \
		$(MAKE) --no-print-directory --silent .tools/observability/{collector,jaeger,prometheus}

.tools/observability/collector: tests/observability/collector/main.go tests/observability/collector/go.mod
	@echo "forebay: building the OpenTelemetry Collector into .tools/observability (a few minutes)"
	cd $(<D) && GOFLAGS=-modcacherw go build -p 2 -o "$(CURDIR)/$@" .
	touch "$(CURDIR)/$@"

.tools/observability/jaeger: tests/observability/jaeger/go.mod
	@echo "forebay: building Jaeger into .tools/observability (a few minutes)"
	cd $(<D) && GOFLAGS=-modcacherw go build -p 2 -o "$(CURDIR)/$@" github.com/jaegertracing/jaeger/cmd/jaeger
	touch "$(CURDIR)/$@"

# Without the services that it could discover targets in: half of the code.
.tools/observability/prometheus: Makefile
	@echo "forebay: building Prometheus $(PROMETHEUS_VERSION) into .tools/observability (a few minutes)"
	GOBIN="$(CURDIR)/$(@D)" GOFLAGS=-modcacherw go install -p 2 -tags remove_all_sd \
		github.com/prometheus/prometheus/cmd/{prometheus,promtool}@$(PROMETHEUS_VERSION)
	touch $@

clean: ## remove what builds, tests and runs left behind
	@rm -rf dist build bench-results .forebay .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db
	find . -name __pycache__ -not -path './.venv*' -type d -prune -exec rm -rf {} +

clean-all: clean ## and the environments and tools too
	@rm -rf .venv .venv-proto .tools
