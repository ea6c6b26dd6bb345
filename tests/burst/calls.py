"""Evaluates an expression a line, and says what it is, or which error it is."""
import errno, fcntl, mmap, os, struct, sys, tempfile

for line in sys.stdin:
    try:
        said = eval(line)
    except OSError as error:
        said = errno.errorcode[error.errno]
    print(said, flush=True)
