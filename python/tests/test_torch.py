"""Epochs of PyTorch: who gets which samples, what is announced, and what it costs the loader."""

import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

from daemon import Daemon
from forebay import _announce
from job import JobCase

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest(f"torch is missing: {error}")

from forebay.torch import AnnouncingDataset, EpochSampler
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, get_worker_info


class Files(AnnouncingDataset, Dataset):
    """Samples that are files, with the worker that has read each."""

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with open(self.files[index]) as file:
            worker = get_worker_info()
            return index, int(file.read()), -1 if worker is None else worker.id

    def sample_paths(self, index):
        if get_worker_info() is not None:
            raise AssertionError("a worker asks for paths")
        return [self.files[index]]


class IteratesInWorkers(Dataset):
    """Each sample is an epoch of a sampler, and whether that was announced."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return list(self.sampler), self.sampler._announcer is not None


class Epochs(unittest.TestCase):
    def test_every_sample_once_over_ranks(self):
        for count, replicas in [(1, 1), (100, 4), (101, 4), (7, 8), (1000, 7)]:
            ranks = [list(self.sampler(count, replicas, rank)) for rank in range(replicas)]
            self.assertEqual({len(rank) for rank in ranks}, {-(-count // replicas)})
            dealt = [index for turn in zip(*ranks) for index in turn]
            # Ranks have equal numbers of samples: the first ones are repeated.
            self.assertEqual(sorted(dealt[:count]), list(range(count)))
            self.assertEqual(dealt[count:], dealt[: len(dealt) - count])
            ranks = [list(self.sampler(count, replicas, rank, drop_last=True)) for rank in range(replicas)]
            dealt = [index for rank in ranks for index in rank]
            self.assertEqual((len(dealt), len(set(dealt))), (count // replicas * replicas,) * 2)

    def sampler(self, count, replicas=1, rank=0, **options):
        return EpochSampler(count, lambda index: f"/d/{index}", num_replicas=replicas, rank=rank, **options)

    def test_the_order_is_that_of_the_distributed_sampler(self):
        for options in ({}, {"seed": 5}, {"shuffle": False}, {"seed": 5, "drop_last": True}):
            for replicas, rank in [(1, 0), (3, 0), (3, 2)]:
                own = self.sampler(100, replicas, rank, **options)
                theirs = DistributedSampler(range(100), replicas, rank, **options)
                for epoch in (0, 1, 7):
                    own.set_epoch(epoch)
                    theirs.set_epoch(epoch)
                    self.assertEqual(list(own), list(theirs), (options, replicas, rank, epoch))
                self.assertEqual(len(own), len(theirs))

    def test_epochs_and_seeds_have_orders_of_their_own(self):
        sampler = self.sampler(100)
        first = list(sampler)
        self.assertEqual(first, list(sampler))
        sampler.set_epoch(1)
        second = list(sampler)
        self.assertNotEqual(first, second)
        self.assertEqual(list(self.sampler(100, seed=1)), second, "seed plus epoch")

    def test_ranks_are_those_of_torch_distributed(self):
        program = """
import sys, torch.distributed as d
from forebay.torch import EpochSampler
d.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
print(*EpochSampler(10, str))
d.barrier(); d.destroy_process_group()
"""
        place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, place)
        ranks = [
            subprocess.Popen([sys.executable, "-W", "ignore", "-c", program, f"{place}/store", str(rank)], stdout=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
        printed = [[int(word) for word in rank.communicate(timeout=120)[0].split()] for rank in ranks]
        self.assertEqual(printed, [list(DistributedSampler(range(10), 2, rank)) for rank in range(2)])

    def test_one_of_several_processes_without_a_group_is_refused(self):
        os.environ["WORLD_SIZE"] = "4"
        self.addCleanup(os.environ.pop, "WORLD_SIZE")
        with self.assertRaises(RuntimeError) as raised:
            EpochSampler(10, str)
        self.assertIn("init_process_group", str(raised.exception))
        self.assertEqual(len(EpochSampler(10, str, num_replicas=2, rank=1)), 5)

    def test_wrong_arguments(self):
        for wrong, kind in [
            (lambda: EpochSampler(10), TypeError),
            (lambda: EpochSampler([1, 2]), TypeError),
            (lambda: EpochSampler(10, str, ahead=0), ValueError),
            (lambda: EpochSampler(10, str, num_replicas=2, rank=2), ValueError),
            (lambda: EpochSampler(10, str, num_replicas=2), ValueError),
            (lambda: EpochSampler(10, str, rank=0), ValueError),
            (lambda: EpochSampler(10, str, num_replicas=0, rank=0), ValueError),
        ]:
            with self.assertRaises(kind):
                wrong()
        with self.assertRaises(NotImplementedError):
            AnnouncingDataset().sample_paths(0)


class Announcing(unittest.TestCase):
    def setUp(self):
        _announce.reset()
        self.addCleanup(_announce.reset)
        place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, place)
        files = [f"{place}/{index}" for index in range(60)]
        for index, file in enumerate(files):
            with open(file, "w") as opened:
                opened.write(str(index * 7))
        self.files = Files(files)
        self.place = place

    def daemon(self, *answer):
        daemon = Daemon(*answer)
        self.addCleanup(daemon.close)
        return daemon

    def read(self, loader):
        """The indices of an epoch in their order, and the workers that read them."""
        indices, workers = [], set()
        for index, value, worker in loader:
            self.assertEqual((index * 7).tolist(), value.tolist())
            indices += index.tolist()
            workers |= set(worker.tolist())
        return indices, workers

    def test_announcements_arrive_in_the_order_of_use(self):
        for options in (
            {},
            {"num_workers": 2},
            {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 4},
            {"num_workers": 2, "multiprocessing_context": "spawn"},
        ):
            with self.subTest(**options):
                daemon = self.daemon()
                sampler = EpochSampler(self.files, num_replicas=2, rank=1, seed=3, ahead=32, socket_path=daemon.path)
                loader = DataLoader(self.files, batch_size=4, sampler=sampler, **options)
                expected = []
                # Each epoch starts its workers anew, and a spawned one imports torch.
                for epoch in range(1 if "multiprocessing_context" in options else 3):
                    sampler.set_epoch(epoch)
                    indices, workers = self.read(loader)
                    self.assertEqual(indices, list(DistributedSampler(range(60), 2, 1, seed=3)) if epoch == 0 else indices)
                    self.assertEqual(workers, set(range(options["num_workers"])) if options else {-1})
                    self.assertTrue(sampler._announcer.join(30))
                    expected += [f"{self.place}/{index}" for index in indices]
                self.assertEqual(daemon.taken, expected)

    def test_no_more_than_the_window_is_announced(self):
        daemon = self.daemon()
        sampler = EpochSampler(self.files, ahead=8, socket_path=daemon.path)
        indices = iter(sampler)
        order = []
        for asked in range(1, 21):
            order.append(next(indices))
            # Every second sample wakes the thread.
            self.assertTrue(daemon.wait(lambda: len(daemon.taken) >= asked + 7))
            self.assertLessEqual(len(daemon.taken), asked + 8)
        del indices
        self.assertTrue(sampler._announcer.join(30))
        self.assertLessEqual(len(daemon.taken), 28, "no sample beyond the window of the last one")
        self.assertEqual(daemon.taken[:20], [f"{self.place}/{index}" for index in order])

    def test_an_epoch_that_is_left_ends_with_the_next(self):
        daemon = self.daemon(lambda paths: {"ok": {"taken": 0}})
        sampler = EpochSampler(self.files, socket_path=daemon.path)
        kept = iter(sampler)
        next(kept)
        first = sampler._announcer
        next(iter(sampler))
        self.assertTrue(first.join(30))
        sampler._announcer.stop()
        self.assertTrue(sampler._announcer.join(30))

    def test_workers_announce_nothing(self):
        daemon = self.daemon()
        sampler = EpochSampler(self.files, socket_path=daemon.path)
        for epoch, is_announced in DataLoader(IteratesInWorkers(sampler), batch_size=None, num_workers=2):
            self.assertEqual((epoch, is_announced), (list(DistributedSampler(range(60), 1, 0)), False))
        self.assertEqual(daemon.lines, [])

    def test_parts_of_a_dataset_have_its_paths(self):
        daemon = self.daemon()
        part = Subset(Subset(self.files, range(50, 10, -1)), [3, 5, 9])
        sampler = EpochSampler(part, shuffle=False, socket_path=daemon.path)
        self.assertEqual(list(sampler), [0, 1, 2])
        self.assertTrue(sampler._announcer.join(30))
        self.assertEqual(daemon.taken, [f"{self.place}/{index}" for index in (47, 45, 41)])

    def test_paths_may_be_a_sequence(self):
        daemon = self.daemon()
        sampler = EpochSampler(3, ["/d/a", "/d/b", "/d/c"], shuffle=False, socket_path=daemon.path)
        self.assertEqual(list(sampler), [0, 1, 2])
        self.assertTrue(sampler._announcer.join(30))
        self.assertEqual(daemon.taken, ["/d/a", "/d/b", "/d/c"])

    def test_a_slow_or_dead_daemon_delays_nothing(self):
        silent = self.daemon(lambda paths: None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for path in (silent.path, "/nonexistent/socket"):
                sampler = EpochSampler(self.files, ahead=4, socket_path=path)
                began = time.monotonic()
                indices, _ = self.read(DataLoader(self.files, batch_size=4, sampler=sampler))
                took_s = time.monotonic() - began
                self.assertEqual(sorted(indices), list(range(60)))
                # The daemon may take 5 s for each of 15 lines.
                self.assertLess(took_s, 2.5)
                sampler._announcer.stop()
                self.assertTrue(sampler._announcer.join(30))

    def test_without_a_job_nothing_is_announced_and_nothing_told(self):
        with warnings.catch_warnings(record=True) as told, self.assertNoLogs("forebay", "DEBUG"):
            warnings.simplefilter("always")
            sampler = EpochSampler(self.files, num_replicas=1, rank=0)
            indices, _ = self.read(DataLoader(self.files, batch_size=4, sampler=sampler))
            self.assertTrue(sampler._announcer.join(30))
        self.assertEqual((sorted(indices), told), (list(range(60)), []))

    def test_a_sampler_can_be_pickled_while_it_announces(self):
        daemon = self.daemon()
        sampler = EpochSampler(self.files, socket_path=daemon.path)
        order = list(sampler)
        again = pickle.loads(pickle.dumps(sampler))
        self.assertEqual(list(again), order)
        self.assertTrue(again._announcer.join(30) and sampler._announcer.join(30))
        self.assertEqual(len(daemon.taken), 120)


class BesideAJob(JobCase):
    def test_an_epoch_is_read_from_the_view_and_the_nodes_daemon_is_told(self):
        _announce.reset()
        self.addCleanup(_announce.reset)
        files = [str(self.view(1) / name) for name in ("a", "b")]
        sampler = EpochSampler(files, files)
        with self.assertLogs("forebay", "DEBUG") as logged, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            loader = DataLoader(files, sampler=sampler, collate_fn=lambda paths: pathlib.Path(paths[0]).read_text())
            self.assertEqual(sorted(loader), ["a" * 1000, "b" * 1000])
            self.assertTrue(sampler._announcer.join(30))
            _announce._log.debug("the end")
        self.assertEqual(told, [])
        # Taken silently, or refused.
        if _announce.is_over():
            self.assertIn("takes no announcements", logged.output[0])
        else:
            self.assertEqual(len(logged.output), 1)


if __name__ == "__main__":
    unittest.main()
