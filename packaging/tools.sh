# shellcheck shell=bash
# tools.sh: the programs that make packages, where Debian has none; sourced after benches/setup.sh. They lie in PACKAGE_TOOLS, outside the project, in the
# versions that are named here. Installing one says so before.

TOOLS=${PACKAGE_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/forebay-tools}
export PATH=$TOOLS/bin:$TOOLS/python/bin:$PATH

declare -A VERSIONS=([cargo-cyclonedx]=0.5.9 [maturin]=1.16.0)

# has_tool NAME: in its version.
has_tool() {
  if [[ $1 == maturin ]]; then
    [[ $("$TOOLS/python/bin/maturin" --version 2>/dev/null) == "maturin ${VERSIONS[$1]}" ]]
  else
    grep -q "^\"$1 ${VERSIONS[$1]} " "$TOOLS/.crates.toml" 2>/dev/null
  fi
}

# tool NAME: installs it where it is not there. Hardly optimised: it runs for seconds.
tool() {
  has_tool "$1" && return
  say "installing $1 ${VERSIONS[$1]} into $TOOLS"
  if [[ $1 == maturin ]]; then
    need python3-venv:pip && python3 -m venv "$TOOLS/python" &&
      "$TOOLS/python/bin/pip" install --quiet --disable-pip-version-check "maturin==${VERSIONS[$1]}"
  else
    # Not with the flags of what is packaged.
    env -u CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR="$TOOLS/build" CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
      CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo install --locked --quiet --root "$TOOLS" "$1@${VERSIONS[$1]}"
  fi
  has_tool "$1"
}
