#!/usr/bin/env bash
# demo.sh: `make demo`. Sets up what is missing, then compares a Python start-up on 8 nodes straight from a slow file
# system and through Forebay. BACKING=gluster runs it over GlusterFS in network namespaces (root only); the default
# is a model of a network file system. Further arguments go to forebay-demo (see its --help).
set -euo pipefail
NAME=demo
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

BACKING=${BACKING:-model}
TREE=${PYTHON_TREE:-target/python-tree}
case $BACKING in
  model) need fuse3:fusermount3 python3:python3 python3-venv:pip ;;
  gluster)
    ((EUID == 0)) || die "BACKING=gluster makes network namespaces and mounts: run it as root"
    need fuse3:fusermount3 python3:python3 python3-venv:pip \
      glusterfs-server:glusterfsd glusterfs-client:glusterfs iproute2:ip ;;
  *) die "BACKING is model or gluster, not '$BACKING'" ;;
esac
[[ -c /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE, or this is a container without the device"
benches/python-tree.sh "$TREE"
build_release forebay forebay-bench
exec "$(release_dir)/forebay-demo" --backing "$BACKING" --tree "$TREE" --forebay "$(release_dir)/forebay" \
  --json "target/demo/$BACKING.json" "$@"
