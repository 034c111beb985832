# What there is to do here. CI (.ci/run) calls the same targets.

FUZZTIME ?= 30s

# The modules are those of go.work, and are written down nowhere else. The tools are a module of their own
# outside of it, so that what they require never meets what the library requires.
modules = $(shell go list -m -f '{{.Dir}}')
each    = @set -e; for dir in $(modules); do (echo "== $$dir"; cd "$$dir"; $(1)); done

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: ## run the tests of every module
	go test work

.PHONY: race
race: ## run them under the race detector
	go test -race -vet=off work # vet has a target of its own

.PHONY: bench
bench: ## run every benchmark six times, for bin/benchstat to compare
	go test -run '^$$' -bench . -benchmem -count 6 work

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	$(call each,for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$package; \
		done; \
	done)

.PHONY: golden
golden: ## write the golden files anew; read them in the diff
	$(call each,for package in $$(grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -r -n1 dirname | sort -u); do \
		go test $$package -update; \
	done)

.PHONY: format
format: ## say which files gofmt would change
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## run go vet on every module
	go vet work

.PHONY: lint
lint: bin/golangci-lint ## run the linters of .golangci.yml on every module
	$(call each,"$(CURDIR)/bin/golangci-lint" run ./...)

.PHONY: tidy
tidy: ## bring every go.mod and go.sum in order
	$(call each,GOWORK=off go mod tidy)

.PHONY: tidy-check
tidy-check: ## say which of them are not
	$(call each,GOWORK=off go mod tidy -diff)

.PHONY: build
build: ## build every module by itself, as the modules that require it do
	$(call each,GOWORK=off go build -o /dev/null ./... && GOWORK=off go vet ./...)

.PHONY: ci
ci: ## do all that CI does
	.ci/run

.PHONY: tools
tools: bin/golangci-lint ## build the linter and benchstat into bin/, at the versions that tools/go.mod pins

bin/golangci-lint: tools/go.mod tools/go.sum
	cd tools && GOWORK=off go build -o ../bin/ tool
	@touch $@
