# Benchwright's chores. `make` alone lists them.
# Each target sets up what it needs; setting up again takes no time.

SHELL := /bin/bash
VENV ?= .venv
export VENV
# Everything is built once here, and incremental builds cost a third more.
export CARGO_INCREMENTAL ?= 0
# The defaults of whoever runs a target change nothing of it.
export BW_CONFIG := /dev/null
# Set on some machines; each process of the tests would then compile all of them anew.
unexport PYTHONDONTWRITEBYTECODE
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup build demo test check lint soundness test-rust test-python test-pure test-real calibration docs pages site images wheels wheels-check corpus peak-table peak-machines peak-ends bench bench-engine bench-streams limiters peak-real peak-nfs peak-llm surface-nfs arrival-bursts workload-fidelity run-lengths real-policies level-components pool-faults live-agreement paper-workbench papers clean
.NOTPARALLEL:

PURE_TESTS := tests/unit tests/property tests/golden tests/sim tests/calibration
REAL_TESTS := tests/e2e tests/kernel tests/browser
FAST_TESTS := tests/unit tests/golden tests/property
# The limit ends a test that hangs. Beside the real tests and at their lower weight, one of 70 s has taken more than 300.
TEST_PURE = $(BIN)/pytest -q -n "$$(nproc)" --dist worksteal --timeout 1200 $(PURE_TESTS)
TEST_REAL = $(BIN)/pytest -q -n "$$((2 * $$(nproc)))" --dist worksteal -m "not alone" -o cache_dir=target/pytest-real $(REAL_TESTS)
TEST_ALONE = $(BIN)/pytest -q -m alone -o cache_dir=target/pytest-alone $(REAL_TESTS)

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## run PostMark over the file systems of this machine; print the table
	@scripts/demo.sh

test: setup lint test-rust test-python ## run every test and linter

setup: ## virtual environment, dependencies, launcher, wheel, Debian packages
	@scripts/setup.sh

build: setup ## the launcher (target/release) and the wheel (dist)

check: setup lint ## the linters and the fast tests; minutes less than `make test`
	$(BIN)/pytest -q -n "$$(nproc)" --dist worksteal -m "not slow" $(FAST_TESTS)

lint: setup ## rustfmt, clippy, ruff, mypy, tsc, shellcheck
	@scripts/lint.sh

test-rust: setup ## the tests of the crates
	cargo test -q --locked
	cargo test -q --locked -p naive-pacers -p stream-server

soundness: ## loom, miri and ThreadSanitizer on the lock-free and unsafe code; prints what cannot run here and why
	@scripts/soundness.sh

# Tests that measure nothing use the CPUs while the real ones wait. All are run, whatever fails.
# What shares the machine can disturb a real measurement: a real test that failed is run once more, with nothing beside it.
test-python: setup ## the tests in tests/
	@mkdir -p target; PATH="$$(scripts/generators.sh):$$(scripts/export_readers.sh):$$PATH"; failed=0; real=0; set -x; \
	nice -n 5 $(TEST_PURE) >target/test-pure.txt 2>&1 & pure=$$!; \
	$(TEST_REAL) || real=$$?; \
	wait $$pure || failed=1; cat target/test-pure.txt; \
	[ $$real = 0 ] || $(TEST_REAL) -n 0 --last-failed --last-failed-no-failures none || failed=1; \
	$(TEST_ALONE) || $(TEST_ALONE) --last-failed --last-failed-no-failures none || failed=1; \
	exit $$failed

test-pure: setup ## tests that measure nothing and change nothing of the machine, one process for each CPU
	$(TEST_PURE)

test-real: setup ## tests of real programs and of the kernel: most in parallel, two processes for each CPU since they mostly wait; then those that need the machine to themselves
	@PATH="$$(scripts/generators.sh):$$(scripts/export_readers.sh):$$PATH"; set -ex; $(TEST_REAL); $(TEST_ALONE)

calibration: setup ## simulate every interval and verdict at full size, peers beside; minutes
	BW_CALIBRATION=full $(BIN)/pytest -q -s tests/calibration

corpus: setup ## record long series of real programs for calibration into tests/corpus, as root; goes on where it was stopped; two hours
	@scripts/packages.sh gzip:gzip sqlite3:sqlite3 gcc:gcc postmark:postmark mkfs.xfs:xfsprogs redis-benchmark:redis-tools redis-server:redis-server nginx:nginx-light ab:apache2-utils pgbench:postgresql find:findutils fio:fio java:default-jre-headless
	$(BIN)/python benches/corpus.py

docs: images pages site ## the documentation: what is generated from the code, and the site in target/site

pages: setup ## the pages and tables of docs/ that are generated from the code
	$(BIN)/python scripts/finding_codes.py
	$(BIN)/python scripts/option_tables.py
	$(BIN)/python scripts/papers.py

papers: setup ## docs/papers.md; print which figures of the papers need an idle machine, how long each takes, and the commands
	@$(BIN)/python scripts/papers.py --figures

site: setup ## the documentation as a site with offline search: target/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

images: setup ## the images of docs/ from their stored data
	$(BIN)/python scripts/images.py

wheels: setup ## the files of a release in dist: wheels for x86-64 and aarch64, and the source distribution
	@scripts/wheels.sh

wheels-check: wheels ## install and run the files of a release, the aarch64 wheel under QEMU; minutes, needs a network
	BW_RELEASE=1 $(BIN)/pytest -q tests/release

peak-table: setup ## every policy of a peak search on every simulated server, 1,000 searches each; goes on where it was stopped; hours
	$(BIN)/python tests/sim/peak_table.py --held-out --searches 1000 --peer-searches 50 --jobs 2 --json target/peak-table.json --outcomes target/peak-table.jsonl

PEAK_MACHINE_SERVERS := like-nginx-gzip,A-mm4,D-mm2-elastic,mm1-p95,shedding,held-out-cache-warms,held-out-capped,held-out-batching,held-out-collector,held-out-heavy
PEAK_MACHINES := calm,gen-2-short,gen-5,gen-20,gen-30-long,server-10-short,server-10,vm-10-short,vm-10,vm-25,drift,wave,neighbour,shared-process,shared-session

peak-machines: setup ## peak searches of simulated servers on simulated busy machines; goes on where it was stopped; an hour
	$(BIN)/python tests/sim/peak_table.py --machines $(PEAK_MACHINES) --servers $(PEAK_MACHINE_SERVERS) --policies monotone,binsearch-honest --claims rate:5%,region:10% --searches 4 --budget 600 --json target/peak-machines.json --outcomes target/peak-machines.jsonl

peak-ends: setup ## 1,000 searches on every simulated server, each of which must end; goes on where it was stopped; hours
	$(BIN)/python tests/sim/peak_ends.py --policies monotone

# --busy lets benches that need an idle machine measure beside other programs.
BUSY :=

# Each has a target of its own.
LONG_BENCHES := benches/corpus.py benches/peak_real.py benches/surface_servers.py benches/paper_workbench.py benches/arrival_bursts.py benches/workload_fidelity.py benches/run_lengths.py benches/real_policies.py benches/pool_faults.py benches/live_agreement.py benches/streams.py benches/grpc_peers.py benches/level_components.py

bench: setup ## the benchmarks in benches/, with the peers' figures beside ours
	@scripts/packages.sh hyperfine:hyperfine wrk:wrk
	@set -e; for file in $(filter-out $(LONG_BENCHES),$(wildcard benches/*.py)); do echo "== $$file"; $(BIN)/python "$$file" $$(grep -q add_busy_option "$$file" && echo $(BUSY)); done

bench-engine: setup ## the load engine beside fio, wrk, shb, oha and libnfs, those that are installed, and beside another build of it (BEFORE=PATH); half an hour, on a quiet machine
	@scripts/packages.sh fio:fio wrk:wrk nginx:nginx-light redis-server:redis-server time:time
	@set -e; PATH="$$(scripts/generators.sh):$$PATH"; before="$${BEFORE:+--before $$BEFORE}"; for file in engine_speed engine_timing "http_speed $$before" nfs_speed "engine_limits $$before"; do echo "== $$file"; set -- $$file; $(BIN)/python "benches/$$1.py" "$${@:2}" $(BUSY); done

bench-streams: setup ## the times of streams beside AIPerf and guidellm, against the stamps of a server of ours, into target/streams; goes on where it was stopped; two hours, on a quiet machine
	$(BIN)/python benches/streams.py --out target/streams $(BUSY)
	PATH="$$(scripts/generators.sh):$$PATH" $(BIN)/python benches/grpc_peers.py $(BUSY)

limiters: setup ## the ground truth of bw why: each limiter made to happen twenty times; half an hour, on a quiet machine
	$(BIN)/python tests/limiters/limiter_matrix.py --repetitions 20 $(BUSY)

peak-real: setup ## searches of eight real servers, alone and beside a neighbour, with fixed-rate runs as the truth, into target/peak-real; goes on where it was stopped; two hours, on a quiet machine
	$(BIN)/python benches/peak_real.py --out target/peak-real $(BUSY)

peak-nfs: setup ## the same with ten searches of NFS-Ganesha under each of Fstress's four workloads, into target/peak-nfs; goes on where it was stopped; six to ten hours, on a quiet machine
	$(BIN)/python benches/peak_real.py --out target/peak-nfs --repetitions 10 --budget 10m --place alone --only nfs-specsfs97 --only nfs-web-server --only nfs-db_tp --only nfs-mail $(BUSY)

peak-llm: setup ## the same with ten searches of llama.cpp with two models, under limits of the first token and the time per token, into target/peak-llm; goes on where it was stopped; an hour, on a quiet machine
	$(BIN)/python benches/peak_real.py --out target/peak-llm --repetitions 10 --place alone --only llama-43mb --only llama-300kb $(BUSY)

surface-nfs: setup ## maps of NFS-Ganesha's peak over disks and threads for SPECsfs97 and DB_TP, with long runs as the truth; goes on where it was stopped; six to twelve hours, on a quiet machine
	$(BIN)/python benches/surface_servers.py --out target/surface-nfs $(BUSY)

arrival-bursts: setup ## how much bursts of arrivals lengthen the responses of NFS-Ganesha; 45 minutes, on a quiet machine
	$(BIN)/python benches/arrival_bursts.py --out target/arrivals.csv $(BUSY)

workload-fidelity: setup ## what late issue does to responses and queues, figures 2, 6 and 8 to 11 of the Buttress paper; 20 minutes, on a quiet machine
	$(BIN)/python benches/workload_fidelity.py --out target/pacers.csv $(BUSY)

run-lengths: setup ## responses of NFS-Ganesha over load and run length, figures 4 to 6 of the workbench paper; goes on where it was stopped; two and a half hours, on a quiet machine
	$(BIN)/python benches/run_lengths.py --out target/run-lengths $(BUSY)

real-policies: setup ## the workbench paper's policies on NFS-Ganesha, each to its end, figures 3 and 7 to 10; goes on where it was stopped; 90 minutes, on a quiet machine
	$(BIN)/python benches/real_policies.py --out target/real-policies $(BUSY)

level-components: setup ## by how much real programs differ between environments, directories, builds, processes and hours (docs/replicates.md); goes on where it was stopped; a night, on a quiet machine
	$(BIN)/python benches/level_components.py --out target/level-components $(BUSY)

pool-faults: setup ## 25 rounds of one surface on a real Slurm, each with every fault at a random moment; 25 minutes to an hour
	$(BIN)/python benches/pool_faults.py

live-agreement: setup ## 210 comparisons of a command with itself by bw compare, watched and planned, and of one that is slower by the stated effect, under three kinds of noise; goes on where it was stopped; one to three hours
	$(BIN)/python benches/live_agreement.py --out target/live-agreement.csv

paper-workbench: setup ## the workbench paper's figures in simulation, drawn again into docs/images
	$(BIN)/python benches/paper_workbench.py

clean: ## remove what was built; studies stay
	rm -rf target dist node_modules python/benchwright/page/static/vendor $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
