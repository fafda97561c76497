# SPDX-License-Identifier: Apache-2.0
"""apt in a private root: its own lists, status and keys, so that nothing of this machine but its proxies decides.

Edge: apt as a subprocess, a scratch folder.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from derive.errors import Corrupt, HostRefuses, InputErrors, Problem, Unavailable
from derive.lock.settings import parse_apt_options
from derive.net.places import Mirror, hide_credentials

_COMPLAINT = re.compile(r"[EW]: |.*\b(Depends|PreDepends|Conflicts|Breaks):? ")
_KEPT_OPTIONS = re.compile(r"Acquire::(http|https)::|Acquire::Proxy|Dir::Etc::netrc")
_CONFIGURATION = """\
Dir "{root}";
Dir::Etc "etc/apt";
Dir::State "state";
Dir::State::status "{root}/status";
Dir::Etc::SourceList "/dev/null";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Update::Error-Mode "any";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::GzipIndexes "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AptSource:
    """Suites of one archive."""

    mirror: Mirror
    suites: tuple[str, ...]
    components: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one question to apt is about: architectures, the native one first, and which kinds of packages."""

    architectures: tuple[str, ...]
    binaries: bool = True
    sources: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """A downloaded index: which suite it is of, and whether it lists sources."""

    path: Path
    suite: str
    sources: bool

    def pieces(self) -> Iterator[bytes]:
        """Yield the index's bytes in order."""
        with self.path.open("rb") as file:
            while piece := file.read(1 << 22):
                yield piece


class NoSolution(Exception):
    """apt finds no way to install what was asked for; holds its words."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


class PrivateRoot:
    """A root below ``folder``, an empty one, whose only trusted keys are ``keyring``'s."""

    def __init__(self, folder: Path, *, sources: Sequence[AptSource], keyring: bytes) -> None:
        self._root = folder
        self._sources = tuple(sources)
        self._environ = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C", "TZ": "UTC"}
        for inner in ("etc/apt/trusted.gpg.d", "etc/apt/apt.conf.d", "etc/apt/preferences.d", "state/lists/partial"):
            (folder / inner).mkdir(parents=True)
        (folder / "etc/apt/trusted.gpg.d/archive.gpg").write_bytes(keyring)
        (folder / "status").touch()
        (folder / "apt.conf").write_text(_CONFIGURATION.format(root=folder) + _host_options(), encoding="utf-8")

    def update(self, scope: Scope) -> None:
        """Fetch the indices of every source, and check their signatures.

        Raises:
            Corrupt: when a signature is not one of the keyring's.
            Unavailable: when an index could not be fetched.
        """
        done = self._run("apt-get", ["update", "-q"], scope)
        if done.returncode == 0:
            return
        lines = _complaints(done.stdout + done.stderr)
        if any(re.search(r"NO_PUBKEY|signature|not signed|EXPKEYSIG|BADSIG", line) for line in lines):
            raise Corrupt(
                "the archive's signature is not by a key of the locked keyring",
                detail=lines,
                hint="lock a newer keyring, or use another mirror",
            )
        raise Unavailable("apt could not fetch the archive's indices", detail=lines)

    def indices(self, scope: Scope) -> tuple[IndexFile, ...]:
        """Return the indices that were fetched, those of earlier sources and suites first."""
        ask = ["indextargets", "--format", "$(RELEASE)|$(CREATED_BY)|$(FILENAME)"]
        done = self._run("apt-get", ask, scope)
        found = []
        for line in done.stdout.splitlines():
            suite, kind, path = line.split("|", 2)
            if kind in ("Packages", "Sources") and Path(path).exists():
                found.append(IndexFile(path=Path(path), suite=suite, sources=kind == "Sources"))
        order = [suite for source in self._sources for suite in source.suites]
        return tuple(sorted(found, key=lambda index: (order.index(index.suite), index.path.name)))

    def solve(self, packages: Sequence[str], scope: Scope, pins: Mapping[str, str]) -> tuple[str, ...]:
        """Return the pool paths of everything that an installation into an empty root needs, sorted.

        ``pins``: package, as apt's preferences name it -> version to keep.

        Raises:
            NoSolution: with what apt said.
        """
        preferences = self._root / "preferences"
        preferences.write_text(
            "".join(f"Package: {name}\nPin: version {v}\nPin-Priority: 1001\n\n" for name, v in sorted(pins.items())),
            encoding="utf-8",
        )
        options = ["-q", "--print-uris", "-o", f"Dir::Etc::Preferences={preferences}"]
        done = self._run("apt-get", ["install", *options, *packages], scope)
        if done.returncode != 0:
            raise NoSolution(_complaints(done.stdout + done.stderr))
        return tuple(sorted({self._locator(line) for line in done.stdout.splitlines() if line.startswith("'")}))

    def _locator(self, line: str) -> str:
        url = line[1:].partition("'")[0]
        for source in self._sources:
            if url.startswith(source.mirror.url + "/"):
                return unquote(url.removeprefix(source.mirror.url + "/")).removeprefix("./")
        raise Unavailable(f"apt names a file outside the archives it was given: {hide_credentials(url)}")

    def _run(self, tool: str, arguments: Sequence[str], scope: Scope) -> subprocess.CompletedProcess[str]:
        if shutil.which(tool) is None:
            raise HostRefuses(f"locking a Debian set needs {tool}, which is not on the path", hint="install apt")
        folder = self._folder(scope)
        options = ["-o", f"APT::Architecture={scope.architectures[0]}"]
        options += ["-o", f"Dir::Etc::SourceParts={folder / 'sources'}", "-o", f"Dir::Cache={folder / 'cache'}"]
        for architecture in scope.architectures:
            options += ["-o", f"APT::Architectures::={architecture}"]
        return subprocess.run(
            [tool, *options, *arguments],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def _folder(self, scope: Scope) -> Path:
        """Return the folder of source files and caches for just this scope, written on first use."""
        types = [name for name, wanted in (("deb", scope.binaries), ("deb-src", scope.sources)) if wanted]
        folder = self._root / "-".join(["scope", *scope.architectures, *types])
        if not folder.exists():
            (folder / "sources").mkdir(parents=True)
            (folder / "cache/archives/partial").mkdir(parents=True)
            for index, source in enumerate(self._sources):
                (folder / "sources" / f"{index}.sources").write_text(
                    f"Types: {' '.join(types)}\nURIs: {source.mirror.url}\nSuites: {' '.join(source.suites)}\n"
                    f"Components: {' '.join(source.components)}\nArchitectures: {' '.join(scope.architectures)}\n",
                    encoding="utf-8",
                )
        return folder


def unknown_packages(lines: Sequence[str], packages: Sequence[str], where: str) -> list[Problem]:
    """Turn apt's words about single packages into problems, each at its place in the wish."""
    patterns = (
        (re.compile(r"Unable to locate package (\S+)"), "no such package in the suites"),
        (re.compile(r"Couldn't find any package by (?:glob|regex) '(\S+)'"), "no such package in the suites"),
        (re.compile(r"Version '\S+' for '(\S+)' was not found"), "no such version in the suites"),
        (re.compile(r"Package '?(\S+?)'? has no installation candidate"), "no package of this name can be installed"),
    )
    problems = []
    for line in lines:
        for pattern, message in patterns:
            match = pattern.search(line)
            index = _index_of(match[1], packages) if match else None
            if index is not None:
                place = f"{where}.packages[{index}]"
                problems.append(Problem(where=place, message=message, detail=(f"got       {packages[index]!r}",)))
    return problems


def no_solution(error: NoSolution, packages: Sequence[str], where: str) -> InputErrors:
    """Return the error for a closure that apt cannot resolve."""
    problems = unknown_packages(error.lines, packages, where)
    return InputErrors(
        problems or [Problem(where=where, message="apt finds no way to install this together", detail=error.lines[:30])]
    )


def _index_of(name: str, packages: Sequence[str]) -> int | None:
    plain = name.partition(":")[0]
    for index, package in enumerate(packages):
        if package.partition("=")[0].partition(":")[0] == plain:
            return index
    return None


def _complaints(text: str) -> list[str]:
    lines = [hide_credentials(line.strip()) for line in text.splitlines()]
    marked = [line for line in lines if _COMPLAINT.match(line)]
    return (marked or [line for line in lines if line])[:40]


def _host_options() -> str:
    """Return this machine's ways of reaching an archive: proxies, certificates, timeouts and credentials."""
    if shutil.which("apt-config") is None:
        return ""
    done = subprocess.run(
        ["apt-config", "dump"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    options = parse_apt_options(done.stdout)
    lines = []
    for key, value in options.items():
        if _KEPT_OPTIONS.match(key):
            kept = f"/etc/apt/{value}" if key.startswith("Dir::Etc::netrc") and not value.startswith("/") else value
            lines.append(f'{key} "{kept}";\n')
    return "".join(lines)
