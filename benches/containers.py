"""How long programs in images take to start: by ch-run from ext4, memory and GlusterFS, by forebay from GlusterFS; and where to build.

The image has /bin/true, a Python with its library, copied from this machine, and the packages of python-tree.sh, as a directory and
as a SquashFS file (zstd). The file system is the GlusterFS of the test bed: nodes are network namespaces of this machine, the
server's link has 1 Gbit/s, each metadata request takes 2 ms, two at a time, as in bench-read's storm. `forebay up` is not part of a
start: it is once a job. `import` makes the file operations of a large import without Python's computing (import-replay.py), for which
nodes that share processors would wait in turn. All ways are measured in turn; medians. Called by bench-containers.sh.
"""

import argparse
import compileall
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

TESTBED = Path("crates/harness/testkit/testbed/pfs-testbed.sh").resolve()
PROGRAMS = {
    "true": ["/bin/true"],
    "python": ["/bin/python3", "-I", "-c", "import argparse, asyncio, decimal, email.message, http.client, json, logging, unittest"],
    "import": ["/bin/python3", "-I", "/opt/import-replay.py", "/opt/tree"],
}
# Those whose computing many launches on one machine would measure, and not how files come.
COMPUTING = ["true", "python"]
WARM_RUNS = {1: 21, 16: 5}
COLD_RUNS = 3
COLD_RUNS_QUICK = 1
BUILD_RUNS = 1
# Nobody waits longer for a pack.
PACK_DEADLINE_S = 120


def said(argv, **options):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"bench-containers: {argv} failed: {done.stderr}")
    return done.stdout


def libraries(program):
    done = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [word for word in done.stdout.split() if word.startswith("/")]


def make_image(image, tree):
    for name in ["bin", "dev", "etc", "home", "mnt", "opt", "proc", "root", "sys", "tmp", "usr"]:
        (image / name).mkdir(parents=True)
    for name in ["passwd", "group", "hosts", "resolv.conf"]:
        (image / "etc" / name).touch()
    library = Path(sysconfig.get_paths()["stdlib"])
    at = image / library.relative_to("/")
    left_out = shutil.ignore_patterns("test", "tests", "site-packages", "dist-packages", "config-*", "idlelib", "ensurepip")
    shutil.copytree(library, at, symlinks=True, ignore=left_out)
    python = Path(sys.executable).resolve()
    programs = [(Path("/bin/true"), image / "bin/true"), (python, image / python.relative_to("/"))]
    for program, to in programs:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program, to)
    needed = {one for program in [*(program for program, _ in programs), *at.rglob("*.so")] for one in libraries(program)}
    for one in needed:
        to = image / one.lstrip("/")
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(one, to)
    (image / "bin/python3").symlink_to(python)
    shutil.copytree(tree, image / "opt/tree", symlinks=True)
    for name in ["import-replay.py", "import-replay.txt"]:
        shutil.copy(Path(__file__).with_name(name), image / "opt")
    compileall.compile_dir(at, quiet=2, stripdir=str(image), prependdir="/")


def at_once(commands):
    """Lets commands that stand ready go together: from the first to the end of the last, seconds."""
    gated = [["sh", "-c", 'read -r go; exec "$@"', "sh", *command] for command in commands]
    started = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd="/") for argv in gated]
    # So that all have come to their gates.
    time.sleep(0.3)
    begin = time.perf_counter()
    for one in started:
        one.stdin.write(b"\n")
        one.stdin.close()
    failed = [one.args for one in started if one.wait() != 0]
    took = time.perf_counter() - begin
    if failed:
        sys.exit(f"bench-containers: {failed[0]} failed")
    return took


def one_alone(command):
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ)
    status = os.waitpid(pid, 0)[1]
    took = time.perf_counter() - begin
    if status != 0:
        sys.exit(f"bench-containers: {command} failed")
    return took


def measure_warm(ways):
    """Within a node: every way in turn. What is printed is for the bench around it."""
    figures = {name: {"1": [], "16": []} for name in ways}
    for command in ways.values():
        one_alone(command)
    for _ in range(WARM_RUNS[1]):
        for name, command in ways.items():
            figures[name]["1"].append(one_alone(command))
    for _ in range(WARM_RUNS[16]):
        for name, command in ways.items():
            figures[name]["16"].append(at_once([command] * 16))
    print(json.dumps(figures))


class Bed:
    def __init__(self, work, forebay, nodes, tree):
        self.work, self.forebay, self.nodes, self.tree = work, forebay, nodes, tree
        self.state = Path(f"/dev/shm/forebay-containers-{os.getpid()}")
        self.memory = Path(f"/dev/shm/forebay-images-{os.getpid()}")
        self.environment = {
            **os.environ, "PFS_STATE": str(self.state), "PFS_PREFIX": f"fc{os.getpid() % 100000}-", "USER": "root",
            "XDG_RUNTIME_DIR": str(work / "run"), "FOREBAY_PROFILE": "off", "HOME": str(work / "home"),
        }
        self.files = self.state / "pfs"

    def testbed(self, *words):
        return said([str(TESTBED), *map(str, words)], env=self.environment, stdin=subprocess.DEVNULL)

    def __enter__(self):
        for name in ["run", "view", "home"]:
            (self.work / name).mkdir(mode=0o700)
        try:
            make_image(self.work / "image", self.tree)
            said(["mksquashfs", self.work / "image", self.work / "image.sqfs", "-comp", "zstd", "-quiet", "-no-progress", "-all-root"])
            self.memory.mkdir(mode=0o700)
            said(["cp", "-a", self.work / "image", self.work / "image.sqfs", self.memory])
            self.testbed("up", "-n", self.nodes, "-r", "none", "-t", 2)
            self.testbed("exec", "n0", "cp", "-a", self.work / "image", self.work / "image.sqfs", self.files)
            self.testbed("exec", "n0", "mkdir", self.files / "profiles")
            self.testbed("rate", "1gbit")
            self.testbed("fault", "delay", 2000)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([str(TESTBED), "down"], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for left in [self.memory, self.work]:
            shutil.rmtree(left, ignore_errors=True)

    def on(self, node, argv):
        # As the test bed's `exec` does, without its shell.
        prefix = self.environment["PFS_PREFIX"]
        return ["nsenter", f"--net=/run/netns/{prefix}n{node}", f"--mount={self.state}/ns/n{node}.mnt",
                f"--uts={self.state}/ns/n{node}.uts", "--", *map(str, argv)]

    def counted(self):
        """Requests that the server has had, and bytes that it has sent to the clients that are mounted now."""
        counters = dict(line.split() for line in self.testbed("metrics").splitlines())
        return int(counters["TOTAL"]), int(counters["SENT_BYTES"])

    def fresh(self):
        """Nothing of GlusterFS is in any node's caches."""
        self.testbed("remount")

    def up(self, nodes, profile="off"):
        hosts = self.work / "hosts"
        hosts.write_text("".join(f"n{node}\n" for node in range(nodes)))
        argv = [self.forebay, "up", "--job", "containers", "--export", self.files, "--hostfile", hosts, "--interface", "eth0",
                "--remote-shell", f"{TESTBED} exec", "--view", self.work / "view", "--profile", profile]
        said(list(map(str, argv)), env=self.environment, stdin=subprocess.DEVNULL)

    def down(self):
        said([self.forebay, "down", "--job", "containers"], env=self.environment)

    def ch_run(self, image, program):
        return ["/usr/bin/ch-run", str(image), "--", *PROGRAMS[program]]

    def forebay_run(self, image, program):
        return [self.forebay, "run", "--job", "containers", "--image", str(self.files / image), "--", *PROGRAMS[program]]


def ways_of(bed, program):
    ways = {}
    for form, image in [("directory", "image"), ("SquashFS", "image.sqfs")]:
        for place, where in [("ext4", bed.work), ("tmpfs", bed.memory), ("GlusterFS direct", bed.files)]:
            ways[f"{place}, {form}"] = bed.ch_run(where / image, program)
        ways[f"Forebay, {form}"] = bed.forebay_run(image, program)
    return ways


def warm(bed):
    figures = {}
    for program in COMPUTING:
        bed.fresh()
        bed.up(1)
        words = ["python3", Path(__file__).resolve(), "--warm", json.dumps(ways_of(bed, program))]
        told = json.loads(said(bed.on(0, words), env=bed.environment, cwd="/"))
        for way, runs in told.items():
            for launches, took in runs.items():
                figures[(way, program, f"warm, {launches}")] = took
                print(f"  {program}, warm, {launches}, {way}: {statistics.median(took):.4f} s", file=sys.stderr, flush=True)
        bed.down()
    return figures


def cold_commands(bed, way, command, nodes, launches):
    if way.startswith(("ext4", "tmpfs")):
        return [bed.on(0, command)] * launches
    return [bed.on(node, command) for node in range(nodes)] if nodes > 1 else [bed.on(0, command)] * launches


def cold_once(bed, way, command, nodes, launches, profile="off"):
    """Seconds, requests that the server had, and bytes that it sent."""
    said(["sync"])
    bed.fresh()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    is_forebay = way.startswith("Forebay")
    if is_forebay:
        bed.up(nodes, profile)
    os.environ.update(bed.environment)
    before = bed.counted()
    took = at_once(cold_commands(bed, way, command, nodes, launches))
    counted = [now - then for now, then in zip(bed.counted(), before)]
    if is_forebay:
        bed.down()
    return took, *counted


def record(bed, command, name):
    """Has a start recorded, and waits for its pack."""
    profile = bed.files / "profiles" / name
    bed.fresh()
    bed.up(1, str(profile))
    said(bed.on(0, command), env=bed.environment, cwd="/")
    deadline = time.monotonic() + PACK_DEADLINE_S
    while subprocess.run(bed.on(0, ["test", "-e", profile.with_suffix(".pack")])).returncode != 0:
        if time.monotonic() > deadline:
            sys.exit("bench-containers: no pack was written")
        time.sleep(0.2)
    bed.down()
    return str(profile)


def cold(bed, repeats):
    figures, counts = {}, {}
    for program in PROGRAMS:
        ways = {way: command for way, command in ways_of(bed, program).items() if not way.startswith("tmpfs")}
        profile = record(bed, ways["Forebay, directory"], program + ".profile")
        runs = [(way, command, "off") for way, command in ways.items()]
        runs.append(("Forebay, directory, pack", ways["Forebay, directory"], profile))
        for case, nodes, launches in [("cold, 1", 1, 1), ("cold, 16", 1, 16), (f"cold, {bed.nodes} nodes", bed.nodes, 1)]:
            if launches > 1 and program not in COMPUTING:
                continue
            for _ in range(repeats):
                for way, command, one in runs:
                    if nodes > 1 and way.startswith("ext4"):
                        continue
                    took, requests, sent = cold_once(bed, way, command, nodes, launches, one)
                    figures.setdefault((way, program, case), []).append(took)
                    counts.setdefault((way, program, case), []).append((requests, sent))
                    print(f"  {program}, {case}, {way}: {took:.3f} s, {requests} requests, {sent / 1e6:.1f} MB", file=sys.stderr, flush=True)
    return figures, counts


def build(bed):
    """Seconds that it takes to make the image's tree in each place, and to bring it from there to the file system."""
    archive = bed.memory / "image.tar"
    said(["tar", "-C", bed.work / "image", "-cf", archive, "."])
    places = {"ext4": bed.work, "tmpfs": bed.memory, "GlusterFS direct": bed.files}
    figures = {}

    def timed(place, what, words):
        begin = time.perf_counter()
        said(bed.on(0, ["sh", "-c", words]))
        figures.setdefault((place, what), []).append(time.perf_counter() - begin)
        print(f"  {what}, {place}: {figures[(place, what)][-1]:.2f} s", file=sys.stderr, flush=True)

    for _ in range(BUILD_RUNS):
        for place, where in places.items():
            at, landed = where / "built", bed.files / "landed"
            timed(place, "unpack the tree", f"mkdir {at} && tar -C {at} -xf {archive} && sync -f {at}")
            if place != "GlusterFS direct":
                timed(place, "bring it as a tree", f"mkdir {landed} && tar -C {at} -c . | tar -C {landed} -x && sync -f {landed}")
            squash = f"mksquashfs {at} {where}/built.sqfs -comp zstd -quiet -no-progress"
            timed(place, "make a SquashFS file", f"{squash} && sync {where}/built.sqfs")
            if place != "GlusterFS direct":
                timed(place, "bring it as a file", f"cp {where}/built.sqfs {landed}.sqfs && sync {landed}.sqfs")
            said(bed.on(0, ["rm", "-rf", at, landed, f"{where}/built.sqfs", f"{landed}.sqfs"]))
    archive.unlink()
    return figures


def show_counts(counts, nodes):
    cases = ["cold, 1", "cold, 16", f"cold, {nodes} nodes"]
    ways = [way for way in dict.fromkeys(way for way, _, _ in counts) if not way.startswith("ext4")]
    median = lambda runs, at: statistics.median(run[at] for run in runs)
    for program in PROGRAMS:
        print(f"\n{program}: requests at the server, and MB that it sent (median)")
        print(f"  {'':28}" + "".join(f"{case:>20}" for case in cases))
        for way in ways:
            cells = [counts.get((way, program, case)) for case in cases]
            shown = (f"{median(runs, 0):.0f}, {median(runs, 1) / 1e6:.1f}" if runs else "" for runs in cells)
            print(f"  {way:28}" + "".join(f"{cell:>20}" for cell in shown))


def show_build(figures):
    whats = list(dict.fromkeys(what for _, what in figures))
    print("\nbuilding, s (median)")
    print(f"  {'':20}" + "".join(f"{what:>24}" for what in whats))
    for place in dict.fromkeys(place for place, _ in figures):
        cells = (figures.get((place, what)) for what in whats)
        print(f"  {place:20}" + "".join(f"{statistics.median(runs):24.2f}" if runs else f"{'':>24}" for runs in cells))


def show(figures, nodes):
    cases = ["warm, 1", "warm, 16", "cold, 1", "cold, 16", f"cold, {nodes} nodes"]
    ways = list(dict.fromkeys(way for way, _, _ in figures))
    for program in PROGRAMS:
        print(f"\n{program}, ms (median)")
        print(f"  {'':28}" + "".join(f"{case:>16}" for case in cases))
        for way in ways:
            cells = (figures.get((way, program, case)) for case in cases)
            print(f"  {way:28}" + "".join(f"{statistics.median(runs) * 1e3:16.1f}" if runs else f"{'':>16}" for runs in cells))


def bars(figures, nodes):
    median = lambda way, program, case: statistics.median(figures[(way, program, case)])
    everywhere = f"cold, {nodes} nodes"
    python = median("Forebay, directory", "python", "warm, 1") / median("ext4, directory", "python", "warm, 1")
    true_ms = (median("Forebay, directory", "true", "warm, 1") - median("ext4, directory", "true", "warm, 1")) * 1e3
    start = median("GlusterFS direct, directory", "import", everywhere) / median("Forebay, directory, pack", "import", everywhere)
    return [
        (f"Python, warm, against the directory on ext4: {python:.2f} x, at most 1.1 x", python <= 1.1),
        (f"/bin/true, warm: {true_ms:.1f} ms more than from the directory on ext4, at most 6 ms", true_ms <= 6),
        (f"import, cold, {nodes} nodes with a kept pack, against GlusterFS direct: {start:.1f} times faster, at least 10", start >= 10),
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--warm", type=json.loads)
    parser.add_argument("--forebay")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--quick", action="store_true", help="each cold start once")
    given = parser.parse_args()
    if given.warm:
        return measure_warm(given.warm)
    work = given.work.resolve() / f"containers-{os.getpid()}"
    work.mkdir(mode=0o700)
    with Bed(work, given.forebay, given.nodes, given.tree) as bed:
        files = [path for path in (work / "image").rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        print(f"image: {len(files)} files, {size:.0f} MB; SquashFS {(work / 'image.sqfs').stat().st_size / 1e6:.0f} MB (zstd)")
        figures = warm(bed)
        cold_figures, counts = cold(bed, COLD_RUNS_QUICK if given.quick else COLD_RUNS)
        figures.update(cold_figures)
        built = build(bed)
    show_counts(counts, given.nodes)
    show(figures, given.nodes)
    show_build(built)
    print()
    outcome = bars(figures, given.nodes)
    for text, is_met in outcome:
        print(f"  {text}: {'met' if is_met else 'NOT MET'}")
    if given.json:
        key = lambda key: dict(zip(["way", "program", "case"], key))
        rows = [{**key(at), "seconds": runs, "requests_and_bytes": counts.get(at, [])} for at, runs in figures.items()]
        places = [{"place": place, "what": what, "seconds": runs} for (place, what), runs in built.items()]
        bars_said = [{"bar": text, "met": met} for text, met in outcome]
        given.json.write_text(json.dumps({"figures": rows, "building": places, "bars": bars_said}, indent=1))


main()
