# shellcheck shell=bash
# listed.sh: an installation's list, for install.sh and uninstall.sh; sourced. A line is a path below the prefix: a file, or with a
# slash at its end a directory that the installation made (./ is the prefix). Directories that were there before are not listed.

LIST=share/forebay/files.txt
# Whatever lies in these is ours or said.
OURS='share/forebay share/doc/forebay'

say() { printf 'forebay: %s\n' "$*"; }
die() { printf 'forebay: %s\n' "$*" >&2; exit 1; }

# listed FILE: its lines, which lead nowhere but below the prefix.
listed() {
  ! grep -vxF ./ "$1" | grep -nE '^/|(^|/)\.\.?(/|$)|^$' >&2 ||
    die "$1 has lines, above, that are no path below a prefix: nothing is removed"
  cat "$1"
}

# remove_below ROOT: the files and, where they are empty then, the directories of the lines on standard input.
remove_below() {
  local line directories=()
  while IFS= read -r line; do
    if [[ $line == */ ]]; then
      directories+=("$line")
    elif [[ -e $1/$line || -L $1/$line ]]; then
      rm -f "$1/$line"
    else
      say "was not there any more: $1/$line"
    fi
  done
  ((${#directories[@]})) || return 0
  # Inner ones first.
  printf '%s\n' "${directories[@]}" | LC_ALL=C sort -r | while IFS= read -r line; do
    # The outermost is `./`, which rmdir(2) takes by no such name.
    line=${line%/} && line=${line%.}
    rmdir "$1${line:+/$line}" 2>/dev/null || true
  done
}
