"""Epochs of PyTorch: a sampler that announces which files its process reads next.

    from forebay.torch import AnnouncingDataset, EpochSampler

    class Images(AnnouncingDataset, torch.utils.data.Dataset):
        def sample_paths(self, index):
            return [self.files[index]]
        ...

    sampler = EpochSampler(images, seed=7)
    loader = torch.utils.data.DataLoader(images, batch_size=64, sampler=sampler, num_workers=8)
    for epoch in range(90):
        sampler.set_epoch(epoch)
        for batch in loader:
            ...

The order of an epoch is that of `torch.utils.data.DistributedSampler`. The process that iterates over the sampler announces from a thread
of its own; worker processes announce nothing. Without a job, or with a daemon that has no announcements, only the order is left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Sized
from typing import Any, Callable, Optional, Union, cast

import torch
import torch.distributed
from torch.utils.data import DistributedSampler, Subset, get_worker_info

from ._announce import Announcer, Paths
from ._command import AnyPath

__all__ = ["AnnouncingDataset", "EpochSampler"]

#: Samples that are announced beyond the one that the loader has asked for: two prefetched batches of 32 samples for each of 8 workers.
AHEAD = 512


class AnnouncingDataset:
    """A mix-in for map-style datasets whose samples are read from files."""

    def sample_paths(self, index: int) -> Paths:
        """The files that `self[index]` reads, in the order of use; one path or several.

        Must be cheap and open no file: it is called in a thread while the program trains.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say which files a sample is read from")


class EpochSampler(DistributedSampler[int]):
    """Deals samples out over ranks as `DistributedSampler` does, and announces the files of this rank's next samples to its node's daemon.

    `data_source`: the dataset, or its length in samples. `paths`: the files of a sample, as a function of its index or as a sequence;
    by default `data_source.sample_paths` (`AnnouncingDataset`), also of a `Subset` of such a dataset. `num_replicas` and `rank`: by default
    those of `torch.distributed`, where it is initialised, else 1 and 0. `shuffle`, `seed`: the permutation of an epoch depends on
    `seed` plus the epoch (`set_epoch`), and is the same in every rank. `drop_last`: leave out the last samples where ranks would have
    unequal numbers; else the first ones are repeated. `ahead`: samples that are announced beyond those that the loader has asked for; twice the
    batch size, times the workers, times their `prefetch_factor` is enough. `socket_path`: the control socket of a daemon; by default that of
    the node whose view or export has the file.

    Raises TypeError without paths, ValueError for an `ahead` below 1, a rank out of range or without `num_replicas`, and RuntimeError where the environment
    names several processes (`WORLD_SIZE`) but neither `torch.distributed` is initialised nor `num_replicas` and `rank` are given.
    Failures of announcing raise nothing: one RuntimeWarning a process tells of them.
    """

    def __init__(
        self,
        data_source: Union[int, Sized],
        paths: Union[None, Callable[[int], Paths], Sequence[AnyPath]] = None,
        *,
        num_replicas: Optional[int] = None,
        rank: Optional[int] = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        ahead: int = AHEAD,
        socket_path: Optional[str] = None,
    ) -> None:
        if ahead < 1:
            raise ValueError(f"ahead is at least 1, not {ahead}")
        self._paths_of_sample = _paths_of(data_source) if paths is None else _function(paths)
        self._ahead, self._socket_path = ahead, socket_path
        self._announcer: Optional[Announcer] = None
        if not _is_initialised():
            if num_replicas is None and rank is None and int(os.environ.get("WORLD_SIZE") or 1) > 1:
                raise RuntimeError(
                    "this process is one of several (WORLD_SIZE): call torch.distributed.init_process_group before, or give num_replicas and rank"
                )
            if (num_replicas is None) != (rank is None):
                raise ValueError("num_replicas and rank are given together, or neither")
            num_replicas, rank = (1, 0) if num_replicas is None else (num_replicas, rank)
        counted = range(data_source) if isinstance(data_source, int) else data_source
        super().__init__(cast(Any, counted), num_replicas, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)

    def __iter__(self) -> Iterator[int]:
        """The indices of this rank's samples. The epoch before is announced no further."""
        indices = list(super().__iter__())
        if get_worker_info() is not None:
            return iter(indices)
        if self._announcer is not None:
            self._announcer.stop()
        self._announcer = Announcer(indices, self._paths_of_sample, self._ahead, self._socket_path)
        return _Asked(indices, self._announcer)

    def __getstate__(self) -> dict[str, Any]:
        # Threads stay in their process.
        return {**self.__dict__, "_announcer": None}


class _Asked(Iterator[int]):
    """Iterates over indices, and tells an announcer how many were asked for."""

    def __init__(self, indices: Sequence[int], announcer: Announcer) -> None:
        self._indices, self._announcer, self._count = indices, announcer, 0

    def __next__(self) -> int:
        if self._count >= len(self._indices):
            raise StopIteration
        index = self._indices[self._count]
        self._count += 1
        self._announcer.asked(self._count)
        return index

    def __del__(self) -> None:
        self._announcer.close()


def _is_initialised() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _function(paths: Union[Callable[[int], Paths], Sequence[AnyPath]]) -> Callable[[int], Paths]:
    return paths if callable(paths) else paths.__getitem__


def _paths_of(source: Any) -> Callable[[int], Paths]:
    """The paths of the samples of a dataset that tells them, or of a part of such a dataset."""
    if isinstance(source, Subset):
        of_whole, indices = _paths_of(source.dataset), source.indices
        return lambda index: of_whole(indices[index])
    found = getattr(source, "sample_paths", None)
    if not callable(found):
        kind = "a length" if isinstance(source, int) else type(source).__name__
        raise TypeError(f"{kind} does not say which files a sample is read from: give paths, or mix AnnouncingDataset into the dataset")
    return cast("Callable[[int], Paths]", found)
