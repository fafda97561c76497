# SPDX-License-Identifier: Apache-2.0
"""A Python package index on the loopback address, made of wheels that a test writes down.

Edge: loopback sockets.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass

from support.servers import FaultServer, Reply

_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class IndexWheel:
    """One wheel. ``more`` are further lines of METADATA; ``padding`` bytes of data make it large."""

    name: str
    version: str = "1.0"
    tag: str = "py3-none-any"
    more: str = "License-Expression: MIT\n"
    uploaded: str = "2026-01-01T00:00:00Z"
    padding: int = 0

    @property
    def file(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-{self.tag}.whl"

    def data(self) -> bytes:
        out = io.BytesIO()
        info = f"{self.name.replace('-', '_')}-{self.version}.dist-info"
        with zipfile.ZipFile(out, "w") as archive:
            for path, data in (
                ("padding.bin", bytes(self.padding)),
                (f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {self.tag}\n".encode()),
                (f"{info}/METADATA", self.metadata()),
                (f"{info}/RECORD", b""),
            ):
                archive.writestr(zipfile.ZipInfo(path, _ZIP_TIME), data)
        return out.getvalue()

    def metadata(self) -> bytes:
        return f"Metadata-Version: 2.4\nName: {self.name}\nVersion: {self.version}\n{self.more}".encode()


class PackageIndex:
    """Publishes wheels through a loopback server. ``metadata``: whether METADATA is served beside each wheel."""

    def __init__(self, server: FaultServer, *, metadata: bool = True) -> None:
        self._server = server
        self._metadata = metadata

    @property
    def url(self) -> str:
        """The index's root."""
        return f"{self._server.url}/simple"

    def publish(self, *wheels: IndexWheel) -> None:
        """Serve these wheels, and no others of their projects."""
        pages: dict[str, list[dict[str, object]]] = {}
        for wheel in wheels:
            data = wheel.data()
            self._server.serve(f"/files/{wheel.file}", Reply(body=data))
            entry: dict[str, object] = {
                "filename": wheel.file,
                "url": f"../../files/{wheel.file}",
                "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
                "size": len(data),
                "upload-time": wheel.uploaded,
            }
            if self._metadata:
                entry["core-metadata"] = {"sha256": hashlib.sha256(wheel.metadata()).hexdigest()}
                self._server.serve(f"/files/{wheel.file}.metadata", Reply(body=wheel.metadata()))
            pages.setdefault(wheel.name, []).append(entry)
        for name, files in pages.items():
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
            headers = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
            self._server.serve(f"/simple/{name}/", Reply(body=json.dumps(page).encode(), headers=headers))

    def remove(self, wheel: IndexWheel) -> None:
        """Stop serving a project."""
        self._server.serve(f"/simple/{wheel.name}/", Reply(status=404))
