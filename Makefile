# What one does with this repository. `make` alone lists it. Everything is an ordinary cargo or shell command that can
# be run by itself; nothing here keeps state.

CARGO ?= cargo
PREFIX ?= /usr/local
BACKING ?= model
FUZZ_SECONDS ?= 60
SEEDS ?= 10000
BENCH_DIR ?= target/bench
# Paths may have blanks, which make's own functions take for the end of a name: they are quoted where they are used.
target := $(if $(filter /%,$(CARGO_TARGET_DIR)),$(CARGO_TARGET_DIR),$(CURDIR)/$(or $(CARGO_TARGET_DIR),target))
# Apart from the other, so that both stay as they are when the other's flags change.
sql_target := $(or $(SQL_TARGET_DIR),$(target)/sql)
# With SQL_LINTS=1 clippy is the compiler of its own crate, so that the engine is compiled once for tests and lints.
sql_cargo := $(if $(SQL_LINTS),RUSTC_WORKSPACE_WRAPPER=clippy-driver RUSTFLAGS=-Dwarnings) $(CARGO)

.DEFAULT_GOAL := help
.PHONY: help build build-command build-sql build-test-sql dist test test-sql demo bench-read bench-bulk bench-aggregate bench-query bench-sql bench-containers bench-faults bench-deaths bench-log bench-write check-simgrid check-pages soak fuzz lint install clean test-write test-kernels test-xfstests check-seeded-bugs package test-packages test-python uninstall

help: ## this list
	@echo 'Forebay: the I/O tier of a supercomputer job. Targets:'
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  make %-15s %s\n' "$$name" "$$text"; done

build: build-command ## the command, optimised, at target/release/forebay, and a library for each MPI that is found
	$(CARGO) rustc --release --package forebay-mpiio --lib --crate-type staticlib
	@packaging/mpiio.sh "$(target)/release/libforebay_mpiio.a" "$(target)/release"

build-command:
	. packaging/commit.sh && $(CARGO) build --release --package forebay

dist: ## static binaries for x86_64 and aarch64 (DIST_TARGETS), at target/dist/
	@echo 'Packages: installs musl-tools, gcc and libc6-dev for the other architecture by apt-get where they are missing,'
	@echo "and Rust's standard library for both by rustup; says so before it does."
	@packaging/dist.sh $(DIST_TARGETS)

package: ## tarball, deb, rpm, wheel, OCI image and list of components for each of DIST_TARGETS, at target/package/ (SQL=1: of forebay-sql, too)
	@echo 'Packages: installs what `make dist` names, mpich, libmpich-dev, openmpi-bin, libopenmpi-dev, python3, rpm and umoci by'
	@echo 'apt-get, and cargo-cyclonedx into ~/.cache/forebay-tools (PACKAGE_TOOLS), where they are'
	@echo 'missing; says so before it does.'
	@SQL_TARGET_DIR="$(sql_target)" packaging/package.sh $(DIST_TARGETS)

build-sql: ## SQL for `forebay query`, optimised, at target/sql/release/forebay-sql (takes three quarters of an hour of a processor)
	$(CARGO) build --release --manifest-path crates/sql/Cargo.toml --target-dir "$(sql_target)"

test: ## every test, or those whose names contain a word of TESTS; installs what they need (root); skipped ones are named
	@tests/setup.sh
	@$(CARGO) xtask test $(TESTS)

test-write: ## the burst tier while 200 daemons are killed, 200 stores vanish and the power goes 200 times (some half an hour; needs root)
	@FOREBAY_TEST_DEATHS=200 FOREBAY_TEST_CUTS=200 FOREBAY_TEST_VANISHED=200 $(CARGO) test --quiet --package forebay-tests --test burst -- --nocapture whatever power_cuts

build-test-sql:
	@$(sql_cargo) test --quiet --locked --no-run --manifest-path crates/sql/Cargo.toml --target-dir "$(sql_target)"

test-sql: ## the tests of SQL, whose engine takes some 7 minutes of a processor to build the first time
	@$(CARGO) build --quiet --package forebay --package xtask
	@FOREBAY_BIN="$(target)/debug/forebay" $(sql_cargo) test --quiet --locked \
		--config "target.'cfg(all())'.runner=['$(target)/debug/xtask','limited']" --manifest-path crates/sql/Cargo.toml --target-dir "$(sql_target)"

test-kernels: ## the static binary on other kernels under qemu, as root and as a user (KERNELS: which; a quarter of an hour)
	@echo 'Packages: installs qemu-system-x86, qemu-system-arm, cpio, xz-utils and what `make dist` names by apt-get where they are'
	@echo 'missing; says so before it does; downloads kernels, busybox-static, fuse3 and libc6 of Debian into target/kernels/.'
	@tests/kernels/run.sh

test-xfstests: ## xfstests' quick tests on the burst mount (SOURCE: a directory with its sources; needs root and half an hour)
	@echo 'Packages: installs xfsprogs, fio, quota, acl, attr, bc, gawk, fuse3, python3 and what building xfstests needs by apt-get, and adds'
	@echo 'the users fsgqa, 123456-fsgqa and fsgqa2, where they are missing; says so before it does.'
	@tests/xfstests/run.sh "$(SOURCE)"

test-packages: ## tarball, deb, rpm and wheel installed, used and removed in fresh roots of Debian (needs root)
	@echo 'Packages: installs debootstrap, fuse3, rpm, for DIST_TARGETS of other architectures qemu-user-static, and what `make package`'
	@echo 'names by apt-get where they are missing; says so before it does; downloads a root of Debian 12 into target/packages/, and Open MPI 5 from PyPI for the tests of PRRTE.'
	@tests/packages/run.sh && tests/packages/launchers.sh

test-python: ## the client for Python: its types, and its tests beside a job of two nodes, with PyTorch (TORCH= leaves that out; needs 7 GB with it)
	@echo 'Packages: installs fuse3 and python3-venv by apt-get where they are missing; says so before it does; and mypy and torch, of'
	@echo '3 GB, by pip into target/python, unless TORCH is empty.'
	@test -n "$$FOREBAY_COMMAND" || $(CARGO) build --quiet --package forebay
	@CARGO_TARGET_DIR="$(target)" python/tests/run.sh

demo: ## the four paths on this machine, in about 4 minutes with the build (BIG=1: scikit-learn; BACKING=gluster: real GlusterFS)
	@echo 'Packages: installs fuse3, python3, gcc and libc6-dev by apt-get where they are missing, for BIG=1 also python3-venv,'
	@echo 'for BACKING=gluster also glusterfs-server, glusterfs-client and iproute2; says so before it does.'
	@BACKING=$(BACKING) BIG=$(BIG) benches/demo.sh

bench-read: ## the read path's figures, to target/bench/ (needs root and an hour)
	@echo 'Packages: installs python3, python3-venv, fuse3, squashfs-tools, squashfuse, zstd, glusterfs-server,'
	@echo 'glusterfs-client and iproute2 by apt-get where they are missing; says so before it does.'
	@benches/bench-read.sh

bench-bulk: ## reads of model weights and training data, in target/bench/ (BULK: parts and options of benches/bulk.py; needs root, 12 GiB of memory and an hour)
	@echo 'Packages: installs python3, python3-venv, python3-torch, fuse3, strace, gcc, openmpi-bin, libopenmpi-dev, glusterfs-server,'
	@echo 'glusterfs-client and iproute2 by apt-get where they are missing; says so before it does; and dlio-benchmark with TensorFlow by'
	@echo 'pip into target/bench/dlio.'
	@benches/bench-bulk.sh $(BULK)

bench-aggregate: ## aggregation's figures, to target/bench/ (needs root for one of them, and a quarter of an hour)
	@echo 'Packages: installs gcc, openmpi-bin, libopenmpi-dev, glusterfs-server, glusterfs-client and iproute2 by apt-get where'
	@echo 'they are missing; says so before it does.'
	@benches/bench-aggregate.sh

bench-query: ## queries beside other ways to compute the same, and on emulated devices, to target/bench/ (needs 3 GB there and an hour)
	@echo 'Packages: installs python3, python3-venv, g++ and default-jre-headless by apt-get where they are missing, as root also'
	@echo 'glusterfs-server, glusterfs-client and iproute2; says so before it does; and numpy, pandas, polars, datafusion and pyspark'
	@echo 'by pip into a directory of its own, which it removes.'
	@benches/bench-query.sh

bench-sql: ## SQL on this host and near the data, TPC-H (SCALE_FACTOR=1), to target/bench/ (needs 2 GB there and half an hour)
	@echo 'Packages: installs python3 by apt-get where it is missing; says so before it does.'
	@SQL_TARGET_DIR="$(sql_target)" benches/bench-sql.sh

bench-containers: ## start of programs in images by ch-run and by Forebay, to target/bench/ (needs root and an hour)
	@echo 'Packages: installs python3, python3-venv, fuse3, squashfs-tools, squashfuse, charliecloud-runtime, glusterfs-server,'
	@echo 'glusterfs-client and iproute2 by apt-get where they are missing; says so before it does.'
	@benches/bench-containers.sh

check-simgrid: ## the flow model of aggregation against SimGrid's on random cases (a minute)
	@echo 'Packages: installs g++ and libsimgrid-dev by apt-get where they are missing; says so before it does.'
	@benches/check-simgrid.sh

bench-faults: ## every fault under load, with a reader on every node, to target/bench/ (needs root and ten minutes)
	@echo 'Packages: installs python3, fuse3, glusterfs-server, glusterfs-client and iproute2 by apt-get where they are'
	@echo 'missing; says so before it does.'
	@benches/bench-faults.sh

bench-deaths: ## how long programs wait when their node's daemon is killed, 50 times (needs root and a minute)
	@benches/bench-deaths.sh

bench-log: ## a node's log against the file system below it, to target/bench/ (BENCH_DIR: where it lies; needs 12 GiB there)
	@$(CARGO) run --release --quiet --package forebay-bench --bin forebay-bench-log -- --dir $(BENCH_DIR)

bench-write: ## the burst mount against the file system of its store, to target/bench/ (needs root; BENCH_DIR: where; 15 GiB there)
	@$(CARGO) build --release --quiet --package forebay --package forebay-bench
	@$(CARGO) run --release --quiet --package forebay-bench --bin forebay-bench-write -- --dir $(BENCH_DIR); measured=$$?; \
		benches/bench-btio.sh --dir $(BENCH_DIR) && exit $$measured

soak: ## SEEDS (default 10000) histories of simulated jobs with faults; a failing one prints how to look at it
	@$(CARGO) run --release --quiet --package forebay-sim -- --seeds 0..$(SEEDS)
	@$(CARGO) run --release --quiet --package forebay-burst-sim -- --seeds 0..$$(($(SEEDS) / 10 + 1))

check-seeded-bugs: ## known bugs, one at a time in a copy of the tree: which check of the simulators, or which test, finds each (some 30 minutes for those of the read path)
	@crates/harness/sim/seeded/run.py

check-pages: ## the report of a small job, and the book if there is mdbook, in headless Chromium with axe, to target/pages/ (needs root, chromium and the npm registry; a minute)
	@$(CARGO) build --quiet --package forebay
	@.ci/check-pages "$(target)/debug/forebay" "$(target)/pages"

fuzz: ## every fuzz target for FUZZ_SECONDS (default 60) each; needs a nightly toolchain and cargo-fuzz
	@command -v cargo-fuzz >/dev/null || { echo 'fuzz: install it by `cargo install --locked cargo-fuzz`' >&2; exit 1; }
	@cd fuzz && for each in $$($(CARGO) +nightly fuzz list); do \
		echo "fuzz: $$each for $(FUZZ_SECONDS) s"; \
		$(CARGO) +nightly fuzz run "$$each" -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256 || exit 1; done

lint: ## format, clippy with warnings denied, style, dependencies
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path crates/sql/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) xtask tidy
	$(CARGO) deny --log-level error check bans licenses sources
	$(CARGO) deny --manifest-path crates/sql/Cargo.toml --log-level error check bans licenses sources

install: ## what `make build` made, with manual pages, completions, libraries and headers, below PREFIX (default /usr/local); builds nothing
	@packaging/install.sh "$(PREFIX)" "$(target)/release/forebay" "$(sql_target)/release/forebay-sql" "$(target)"/release/libforebay_mpiio_*.so

uninstall: ## removes the files of `make install` below PREFIX, and says what it leaves
	@packaging/uninstall.sh "$(PREFIX)"

clean: ## whatever was built
	$(CARGO) clean
	rm -rf fuzz/target fuzz/artifacts
