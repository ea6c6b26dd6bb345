#!/usr/bin/env python3
"""start-scale.py FOREBAY DIR: how long a job of many real daemons takes to start, to tell its status and to end, and how much memory it has.

All nodes are on this machine: first as `--local N`, then as HOSTS hosts of N / HOSTS nodes each, every host with network, mount and UTS
namespaces of its own on one bridge (root), started by a remote shell that enters them. Then most hosts are dead, and the time is taken until
`up` names them. Every figure is printed with its bar, and whether it is met. What it makes it removes.

Between runs are six seconds: ext4 passes over what was removed in the last five at each file that is made, and a job never starts right
after hundreds of others on its host have ended.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

BRIDGE, NETWORK = "fbscale", "10.88"
PER_100 = 2.0
MEMORY_MB = 12.0
STATUS_S = 1.0
NAMED_S = 5.0
PAUSE_S = 6.0
IDLE_S = 10.0


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def timed(*words):
    began = time.monotonic()
    done = run(*words)
    took = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return took, done.stdout


def memory_mb(program):
    """The proportional share of memory of all processes of the program, MB."""
    total = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe") != program:
                continue
            for line in (process / "smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024


def processor_s(program):
    """The time of processors that all processes of the program have taken, s."""
    ticks = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "exe") == program:
                fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def busy_s():
    """The time in which processors of this machine were busy, s."""
    user, nice, system, _, _, hard, soft = map(int, pathlib.Path("/proc/stat").read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + hard + soft) / os.sysconf("SC_CLK_TCK")


def met(name, value, bar, unit):
    print(f"{name:46} {value:8.2f} {unit} (bar {bar:g}: {'met' if value <= bar else 'NOT met'})", flush=True)


class Hosts:
    """Hosts in namespaces, on a bridge."""

    def __init__(self, count, directory):
        self.count, self.pids = count, []
        self.shell = directory / "remote-shell"
        self.directory = directory

    def make(self):
        directory, count = self.directory, self.count
        run("ip", "link", "add", BRIDGE, "type", "bridge", check=True)
        run("ip", "address", "add", f"{NETWORK}.255.254/16", "dev", BRIDGE, check=True)
        run("ip", "link", "set", BRIDGE, "up", check=True)
        for host in range(count):
            child = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "sleep", "infinity"], stdin=subprocess.DEVNULL)
            self.pids.append(child)
            while os.readlink(f"/proc/{child.pid}/exe").rsplit("/", 1)[-1] != "sleep":
                time.sleep(0.005)
            inside = ["nsenter", "--target", child.pid, "--net", "--uts", "--"]
            run("ip", "link", "add", f"fbs{host}", "type", "veth", "peer", "name", "eth0", "netns", child.pid, check=True)
            run("ip", "link", "set", f"fbs{host}", "master", BRIDGE, "up", check=True)
            run(*inside, "hostname", f"h{host}", check=True)
            run(*inside, "ip", "address", "add", f"{self.address(host)}/16", "dev", "eth0", check=True)
            run(*inside, "ip", "link", "set", "lo", "up", check=True)
            run(*inside, "ip", "link", "set", "eth0", "up", check=True)
            (directory / f"host-{self.address(host)}").write_text(str(child.pid))
        self.shell.write_text(
            "#!/bin/sh\n"
            f'host=$1; shift 2\n[ -z "$DEAD" ] || [ "${{host##*.}}" -le "$ALIVE" ] || {{ case $DEAD in hung) exec sleep 600 ;; '
            '*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;; esac; }\n'
            f'exec nsenter --target "$(cat {directory}/host-"$host")" --net --mount --uts -- "$@"\n'
        )
        self.shell.chmod(0o755)

    @staticmethod
    def address(host):
        return f"{NETWORK}.{host // 200}.{host % 200 + 1}"

    def file(self, path, nodes):
        ports = [20_100 + port for port in range(nodes // self.count)]
        path.write_text("".join(f"{self.address(host)}:{port}\n" for host in range(self.count) for port in ports))
        return path

    def close(self):
        for child in self.pids:
            child.kill()
            child.wait()
        run("ip", "link", "delete", BRIDGE)


def whole_job(program, job, up, nodes, runs):
    ups, downs, statuses, memories, busy, idle = [], [], [], [], [], []
    for _ in range(runs):
        time.sleep(PAUSE_S)
        before = busy_s()
        took, _ = timed(program, "up", *job, *up)
        busy.append(busy_s() - before)
        ups.append(took)
        try:
            took, text = timed(program, "status", "--json", *job)
            statuses.append(took)
            ready = sum(node["state"] == "ready" for node in json.loads(text)["nodes"])
            if ready != nodes:
                sys.exit(f"status knows {ready} of {nodes} nodes")
            memories.append(memory_mb(program) / nodes)
            time.sleep(PAUSE_S)
            before = processor_s(program)
            time.sleep(IDLE_S)
            idle.append((processor_s(program) - before) / IDLE_S / nodes * 100)
        finally:
            took, _ = timed(program, "down", *job)
            downs.append(took)
    median = statistics.median
    met("up, seconds per 100 nodes", median(ups) * 100 / nodes, PER_100, "s")
    print(f"{'  of this, processors of the machine were busy':46} {median(busy) * 100 / nodes:8.2f} s of {os.cpu_count()} processors")
    met("down, seconds per 100 nodes", median(downs) * 100 / nodes, PER_100, "s")
    met("status --json", median(statuses), STATUS_S, "s")
    met("memory of a node (Pss of keeper and daemon)", max(memories), MEMORY_MB, "MB")
    print(f"{'an idle node takes of a processor':46} {median(idle):8.3f} %", flush=True)


def dead_hosts(program, job, hosts, directory, how):
    """Time until `up` names the dead, and in how many lines."""
    alive = hosts.count // 16
    environment = {**os.environ, "DEAD": how, "ALIVE": str(alive)}
    words = [program, "up", *job, "--hostfile", directory / "hosts", "--remote-shell", hosts.shell, "--wait-timeout", "8s"]
    words += ["--export", directory / "export"]
    began = time.monotonic()
    up = subprocess.Popen([str(word) for word in words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
    first, lines = None, []
    for line in up.stderr:
        if line.startswith("  node ") and first is None:
            first = time.monotonic() - began
        lines.append(line)
    up.wait()
    count = sum(line.startswith("  node ") for line in lines if "HOST" in line)
    met(f"{hosts.count - alive} of {hosts.count} hosts are dead ({how}): named after", first or 999.0, NAMED_S, "s")
    print("    " + "    ".join(lines[:4]).rstrip() + f"\n    ({count} lines for their cause)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=512)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    program = str(given.forebay.resolve())
    directory = given.directory.resolve() / "start-scale"
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "export").mkdir(parents=True)
    job = ["--job", "start-scale", "--directory", directory / "jobs"]
    print(f"load before: {os.getloadavg()[0]:.1f}; {given.runs} runs, medians; memory: the largest", flush=True)
    print(f"--local {given.nodes}:", flush=True)
    whole_job(program, job, ["--local", given.nodes, "--export", directory / "export"], given.nodes, given.runs)
    hosts = Hosts(given.hosts, directory)
    try:
        hosts.make()
        listed = hosts.file(directory / "hosts", given.nodes)
        print(f"{given.hosts} hosts of {given.nodes // given.hosts}:", flush=True)
        up = ["--hostfile", listed, "--remote-shell", hosts.shell, "--export", directory / "export"]
        whole_job(program, job, up, given.nodes, given.runs)
        hosts.file(directory / "hosts", given.hosts)
        for how in ("refused", "hung"):
            dead_hosts(program, job, hosts, directory, how)
    finally:
        hosts.close()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
