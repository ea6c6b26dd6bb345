#!/usr/bin/env python3
"""Puts known bugs (bugs.txt, ../../burst/seeded/bugs.txt) one at a time into a copy of the tree, and says which check or test finds each.

    run.py [--seeds N] [--step N] [--into DIRECTORY] [NAME...]

NAME is a bug, or `sim` or `burst`, for all of one simulator. Fails if a bug is not found by the check or test that its list names. The
tree itself is never touched.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

HARNESS = pathlib.Path(__file__).resolve().parents[2]
TREE = HARNESS.parents[1]

# The package of each simulator, and how it is run: with small stores, daemons soon find them full.
SIMULATORS = {"sim": ("forebay-sim", []), "burst": ("forebay-burst-sim", ["--segments", "32"])}


def bugs():
    for simulator in SIMULATORS:
        for paragraph in (HARNESS / simulator / "seeded" / "bugs.txt").read_text().split("\n\n")[1:]:
            name, path, before, after, check = paragraph.strip("\n").split("\n")
            yield simulator, name, path, before, after, check


def copy_tree(to):
    """Writes only what differs, so that the next run need not build everything again."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        source, copy = TREE / name, to / name
        if source.is_file() and not (copy.is_file() and copy.read_bytes() == source.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    return to


def tests_that_find(tree, target, package, file, name):
    """That test, if it fails; None if it does not build."""
    cargo = ["cargo", "test", "--quiet", "--package", package, "--test", file, "--target-dir", target]
    if subprocess.run([*cargo, "--no-run"], cwd=tree).returncode != 0:
        return None
    done = subprocess.run([*cargo, "--", "--exact", name], cwd=tree, capture_output=True, text=True, timeout=1800)
    has_failed = f"---- {name} stdout ----" in done.stdout
    return collections.Counter({f"{file}::{name}": 1} if has_failed else {})


def checks_that_find(simulator, tree, target, seeds, step):
    """How many findings each check has, and after how many seeds; None if the tree does not build."""
    package, options = SIMULATORS[simulator]
    cargo = ["cargo", "build", "--quiet", "--package", package, "--target-dir", target]
    if subprocess.run(cargo, cwd=tree).returncode != 0:
        return None, 0
    found = collections.Counter()
    for first in range(0, seeds, step):
        end = min(first + step, seeds)
        command = [target / "debug" / package, *options, "--seeds", f"{first}..{end}"]
        try:
            done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=1800)
        except subprocess.TimeoutExpired:
            found["hang"] += 1
            return found, end
        found.update(re.findall(r"^  ([a-z]+): ", done.stdout, re.MULTILINE))
        if done.returncode not in (0, 1):
            found["crash"] += 1
        if found:
            return found, end
    return found, seeds


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--seeds", type=int, default=300)
    arguments.add_argument("--step", type=int, default=50, help="seeds of one run; the first run that finds something is the last")
    arguments.add_argument("--into", type=pathlib.Path, default=TREE / "target" / "seeded", help="where a copy is built")
    arguments.add_argument("names", nargs="*")
    chosen = arguments.parse_args()
    failed = []
    into = chosen.into.resolve()
    tree, target = copy_tree(into / "tree"), into / "target"
    for simulator, name, path, before, after, check in bugs():
        if chosen.names and name not in chosen.names and simulator not in chosen.names:
            continue
        file = tree / path
        text = file.read_text()
        if text.count(before) != 1:
            sys.exit(f"{name}: {path} has its text {text.count(before)} times")
        file.write_text(text.replace(before, after))
        if check.startswith("test "):
            package, file_of_tests, test = check.removeprefix("test ").split()
            check, seeds = f"{file_of_tests}::{test}", 0
            found = tests_that_find(tree, target, package, file_of_tests, test)
        else:
            found, seeds = checks_that_find(simulator, tree, target, chosen.seeds, chosen.step)
        file.write_text(text)
        said = "does not build" if found is None else ", ".join(f"{one} {count}" for one, count in found.items())
        within = f", in {seeds} seeds" if seeds else ""
        print(f"{name}: {said or 'not found'}{within} (expected: {check})", flush=True)
        if found is None or (check not in found if check != "none" else found):
            failed.append(name)
    if failed:
        sys.exit(f"not found as expected: {', '.join(failed)}")


main()
