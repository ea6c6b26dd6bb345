#!/usr/bin/env bash
# tests/setup.sh: prepares this machine for the tests; `make test` and `.ci/run` call it.
#
# As root it installs the packages that are missing, by apt-get, and opens /dev/fuse to users, and says both before it
# does. Anybody else, and root where that fails, is told what is missing: tests that need it are skipped. With CI=true a
# lack is a failure.
set -euo pipefail

# PACKAGE:PROOF[,PROOF], a package of Debian 12 and how one sees that it, or its like, is there: a command, or a file.
PACKAGES=(
  # Building: downloads, the C parts of crates, this repository's own commands.
  ca-certificates:/etc/ssl/certs/ca-certificates.crt gcc:gcc,cc binutils:nm 'libc6-dev:/usr/include/stdio.h' make:make git:git
  # Programs that tests run over a view.
  python3:python3 'python3-numpy:/usr/lib/python3/dist-packages/numpy' 'python3-h5py:/usr/lib/python3/dist-packages/h5py' g++:g++
  'python3-netcdf4:/usr/lib/python3/dist-packages/netCDF4' 'python3-numcodecs:/usr/lib/python3/dist-packages/numcodecs'
  'python3-venv:/usr/lib/python3*/ensurepip/__init__.py' rsync:rsync tar:tar procps:ps
  # Mounting without privileges, other users, namespaces, disks in files.
  fuse3:fusermount3 util-linux:unshare,nsenter,setpriv,prlimit,setsid,setarch,fsfreeze mount:mount,losetup iproute2:ip,tc e2fsprogs:mkfs.ext4
  bubblewrap:bwrap acl:setfacl
  # A terminal whose screen tests read, and what reads scripts of jobs.
  tmux:tmux shellcheck:shellcheck
  # What collects metrics.
  prometheus:prometheus,promtool curl:curl
  # Images, and what is in them.
  squashfs-tools:mksquashfs squashfuse:squashfuse,squashfuse_ll busybox:busybox
  # A real network file system, a private Slurm, MPI.
  glusterfs-server:glusterd,glusterfsd glusterfs-client:glusterfs,mount.glusterfs
  slurm-client:srun,sbatch,salloc slurmctld:slurmctld slurmd:slurmd munge:munge,munged,unmunge
  # By their own names: `mpicc` is whichever of the two was installed last.
  mpich:mpiexec.mpich,mpicc.mpich,mpiexec.hydra 'libmpich-dev:/usr/include/*/mpich/mpi.h'
  openmpi-bin:mpirun.openmpi libopenmpi-dev:mpicc.openmpi gfortran:gfortran
  # Libraries over MPI-IO.
  libhdf5-mpich-dev:h5pcc.mpich libhdf5-openmpi-dev:h5pcc.openmpi pnetcdf-bin:pnetcdf-config libpnetcdf-dev:/usr/include/pnetcdf.h
)
# Not every user's PATH names where daemons lie.
export PATH=$PATH:/usr/sbin:/sbin

say() { printf 'setup: %s\n' "$*" >&2; }

LACKS=0
lack() {
  say "$*"
  LACKS=$((LACKS + 1))
}

# is_there PROOF
is_there() {
  case $1 in
    /*) compgen -G "$1" >/dev/null ;;
    *) [[ -x $(type -P "$1") ]] ;;
  esac
}

# missing: the packages of which a proof is missing.
missing() {
  local pair proof
  for pair in "${PACKAGES[@]}"; do
    for proof in $(set -f; IFS=,; echo ${pair#*:}); do
      is_there "$proof" || { printf '%s\n' "${pair%%:*}"; break; }
    done
  done
}

install_packages() {
  local packages
  mapfile -t packages < <(missing)
  if ((${#packages[@]} == 0)); then return; fi
  if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    lack "these packages are missing, or what they provide: ${packages[*]} (root's \`make test\` installs them on Debian)"
    return
  fi
  say "installing by apt-get: ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  # What it says is long; its errors are shown.
  apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null || true
  mapfile -t packages < <(missing)
  ((${#packages[@]} == 0)) || lack "these packages are still missing, or what they provide: ${packages[*]}"
}

# udev gives /dev/fuse mode 0666; a machine without udev may have 0600, and users other than root cannot mount.
open_fuse() {
  if [[ ! -c /dev/fuse ]]; then
    lack 'there is no /dev/fuse: load the kernel module (modprobe fuse), or let the container have the device'
    return
  fi
  local mode
  mode=$(stat -c %a /dev/fuse)
  if (((8#$mode & 8#6) == 8#6)); then return; fi
  if ((EUID == 0)); then
    say "/dev/fuse has mode 0$mode and gets 0666, as udev would give it"
    chmod 666 /dev/fuse && return
  fi
  lack "/dev/fuse has mode 0$mode: users other than root cannot mount; as root: chmod 666 /dev/fuse"
}

install_packages
open_fuse
[[ ${CI:-} != true ]] || ((LACKS == 0))
