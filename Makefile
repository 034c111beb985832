# What there is to do here. CI (.ci/run) calls the same targets.

FUZZTIME ?= 30s
SOAK     ?= 5m

# The modules are those of go.work, and are written down nowhere else. The tools are a module of their own
# outside of it, so that what they require never meets what the library requires.
modules = $(shell go list -m -f '{{.Dir}}')
each    = @set -e; for dir in $(modules); do (echo "== $$dir"; cd "$$dir"; $(1)); done

# What differs on Windows, where no test of ours runs.
windows = ./internal/... ./stall/...

# The adapters for SDKs, and what is only for us, stand outside of go.work, so that what they require never meets what
# the library requires.
adapters = $(patsubst %/go.mod,%,$(wildcard watchdog*/go.mod))
outside  = $(adapters) bench tools
# The packages of bench that go test can run anywhere. The browser has a target of its own.
measuring = . ./histories ./internal/... ./redact ./survivors ./tables ./upgrades
alone    = @set -e; for dir in $(1); do (echo "== $$dir"; cd "$$dir"; GOWORK=off $(2)); done

# SQLite is C that was translated to Go. The race detector would make it eight times slower, to look for races in the C;
# it still sees the driver, and all that calls it. Vet has a target of its own.
racing = -race -vet=off -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# Under the race detector a process sleeps for a second before it exits, to see the races of goroutines that are left.
race test-adapters: export GORACE = atexit_sleep_ms=100

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: ## run the tests of every module
	go test work

.PHONY: test-tools
test-tools: ## run the tests of the tools
	cd tools && GOWORK=off go test -vet=off ./...

.PHONY: test-adapters
test-adapters: ## run the tests of the adapters for SDKs, under the race detector
	$(call alone,$(adapters),go test $(racing) ./...)

.PHONY: test-bench
test-bench: ## run the tests of what is measured, and of histories in real databases
	cd bench && GOWORK=off go test -vet=off $(measuring)

.PHONY: test-browser
test-browser: ## test the page in Chromium; SHOTS=folder writes screenshots there
	cd bench && GOWORK=off go test -vet=off ./browser $(if $(SHOTS),-shots '$(abspath $(SHOTS))')

.PHONY: race
race: ## run them under the race detector
	go test $(racing) -timeout 20m work
	cd bench && GOWORK=off go test $(racing) $(measuring)

# Names only: WATCHDOG_LONG also lengthens tests that take many minutes then. See racing.Rounds.
long = Test.*Histories|Test.*Model|Test.*Surviv(es|ors)|TestSpendOfKilledProcesses|TestSimulation|TestSameSeed|TestCrash
long := $(long)|TestLinearizable|Test(Lossy)?Promotion|TestBroken.*Stores
long := $(long)|TestEvents|TestSessions|TestSpend|TestLikeMemory|TestTransactionPooler|TestSearchPath|TestSoak
long := $(long)|TestOneCause|TestLadderAndItsEvents|TestSize|TestSameHistory|TestBase|TestOrder
long := $(long)|TestTailOfAnyHistory|TestStatesWithAnyByteWrong|TestHealthySessions
long := $(long)|TestReleaseAndKill|TestKillWhileEnding|TestLastMessage|TestHoldsOfProcesses
longer = . ./internal/... ./loop ./stall ./stall/converge ./event/eventtest ./session/sessiontest ./store/sqlite ./store/postgres \
	./store/postgres/soak ./examples/internal/crashtest

# The tests of the command that do more in a long run: with PostgreSQL, what the others do with SQLite alone.
stored = $(shell awk '/^func / { name = $$2; sub(/[^A-Za-z].*/, "", name) } /eachStore.t, func|racing[.]Long/ { print name }' \
	cmd/watchdog/*_test.go | grep '^Test' | sort -u | paste -sd '|')

LONG ?= 1

# A pause takes its time, and a busy machine is one for all: a part of these is what the tests do.
ifeq ($(LONG),1)
long := $(long)|Test(Hung)?Paused|TestHungOnBusyMachine
endif

.PHONY: long
long: ## run all of what the tests run a part of, LONG=3 a third of the rounds: random histories, kills, simulated fleets
	WATCHDOG_LONG=$(LONG) go test -vet=off -count=1 -timeout 20m -run '^($(long))$$' $(longer)
	cd bench && GOWORK=off WATCHDOG_LONG=$(LONG) go test -vet=off -count=1 -timeout 20m -run '^($(long))$$' ./histories
	WATCHDOG_LONG=$(LONG) go test -vet=off -count=1 -timeout 20m -run '^($(stored))$$' ./cmd/watchdog

SIM_FIRST ?= 1
SIM_SEEDS ?= 20000

.PHONY: sim
sim: ## simulate SIM_SEEDS (20000) fleets of hosts and sweepers, from the seed SIM_FIRST on; SIM_LOG=1 shows all of a failure
	SIM_FIRST=$(SIM_FIRST) SIM_SEEDS=$(SIM_SEEDS) go test ./internal/sim -run TestSimulation -count 1 -timeout 0


.PHONY: bench
bench: ## run every benchmark six times, for bin/benchstat to compare
	go test -run '^$$' -bench . -benchmem -count 6 work
	$(call alone,$(adapters),go test -run '^$$' -bench . -benchmem -count 6 ./...)
	cd bench && GOWORK=off go test -run '^$$' -bench . -benchmem -count 6 . ./histories

# Results go to one file, from which bench/tables takes them once all are there.
measure  = go test -run '^$$' -benchmem -count 6
measured = >> "$(CURDIR)/bin/bench.txt"

.PHONY: bench-tables
bench-tables: ## measure what bench/README.md shows, in an hour on a quiet machine, and write its tables
	@mkdir -p bin && rm -f bin/bench.txt
	cd bench && GOWORK=off $(measure) -bench 'Fired|NewAndClose|Activity|Bound|IdleMade|IdleAlive|IdleWrapped|LoopStep' . $(measured)
	cd bench && GOWORK=off $(measure) -bench 'Admit|Attach' . $(measured)
	cd bench && GOWORK=off $(measure) -bench 'Armed|Lateness|Together|Stream|Window' -benchtime 1x . $(measured)
	cd bench && GOWORK=off $(measure) -bench 'Output|ShortCommand' -benchtime 20x . $(measured)
	$(measure) -bench Kill -benchtime 40x ./internal/proctree $(measured)
	$(measure) -bench Why ./cmd/watchdog $(measured)
	$(measure) -bench BenchmarkRun -benchtime 150x ./cmd/watchdog $(measured)
	$(measure) -bench Size -benchtime 1x ./cmd/watchdog $(measured)
	$(measure) -bench Append ./store/sqlite $(measured)
	cd bench && GOWORK=off go run ./tables -add ../bin/bench.txt

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	$(call each,for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$package; \
		done; \
	done)

.PHONY: soak
soak: ## soak sessions in PostgreSQL with 2,000 runs on each of five hosts, and faults for SOAK (5m)
	go test -count=1 -timeout 0 -v -run '^TestSoak$$' ./store/postgres/soak -length $(SOAK) -runs 2000

.PHONY: golden
golden: ## write the golden files anew; read them in the diff
	$(call each,for package in $$(grep -rl --include='*_test.go' '/golden"' . | xargs -r -n1 dirname | sort -u); do \
		go test $$package -update; \
	done)
	cd bench && GOWORK=off go test ./internal/tables -update

.PHONY: format
format: ## say which files gofmt would change
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## run go vet on every module, and on what differs on Windows
	go vet work
	GOOS=windows GOARCH=amd64 go vet $(windows)
	GOOS=windows GOARCH=arm64 go vet $(windows)
	GOARCH=386 CGO_ENABLED=0 go build ./... # where an int has 32 bits
	$(call alone,$(outside),go vet ./...)

.PHONY: lint
lint: bin/golangci-lint ## run the linters of .golangci.yml on every module
	$(call each,"$(CURDIR)/bin/golangci-lint" run ./...)
	GOOS=windows bin/golangci-lint run --disable unused $(windows) # what only Linux uses is not for it
	$(call alone,$(outside),"$(CURDIR)/bin/golangci-lint" run ./...)

# The modules require each other at a version that cannot be fetched before it is tagged: .ci/modules says how they are
# built and tidied without go.work. There is no `go work sync` here: it would raise what the library requires to what the
# examples and benchmarks need.
.PHONY: tidy
tidy: ## tidy every go.mod and go.sum
	.ci/modules tidy

.PHONY: tidy-check
tidy-check: ## print what tidy would change, and fail if that is anything
	@.ci/modules tidy-check

.PHONY: build
build: ## build and vet every module by itself, without go.work
	@.ci/modules build

# A release is: set the version, head its part of CHANGELOG.md, commit, let CI pass, and push the tags that this lists,
# in this order, all for that commit.
.PHONY: release
release: ## set VERSION=vX.Y.Z in every module, and list the tags to make
	@.ci/modules release $(VERSION)

.PHONY: release-check
release-check: ## get, build and install every module as its users will, from zips of this checkout
	@.ci/modules release-check

# What is handed on is built so that anybody can build the same bytes: without paths, without C, without what git says.
reproducibly = CGO_ENABLED=0 go build -trimpath -buildvcs=false

.PHONY: command
command: ## build bin/watchdog as it is released
	$(reproducibly) -o bin/watchdog ./cmd/watchdog

.PHONY: reproducible
reproducible: ## build the last commit's command in two folders, with two empty caches, and compare
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	for at in one another/folder; do \
		mkdir -p "$$dir/$$at"; git archive HEAD | tar -x -C "$$dir/$$at"; \
		(cd "$$dir/$$at"; GOCACHE="$$dir/cache/$$at" $(reproducibly) -o "$$dir/$${at%%/*}.built" ./cmd/watchdog); \
	done; \
	cd "$$dir"; sha256sum *.built; cmp *.built

VULNDB ?= https://vuln.go.dev

.PHONY: vuln
vuln: bin/govulncheck ## look for known vulnerabilities in what every module calls, in the database VULNDB
	$(call each,"$(CURDIR)/bin/govulncheck" -db "$(VULNDB)" ./...)
	$(call alone,$(outside),"$(CURDIR)/bin/govulncheck" -db "$(VULNDB)" ./...)

.PHONY: ci
ci: ## do all that CI does
	.ci/run

.PHONY: tools
tools: bin/golangci-lint bin/benchstat ## build the linter and benchstat into bin/

# At the versions that tools/go.mod pins; the last part of a tool's path is its name.
bin/golangci-lint bin/benchstat bin/govulncheck: tools/go.mod tools/go.sum
	cd tools && export GOWORK=off && go build -o ../bin/ $$(go list -f '{{.ImportPath}}' tool | grep '/$(@F)$$')
	@touch $@
