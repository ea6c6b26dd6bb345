#!/usr/bin/env python3
"""Makes the tree that the demo's program is imported from: tree.py DIR

DIR gets a copy of this Python's standard library, without tests and tools, a few hundred small modules in packages, and
the program that imports them, all byte-compiled. So the demo has a Python environment on its file system and downloads
nothing. Does nothing if DIR holds the tree of this Python already. The tree is made under another name and renamed, so
an interrupted run never leaves a tree that looks whole.
"""
import compileall
import os
import shutil
import signal
import subprocess
import sys

# Packages of small modules, as applications have them.
PACKAGES = 12
MODULES_PER_PACKAGE = 20

# Not part of what a program imports: tests, editors, installers, configurations for building.
LEFT_OUT = {
    "site-packages", "dist-packages", "test", "tests", "idlelib", "idle_test", "ensurepip", "lib2to3",
    "tkinter", "turtledemo", "pydoc_data", "venv", "config", "msilib", "_sysconfigdata",
}

# What a program of some size imports. A distribution may leave out some of them; those are skipped.
WANTED = """
argparse array ast asyncio base64 bisect bz2 calendar cmath cmd code codecs collections colorsys concurrent.futures
configparser contextlib copy csv ctypes curses dataclasses datetime decimal difflib dis doctest email.mime.multipart
email.mime.text email.parser enum filecmp fileinput fnmatch fractions ftplib functools gettext glob graphlib gzip
hashlib heapq hmac html.parser http.client http.cookiejar http.server imaplib importlib.metadata importlib.resources
inspect ipaddress json linecache locale logging.config logging.handlers lzma mailbox mimetypes multiprocessing.managers
multiprocessing.pool netrc ntpath numbers operator optparse pathlib pdb pickle pickletools pkgutil platform plistlib
poplib pprint profile pstats pty pyclbr pydoc queue quopri random re reprlib runpy sched secrets selectors shelve shlex
shutil signal smtplib socketserver sqlite3 ssl statistics string stringprep struct subprocess symtable tarfile tempfile
textwrap threading timeit tokenize trace traceback tracemalloc tty turtle types typing unittest.mock urllib.request
urllib.robotparser uuid wave weakref webbrowser wsgiref.simple_server xml.dom.minidom xml.etree.ElementTree xml.sax
xmlrpc.client xmlrpc.server zipapp zipfile zipimport zoneinfo
""".split()

MODULE = '''"""Part {number} of package {package}: a module of an application."""
from dataclasses import dataclass

NAME = "{package}.{number}"
TABLE = {{index: (index * {number}) % 97 for index in range(16)}}


@dataclass
class Item:
    """A record of this part."""
    key: int
    label: str = NAME

    def weight(self):
        return TABLE[self.key % len(TABLE)]


def total(items):
    return sum(item.weight() for item in items)
'''

PROGRAM = '''"""Imports every module named below, and fails if one was not read from the tree that this file lies in."""
import importlib
import json
import os
import sys

MODULES = {modules!r}

tree = os.path.dirname(os.path.abspath(__file__)) + os.sep
for name in MODULES:
    importlib.import_module(name)
files = {{name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}}
files = {{name: os.path.abspath(file) for name, file in files.items() if file}}
elsewhere = sorted(file for file in files.values() if not file.startswith(tree))
if elsewhere:
    sys.exit(f"{{len(elsewhere)}} modules were read from outside of {{tree}}: {{elsewhere[:3]}}")
print(json.dumps({{"modules": len(files)}}))
'''


def main():
    directory = os.path.abspath(sys.argv[1])
    complete = os.path.join(directory, ".complete")
    if os.path.exists(complete) and open(complete).read() == identity():
        return
    partial = directory + ".partial"
    # `make` passes the terminal's Ctrl-C on; a terminated run cleans up in the same way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        build(partial)
        shutil.rmtree(directory, ignore_errors=True)
        os.rename(partial, directory)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def identity():
    """Of this Python and this script: another of either makes another tree."""
    with open(__file__) as script:
        return f"{sys.executable}\n{sys.version}\n{script.read()}"


def build(tree):
    library = os.path.join(tree, sys.platlibdir, f"python{sys.version_info.major}.{sys.version_info.minor}")
    copy_library(library)
    names = small_modules(os.path.join(tree, "modules"))
    # Copied byte code is still valid, so little is left to compile.
    compileall.compile_dir(tree, quiet=2)
    write(os.path.join(tree, "program.py"), PROGRAM.format(modules=importable(tree) + names))
    write(os.path.join(tree, ".complete"), identity())


def copy_library(library):
    source = os.path.dirname(os.__file__)
    shutil.copytree(source, library, ignore=left_out, symlinks=False, ignore_dangling_symlinks=True)
    # Compiled modules may lie elsewhere, and their place is the one that Python itself looks at.
    for path in sys.path:
        if os.path.basename(path) == "lib-dynload" and not os.path.exists(os.path.join(library, "lib-dynload")):
            shutil.copytree(path, os.path.join(library, "lib-dynload"), ignore=left_out)


def left_out(directory, names):
    beginnings, ends = ("config-", "_test", "libpython"), (".opt-1.pyc", ".opt-2.pyc")
    return [name for name in names if name in LEFT_OUT or name.startswith(beginnings) or name.endswith(ends)]


def small_modules(directory):
    names = []
    for number in range(PACKAGES):
        package = f"part_{number:02}"
        os.makedirs(os.path.join(directory, package))
        write(os.path.join(directory, package, "__init__.py"), f'"""Package {number} of an application."""\n')
        for index in range(MODULES_PER_PACKAGE):
            write(os.path.join(directory, package, f"piece_{index:02}.py"), MODULE.format(package=package, number=index))
            names.append(f"{package}.piece_{index:02}")
    return names


def importable(tree):
    """Those of WANTED that this Python has all parts of, found in the tree itself."""
    attempt = "import importlib, sys\nfor name in sys.argv[1:]:\n try:\n  importlib.import_module(name)\n"
    attempt += " except ImportError: continue\n print(name)\n"
    environment = dict(os.environ, PYTHONHOME=tree, PYTHONNOUSERSITE="1")
    environment.pop("PYTHONPATH", None)
    command = [os.path.realpath(sys.executable), "-c", attempt, *WANTED]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
