# shellcheck shell=bash disable=SC2034
# about.sh: what the packages of NAME say of themselves, for deb.sh and rpm.sh; sourced. REQUIRES, RECOMMENDS and SUGGESTS are names that
# both families have.

VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
LICENSE=Apache-2.0 MAINTAINER='The authors of Forebay'
case $NAME in
  forebay)
    SUMMARY='The I/O tier of a supercomputer job'
    DESCRIPTION='A job starts Forebay on its own nodes, without root. Its nodes read, write, aggregate and query together, instead of every process asking the parallel file system.'
    REQUIRES=fuse3 RECOMMENDS=munge SUGGESTS=squashfuse
    ;;
  forebay-sql)
    SUMMARY='SQL for "forebay query"'
    DESCRIPTION='SQL for "forebay query", by DataFusion.'
    REQUIRES=forebay RECOMMENDS='' SUGGESTS=''
    ;;
  *) echo "about.sh: there is no package $NAME" >&2 && exit 2 ;;
esac

# packaged STAGE TARGET: what is staged, but for the list of an installation that no package manager made.
packaged() {
  mkdir -p "$2"
  cp -R "$1/." "$2/"
  rm -f "$2/share/forebay/files.txt"
  chmod -R u=rwX,go=rX "$2"
}
