"""Changes files on the leader's node before it is deposed, and syncs them afterwards: each line is a call with its outcome."""
import os, sys, threading, time

def tried(name, call, *arguments):
    try:
        call(*arguments)
        print(name, "done", flush=True)
    except OSError as error:
        print(name, os.strerror(error.errno), flush=True)

def written(name, offset):
    file = os.open(name, os.O_WRONLY | os.O_CREAT)
    os.pwrite(file, b"new", offset)
    return file

safe, a = os.open("a/safe", os.O_WRONLY), os.open("a", os.O_RDONLY)
print("begun", flush=True)
sys.stdin.readline()
# The standby has asked for this one: the leader has answered after 20 ms, and sends no more until the standby asks again.
os.mkdir("first")
time.sleep(1)
old, other, made = written("a/old", 0), os.open("a/old", os.O_WRONLY), written("a/made", 0)
os.close(os.dup(old))
os.rename("a/tmp", "a/renamed")
os.rename("b/tmp", "b/renamed")
os.pwrite(other, b"under way", 10)
under_way = threading.Thread(target=tried, args=("under way", os.fsync, other))
under_way.start()
# It is committed, and waits for the standby. After 5 s the leader would go on without that.
time.sleep(1)
print("changed", flush=True)
sys.stdin.readline()
under_way.join()
tried("safe", os.fsync, safe)
tried("told", os.fsync, old)
os.pwrite(old, b"again", 0)
tried("again", os.fsync, old)
tried("a", os.fsync, a)
tried("a again", os.fsync, a)
later = written("b/later", 0)
tried("later", os.fsync, later)
tried("later again", os.fsync, later)
os.pwrite(made, b"more", 0)
tried("made", os.fsync, made)
tried("close", os.close, made)
