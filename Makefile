# What people and CI run. One cargo profile (release) serves binaries, tests and benches, so a machine
# builds the dependency tree once; lint builds its metadata separately.
SHELL := /bin/bash
CARGO ?= cargo
BIN := target/release

.PHONY: demo build test lint bench ci clean-demo tools

tools:
	@scripts/check-tools

build: tools
	$(CARGO) build --release --locked --workspace --bins

# Generates seven days of traffic (or reads yours: make demo DATA=path), trains, serves, replays.
demo: build
	$(BIN)/berth-trainer demo --scheduler $(BIN)/berth-scheduler --out demo $(if $(DATA),--data $(DATA))

test: tools
	@scripts/run-tests

lint: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings

bench: tools
	$(CARGO) bench --locked -p berth-scheduler --bench decisions
	$(CARGO) bench --locked -p berth-scheduler --bench http

ci: lint test

clean-demo:
	rm -rf demo

# Trains the shipped placement policy again, without libtorch; see docs/results/policy.md.
.PHONY: train-policy
train-policy: build
	$(BIN)/berth-trainer policy train --suite park --iterations 400 --out policy-park
