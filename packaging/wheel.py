#!/usr/bin/env python3
"""wheel.py STAGE ARCHITECTURE VERSION OUT: a wheel with the command of what is staged (stage.sh) and the client for Python (python/forebay).

The same files give the same bytes: all dates are SOURCE_DATE_EPOCH.
"""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

# A static binary asks for no C library, and runs beside any.
SYSTEMS = ("manylinux_2_17", "musllinux_1_1")
METADATA = """\
Metadata-Version: 2.4
Name: forebay
Version: {version}
Summary: The I/O tier of a supercomputer job: the command, and its client for Python
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Provides-Extra: query
Requires-Dist: pyarrow>=14 ; extra == 'query'
Provides-Extra: torch
Requires-Dist: torch ; extra == 'torch'
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: forebay {version}\nRoot-Is-Purelib: false\n{tags}"


def contents(stage, architecture, version):
    """Pairs of a path in the wheel and its bytes."""
    about = f"forebay-{version}.dist-info"
    readme = pathlib.Path("packaging/wheel.md").read_text().replace("@VERSION@", version)
    tags = "".join(f"Tag: py3-none-{system}_{architecture}\n" for system in SYSTEMS)
    client = pathlib.Path("python")
    modules = sorted(path for path in client.glob("forebay/*") if path.suffix in (".py", ".typed"))
    return [
        *((str(path.relative_to(client)), path.read_bytes()) for path in modules),
        (f"forebay-{version}.data/scripts/forebay", (stage / "bin/forebay").read_bytes()),
        (f"{about}/METADATA", METADATA.format(version=version, readme=readme).encode()),
        (f"{about}/WHEEL", WHEEL.format(version=version, tags=tags).encode()),
        (f"{about}/licenses/LICENSE", pathlib.Path("LICENSE").read_bytes()),
    ]


def record(files, about):
    """The list of all files, each with its sum, but for its own."""
    rows = []
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join(rows) + f"{about}/RECORD,,\n"


def main(stage, architecture, version, out):
    files = contents(pathlib.Path(stage), architecture, version)
    about = f"forebay-{version}.dist-info"
    files.append((f"{about}/RECORD", record(files, about).encode()))
    # A zip has no earlier year than 1980.
    date = max(time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6], (1980, 1, 1, 0, 0, 0))
    systems = ".".join(f"{system}_{architecture}" for system in SYSTEMS)
    with zipfile.ZipFile(pathlib.Path(out, f"forebay-{version}-py3-none-{systems}.whl"), "w") as wheel:
        for path, data in files:
            entry = zipfile.ZipInfo(path, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            wheel.writestr(entry, data, compresslevel=9)


main(*sys.argv[1:])
