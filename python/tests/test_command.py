"""Without a job: the command's words and exit statuses, objects with other fields than these, and warm-ups by a command that keeps to its contract."""

import json
import os
import pathlib
import pickle
import shutil
import tempfile
import unittest

import forebay
from forebay import _command, _fields
from forebay._status import Status


class CommandCase(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.place)
        before = os.environ.get("FOREBAY_COMMAND")
        self.addCleanup(lambda: os.environ.pop("FOREBAY_COMMAND") and before and os.environ.update(FOREBAY_COMMAND=before))

    def command(self, script):
        """From now on the command is this one, which leaves its words in `words`."""
        file = self.place / "forebay"
        file.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{self.place}/words\n{script}')
        file.chmod(0o755)
        os.environ["FOREBAY_COMMAND"] = str(file)

    def words(self):
        return (self.place / "words").read_text().splitlines()


class Commands(CommandCase):
    def test_without_a_command_all_functions_say_so(self):
        os.environ["FOREBAY_COMMAND"] = str(self.place / "none")
        for call in (forebay.status, forebay.landed, lambda: forebay.warmup("x"), lambda: forebay.operators("stats", "x")):
            with self.assertRaises(FileNotFoundError):
                call()

    def test_a_failure_has_the_commands_words_and_status(self):
        self.command("echo '{}'; echo 'forebay: it is so' >&2; exit 1")
        for call in (forebay.status, forebay.landed, lambda: forebay.warmup("x"), lambda: forebay.operators("stats", "x")):
            with self.assertRaises(forebay.ForebayError) as raised:
                call()
            self.assertEqual((str(raised.exception), raised.exception.status), ("forebay: it is so", 1))
        self.assertIsInstance(raised.exception, forebay.QueryError)
        again = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((type(again), str(again), again.status), (forebay.QueryError, "forebay: it is so", 1))

    def test_an_answer_of_another_kind_is_an_error(self):
        for answer in ("", "no json", "[1]", '{"nodes": '):
            self.command(f"printf '%s' '{answer}'")
            with self.assertRaises(forebay.ForebayError) as raised:
                forebay.status()
            self.assertIn("did not answer as expected", str(raised.exception))

    def test_several_jobs_are_named(self):
        self.command("""echo '{"jobs": [{"job": "a"}, {"job": "b"}]}'""")
        with self.assertRaises(forebay.ForebayError) as raised:
            forebay.status()
        self.assertEqual(str(raised.exception), "several jobs are up: a, b; choose one with job=NAME")

    def test_words_of_paths_and_jobs(self):
        self.command("""echo '{"files": []}'""")
        forebay.landed("-a", b"b", pathlib.Path("c"), job="train")
        self.assertEqual(self.words(), ["landed", "--json", "--job", "train", "--", "-a", "b", "c"])

    def test_much_on_standard_error_blocks_nobody(self):
        self.command("""head -c 1000000 /dev/zero >&2; echo '{"nodes": [], "job": {"name": "x"}}'""")
        self.assertEqual(forebay.status().job.name, "x")


class Fields(unittest.TestCase):
    def test_more_fields_fewer_fields_and_nulls(self):
        raw = {
            "job": {"name": "x", "new": 1},
            "nodes": [{"rank": 3, "state": "ready", "cache": {"chunks": {"hits": 7, "new": {}}}, "burst": None}, {}],
            "verdict": {"state": "odd", "troubles": [{"why": "w", "do": None}]},
            "new": [],
        }
        status = _fields.of(Status, raw)
        self.assertEqual((status.job.name, status.job.node_count, status.job.raw["new"]), ("x", 0, 1))
        self.assertEqual(status.nodes[0].cache.chunks.hits, 7)
        self.assertEqual((status.nodes[0].burst, status.nodes[1].rank, status.nodes[1].is_ready), (None, 0, False))
        self.assertEqual((status.verdict.troubles[0].why, status.verdict.troubles[0].do), ("w", None))
        self.assertIs(status.raw, raw)
        self.assertEqual(_fields.of(Status, {}), Status())


LINES = [
    {"bytes": 300, "bytes_done": 100, "files": 3, "files_done": 1, "bytes_per_s": 10.5, "time_left_ms": 20000},
    {"bytes": 300, "bytes_done": 300, "files": 3, "files_done": 2, "bytes_per_s": 11, "time_left_ms": 0, "done": True,
     "failed": [{"path": "/d/x", "why": "Permission denied (EACCES)"}]},
]


class Warmups(CommandCase):
    def lines(self, lines, rest=""):
        printed = "\n".join(f"echo '{json.dumps(line)}'" for line in lines)
        self.command(f"{printed}\n{rest}\n")

    def test_progress_is_told_and_the_last_one_returned(self):
        self.lines(LINES, "exit 3")
        told = []
        done = forebay.warmup("/d", b"/e", mode="each", job="j", progress=told.append)
        self.assertEqual(self.words(), ["warmup", "--json", "--each", "--job", "j", "--", "/d", "/e"])
        self.assertEqual([each.bytes_done for each in told], [100, 300])
        self.assertEqual((told[0].done, told[0].time_left_ms, told[0].bytes_per_s), (False, 20000, 10.5))
        self.assertEqual((done, done.done, done.raw), (told[1], True, LINES[1]))
        self.assertEqual(done.failed, (forebay.FailedFile("/d/x", "Permission denied (EACCES)"),))

    def test_a_warm_up_without_an_end_is_an_error(self):
        self.lines(LINES[:1])
        with self.assertRaises(forebay.ForebayError) as raised:
            forebay.warmup("/d")
        self.assertIn("did not answer as expected", str(raised.exception))

    def test_an_error_of_the_callers_function_ends_it(self):
        # It would go on for ever.
        self.lines(LINES[:1], "exec sleep 1000")
        for kind in (ValueError, KeyboardInterrupt, OSError):
            def fail(_progress, kind=kind):
                raise kind("mine")

            with self.assertRaises(kind) as raised:
                forebay.warmup("/d", progress=fail)
            self.assertEqual(str(raised.exception), "mine")

    def test_wrong_arguments_start_no_command(self):
        self.command("exit 0")
        for wrong in (lambda: forebay.warmup("/d", mode="all"), forebay.warmup):
            with self.assertRaises(ValueError):
                wrong()
        self.assertFalse((self.place / "words").exists())

    def test_an_older_command_is_named(self):
        self.command("echo \"error: unrecognized subcommand 'warmup'\" >&2; exit 2")
        with self.assertRaises(forebay.ForebayError) as raised:
            forebay.warmup("/d")
        said = f"{_command.program()} is older than this package: it has no command `warmup`"
        self.assertEqual((str(raised.exception), raised.exception.status), (said, 2))

    def test_another_wrong_usage_is_told_in_the_commands_words(self):
        self.command("echo 'error: the words' >&2; exit 2")
        with self.assertRaises(forebay.ForebayError) as raised:
            forebay.warmup("/d")
        self.assertEqual(str(raised.exception), "error: the words")


if __name__ == "__main__":
    unittest.main()
