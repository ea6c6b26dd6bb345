# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack.package import *


class Forebay(Package):
    """The I/O tier of a supercomputer job: its nodes read, write, aggregate and query together, instead of every
    process asking the parallel file system."""

    # A release has the address of the project here.
    homepage = "https://forebay.example/forebay"
    git = "https://forebay.example/forebay.git"

    license("Apache-2.0")

    # A release adds version("X.Y.Z", sha256=...) and url.
    version("main", branch="main")

    variant("mpiio", default=False, description="Build the MPI-IO library for the MPI of this installation")
    variant("sql", default=False, description="Build forebay-sql, which takes three quarters of an hour of a processor")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("gmake", type="build")
    depends_on("libfuse@3:", type="run")
    # Open MPI and MPICH, and what has the ABI of MPICH.
    depends_on("mpi@3.1:", when="+mpiio")

    conflicts("platform=darwin", msg="Forebay needs FUSE of Linux 5.4 or later")
    conflicts("platform=windows", msg="Forebay needs FUSE of Linux 5.4 or later")

    def setup_build_environment(self, env):
        # Nothing is downloaded into the home directory.
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))
        if "+mpiio" in self.spec:
            # An MPI of either kind is recognised by its header (packaging/mpiio.sh).
            env.set("FOREBAY_MPICC_OPENMPI", self.spec["mpi"].mpicc)
            env.set("FOREBAY_MPICC_MPICH", self.spec["mpi"].mpicc)

    def install(self, spec, prefix):
        if "+mpiio" in spec:
            make("build")
        else:
            make("build-command")
        if "+sql" in spec:
            make("build-sql")
        make("install", "PREFIX={0}".format(prefix))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        forebay = Executable(self.prefix.bin.forebay)
        forebay("version", "--json")
        forebay("plan", "--example")
