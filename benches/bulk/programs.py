"""Programs that start at the same time on all nodes: each waits for a line."""

import json
import pathlib
import subprocess
import sys
import time

READER = pathlib.Path(__file__).resolve().parent / "reader.py"


def start_at_once(commands, is_json=True, before=lambda: None):
    """Starts the commands, calls `before`, gives each a line, and waits: seconds from that to the end of the last, and what each printed."""
    programs = [subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands]
    before()
    began = time.perf_counter()
    for program in programs:
        program.stdin.write("\n")
        program.stdin.flush()
    texts = [program.communicate()[0] for program in programs]
    seconds = time.perf_counter() - began
    failed = [command for command, program in zip(commands, programs) if program.returncode != 0]
    if failed:
        sys.exit(f"{len(failed)} of {len(commands)} programs failed, the first: {' '.join(map(str, failed[0]))[:300]}")
    return seconds, [json.loads(text) if is_json else text for text in texts]


def reader(way, paths, *options):
    return [sys.executable, READER, way, *options, *paths]
