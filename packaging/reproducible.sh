# shellcheck shell=bash
# reproducible.sh: flags that keep this machine's paths out of a binary; sourced after benches/setup.sh. Sets and exports
# CARGO_ENCODED_RUSTFLAGS (the separator lets paths have blanks), in which flags given by RUSTFLAGS stay, and SOURCE_DATE_EPOCH.

# rename FROM TO
rename() { [[ -z $1 ]] || FLAGS+=("--remap-path-prefix=$1=$2"); }

FLAGS=()
read -r -a given <<<"${RUSTFLAGS:-}"
sysroot=$(rustc --print sysroot)
# The last one that fits counts, and a target directory may lie in the tree.
rename "$sysroot" /rust
rename "$sysroot/lib/rustlib/src/rust" "/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')"
rename "${CARGO_HOME:-$HOME/.cargo}" /cargo
rename "$PWD" /forebay
rename "$(realpath -m "$CARGO_TARGET_DIR")" /forebay/target
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && printf %s "${given[*]}${given:+$IFS}${FLAGS[*]}")
export CARGO_ENCODED_RUSTFLAGS

# A date in C parts. A constant: with a commit's own, cargo would compile them, and all that uses them, anew at every commit.
export SOURCE_DATE_EPOCH=315532800
