# SPDX-License-Identifier: Apache-2.0
"""A small hub on loopback, shaped like Hugging Face's: pages, large files elsewhere, closed repositories, faults.

Edge: loopback sockets and threads.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlsplit

TOKEN = "hf_" + "t" * 34
_KINDS = {"models": "", "datasets": "datasets/"}


def blob_id(data: bytes) -> str:
    """Return what git calls a blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def pointer_text(data: bytes) -> bytes:
    """Return the pointer that a repository holds for a large file."""
    oid = hashlib.sha256(data).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(data)}\n".encode()


@dataclass(slots=True, kw_only=True)
class Repo:
    """A repository: commits, and the names of some. ``access``: who may read; ``wrong``: paths served as other bytes.

    ``gone``: paths that are listed and not served. ``cut``: large files' contents end once after so many bytes.
    """

    commits: Mapping[str, Mapping[str, bytes]]
    refs: Mapping[str, str] = field(default_factory=dict)
    large: frozenset[str] = frozenset()
    access: str = "open"
    wrong: Mapping[str, bytes] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    cut: int | None = None
    listed: Sequence[Mapping[str, object]] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: path with its query, and the headers, names in lower case."""

    path: str
    headers: Mapping[str, str]


class _Stop(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.headers = {**({"X-Error-Code": code} if code else {}), **(headers or {})}


class HfServer:
    """The hub, and a second origin that serves large files by hash. ``asked`` and ``elsewhere`` are their requests.

    Repositories are ``models/owner/name`` and ``datasets/owner/name``.
    """

    def __init__(self, *, page: int = 1000) -> None:
        self.repos: dict[str, Repo] = {}
        self.renamed: dict[str, str] = {}
        self.asked: list[Asked] = []
        self.elsewhere: list[Asked] = []
        self.link_base: str | None = None
        self._page = page
        self._large: dict[str, tuple[Repo, bytes]] = {}
        self._servers = [_serve(self._hub, self.asked), _serve(self._contents, self.elsewhere)]
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            for server in self._servers
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server, thread in zip(self._servers, self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()

    @property
    def url(self) -> str:
        """The hub's root, without a closing slash."""
        return f"http://127.0.0.1:{self._servers[0].server_address[1]}"

    def _hub(self, handler: BaseHTTPRequestHandler) -> tuple[bytes, dict[str, str]]:
        parts = urlsplit(handler.path)
        token = handler.headers.get("Authorization")
        words = parts.path.strip("/").split("/")
        if words[0] == "api":
            key, (what, *rest) = "/".join(words[1:4]), words[4:]
        else:
            kind = "datasets" if words[0] == "datasets" else "models"
            key = f"{kind}/{'/'.join(words[-len(words) + (kind == 'datasets') :][:2])}"
            what, *rest = words[(kind == "datasets") + 2 :]
        if key in self.renamed:
            raise _Stop(307, headers={"Location": handler.path.replace(*_names(key, self.renamed[key]), 1)})
        repo = self._allowed(key, token)
        commit = repo.refs.get(unquote(rest[0]), rest[0])
        if commit not in repo.commits:
            raise _Stop(404, "RevisionNotFound")
        if what == "revision":
            return json.dumps({"id": key, "sha": commit, "siblings": []}).encode(), {}
        if what == "tree":
            return self._tree(handler, repo, commit, parse_qs(parts.query))
        return self._file(repo, commit, unquote("/".join(rest[1:])))

    def _allowed(self, key: str, token: str | None) -> Repo:
        if token not in (None, f"Bearer {TOKEN}"):
            raise _Stop(401)
        repo = self.repos.get(key)
        if repo is None or (repo.access == "private" and token is None):
            raise _Stop(404 if token else 401, "RepoNotFound")
        if repo.access == "gated" and token is None:
            raise _Stop(401, "GatedRepo")
        if repo.access == "refused" and token is not None:
            raise _Stop(403, "GatedRepo")
        if repo.access == "refused":
            raise _Stop(401, "GatedRepo")
        return repo

    def _tree(
        self, handler: BaseHTTPRequestHandler, repo: Repo, commit: str, query: Mapping[str, list[str]]
    ) -> tuple[bytes, dict[str, str]]:
        assert query["recursive"] == ["true"]
        entries: list[Mapping[str, object]] = []
        files = repo.commits[commit]
        folders = {path.rpartition("/")[0] for path in files} - {""}
        entries += ({"type": "directory", "oid": "0" * 40, "size": 0, "path": path} for path in sorted(folders))
        for path, data in files.items():
            text = pointer_text(data) if path in repo.large else data
            entry: dict[str, object] = {"type": "file", "oid": blob_id(text), "size": len(data), "path": path}
            if path in repo.large:
                oid = hashlib.sha256(data).hexdigest()
                entry["lfs"] = {"oid": oid, "size": len(data), "pointerSize": len(text)}
                entry["xetHash"] = "0" * 64
            entries.append(entry)
        entries = list(repo.listed or entries)
        start = int(query.get("cursor", ["0"])[0])
        headers = {}
        if start + self._page < len(entries):
            path = handler.path.partition("&cursor=")[0]
            headers["Link"] = f'<{self.link_base or self.url}{path}&cursor={start + self._page}>; rel="next"'
        return json.dumps(entries[start : start + self._page]).encode(), headers

    def _file(self, repo: Repo, commit: str, path: str) -> tuple[bytes, dict[str, str]]:
        files = repo.commits[commit]
        if path not in files or path in repo.gone:
            raise _Stop(404, "EntryNotFound")
        data = repo.wrong.get(path, files[path])
        if path not in repo.large:
            return data, {"X-Repo-Commit": commit, "ETag": f'"{blob_id(data)}"'}
        oid = hashlib.sha256(files[path]).hexdigest()
        self._large[oid] = (repo, data)
        place = f"http://127.0.0.1:{self._servers[1].server_address[1]}/{oid}?signature={quote(path, safe='')}"
        raise _Stop(302, headers={"Location": place, "X-Repo-Commit": commit, **_linked(oid, data)})

    def _contents(self, handler: BaseHTTPRequestHandler) -> tuple[bytes, dict[str, str]]:
        repo, data = self._large[urlsplit(handler.path).path.strip("/")]
        headers = {"Accept-Ranges": "bytes"}
        if span := handler.headers.get("Range"):
            start = int(span.removeprefix("bytes=").rstrip("-"))
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            data = data[start:]
        if repo.cut is not None:
            headers["Content-Length"] = str(len(data))
            data, repo.cut = data[: repo.cut], None
            handler.close_connection = True
        return data, headers


def _linked(oid: str, data: bytes) -> dict[str, str]:
    return {"X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{oid}"'}


def _names(old: str, new: str) -> tuple[str, str]:
    return old.partition("/")[2], new.partition("/")[2]


_Answer: TypeAlias = Callable[[BaseHTTPRequestHandler], tuple[bytes, dict[str, str]]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are what these tests are about."""


def _serve(answer: _Answer, asked: list[Asked]) -> _Server:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(Asked(self.path, {name.lower(): value for name, value in self.headers.items()}))
            try:
                body, headers = answer(self)
                status = 206 if "Content-Range" in headers else 200
            except _Stop as stop:
                body, headers, status = b'{"error":"no"}', dict(stop.headers), stop.status
            self.send_response(status)
            headers.setdefault("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()  # the hub's own client library asks for a file's hash so

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            del format, args

    return _Server(("127.0.0.1", 0), Handler)
