"""Writes to two files under a lock, commits nothing, and syncs one of them once it is told to go on: each line is a call with its outcome."""
import fcntl, os, sys

shared, own = (os.open(name, os.O_RDWR) for name in ("shared", "own"))
fcntl.flock(shared, fcntl.LOCK_EX)
os.pwrite(shared, b"old", 0)
os.pwrite(own, b"own", 0)
print("written", flush=True)
if sys.stdin.readline():
    for call in ("synced", "again"):
        try:
            os.fsync(shared)
            print(call, "done", flush=True)
        except OSError as error:
            print(call, os.strerror(error.errno), flush=True)
