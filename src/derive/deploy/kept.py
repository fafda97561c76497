# SPDX-License-Identifier: Apache-2.0
"""What the operator's machine keeps of a site: deploys, facts last seen, logs of what failed, incidents.

Edge: reads and writes one folder below the user's data folder. Decides nothing.

    sites/NAME/deploys/NNNN-RELEASE.json        a chain of records of the kind ``deploy``
    sites/NAME/incidents/NNNN-SERVICE.json      a chain of records of the kind ``incident``
    sites/NAME/facts/NODE.json                  ``node-facts/1``: the newest alone
    sites/NAME/logs/TIME-SERVICE-WHY/           one folder for each failure, the newest :data:`MOST_LOGS` of them

The folder is the user's alone (0700): logs may hold what was asked of a service.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from derive.canonical import Json
from derive.deploy.deploys import add_deploy, add_record, read_deploys, unreadable
from derive.deploy.history import Deployed
from derive.errors import DeriveError, HostRefuses, InputErrors
from derive.infile import read_plain
from derive.records.model import Record
from derive.records.numbered import Numbered
from derive.store.blobs import sync_folder

INCIDENTS: Final = Numbered("incidents", "incident")

FACTS_TAG: Final = "node-facts/1"
MOST_LOGS: Final = 64
"""Folders of logs that are kept; the oldest go first."""

_LARGEST_FACTS = 8 << 20
_TIME_LONG = len("20260102T030405Z")
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFacts:
    """What a node said of itself, and when, by the operator's clock: ``facts`` as the effect answered, ``engine`` too.

    ``engine`` is None where the node's engine was not asked or did not answer.
    """

    node: str
    seen_s: int
    facts: Mapping[str, Json]
    engine: Mapping[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A folder of logs of one failure. It is there from the first file on."""

    folder: Path

    def write(self, name: str, data: bytes) -> Path:
        """Write a file, whole or not at all, in the place of one of that name; raises HostRefuses."""
        path = self.folder / _fit(name)
        _write(path, data)
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of one site. Nothing is made before something is written."""

    folder: Path

    @classmethod
    def of(cls, site: str, environ: Mapping[str, str]) -> Kept:
        """Return the folder of a site's name in the user's data folder; raises HostRefuses for a user without one."""
        return cls(folder=data_folder(environ) / "sites" / _fit(site))

    def deploys(self) -> tuple[Deployed, ...]:
        """Return the deploys, the first one first; raises as :func:`read_deploys` does."""
        return read_deploys(self.folder)

    def add_deploy(self, one: Deployed) -> Path:
        """Write the next record of a deploy and return its path; raises as :func:`add_deploy` does."""
        with self._alone():
            return add_deploy(self.folder, one)

    def incidents(self) -> tuple[Record, ...]:
        """Return the records of incidents, the first one first; raises as :func:`read_deploys` does."""
        try:
            return INCIDENTS.read(self.folder)
        except DeriveError as error:
            raise unreadable(self.folder, INCIDENTS.folder, error) from error

    def add_incident(self, service: str, body: Mapping[str, Json]) -> Path:
        """Write the next record of an incident and return its path; raises as :func:`add_record` does.

        The record's subject is the service's name in small letters, without underscores.
        """
        with self._alone():
            return add_record(self.folder, INCIDENTS, _fit(service).lower().replace("_", "-"), body)

    def write_facts(self, node: str, seen_s: int, facts: Mapping[str, Json], engine: Mapping[str, Json] | None) -> None:
        """Keep what a node said of itself, in the place of what it said before; raises HostRefuses."""
        document: dict[str, Json] = {"derive": FACTS_TAG, "node": node, "seen_s": seen_s}
        document |= {"facts": facts, "engine": engine}
        # In no digest, and a clock's nanoseconds are more than a canonical document may hold.
        _write(self.folder / "facts" / f"{_fit(node)}.json", json.dumps(document, sort_keys=True).encode())

    def facts(self) -> Mapping[str, SeenFacts]:
        """Return what each node last said of itself, by node; what cannot be read is as if it were not there."""
        found = {}
        folder = self.folder / "facts"
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            seen = _read_facts(path)
            if seen is not None:
                found[seen.node] = seen
        return found

    def new_logs(self, service: str, why: str, now_s: int) -> Evidence:
        """Make a folder for logs, named by time, service and why; the oldest beyond what is kept are removed.

        Raises:
            HostRefuses: when it cannot be made.
        """
        stem = f"{datetime.fromtimestamp(now_s, UTC):%Y%m%dT%H%M%SZ}-{_fit(service)}-{_fit(why)}"
        logs = self.folder / "logs"
        with _told(logs):
            _make(logs)
            _drop_oldest(logs, MOST_LOGS - 1)
            for number in range(1, 1000):
                folder = logs / (stem if number == 1 else f"{stem}-{number}")
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700)
                    return Evidence(folder=folder)
        raise HostRefuses("too many folders of one second", where=str(logs))

    def newest_log(self, node: str, service: str | None = None) -> Path | None:
        """Return the newest log that was kept of a node, of any service where none is named; None where there is none.

        Logs are files ``NODE.log``.
        """
        logs = self.folder / "logs"
        begins = "" if service is None else f"-{_fit(service)}-"
        found = logs.glob(f"*/{_fit(node)}.log") if logs.is_dir() else ()
        mine = [path for path in found if path.parent.name[_TIME_LONG:].startswith(begins)]
        return max(mine, key=lambda path: path.parent.name, default=None)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder's lock: the kernel gives it back when its holder dies."""
        with _told(self.folder):
            _make(self.folder)
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_DATA_HOME/derive``, else ``~/.local/share/derive``; raises HostRefuses for a user without one."""
    data = environ.get("XDG_DATA_HOME")
    try:
        return (Path(data) if data else Path.home() / ".local" / "share") / "derive"
    except RuntimeError:
        raise HostRefuses("this user has no home folder for records of deploys", hint="set XDG_DATA_HOME") from None


def _fit(name: str) -> str:
    """Return a name as one part of a path: names of sites, nodes and services are so already."""
    fit = _UNFIT.sub("-", name).strip(".-")
    if not fit:
        raise InputErrors.one(f"no name of a file: {name!r}")
    return fit


def _make(folder: Path) -> None:
    """Make a folder for the user alone, with those above it that are not there."""
    if not folder.is_dir():
        _make(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def _write(path: Path, data: bytes) -> None:
    staged = path.parent / f".{path.name}.{secrets.token_hex(8)}.partial"
    try:
        with _told(path):
            _make(path.parent)
            with staged.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            staged.replace(path)
            sync_folder(path.parent)
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostRefuses(f"cannot be written: {(error.strerror or '').lower()}", where=str(path)) from error


def _read_facts(path: Path) -> SeenFacts | None:
    try:
        document: Json = json.loads(read_plain(path, _LARGEST_FACTS, follow=False)[0])
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, Mapping) or document.get("derive") != FACTS_TAG:
        return None
    node, seen_s, facts, engine = (document.get(key) for key in ("node", "seen_s", "facts", "engine"))
    if not isinstance(node, str) or not isinstance(seen_s, int) or not isinstance(facts, Mapping):
        return None
    return SeenFacts(node=node, seen_s=seen_s, facts=facts, engine=engine if isinstance(engine, Mapping) else None)


def _drop_oldest(logs: Path, keep: int) -> None:
    """Remove what is beyond the newest: names begin with the time."""
    folders = sorted(path for path in logs.iterdir() if path.is_dir() and not path.is_symlink())
    for path in folders[: max(0, len(folders) - keep)]:
        shutil.rmtree(path, ignore_errors=True)
