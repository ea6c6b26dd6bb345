"""The parts of `make bench-bulk`: bulk.py has the command line, and each part a module."""
