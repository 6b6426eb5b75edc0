"""Fetches the published documents: files of npm packages. Each package is checked against the hash
in this file."""

import base64
import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

# Package, its SHA-512, the file in it, and the name under which that file is stored.
PACKAGES = [
    (
        "@mojaloop/api-snippets@18.4.1",
        "FLfLntawZkBYXmji4InebSMN4IAm227QXjlDIVNg9aWZYhTdJWH5DZSuzWKx9E9/JmgJGQC4MPnpLHPa4MPJSg==",
        {
            "fspiop-rest-v1.1-openapi3-snippets.yaml":
                "package/docs/fspiop-rest-v1.1-openapi3-snippets.yaml",
            "fspiop-rest-v2.0-openapi3-snippets.yaml":
                "package/docs/fspiop-rest-v2.0-openapi3-snippets.yaml",
            "sdk-scheme-adapter-outbound-v2_1_0-openapi3-snippets.yaml":
                "package/docs/sdk-scheme-adapter-outbound-v2_1_0-openapi3-snippets.yaml",
        },
    ),
    (
        "@mojaloop/central-ledger@19.5.5",
        "QEmw/RDvtTWax4RUj9Ch865IdEatQPoKGpRqiw7I8qV9CIyZQkTYhaHPj3oQcIk2wIqAqyuHjg/rvdFy4iD2gQ==",
        {"central-ledger-swagger.json": "package/src/api/interface/swagger.json"},
    ),
]


def fetch(package, sha512, wanted, directory):
    if all((directory / name).exists() for name in wanted):
        return
    print(f"fetching {package} with npm", flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        packed = subprocess.run(
            ["npm", "pack", "--silent", package], cwd=directory, check=True, text=True,
            stdout=subprocess.PIPE)
    except FileNotFoundError:
        sys.exit("npm is missing; on Debian or Ubuntu: sudo apt-get install npm")
    except subprocess.CalledProcessError as error:
        sys.exit(f"npm pack {package} ended with {error.returncode}: is the registry reachable?")
    archive = directory / packed.stdout.strip().splitlines()[-1]
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != sha512:
        sys.exit(f"{archive} is not the package that was reviewed: its SHA-512 is {found}")
    with tarfile.open(archive) as files:
        for name, path in wanted.items():
            (directory / name).write_bytes(files.extractfile(path).read())
    archive.unlink()


if __name__ == "__main__":
    for one in PACKAGES:
        fetch(*one, Path(sys.argv[1]))
