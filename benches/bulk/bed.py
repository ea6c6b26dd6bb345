"""The GlusterFS test bed: a server and nodes in network namespaces with shaped links (pfs-testbed.sh).

The kernel's shaper of links is tbf. A delay of packets (netem) is not in every kernel, so the server delays each metadata request and each
read instead. Links and the server are slowed only after the files are in place.
"""

import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "crates/harness/testkit/testbed/pfs-testbed.sh"
METADATA = "lookup,stat,fstat,open,create,opendir,readdir,readdirp,mkdir,mknod,unlink,rename,readlink,access,getxattr"
# It takes the bed down when its input ends, so that none stays of a process that is killed.
HOLD = """
script=$1; shift
"$script" up "$@" </dev/null >/dev/null && (trap '' PIPE; echo up 2>/dev/null) && cat >/dev/null
exec "$script" down </dev/null >/dev/null
"""


class Bed:
    """Up while the block runs. `rate` and `client_rate` in the syntax of tc(8); the server works on `at_once` requests, each of the kinds
    `delayed` for `delay_us`."""

    def __init__(self, nodes, rate, client_rate="none", delay_us=2000, at_once=16, delayed=METADATA + ",read"):
        self.count, self.rate, self.client_rate, self.delay_us, self.at_once, self.delayed = nodes, rate, client_rate, delay_us, at_once, delayed
        self.state = pathlib.Path(f"/dev/shm/forebay-bulk-{os.getpid()}")
        self.variables = {"PFS_STATE": str(self.state), "PFS_PREFIX": f"bu{os.getpid() % 100000}-"}
        self.files = self.state / "pfs"
        self.script = self.state / "testbed.sh"
        self.holder = None

    def __enter__(self):
        words = ["sh", "-c", HOLD, "sh", str(SCRIPT), "-n", str(self.count), "-r", "none", "-t", str(self.at_once)]
        self.holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment())
        if self.holder.stdout.read(3) != "up\n":
            self.close()
            sys.exit("the test bed does not come up; see above")
        self.script.symlink_to(SCRIPT)
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.holder.stdin.close()
        if self.holder.wait() != 0:
            print(f"the test bed in {self.state} is not down", file=sys.stderr)

    def environment(self):
        return {**os.environ, **self.variables}

    def call(self, *words):
        done = subprocess.run([SCRIPT, *map(str, words)], capture_output=True, text=True, env=self.environment(), cwd="/")
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def fill(self, source, name):
        """Copies a directory to `name` in the file system; where every node finds it."""
        self.call("exec", "n0", "--", "cp", "-aT", source, self.files / name)
        return self.files / name

    def slow_down(self):
        self.call("rate", self.rate)
        self.call("fault", "delay", self.delay_us, "100%", self.delayed)
        if self.client_rate != "none":
            for node in range(self.count):
                self.shape(node, self.client_rate)

    def shape(self, node, rate):
        """Both ways of a node's link."""
        for space, device in [(f"n{node}", "eth0"), ("sw", f"p{node}")]:
            name = self.variables["PFS_PREFIX"] + space
            shaper = ["tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
            subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", device, "root", *shaper], check=True)

    def remount(self):
        """Fresh mounts: nothing of the file system is in the nodes' caches."""
        self.call("remount")

    def on(self, node, *words):
        """The words of a command that run `words` on a node."""
        space = f"/run/netns/{self.variables['PFS_PREFIX']}n{node}"
        place = [f"--net={space}", f"--mount={self.state}/ns/n{node}.mnt", f"--uts={self.state}/ns/n{node}.uts"]
        return ["nsenter", *place, "--", *map(str, words)]

    def traffic(self):
        """Requests by kind in lower case, and `sent_bytes`, since the server started."""
        return {kind.lower(): int(count) for kind, count in (line.split() for line in self.call("metrics").splitlines())}

    def up_options(self, hosts, count=None):
        """Options of `forebay up` on all nodes, or the first `count`; `hosts` is a file that is written."""
        hosts.write_text("".join(f"n{node}\n" for node in range(count or self.count)))
        return ["--hostfile", hosts, "--remote-shell", f"{self.script} exec", "--interface", "eth0"]
