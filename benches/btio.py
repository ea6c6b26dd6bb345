#!/usr/bin/env python3
"""The talk's case: a program like BTIO over PnetCDF (btio.c), 16 processes on one node, one shared file, blocking collective writes.

Each way to run it is timed in turn, the order turning from round to round, and medians are compared: with ROMIO's `cb_config_list`
*:1, *:2, *:4, *:8 and *:16 on the file system of the stores and on the burst mount, and without any hint on the burst mount. What was
written lands, and is removed, between the runs. Exit status: 0 the bar is met, 3 it is not, 1 a run failed."""
import argparse, json, os, pathlib, statistics, subprocess, sys, tempfile, time

PROCESSES = 16
HINTS = [f"*:{count}" for count in (1, 2, 4, 8, 16)]
JOB = "bench-btio"
WITHOUT = {"ROMIO, no hint": "romio321", "ompio, no hint": "ompio", "forebay mpiio, no hint": "romio321"}


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Bed:
    def __init__(self, base, options):
        self.forebay, self.options = options.forebay, options
        self.program = base / "btio"
        run("mpicc.openmpi", "-O2", "-o", self.program, pathlib.Path(__file__).with_name("btio.c"), "-lpnetcdf")
        for name in ("plain", "backing", "export"):
            (base / name).mkdir()
        self.plain, self.burst = base / "plain", base / "mount" / "ckpt"
        self.library = run(self.forebay, "mpiio", "--mpi", "openmpi").strip() if options.library else None
        run(self.forebay, "up", "--job", JOB, "--local", 1, "--export", base / "export", "--view", base / "view", "--profile", "off",
            "--burst", f"/ckpt={base / 'backing'}", "--burst-store", base / "store", "--burst-mount", base / "mount",
            "--burst-capacity", "4GiB")
        self.burst = next((base / "mount").glob("**/ckpt"))

    def down(self):
        run(self.forebay, "down", "--job", JOB)

    def time(self, way):
        """Seconds from before the file is made until it is closed everywhere."""
        place, io, hint, preload = way
        file = place / "btio.nc"
        words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--quiet", "--mca", "mpi_yield_when_idle", 1,
                 "--mca", "io", io, "--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "none",
                 "--mca", "plm_rsh_agent", "/bin/false", "-n", PROCESSES]
        if preload:
            words += ["-x", f"LD_PRELOAD={preload}"]
        words += [self.program, file, self.options.points, self.options.steps]
        seconds = float(run(*words, *(["cb_config_list", hint] if hint else [])))
        file.unlink()
        run(self.forebay, "drain", "--job", JOB, "--wait", "--timeout", "120s")
        os.sync()
        return seconds

    def ways(self):
        ways = {f"ext4, {hint}": (self.plain, "romio321", hint, None) for hint in HINTS}
        ways |= {f"burst mount, {hint}": (self.burst, "romio321", hint, None) for hint in HINTS}
        for name, io in WITHOUT.items():
            preload = self.library if "mpiio" in name else None
            if preload or "mpiio" not in name:
                ways[f"burst mount, {name}"] = (self.burst, io, None, preload)
        return ways


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", required=True, help="the command")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/bench"), help="where stores and files are made, and removed afterwards")
    parser.add_argument("--points", type=int, default=102, help="of the array, in each dimension (BTIO's class B: 102)")
    parser.add_argument("--steps", type=int, default=5, help="time steps")
    parser.add_argument("--runs", type=int, default=10, help="of each way")
    parser.add_argument("--no-library", dest="library", action="store_false", help="leave `forebay mpiio` out")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    json_file = options.json or options.dir / f"btio-{int(time.time())}.json"
    gib = options.points**3 * 5 * 8 * options.steps / 2**30
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=options.dir) as base:
        bed = Bed(pathlib.Path(base).resolve(), options)
        try:
            ways = bed.ways()
            times = {name: [] for name in ways}
            for turn in range(options.runs):
                names = list(ways)
                for name in names[turn % len(names):] + names[:turn % len(names)]:
                    times[name].append(bed.time(ways[name]))
        finally:
            bed.down()
    print(f"{PROCESSES} processes on one node of {os.cpu_count()} processors, {gib:.2f} GiB in {options.steps} blocking collective writes, "
          f"{options.runs} runs in turn, load {before:.1f} before and {os.getloadavg()[0]:.1f} after")
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in times.items():
        print(f"  {name:40} {medians[name]:7.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})  {gib * 1024 / medians[name]:7.0f} MiB/s")
    verdicts = {}
    for place in ("ext4", "burst mount"):
        best = min((name for name in ways if name.startswith(place) and "*:" in name), key=medians.get)
        for name in (name for name in ways if "no hint" in name):
            ratio = statistics.median(one / other for one, other in zip(times[best], times[name]))
            verdicts[f"{name} / {best}"] = ratio
            print(f"  {name}, against the best of the hints ({best}): {ratio:.2f} x the speed (at least 1.00 x, {'met' if ratio >= 1 else 'NOT MET'})")
    machine = {"processors": os.cpu_count(), "kernel": os.uname().release, "load": [before, os.getloadavg()[0]]}
    json_file.write_text(json.dumps({"machine": machine, "gib": gib, "options": {"points": options.points, "steps": options.steps},
                                     "seconds": times, "medians": medians, "ratios": verdicts}, indent=1) + "\n")
    print(f"The JSON: {json_file}")
    return 0 if any(ratio >= 1 for name, ratio in verdicts.items() if "/ burst mount" in name) else 3


if __name__ == "__main__":
    sys.exit(main())
