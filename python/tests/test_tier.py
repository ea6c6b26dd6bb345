"""Beside a real job of two nodes: its state, files that land, the node of a path, and announcements to a real daemon."""

import json
import os
import signal
import subprocess
import sys
import unittest
import warnings

import forebay
from daemon import until
from forebay import _announce, _command, _node
from job import JobCase


class Tier(JobCase):
    def test_status_has_nodes_with_numbers_and_everything_raw(self):
        (self.view(1) / "a").read_bytes()
        status = forebay.status()
        self.assertEqual((status.job.name, status.job.node_count), (self.JOB, 2))
        self.assertEqual(status.job.exports, (str(self.export),))
        self.assertEqual([(node.rank, node.is_ready) for node in status.nodes], [(0, True), (1, True)])
        self.assertTrue(status.is_well, status.verdict)
        one = status.nodes[1]
        self.assertEqual(one.view, str(self.place / "jobs" / self.JOB / "view" / "1"))
        self.assertEqual(one.pid, self.daemon_pid(1))
        self.assertGreaterEqual(one.bytes_read, 1000)
        self.assertGreater(one.budget_bytes, 1 << 20)
        self.assertEqual(one.burst.dir, str(self.place / "ckpt"))
        self.assertEqual(status.totals.bytes_read, sum(node.bytes_read for node in status.nodes))
        self.assertEqual(one.raw["kernel"]["bytes_read"], one.bytes_read)
        self.assertEqual(status.raw["verdict"]["state"], status.verdict.state)
        self.assertEqual(forebay.status(job=self.JOB).job.name, self.JOB)

    def test_a_node_that_does_not_answer_is_told_and_no_error(self):
        os.kill(self.daemon_pid(1), signal.SIGSTOP)
        try:
            status = forebay.status()
        finally:
            os.kill(self.daemon_pid(1), signal.SIGCONT)
        self.assertFalse(status.is_well)
        self.assertFalse(status.nodes[1].is_ready)
        self.assertTrue(status.nodes[1].why)
        self.assertEqual(status.nodes[1].cache.chunks.hits, 0)
        self.assertTrue(status.verdict.troubles[0].do)
        self.assertTrue(until(lambda: forebay.status().is_well))

    def test_a_file_lands(self):
        file = self.place / "jobs" / self.JOB / "burst" / "0" / (self.place / "ckpt").relative_to("/") / "step-1.pt"
        file.write_bytes(b"x" * 3000)
        self.assertTrue(until(lambda: forebay.landed(file, job=self.JOB).landed))
        (found,) = forebay.landed(file).files
        self.assertEqual((found.state, found.bytes, found.landed_bytes, found.missing), ("landed", 3000, 3000, ()))
        self.assertEqual((self.place / "backing" / "step-1.pt").read_bytes(), b"x" * 3000)
        self.assertTrue(until(lambda: forebay.landed().landed))
        tier = forebay.landed()
        self.assertEqual((tier.not_landed_bytes, tier.not_landed_files, tier.files, tier.silent_nodes), (0, 0, (), ()))

    def test_a_path_of_nothing_is_unknown_beside_files_and_an_error_alone(self):
        file = self.place / "jobs" / self.JOB / "burst" / "1" / (self.place / "ckpt").relative_to("/") / "step-2.pt"
        file.write_bytes(b"y")
        nothing = self.place / "ckpt" / "none"
        answer = forebay.landed(file, nothing)
        self.assertFalse(answer.landed)
        self.assertEqual((answer.files[1].state, answer.files[1].bytes), ("unknown", None))
        self.assertIn("No such file", answer.files[1].why)
        with self.assertRaises(forebay.ForebayError) as raised:
            forebay.landed(nothing)
        self.assertIn("No such file", str(raised.exception))

    def test_warmup_brings_files_or_says_that_the_command_is_older(self):
        if subprocess.run([_command.program(), "warmup", "--help"], capture_output=True).returncode == 0:
            done = forebay.warmup(self.view(0), mode="each")
            self.assertEqual((done.done, done.failed), (True, ()))
            self.assertEqual(done.files, done.files_done)
        else:
            with self.assertRaises(forebay.ForebayError) as raised:
                forebay.warmup(self.view(0))
            self.assertIn("older than this package", str(raised.exception))

    def test_another_job_is_an_error_in_the_commands_words(self):
        for ask in (forebay.status, forebay.landed):
            with self.assertRaises(forebay.ForebayError) as raised:
                ask(job="none")
            self.assertEqual(raised.exception.status, 1)
            self.assertIn("no job none is up", str(raised.exception))

    def test_the_node_of_a_path_is_the_one_whose_view_has_it(self):
        places = _node.Places()
        for rank in (0, 1):
            place, node = places.place(str(self.view(rank) / "a"))
            self.assertEqual((place, node), (str(self.view(rank) / "a"), _node.Node(self.JOB, rank)))
            socket_path = _node.socket_path(node)
            self.assertEqual(socket_path, str(self.place / "jobs" / self.JOB / f"node-{rank}.sock"))
        self.assertIsNone(places.place(str(self.export / "a"))[1])
        # A link on the way leads into the view, and the file itself may be one.
        (self.place / "way").symlink_to(self.view(1))
        place, node = places.place(str(self.place / "way" / "link"))
        self.assertEqual((place, node), (str(self.view(1) / "link"), _node.Node(self.JOB, 1)))

    def test_the_node_of_an_export_at_its_own_path_is_found_within_run(self):
        program = "import sys; from forebay import _node; place, node = _node.Places().place(sys.argv[1]); print(place, *node, _node.socket_path(node))"
        package = os.path.dirname(os.path.dirname(forebay.__file__))
        done = subprocess.run(
            [_command.program(), "run", "--job", self.JOB, "--rank", "1", "--", sys.executable, "-c", program, str(self.export / "a")],
            capture_output=True, text=True, env={**os.environ, "PYTHONPATH": package}, timeout=60,
        )
        if "cannot be shown at their own paths" in done.stderr:
            self.skipTest("user namespaces are off")
        expected = f"{self.export / 'a'} {self.JOB} 1 {self.place / 'jobs' / self.JOB / 'node-1.sock'}\n"
        self.assertEqual(done.stdout, expected, done.stderr)

    def test_no_directory_that_others_may_enter_is_the_jobs(self):
        jobs = self.place / "jobs"
        jobs.chmod(0o755)
        try:
            self.assertIsNone(_node.socket_path(_node.Node(self.JOB, 0)))
        finally:
            jobs.chmod(0o700)
        self.assertIsNotNone(_node.socket_path(_node.Node(self.JOB, 0)))

    def test_a_configuration_file_names_the_place_of_jobs(self):
        file = self.place / "forebay.toml"
        file.write_text(f"directory = {json.dumps(os.environ['FOREBAY_DIRECTORY'])}\n")
        given = os.environ.pop("FOREBAY_DIRECTORY")
        try:
            self.assertIsNone(_node.socket_path(_node.Node(self.JOB, 0)))
            os.environ["FOREBAY_CONFIG"] = str(file)
            self.assertEqual(_node.socket_path(_node.Node(self.JOB, 0)), f"{given}/{self.JOB}/node-0.sock")
        finally:
            os.environ.pop("FOREBAY_CONFIG", None)
            os.environ["FOREBAY_DIRECTORY"] = given

    def test_a_real_daemon_takes_announcements_or_ends_them_silently(self):
        _announce.reset()
        self.addCleanup(_announce.reset)
        files = [str(self.view(1) / name) for name in ("a", "b")]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            announcer = _announce.Announcer(range(2), files.__getitem__, ahead=2)
            self.assertTrue(announcer.join(30))
        self.assertEqual(told, [])
        is_new = subprocess.run([_command.program(), "warmup", "--help"], capture_output=True).returncode == 0
        if not is_new:
            self.assertTrue(_announce.is_over())


if __name__ == "__main__":
    unittest.main()
