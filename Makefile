# The recipes of this repository; CI runs `make test`.

SHELL := /bin/bash
.DEFAULT_GOAL := help

CARGO ?= cargo
GO := $(shell command -v go)
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/loggia-e2e
TOOLS := $(CACHE)/tools

# The compiler is pinned to `rust-version`. Where the default one is another, an installed one of that version is used;
# nothing is downloaded (CONTRIBUTING.md).
RUST_VERSION := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
ifndef RUSTUP_TOOLCHAIN
ifeq ($(filter $(RUST_VERSION).%,$(shell rustc --version 2>/dev/null)),)
INSTALLED := $(firstword $(filter $(RUST_VERSION).% $(RUST_VERSION)-%,$(shell rustup toolchain list 2>/dev/null)))
ifneq ($(INSTALLED),)
export RUSTUP_TOOLCHAIN := $(INSTALLED)
endif
endif
endif

# `LOGGIA_REQUIRE` as it is for tests that run beside the cluster (docs/testing.md).
comma := ,
NOTHING :=
REQUIRED := $(subst $(NOTHING) ,$(comma),$(filter-out cluster,$(subst $(comma), ,$(LOGGIA_REQUIRE))))
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
STATIC := $(TARGET)/x86_64-unknown-linux-gnu/wrapper
STATIC_BUILD := RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --locked --profile wrapper --target x86_64-unknown-linux-gnu
RELEASE_BUILD := $(subst --profile wrapper,--release,$(STATIC_BUILD))

.PHONY: help
help: ## Show this list.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## Build, start the service, evaluate functions over gRPC, stop.
	@$(CARGO) build --locked --release -q -p function-runner
	@$(CARGO) build --locked --release -q -p loggia-grpc --example evaluate
	@examples/demo

.PHONY: test
test: required lint static tools packages ## Everything that CI checks.
	LOGGIA_REQUIRE=$(REQUIRED) LOGGIA_TOOLS=$(TOOLS) LOGGIA_STATIC=$(STATIC) LOGGIA_CACHE=$(CACHE) \
	  $(CARGO) test --locked --workspace
	@$(MAKE) hostile-short
	@$(if $(E2E_LACKS),e2e/missing cluster "the tests on Kubernetes; a cluster needs $(E2E_LACKS)",$(MAKE) e2e)

.PHONY: required
required:
	@e2e/missing

.PHONY: toolchain
toolchain:
	@[[ $$(rustc --version) == "rustc $(RUST_VERSION)."* ]] || { echo \
	  "this needs Rust $(RUST_VERSION), found $$(rustc --version); rustup toolchain install $(RUST_VERSION) --component" \
	  "rustfmt,clippy gets it, make RUST_VERSION=1.N tries another" >&2; exit 1; }

.PHONY: lint
lint: toolchain ## Format and lints, warnings as errors.
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	@$(MAKE) -s deny

.PHONY: deny
deny: ## Licences, advisories, bans and sources of what we depend on, where cargo-deny is installed.
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
	  $(CARGO) deny --all-features check --hide-inclusion-graph licenses bans sources || exit 1; \
	  if $(CARGO) deny fetch db >/dev/null 2>&1; then $(CARGO) deny --all-features check --hide-inclusion-graph advisories; \
	  else echo "left out: the advisories cannot be fetched here"; fi; \
	else echo "left out: cargo-deny is not installed (cargo install --locked cargo-deny)"; fi

.PHONY: static
static: ## The programs that run in an empty image: wrapper-server, and the function of the benchmarks.
	$(STATIC_BUILD) -p wrapper-server -p echo-function

.PHONY: images
images: static ## The release images as OCI layouts in target/images, and what they are made of (SPDX).
	$(RELEASE_BUILD) -p function-runner -p loggia-grpc --bin function-runner --example evaluate
	$(CARGO) build --locked -q --workspace --bin loggia-image
	IMAGE_TOOL=$(TARGET)/debug/loggia-image images/build $(STATIC)/../release/function-runner $(STATIC)/wrapper-server $(TARGET)/images
	@for program in function-runner wrapper-server; do images/sbom $$program > $(TARGET)/images/$$program.spdx.json; done

# Whether a cluster can be had here; otherwise the reason.
E2E_LACKS := $(if $(filter 0,$(shell id -u)),,root )$(if $(GO),,Go )
# By the whole workspace, so that nothing is built with other features than `make test` builds it with.
# `states` starts clusters of its own: it runs beside the cluster and not in it.
E2E_TESTS := --workspace --test installation \
  $(patsubst e2e/tests/%.rs,--test %,$(filter-out %/states.rs,$(wildcard e2e/tests/*.rs)))
E2E_PODS := --workspace --test pods
# Its stories wait most of the time: for pods, or for the cluster to be theirs alone.
E2E_PODS_AT_ONCE := 10

E2E_RUN := LOGGIA_TOOLS=$(TOOLS) LOGGIA_STATIC=$(STATIC) LOGGIA_CACHE=$(CACHE) LOGGIA_IMAGES=$(TARGET)/images \
  LOGGIA_RUNNER=$(STATIC)/../release/function-runner \
  $(CARGO) test --locked --config 'target."cfg(unix)".runner = "$(abspath e2e/cluster/run)"'

.PHONY: e2e
e2e: e2e-ready ## Tests on a real Kubernetes, which is left running.
	$(CARGO) test --locked $(E2E_TESTS) --test states --test pods --no-run
	$(CARGO) build --locked --workspace --bin loggia
	LOGGIA_CLUSTER_PROGRAMS=$(CACHE)/cluster/bin $(CARGO) test --locked --workspace --test states
	$(E2E_RUN) $(E2E_TESTS)
	$(E2E_RUN) $(E2E_PODS) -- --test-threads=$(E2E_PODS_AT_ONCE)

# The cluster, and the programs that run on it.
.PHONY: e2e-ready
e2e-ready: images tools
	@e2e/cluster/up
	@e2e/functions/build $(CACHE)/functions
	rustc --edition 2024 -O -C target-feature=+crt-static -C panic=abort -C strip=symbols \
	  -o $(STATIC)/behave-function e2e/functions/behave.rs

.PHONY: e2e-down
e2e-down: ## End the cluster.
	@e2e/cluster/down

# Lines that call make run even in a dry run, so nothing else stands on them.
ORACLE := -s CACHE=$(CACHE) -C e2e/oracle

.PHONY: tools
tools: ## The programs of others that tests hold ours against, where Go (and npm) is installed.
ifeq ($(GO),)
	@e2e/missing oracle "Go is not installed, so tests use recorded answers of the original programs"
	@e2e/missing tools "Go is not installed, so no client of others talks to the service"
else
	@mkdir -p $(TOOLS)
	@go build -C e2e/tools -o $(TOOLS)/ ./health-probe github.com/fullstorydev/grpcurl/cmd/grpcurl
	@$(MAKE) $(ORACLE) $(if $(shell command -v npm),suite,build)
	@$(MAKE) $(ORACLE)/krm build
	@$(MAKE) $(ORACLE)/registry build
	@$(MAKE) $(ORACLE)/functions build
endif

# Releases of cosign, by which tests hold our verification of signatures against. Built once each.
COSIGN := $(CACHE)/cosign
$(COSIGN)/v2/cosign: VERSION := v2/cmd/cosign@v2.6.5
$(COSIGN)/v3/cosign: VERSION := v3/cmd/cosign@v3.1.3
$(COSIGN)/%/cosign:
	@mkdir -p $(@D)
	CGO_ENABLED=0 GOFLAGS=-mod=mod GOBIN=$(@D) go install -trimpath -ldflags=-s github.com/sigstore/cosign/$(VERSION)

.PHONY: deep
deep: packages ## What takes long to build or to run: signatures of cosign itself, at a real registry.
ifeq ($(GO),)
	@e2e/missing cosign "Go is not installed, so signatures are tested on recorded ones only"
else
	@$(MAKE) -s $(COSIGN)/v2/cosign $(COSIGN)/v3/cosign
	LOGGIA_COSIGN=$(COSIGN) $(CARGO) test --locked -p loggia-registry --test cosign -- --ignored --skip record
endif

.PHONY: deep-record
deep-record: packages $(COSIGN)/v2/cosign $(COSIGN)/v3/cosign ## Record signatures of cosign for the tests that run without it.
	LOGGIA_COSIGN=$(COSIGN) $(CARGO) test --locked -p loggia-registry --test cosign -- --ignored record

.PHONY: packages
packages: ## The registry and skopeo of Debian, which tests talk to; installed if missing and we may.
	@e2e/registry/install

.PHONY: conformance
conformance: ## The public test data of kpt and of the catalog, where it lies beside this repository.
	$(CARGO) build --locked --release -p loggia
	@if [ -x ../shared/conformance/run ]; then ../shared/conformance/run target/release/loggia; \
	else echo "left out: ../shared/conformance is not there"; fi

.PHONY: soak
soak: ## Minutes of load with failing, slow, hanging and vanishing callers, and 100 stops under load.
	LOGGIA_SOAK_CALLS=10000 LOGGIA_SOAK_RUNS=100000 LOGGIA_DRAIN_ROUNDS=100 \
	  $(CARGO) test --locked --release -p function-runner --test soak --test drain -- --nocapture --test-threads=1
	@$(if $(E2E_LACKS),e2e/missing cluster "function pods under faults; a cluster needs $(E2E_LACKS)",$(MAKE) soak-pods)

# By the whole workspace, as above. `ONLY` narrows it to rows with a word in their name, as in `make hostile ONLY=Starlark`.
HOSTILE_RUN = LOGGIA_RUNNER=$(STATIC)/../release/function-runner LOGGIA_STATIC=$(STATIC) LOGGIA_CLI=$(1) \
  $(CARGO) test --locked --workspace --test hostile-rows -- $(2)

.PHONY: hostile
hostile: images ## Hostile inputs in every size and place, against the release programs under a limit on memory.
	$(CARGO) build --locked --release -p loggia
	$(call HOSTILE_RUN,$(TARGET)/release/loggia,$(if $(ONLY),--only $(ONLY)))

.PHONY: hostile-short
hostile-short: images ## The same in a minute; part of `make test`.
	$(CARGO) build --locked --workspace --bin loggia
	$(call HOSTILE_RUN,$(TARGET)/debug/loggia,--short $(if $(ONLY),--only $(ONLY)))

FUZZ_SECONDS ?= 600
.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZ_SECONDS (needs a C++ compiler); FUZZ names targets, all by default.
	fuzz/run $(FUZZ_SECONDS) $(FUZZ)

SOAK_SECONDS ?= 600
.PHONY: soak-pods
soak-pods: e2e-ready ## Minutes of load on function pods while pods, Services, the API server and the registry come and go.
	LOGGIA_SOAK_SECONDS=$(SOAK_SECONDS) $(E2E_RUN) $(E2E_PODS) -- --ignored soak --nocapture

.PHONY: bench
bench: images peers packages ## Ratios, measured side by side, into bench/RESULTS.md.
	$(CARGO) build --locked --release -p function-runner -p loggia
	$(CARGO) build --locked --release -p loggia-bench
	@$(if $(E2E_LACKS),,e2e/cluster/up)
	@LOGGIA_CACHE=$(CACHE) bench/run

.PHONY: peers
peers: ## The programs that benchmarks compare with, where Go is installed.
ifeq ($(GO),)
	@echo "left out: Go is not installed, so benchmarks have no peers"
else
	@mkdir -p $(CACHE)/peers/porch
	@go build -C bench/peers/kyaml -o $(CACHE)/peers/kyaml-bench .
	@go build -C bench/peers/kpt -o $(CACHE)/peers/kpt .
	@CGO_ENABLED=0 go build -C bench/peers/porch -o $(CACHE)/peers/porch/ \
	  github.com/nephio-project/porch/func/server github.com/nephio-project/porch/func/wrapper-server
	@$(MAKE) $(ORACLE)/functions build
endif
