# shellcheck shell=bash
# tools.sh: the programs that make packages, where Debian has none; sourced after benches/setup.sh. They lie in PACKAGE_TOOLS, outside the project, in the
# versions that are named here. Installing one says so before.

TOOLS=${PACKAGE_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/forebay-tools}
export PATH=$TOOLS/bin:$PATH

declare -A VERSIONS=([cargo-cyclonedx]=0.5.9)

# has_tool NAME: in its version.
has_tool() { grep -q "^\"$1 ${VERSIONS[$1]} " "$TOOLS/.crates.toml" 2>/dev/null; }

# tool NAME: installs it where it is not there. Hardly optimised: it runs for seconds.
tool() {
  has_tool "$1" && return
  say "installing $1 ${VERSIONS[$1]} into $TOOLS"
  # Not with the flags of what is packaged.
  env -u CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR="$TOOLS/build" CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off \
    CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo install --locked --quiet --root "$TOOLS" "$1@${VERSIONS[$1]}"
  has_tool "$1"
}
