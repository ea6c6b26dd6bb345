"""A program that holds a file open, reads it and looks at its attributes when it is told to, by threads. Argument: the file.

Input: a line for each thing to do. Output: a line for each that is done.
"""
import os, sys, threading

file = os.open(sys.argv[1], os.O_RDONLY)
turn = threading.Lock()


def say(*words):
    with turn:
        print(*words, flush=True)


def read():
    found = b""
    while more := os.pread(file, 1 << 20, len(found)):
        found += more
    say("read", found.hex())


def look():
    say("size", os.stat(sys.argv[1]).st_size)


read()
for line in sys.stdin:
    threading.Thread(target={"read": read, "look": look}[line.strip()], daemon=True).start()
