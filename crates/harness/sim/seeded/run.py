#!/usr/bin/env python3
"""Puts known bugs (bugs.txt) one at a time into a copy of the tree, and says which check of the simulator, or which test, finds each.

    run.py [--seeds N] [--into DIRECTORY] [NAME...]

Fails if a bug is not found by the check or test that bugs.txt names. The tree itself is never touched.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[3]


def bugs():
    for paragraph in (HERE / "bugs.txt").read_text().split("\n\n")[1:]:
        name, path, before, after, check = paragraph.strip("\n").split("\n")
        yield name, path, before, after, check


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


def checks_that_find(tree, target, seeds):
    """How many findings each check has; None if the tree does not build."""
    cargo = ["cargo", "build", "--quiet", "--package", "forebay-sim", "--target-dir", target]
    if subprocess.run(cargo, cwd=tree).returncode != 0:
        return None
    found = collections.Counter()
    step = 50
    for first in range(0, seeds, step):
        command = [target / "debug" / "forebay-sim", "--seeds", f"{first}..{min(first + step, seeds)}"]
        try:
            done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=1800)
        except subprocess.TimeoutExpired:
            found["hang"] += 1
            break
        found.update(re.findall(r"^  ([a-z]+): ", done.stdout, re.MULTILINE))
        if done.returncode not in (0, 1):
            found["crash"] += 1
        if found:
            break
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--seeds", type=int, default=300)
    arguments.add_argument("--into", type=pathlib.Path, default=TREE / "target" / "seeded", help="where a copy is built")
    arguments.add_argument("names", nargs="*")
    chosen = arguments.parse_args()
    failed = []
    into = chosen.into.resolve()
    tree, target = copy_tree(into / "tree"), into / "target"
    for name, path, before, after, check in bugs():
        if chosen.names and name not in chosen.names:
            continue
        file = tree / path
        text = file.read_text()
        if text.count(before) != 1:
            sys.exit(f"{name}: {path} has its text {text.count(before)} times")
        file.write_text(text.replace(before, after))
        if check.startswith("test "):
            package, file_of_tests, test = check.removeprefix("test ").split()
            check, found = f"{file_of_tests}::{test}", tests_that_find(tree, target, package, file_of_tests, test)
        else:
            found = checks_that_find(tree, target, chosen.seeds)
        file.write_text(text)
        said = "does not build" if found is None else ", ".join(f"{one} {count}" for one, count in found.items())
        print(f"{name}: {said or 'not found'} (expected: {check})", flush=True)
        if found is None or check not in found:
            failed.append(name)
    if failed:
        sys.exit(f"not found as expected: {', '.join(failed)}")


main()
