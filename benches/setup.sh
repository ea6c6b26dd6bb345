# shellcheck shell=bash
# setup.sh: what demo.sh and bench-read.sh do before they start. Sourced with the repository as the working directory.

say() { printf '%s: %s\n' "$NAME" "$*" >&2; }
die() { say "$*"; exit 1; }

# need_packages PACKAGE:COMMAND...: installs by apt-get the packages whose command is missing, and names them first.
need_packages() {
  local pair missing=() sudo=()
  for pair; do command -v "${pair#*:}" >/dev/null || missing+=("${pair%%:*}"); done
  ((${#missing[@]})) || return 0
  say "these packages are missing and will be installed by apt-get: ${missing[*]}"
  command -v apt-get >/dev/null || die "no apt-get here; please install them by hand"
  ((EUID == 0)) || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# need_pip: Debian's python3 comes without pip.
need_pip() {
  need_packages python3:python3
  if ! python3 -m pip --version >/dev/null 2>&1; then need_packages python3-pip:pip-of-python3; fi
}

# build_release PACKAGE...
build_release() {
  local package list=()
  for package; do list+=(-p "$package"); done
  say "building ${*} (release)"
  cargo build --release --quiet "${list[@]}"
}

# release_dir: where cargo puts what build_release builds.
release_dir() { printf '%s/release' "${CARGO_TARGET_DIR:-target}"; }
