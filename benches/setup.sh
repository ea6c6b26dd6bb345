# shellcheck shell=bash
# setup.sh: what demo.sh, bench-read.sh and packaging/dist.sh do before they start. Sourced with the repository as the working directory.

# Whatever cargo's own configuration says.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${CARGO_BUILD_TARGET_DIR:-target}}

say() { printf '%s: %s\n' "$NAME" "$*" >&2; }
die() { say "$*"; exit 1; }

# install PACKAGE...: by apt-get, named before.
install() {
  local sudo=()
  say "these packages are missing and will be installed by apt-get: $*"
  command -v apt-get >/dev/null || die "no apt-get here; please install them by hand"
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "neither root nor sudo here: have root run  apt-get install $*  and try again"
    sudo=(sudo)
  fi
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# need PACKAGE:COMMAND...: installs the packages whose command, or file, is missing; `pip` stands for a Python that can get
# packages.
need() {
  local pair missing=()
  for pair; do has "${pair#*:}" || missing+=("${pair%%:*}"); done
  ((${#missing[@]} == 0)) || install "${missing[@]}"
}
has() {
  [[ $1 != pip ]] || { python3 -m pip --version || python3 -c 'import ensurepip'; } >/dev/null 2>&1 || return 1
  [[ $1 != /* ]] || { [[ -e $1 ]] && return; }
  [[ $1 == pip ]] || command -v "$1" >/dev/null || [[ -x /usr/sbin/$1 ]]
}

# build_release PACKAGE...
build_release() {
  local package list=()
  for package; do list+=(-p "$package"); done
  say "building ${*} (release)"
  cargo build --release --quiet "${list[@]}"
}

# release_dir: where cargo puts what build_release builds.
release_dir() { printf '%s/release' "$CARGO_TARGET_DIR"; }
