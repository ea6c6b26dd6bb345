#!/usr/bin/env python3
"""labels.py PACKAGES BINARIES: each package names the architecture of its binary, and has the bytes that `make dist` has built for it.

The target's name in a package's own words: amd64 of Debian and OCI, x86_64 of the RPM family and of wheels. Fails where a package is of no
architecture that has a binary.
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine of ELF
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


def printed(*command):
    return subprocess.run(command, check=True, capture_output=True).stdout


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def deb(path):
    with tarfile.open(fileobj=subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE).stdout, mode="r|") as files:
        binary = next(files.extractfile(each).read() for each in files if each.name.startswith("./usr/bin/"))
    return printed("dpkg-deb", "--field", path, "Architecture").decode().strip(), sha256(binary)


def rpm(path):
    files = printed("rpm", "-qp", "--qf", "[%{FILENAMES} %{FILEDIGESTS}\n]", path).decode()
    return printed("rpm", "-qp", "--qf", "%{ARCH}", path).decode(), re.search(r"^/usr/bin/\S+ (\w+)$", files, re.M)[1]


def wheel(path):
    with zipfile.ZipFile(path) as files:
        binary = next(each for each in files.namelist() if each.endswith("/scripts/forebay"))
        about = next(each for each in files.namelist() if each.endswith(".dist-info/WHEEL"))
        return re.findall(r"^Tag: (\S+)$", files.read(about).decode(), re.M), sha256(files.read(binary))


def tarball(path):
    with tarfile.open(path) as files:
        binary = next(files.extractfile(each).read() for each in files if re.search(r"/bin/[^/]+$", each.name))
    return int.from_bytes(binary[18:20], "little"), sha256(binary)


def image(path):
    with tarfile.open(path) as files:
        def blob(digest):
            return files.extractfile("blobs/" + digest.replace(":", "/"))

        manifest = json.load(blob(json.load(files.extractfile("index.json"))["manifests"][0]["digest"]))
        with tarfile.open(fileobj=blob(manifest["layers"][-1]["digest"]), mode="r|gz") as layer:
            binary = next(layer.extractfile(each).read() for each in layer if each.name.lstrip("/") == "forebay")
        return json.load(blob(manifest["config"]["digest"]))["architecture"], sha256(binary)


def wanted(arch):
    tags = [f"py3-none-{system}_{arch}" for system in ("manylinux_2_17", "musllinux_1_1")]
    return {
        f"forebay_*_{DEBIAN[arch]}.deb": (deb, DEBIAN[arch]),
        f"forebay-[0-9]*.{arch}.rpm": (rpm, arch),
        f"forebay-[0-9]*{arch}*.whl": (wheel, tags),
        f"forebay-[0-9]*-{arch}-linux.tar.gz": (tarball, MACHINES[arch]),
        f"forebay-[0-9]*-{arch}-linux.oci.tar": (image, DEBIAN[arch]),
    }


def main(packages, binaries):
    seen = set()
    for binary in binaries.glob("forebay-[0-9]*-linux"):
        arch = re.search(r"-(\w+)-linux$", binary.name)[1]
        for pattern, (read, label) in wanted(arch).items():
            for path in packages.glob(pattern):
                said, digest = read(path)
                assert said == label, f"{path.name} is labelled {said}, not {label}"
                assert digest == sha256(binary.read_bytes()), f"{path.name} has another binary than {binary.name}"
                seen.add(path)
                print(f"labels: {path.name}: {said}", file=sys.stderr)
    unknown = {each for each in packages.iterdir() if each.suffix in (".deb", ".rpm", ".whl", ".gz") and "forebay-sql" not in each.name} - seen
    assert seen and not unknown, f"packages without a binary of their architecture: {sorted(each.name for each in unknown)}"


main(*map(pathlib.Path, sys.argv[1:]))
