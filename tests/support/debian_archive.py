# SPDX-License-Identifier: Apache-2.0
"""A signed Debian archive on the loopback address, made of packages that a test writes down.

Edge: gpg as a subprocess, loopback sockets.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.archives import Tar, deb, symlink
from support.require import skip_or_fail
from support.servers import FaultServer, Reply

DEP5 = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: {}\n"
KEYRING_MEMBER = "usr/share/keyrings/test.pgp"


@dataclass(frozen=True, kw_only=True)
class Package:
    """One binary package. ``fields`` are further lines of its record, such as Depends."""

    name: str
    version: str = "1.0-1"
    architecture: str = "amd64"
    fields: str = ""
    licence: str = "Expat"
    docs_in: str | None = None

    @property
    def locator(self) -> str:
        version = self.version.partition(":")[2] or self.version
        return f"pool/main/{self.name[0]}/{self.name}/{self.name}_{version}_{self.architecture}.deb"

    def data(self) -> bytes:
        folder = f"./usr/share/doc/{self.name}"
        if self.docs_in:
            docs = [symlink(folder.encode(), self.docs_in.encode())]
        else:
            docs = [Tar(name=f"{folder}/copyright".encode(), data=DEP5.format(self.licence).encode())]
        return deb(*docs, package=self.name, version=self.version, architecture=self.architecture)


@dataclass(frozen=True, kw_only=True)
class SourcePackage:
    """One source package, with the contents of its files."""

    name: str
    version: str
    files: dict[str, bytes] = field(default_factory=dict)


class Key:
    """A signing key in a home of its own."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._gpg("--quick-generate-key", "test@example.invalid", "ed25519", "sign", "never")
        self.public = self._gpg("--export")

    def sign(self, text: str) -> bytes:
        """Return a clear-signed text."""
        return self._gpg("--clearsign", data=text.encode())

    def _gpg(self, *arguments: str, data: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self._home), "--batch", "--quiet", "--passphrase", "", *arguments]
        return subprocess.run(command, input=data, capture_output=True, check=True).stdout


@contextmanager
def signing_key() -> Iterator[Key]:
    """Make a key, and stop its agent in the end."""
    if shutil.which("gpg") is None or shutil.which("apt-get") is None:
        skip_or_fail("gpg and apt-get make and read the test archive")
    # gpg's sockets lie below its home, and a socket's path may not be long.
    with tempfile.TemporaryDirectory(prefix="dk-") as home:
        try:
            yield Key(Path(home))
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)


class DebianArchive:
    """Publishes suites through a loopback server, below ``/debian`` or another root."""

    def __init__(self, server: FaultServer, key: Key, *, root: str = "/debian", label: str = "Debian") -> None:
        self._server = server
        self._key = key
        self._root = root
        self._label = label
        self.keyring = Tar(name=f"./{KEYRING_MEMBER}".encode(), data=key.public)
        self.keyring_deb = deb(self.keyring, package="test-keyring", version="1", architecture="all")
        self.keyring_locator = "pool/main/t/test-keyring/test-keyring_1_all.deb"
        server.serve(f"{root}/{self.keyring_locator}", Reply(body=self.keyring_deb))

    @property
    def url(self) -> str:
        """The archive's root."""
        return self._server.url + self._root

    def keyring_table(self) -> str:
        """Return the wish's table that names this archive's keyring."""
        digest = hashlib.sha256(self.keyring_deb).hexdigest()
        return (
            f'[keyring]\nlocator = "{self.keyring_locator}"\nsha256 = "{digest}"\n'
            f'size = {len(self.keyring_deb)}\nmember = "{KEYRING_MEMBER}"\n'
        )

    def publish(self, suite: str, packages: Sequence[Package], sources: Sequence[SourcePackage] = ()) -> None:
        """Serve a suite as it is from now on; pool files of earlier states stay."""
        indices = {
            f"main/binary-{architecture}/Packages": "".join(
                self._binary(package) for package in packages if package.architecture in (architecture, "all")
            )
            for architecture in ("amd64", "arm64")
        }
        indices["main/source/Sources"] = "".join(self._source(source) for source in sources)
        rows = []
        for name, text in indices.items():
            data = text.encode()
            self._server.serve(f"{self._root}/dists/{suite}/{name}", Reply(body=data))
            rows.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n")
        release = (
            f"Origin: Debian\nLabel: {self._label}\nSuite: {suite}\nCodename: {suite}\n"
            "Date: Sat, 01 Jan 2022 00:00:00 UTC\nArchitectures: amd64 arm64\nComponents: main\n"
            f"SHA256:\n{''.join(rows)}"
        )
        self._server.serve(f"{self._root}/dists/{suite}/InRelease", Reply(body=self._key.sign(release)))

    def remove(self, locator: str) -> None:
        """Stop serving a pool file."""
        self._server.serve(f"{self._root}/{locator}", Reply(status=404))

    def _binary(self, package: Package) -> str:
        data = package.data()
        self._serve(package.locator, data)
        return (
            f"Package: {package.name}\nVersion: {package.version}\nArchitecture: {package.architecture}\n"
            f"{package.fields}Maintainer: nobody <nobody@example.invalid>\nDescription: a test\n"
            f"Filename: {package.locator}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"
        )

    def _source(self, source: SourcePackage) -> str:
        folder = f"pool/main/{source.name[0]}/{source.name}"
        rows = []
        for name, data in source.files.items():
            self._serve(f"{folder}/{name}", data)
            rows.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n")
        return (
            f"Package: {source.name}\nBinary: {source.name}\nVersion: {source.version}\nArchitecture: any\n"
            f"Maintainer: nobody <nobody@example.invalid>\nFormat: 3.0 (quilt)\nDirectory: {folder}\n"
            f"Checksums-Sha256:\n{''.join(rows)}\n"
        )

    def _serve(self, locator: str, data: bytes) -> None:
        self._server.serve(f"{self._root}/{locator}", Reply(body=data))
        # apt escapes what stands in versions in its own way.
        self._server.serve(f"{self._root}/{locator.replace('+', '%2B')}", Reply(body=data))
