#!/usr/bin/env bash
# The whole test: format, lints, docs, every test, every doc test, a short run of every benchmark.
#
#   ./test.sh           under 15 minutes on two cores with dependencies built
#   ./test.sh --long    also the long campaigns: more random worlds, more random replies, ten minutes of hostile
#                       upstreams and clients
#
# What is missing is installed where that is allowed (root on Debian), else skipped by name. With
# TIDEGATE_STRICT=1 a skip is an error.
set -euo pipefail
cd "$(dirname "$0")"

long=0
for arg in "$@"; do
  case "$arg" in
    --long) long=1 ;;
    *) echo "usage: ./test.sh [--long]" >&2; exit 2 ;;
  esac
done

# A build server compiles once: what the compiler keeps for the next time only fills its disk.
if [ -n "${CI:-}" ]; then export CARGO_INCREMENTAL=0; fi

skipped=()
step() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }
skip() { skipped+=("$1"); printf '\n== skipped: %s\n' "$1"; }
may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
install() {
  may_install || return 1
  apt-get install -y -qq "$@" >/dev/null 2>&1 && return 0
  apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq "$@" >/dev/null 2>&1
}

step "both lock files fit their manifests"
cargo metadata --locked --format-version 1 >/dev/null
cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null

if cargo fmt --version >/dev/null 2>&1; then
  step "format"
  cargo fmt --all --check
else
  skip "format: there is no rustfmt (rustup component add rustfmt)"
fi

if cargo clippy --version >/dev/null 2>&1; then
  step "lints"
  cargo clippy --workspace --all-targets --locked -- -D warnings
  cargo clippy -p tidegate --all-features --all-targets --locked -- -D warnings
else
  skip "lints: there is no clippy (rustup component add clippy)"
fi

step "docs"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
RUSTDOCFLAGS="-D warnings" cargo doc -p tidegate --all-features --no-deps --locked --quiet

step "tests and doc tests"
if [ "$long" = 1 ]; then
  export TIDEGATE_WORLDS="${TIDEGATE_WORLDS:-600000}" PROPTEST_CASES="${PROPTEST_CASES:-20000}"
  export TIDEGATE_CRASH_WORLDS="${TIDEGATE_CRASH_WORLDS:-20000}" TIDEGATE_KILLS="${TIDEGATE_KILLS:-250}"
  # The campaign `hostile`: random upstreams and clients against the built command, for so many seconds.
  export TIDEGATE_HOSTILE_SECONDS="${TIDEGATE_HOSTILE_SECONDS:-600}"
fi
# With its features the library has all tests that it has without them, and theirs.
cargo test --workspace --exclude tidegate --locked
cargo test -p tidegate --all-features --locked
# The official SDKs are installed once, and again when the versions that the tests name change.
sdks="$PWD/target/sdks" named=crates/tidegate-cli/tests/sdks
have_sdks() { cmp -s "$named/requirements.txt" "$sdks/requirements.txt" && cmp -s "$named/package.json" "$sdks/js/package.json"; }
install_sdks() {
  command -v npm >/dev/null || install nodejs npm || return 1
  python3 -c 'import ensurepip, venv' 2>/dev/null || install python3 python3-venv || return 1
  rm -rf "$sdks" && mkdir -p "$sdks/js" && cp "$named/package.json" "$sdks/js/" || return 1
  python3 -m venv "$sdks/py" || return 1
  "$sdks/py/bin/pip" install --quiet --disable-pip-version-check -r "$named/requirements.txt" || return 1
  (cd "$sdks/js" && npm install --silent --no-fund --no-audit --no-package-lock) || return 1
  # Last: only now is all of it there.
  cp "$named/requirements.txt" "$sdks/"
}
if have_sdks || install_sdks; then
  step "official SDKs through the sidecar"
  TIDEGATE_SDKS="$sdks" cargo test --locked -p tidegate-cli --test sdks -- --ignored --test-threads 2
else
  skip "official SDKs: openai and anthropic for Python and openai for node cannot be installed"
fi

# Licences, bans and sources are looked at by a test (tidegate-cli, dependencies) in every run. The tool itself also knows
# advisories. To build it takes longer than all the rest, so that is done with --long only; and its database is on a host
# that cannot be reached from everywhere, which says nothing about us: so that is told, and is no error where skips are.
have_deny() { cargo deny --version >/dev/null 2>&1; }
if have_deny || { [ "$long" = 1 ] && cargo install --locked --quiet cargo-deny; }; then
  step "cargo deny: licences, bans, sources"
  cargo deny --all-features check licenses bans sources
  if cargo deny fetch db >/dev/null 2>&1; then
    step "cargo deny: advisories"
    cargo deny --all-features check --disable-fetch advisories
  else
    step "cargo deny: advisories are not looked at, their database cannot be reached"
  fi
else
  step "cargo deny is not there (cargo install cargo-deny, or --long): advisories are not looked at"
fi

if [ "$long" = 1 ]; then
  step "a billion refills"
  cargo test --release --locked -p tidegate-core --test algorithms -- --ignored
  step "what a request to a model costs"
  cargo test --release --locked -p tidegate-sim --test upstream -- --ignored
fi

if [ "$long" = 1 ]; then
  step "ten thousand random scenarios in the simulator"
  cargo run --release --locked --quiet -p tidegate-sim --example campaign -- 0 "${TIDEGATE_SCENARIOS:-10000}"
fi

step "examples"
for scenario in examples/simulations/*.toml; do
  cargo run --release --locked --quiet -p tidegate-cli -- simulate "$scenario" >/dev/null
done
cargo run --release --locked --quiet -p tidegate-cli -- simulate examples/simulations/agents-and-a-user.toml

[ -x /usr/sbin/nginx ] || [ -x /usr/bin/nginx ] || install nginx || skip "the proxy beside nginx: there is none (apt-get install nginx)"
step "benchmarks, a short run of each (the numbers mean nothing)"
cargo run --release --locked --quiet -p tidegate-bench -- all --short

if command -v c++ >/dev/null || install g++; then
  step "the fuzz target builds"
  cargo build --manifest-path fuzz/Cargo.toml --locked
else
  skip "the fuzz target: there is no C++ compiler (apt-get install g++)"
fi

if [ "${#skipped[@]}" -gt 0 ]; then
  printf '\nskipped:\n'
  printf '  %s\n' "${skipped[@]}"
  if [ "${TIDEGATE_STRICT:-0}" = 1 ]; then
    echo "a skip is an error here" >&2
    exit 1
  fi
fi
printf '\nall passed\n'
