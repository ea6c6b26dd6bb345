"""Announcements without torch: order, windows, lines, answers and failures, at a socket that speaks the contract."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

from daemon import Daemon, until
from forebay import _announce, _node
from forebay._announce import LINE_BYTES_MAX, Announcer


class Announcements(unittest.TestCase):
    def setUp(self):
        _announce.reset()
        self.addCleanup(_announce.reset)
        self.announcers = []
        # Threads of announcers end with their test.
        self.addCleanup(lambda: [each.stop() or each.join(30) for each in self.announcers])

    def daemon(self, *answer):
        daemon = Daemon(*answer)
        self.addCleanup(daemon.close)
        return daemon

    def announcer(self, count, daemon_or_path, ahead=10_000, paths=lambda index: f"/d/{index}"):
        path = getattr(daemon_or_path, "path", daemon_or_path)
        self.announcers.append(Announcer(range(count), paths, ahead, path))
        return self.announcers[-1]

    def test_paths_arrive_in_order_within_the_window(self):
        daemon = self.daemon()
        announcer = self.announcer(1000, daemon, ahead=100)
        expected = [f"/d/{index}" for index in range(1000)]
        for asked in range(1001):
            announcer.asked(asked)
            self.assertLessEqual(len(daemon.taken), asked + 100)
            if asked % 100 == 0:
                self.assertTrue(daemon.wait(lambda: len(daemon.taken) >= min(asked + 75, 1000)), len(daemon.taken))
        self.assertTrue(announcer.join(30))
        self.assertEqual(daemon.taken, expected)

    def test_a_reader_that_asks_for_nothing_gets_one_window(self):
        daemon = self.daemon()
        announcer = self.announcer(1000, daemon, ahead=10)
        self.assertTrue(daemon.wait(lambda: len(daemon.taken) == 10))
        announcer.close()
        self.assertTrue(announcer.join(30))
        self.assertEqual(daemon.taken, [f"/d/{index}" for index in range(10)])

    def test_lines_are_no_longer_than_daemons_take(self):
        daemon = self.daemon()
        name = "/d/" + "ü" * 1000
        announcer = self.announcer(500, daemon, paths=lambda index: f"{name}{index}")
        self.assertTrue(announcer.join(30))
        self.assertEqual(daemon.taken, [f"{name}{index}" for index in range(500)])
        sizes = [len(line) for line in daemon.lines]
        self.assertLessEqual(max(sizes), LINE_BYTES_MAX)
        # As few lines as possible.
        self.assertGreater(min(sizes[:-1]), LINE_BYTES_MAX - 2 * len(name.encode()))

    def test_paths_that_are_not_taken_are_offered_again(self):
        left = [0, 3, 0, 0, 4]
        daemon = self.daemon(lambda paths: {"ok": {"taken": left.pop(0) if left else len(paths)}})
        announcer = self.announcer(10, daemon)
        self.assertTrue(announcer.join(30))
        self.assertEqual(daemon.taken, [f"/d/{index}" for index in range(10)])
        self.assertEqual([len(json.loads(line)["paths"]) for line in daemon.lines], [10, 10, 7, 7, 7, 3])
        # A little later.
        apart_s = [after - before for before, after in zip(daemon.times, daemon.times[1:])]
        self.assertGreaterEqual(min(apart_s), _announce._AGAIN_S[0] * 0.9)

    def test_more_taken_than_offered_is_all(self):
        daemon = self.daemon(lambda paths: {"ok": {"taken": 1 << 40, "more": []}})
        self.assertTrue(self.announcer(5, daemon).join(30))
        self.assertEqual(len(daemon.lines), 1)

    def test_a_daemon_that_takes_nothing_is_left_after_the_end(self):
        daemon = self.daemon(lambda paths: {"ok": {"taken": 0}})
        announcer = self.announcer(3, daemon)
        announcer.asked(3)
        announcer.close()
        self.assertTrue(announcer.join(60))
        self.assertEqual(len(daemon.lines), _announce._LAST_OFFERS)

    def test_an_error_ends_announcing_for_this_process_silently(self):
        daemon = self.daemon(lambda paths: {"error": "not a command: unknown variant `announce`"})
        with warnings.catch_warnings(record=True) as told, self.assertLogs("forebay", "DEBUG") as logged:
            warnings.simplefilter("always")
            self.assertTrue(self.announcer(10, daemon).join(30))
            # Another epoch, and another node.
            other = self.daemon()
            self.assertTrue(self.announcer(10, other).join(30))
        self.assertEqual((told, len(daemon.lines), other.lines), ([], 1, []))
        self.assertIn("unknown variant", logged.output[0])
        self.assertTrue(_announce.is_over())

    def test_a_dead_daemon_is_told_once_and_found_when_it_is_back(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        path = os.path.join(place.name, "s")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            announcer = self.announcer(10, path)
            self.assertTrue(until(lambda: told))
            daemon = self.daemon()
            os.rename(daemon.path, path)
            self.assertTrue(announcer.join(60))
            # Another failure, of another daemon.
            answers = [{"odd": 1}]
            other = self.daemon(lambda paths: answers.pop() if answers else {"ok": {"taken": len(paths)}})
            self.assertTrue(self.announcer(10, other).join(30))
            self.assertEqual(len(other.lines), 2)
        self.assertEqual(daemon.taken, [f"/d/{index}" for index in range(10)])
        self.assertEqual([each.category for each in told], [RuntimeWarning])
        self.assertIn("cannot be told what is read next", str(told[0].message))

    def test_a_daemon_that_ends_without_an_answer_is_asked_again(self):
        answers = [{"odd": 1}]
        daemon = self.daemon(lambda paths: answers.pop() if answers else {"ok": {"taken": len(paths)}})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertTrue(self.announcer(10, daemon).join(30))
        self.assertEqual((len(daemon.lines), len(told)), (2, 1))

    def test_warnings_that_are_errors_end_nothing(self):
        daemon = self.daemon(lambda paths: {"ok": {}} if len(daemon.lines) == 0 else {"ok": {"taken": len(paths)}})
        with warnings.catch_warnings(), self.assertLogs("forebay", "WARNING"):
            warnings.simplefilter("error")
            self.assertTrue(self.announcer(4, daemon).join(30))
        self.assertEqual(daemon.taken, [f"/d/{index}" for index in range(4)])

    def test_samples_that_the_reader_has_passed_long_ago_are_left_out(self):
        go_on = threading.Event()
        daemon = self.daemon(lambda paths: go_on.wait(60) and {"ok": {"taken": len(paths)}})
        announcer = self.announcer(1000, daemon, ahead=10)
        announcer.asked(500)
        go_on.set()
        announcer.asked(1000)
        self.assertTrue(announcer.join(30))
        numbers = [int(path.rpartition("/")[2]) for path in daemon.taken]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertLess(len(numbers), 100)
        self.assertEqual(numbers[-1], 999)

    def test_samples_of_one_file_announce_it_once_and_samples_have_several(self):
        daemon = self.daemon()
        shards = lambda index: [f"/d/{index // 100}", pathlib.Path(f"/d/{index // 100}.idx")] if index % 100 == 0 else f"/d/{index // 100}.idx"
        self.assertTrue(self.announcer(300, daemon, paths=shards).join(30))
        self.assertEqual(daemon.taken, ["/d/0", "/d/0.idx", "/d/1", "/d/1.idx", "/d/2", "/d/2.idx"])

    def test_names_that_json_does_not_have_are_left_out(self):
        daemon = self.daemon()
        self.assertTrue(self.announcer(3, daemon, paths=[b"/d/\xff", "/d/" + "x" * 5000, 'a"\n'].__getitem__).join(30))
        self.assertEqual(daemon.taken, [os.path.abspath('a"\n')])

    def test_an_error_of_the_paths_function_is_told(self):
        daemon = self.daemon()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertTrue(self.announcer(3, daemon, paths=[].__getitem__).join(30))
        self.assertIn("IndexError", str(told[0].message))
        self.assertTrue(self.announcer(3, daemon).join(30))
        self.assertEqual(len(daemon.taken), 3, "the next epoch")

    def test_a_reader_never_waits(self):
        """Neither for a daemon that is silent, nor for one that accepts nothing, nor for none."""
        silent = self.daemon(lambda paths: None)
        full = os.path.join(os.path.dirname(silent.path), "full")
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(full)
        listener.listen(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for path in (silent.path, full, "/nonexistent"):
                began = time.monotonic()
                announcer = self.announcer(100_000, path, ahead=100)
                for asked in range(1, 100_001):
                    announcer.asked(asked)
                announcer.close()
                announcer.stop()
                took_s = time.monotonic() - began
                # The daemon may take 5 s for each line.
                self.assertLess(took_s, 2.5, path)

    def test_without_a_job_the_thread_ends(self):
        before = _node.Places
        self.addCleanup(setattr, _node, "Places", before)

        class Nowhere(before):
            has_node = False

        _node.Places = Nowhere
        announcer = self.announcer(10, None, paths=lambda index: self.fail("it was called"))
        self.assertTrue(announcer.join(30))

    def test_a_child_after_a_fork_announces_nothing_for_its_parent(self):
        program = """
import os, sys
from forebay import _announce
announcer = _announce.Announcer(range(100), lambda index: f"/d/{index}", 60, sys.argv[1])
announcer.join(0.1)
child = os.fork()
announcer.asked(20 if child == 0 else 50)
if child == 0:
    announcer.asked(100); announcer.close(); announcer.stop()
    print(announcer._asked); sys.stdout.flush(); os._exit(0)
os.waitpid(child, 0)
announcer.asked(100); print(announcer.join(30))
"""
        daemon = self.daemon()
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(_announce.__file__))}
        done = subprocess.run([sys.executable, "-c", program, daemon.path], capture_output=True, text=True, env=environment, timeout=60)
        self.assertEqual(done.stdout, "0\nTrue\n", done.stderr)
        self.assertEqual(daemon.taken, [f"/d/{index}" for index in range(100)])


class Mounts(unittest.TestCase):
    TEXT = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
51 22 0:47 / /run/user/7/forebay/train/view/1 ro,nosuid - fuse.forebay forebay:train/1@123 ro,user_id=7
90 22 0:48 /soft/env /soft/my\\040env ro,nosuid shared:4 master:2 - fuse.forebay forebay:train/0@12 ro
91 90 8:1 /x /soft/my\\040env/inner rw - ext4 /dev/sda1 rw
92 22 0:50 / /other rw - fuse.sshfs forebay:train/0@12 rw
93 22 0:51 / /odd rw - fuse.forebay somethingelse rw
broken line
"""

    def test_mounts_name_nodes(self):
        found = _node.mounts(self.TEXT)
        zero, one = _node.Node("train", 0), _node.Node("train", 1)
        self.assertEqual(found, {
            "/": None, "/run/user/7/forebay/train/view/1": one, "/soft/my env": zero, "/soft/my env/inner": None, "/other": None, "/odd": None,
        })

    def test_the_innermost_mount_serves_a_path(self):
        places = _node.Places()
        places._mounts = _node.mounts(self.TEXT)
        for directory, node in [("/soft/my env/lib", 0), ("/soft/my env", 0), ("/soft/my env/inner/x", None), ("/soft", None), ("/", None)]:
            found = places._node(directory)
            self.assertEqual(found.rank if found else None, node, directory)


if __name__ == "__main__":
    unittest.main()
