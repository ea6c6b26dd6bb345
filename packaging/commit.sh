# shellcheck shell=sh
# commit.sh: which commit a build is of, for `forebay version`; sourced with the repository as the working directory.
#
# Sets and exports FOREBAY_COMMIT (twelve digits, `-dirty` where a file that git knows differs) and FOREBAY_COMMIT_DATE (UTC) where the
# environment has none, as a release made from an archive may, and sets COMMIT_EPOCH, the date in seconds. Without git the first two stay
# empty, which the command calls unknown, and the epoch is 1980, the first year that every archive format knows.

# Not a repository that only has this tree in it.
if [ -z "${FOREBAY_COMMIT:-}" ] && [ -e .git ] && FOREBAY_COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null); then
  [ -z "$(git status --porcelain --untracked-files=no 2>/dev/null)" ] || FOREBAY_COMMIT=$FOREBAY_COMMIT-dirty
  FOREBAY_COMMIT_DATE=$(TZ=UTC0 git show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD)
fi
COMMIT_EPOCH=315532800
[ -z "${FOREBAY_COMMIT_DATE:-}" ] || COMMIT_EPOCH=$(date -d "$FOREBAY_COMMIT_DATE" +%s)
: "${FOREBAY_COMMIT:=}" "${FOREBAY_COMMIT_DATE:=}"
export FOREBAY_COMMIT FOREBAY_COMMIT_DATE
