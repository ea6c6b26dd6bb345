#!/usr/bin/env bash
# bench-visible.sh [RUNS]: what the locks cost by which ranks on two nodes see each other's writes after a barrier alone. For each MPI, with
# `forebay run`'s locks and without, in turn: the median of RUNS (default 5) of the seconds that the slowest of four ranks writes, and how
# many bytes were old. Needs root.
set -euo pipefail
NAME=bench-visible
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need gcc:cc mpich:mpiexec.mpich libmpich-dev:mpicc.mpich openmpi-bin:mpirun.openmpi libopenmpi-dev:mpicc.openmpi
build_release forebay
forebay=$(realpath -- "$(release_dir)/forebay")
base=$(mktemp -d "${TMPDIR:-/tmp}/forebay-visible.XXXXXX")
job=visible-$$
trap '"$forebay" down --job "$job" --no-drain >/dev/null 2>&1 || true; rm -rf --one-file-system "$base"' EXIT
mkdir "$base"/{backing,export,store,place,view}
for mpi in mpich openmpi; do mpicc.$mpi -O2 -o "$base/$mpi" tests/mpiio/programs/visible.c; done
"$forebay" up --local 2 --job "$job" --export "$base/export" --view "$base/view" --profile off --burst "/ckpt=$base/backing" \
  --burst-store "$base/store" --burst-mount "$base/mnt" --burst-capacity 4GiB --drain manual >/dev/null

# Each rank sees its node's burst mount at one place.
on_node='mount --bind "$1/mnt/$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} % 2))/ckpt" "$1/place"; shift; exec "$@"'
# once MPI LOCKS BYTES COUNT
once() {
  local mpi=$1 locks=$2 mpiexec=(mpiexec.mpich)
  [[ $mpi == mpich ]] || mpiexec=(mpirun.openmpi --allow-run-as-root --oversubscribe)
  [[ $locks == without ]] || local -x ROMIO_FSTYPE_FORCE=nfs: OMPI_MCA_fs_ufs_lock_algorithm=3
  rm -f "$base/mnt/0/ckpt/file"
  timeout 300 "${mpiexec[@]}" -n 4 unshare -m sh -euc "$on_node" sh "$base" "$base/$mpi" "$base/place/file" barrier "$3" "$4" \
    2>/dev/null | grep seconds || true
}
echo "4 ranks on 2 nodes of one machine, each its own blocks of one file; load at the start $(cut -d' ' -f1 /proc/loadavg)"
for mpi in mpich openmpi; do
  for work in '1048576 32' '4096 500'; do
    for _ in $(seq "${1:-5}"); do
      for locks in without with; do once "$mpi" "$locks" $work | sed "s/^/$locks /"; done
    done | sort | awk -v what="$mpi, blocks of ${work% *} bytes" '
      { at = ++count[$1]; seconds[$1, at] = $2; wrong[$1] += $4 }
      END { for (way in count) printf "%-34s %-8s %.3f s, %d bytes old\n", what, way, seconds[way, int((count[way] + 1) / 2)], wrong[way] }'
  done
done
