"""A signal reaches a program that waits for a lock, about when the lock is given back. Whatever comes first, nobody has the lock afterwards.

interrupted_locks.py FILE
"""

import ctypes
import errno
import fcntl
import os
import random
import signal
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
HELD_S = 0.02
AROUND_S = 0.004
ROUNDS_MAX = 150
EACH = 5


def hold(path, said):
    holder = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    os.write(said, b"x")
    time.sleep(HELD_S)
    fcntl.flock(holder, fcntl.LOCK_UN)
    os._exit(0)


def take_turns(path):
    """One round: 'given' or 'interrupted'."""
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        hold(path, said)
    os.read(heard, 1)
    waiter = os.open(path, os.O_RDWR)
    signal.setitimer(signal.ITIMER_REAL, HELD_S + random.uniform(-AROUND_S, AROUND_S))
    # Without Python's own way to begin a call again.
    outcome = LIBC.flock(waiter, fcntl.LOCK_EX)
    error = ctypes.get_errno()
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.waitpid(child, 0)
    if outcome == 0:
        fcntl.flock(waiter, fcntl.LOCK_UN)
    elif error != errno.EINTR:
        sys.exit(f"the wait ends with {errno.errorcode.get(error, error)}")
    # The waiter's descriptor is still open: closing it would give back what it has.
    other = os.open(path, os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_UN)
    for descriptor in (other, waiter, heard, said):
        os.close(descriptor)
    return "given" if outcome == 0 else "interrupted"


def main():
    signal.signal(signal.SIGALRM, lambda *_: None)
    seen = {"given": 0, "interrupted": 0}
    for _ in range(ROUNDS_MAX):
        seen[take_turns(sys.argv[1])] += 1
        if min(seen.values()) >= EACH and sum(seen.values()) >= 40:
            break
    print(seen)


main()
