"""Fetches the published documents: one npm package, held against the hash that is written here."""

import base64
import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

PACKAGE = "@mojaloop/api-snippets@18.4.1"
SHA512 = (
    "FLfLntawZkBYXmji4InebSMN4IAm227QXjlDIVNg9aWZYhTdJWH5DZSuzWKx9E9/JmgJGQC4MPnpLHPa4MPJSg=="
)
WANTED = ("fspiop-rest-v1.1-openapi3-snippets.yaml", "fspiop-rest-v2.0-openapi3-snippets.yaml")


def main():
    directory = Path(sys.argv[1])
    if all((directory / name).exists() for name in WANTED):
        return
    print(f"fetching {PACKAGE} with npm", flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        packed = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE], cwd=directory, check=True, text=True,
            stdout=subprocess.PIPE)
    except FileNotFoundError:
        sys.exit("npm is missing; on Debian or Ubuntu: sudo apt-get install npm")
    except subprocess.CalledProcessError as error:
        sys.exit(f"npm pack {PACKAGE} ended with {error.returncode}: is the registry reachable?")
    archive = directory / packed.stdout.strip().splitlines()[-1]
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != SHA512:
        sys.exit(f"{archive} is not the package that was reviewed: its SHA-512 is {found}")
    with tarfile.open(archive) as files:
        for name in WANTED:
            text = files.extractfile(f"package/docs/{name}").read()
            (directory / name).write_bytes(text)
    archive.unlink()


if __name__ == "__main__":
    main()
