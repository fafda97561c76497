# SPDX-License-Identifier: Apache-2.0
"""The git program: whose settings count, how long it may be silent, and that it never asks a person.

Edge: git as a subprocess, the environment, the monotonic clock.

A person's credentials, proxies, ssh and ``insteadOf`` settings count. Nothing that they or this machine set decides a
byte: contents are read as objects, and checked by their ids.
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from derive.errors import HostRefuses, Interrupted
from derive.git.failures import GitFailure, classify
from derive.git.places import Place, is_folder, is_ssh
from derive.net.progress import Progress, Quiet

_GUARD = Path(__file__).with_name("guard.py")
_LOOK_S = 0.1  # how often progress and the wish to stop are looked at
_MOST_TEXT = 64 << 20
_LAST_WORDS = 64 << 10
_PROTOCOLS = ("https", "http", "ssh", "git")

_KEPT = frozenset(
    """
    GIT_ASKPASS GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_CONFIG_PARAMETERS GIT_CONFIG_SYSTEM
    GIT_CURL_FTP_NO_EPSV GIT_EXEC_PATH GIT_HTTP_PROXY_AUTHMETHOD GIT_HTTP_USER_AGENT GIT_PROXY_COMMAND
    GIT_PROXY_SSL_CAINFO GIT_PROXY_SSL_CERT GIT_PROXY_SSL_CERT_PASSWORD_PROTECTED GIT_PROXY_SSL_KEY GIT_SSH
    GIT_SSH_COMMAND GIT_SSH_VARIANT GIT_SSL_CAINFO GIT_SSL_CAPATH GIT_SSL_CERT GIT_SSL_CERT_PASSWORD_PROTECTED
    GIT_SSL_CIPHER_LIST GIT_SSL_KEY GIT_SSL_NO_VERIFY GIT_SSL_VERSION
    """.split()  # noqa: SIM905 - a list of words
)
"""Variables of git's that say how a person reaches servers; all others name repositories, or change what git does."""

_SETTINGS = (
    "core.attributesFile=/dev/null",
    "core.hooksPath=/dev/null",  # a fetch runs hooks
    "core.fsync=none",  # the repository is scratch
    "core.fsyncObjectFiles=false",
    "credential.interactive=false",
    "fetch.fsckObjects=false",  # what may stand in a tree is decided here, the same on every machine
    "transfer.fsckObjects=false",
    "fetch.prune=false",
    "fetch.pruneTags=false",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",  # one pack, however few objects come
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "transfer.bundleURI=false",
)


@dataclass(slots=True, kw_only=True)
class Session:
    """What one run's fetches share: who is told, whether to stop, how patient to be, which hosts are down.

    ``silent_s``: seconds without a sign of life after which git is ended. ``attempts``: how often a transfer is tried
    that broke off. Safe for several threads.
    """

    progress: Progress = field(default_factory=Quiet)
    cancel: threading.Event = field(default_factory=threading.Event)
    silent_s: float = 120.0
    attempts: int = 3
    pause_s: float = 1.0
    _down: dict[str, str] = field(default_factory=dict)
    _ways: dict[Place, Mapping[str, str]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def check_up(self, place: Place) -> None:
        """Raise GitFailure when the place's host did not answer before in this run."""
        with self._guard:
            reason = self._down.get(place.origin)
        if reason is not None:
            raise GitFailure("silent", f"not asked again in this run: {reason}")

    def ways(self, place: Place, find: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """Return how a place is reached, found once in a run."""
        with self._guard:
            known = self._ways.get(place)
        if known is None:
            known = find()
            with self._guard:
                self._ways[place] = known
        return known

    def stop_when_asked(self) -> None:
        """Raise Interrupted when this run is to stop."""
        if self.cancel.is_set():
            raise Interrupted("stopped")

    def mark_down(self, place: Place, reason: str) -> None:
        """Ask this place's host no more; said once."""
        if not place.origin:
            return
        with self._guard:
            known = place.origin in self._down
            self._down.setdefault(place.origin, reason)
        if not known:
            self.progress.note(f"{place.shown} does not answer, and is not asked again in this run: {reason}")


def find_git() -> str:
    """Return where git is; raises HostRefuses."""
    found = shutil.which("git")
    if found is None:
        raise HostRefuses("a git upstream needs the program git, which is not installed", hint="apt-get install git")
    return found


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one scratch repository. ``folder`` holds it; nothing outside is written."""

    session: Session
    folder: Path
    program: str = field(default_factory=find_git)

    def init(self) -> None:
        """Make the bare repository."""
        self.local("init", "--quiet", "--bare", "--template=", str(self.folder), repository=False)

    def local(self, *arguments: str, repository: bool = True, own_settings: bool = False) -> bytes:
        """Run a command that uses no network, and return what it printed; raises GitFailure.

        Nobody's settings count, but where ``own_settings`` are asked for.
        """
        done = subprocess.run(
            self.command(arguments, repository=repository),
            env=_environment({}) if own_settings else _neutral(),
            cwd=self.folder.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            start_new_session=True,
        )
        if done.returncode:
            raise classify(done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def remote(
        self, place: Place, *arguments: str, name: str = "", variables: Mapping[str, str] | None = None
    ) -> bytes:
        """Run a command that asks a server; ``name`` is what progress calls the transfer.

        Raises:
            GitFailure: it did not work, in words without credentials.
            Interrupted: the session is to stop.
        """
        command = self.command(arguments)
        environ = _environment({**self.session.ways(place, lambda: self._ways(place)), **(variables or {})})
        return _Watch(self, place, name).run(command, environ)

    def command(self, arguments: Sequence[str], *, repository: bool = True) -> list[str]:
        """Return the command line of a git whose settings are fixed where they could matter."""
        where = ["--git-dir", str(self.folder)] if repository else []
        fixed = [part for setting in _SETTINGS for part in ("-c", setting)]
        return [self.program, "--no-replace-objects", "--literal-pathspecs", *where, *fixed, *arguments]

    def objects(self) -> subprocess.Popen[bytes]:
        """Start the process that answers ids with objects; it ends when its standard input does."""
        return subprocess.Popen(
            self.command(("cat-file", "--batch")),
            env=_neutral(),
            cwd=self.folder.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _ways(self, place: Place) -> dict[str, str]:
        """Return the variables that say which transports may be used, and how."""
        meant = os.fsdecode(self.local("ls-remote", "--get-url", "--", place.url, own_settings=True)).rstrip("\n")
        # A folder is asked when it was named, or when the person's own insteadOf leads there.
        allowed = is_folder(meant) and (place.local or meant != place.url)
        ways = {"GIT_ALLOW_PROTOCOL": ":".join(_allowed(folders=allowed))}
        if is_ssh(meant) and not os.environ.keys() & {"GIT_SSH", "GIT_SSH_COMMAND"} and not self._own_ssh():
            alive = f"-o ServerAliveInterval=15 -o ServerAliveCountMax={max(1, int(self.session.silent_s / 15))}"
            ways["GIT_SSH_COMMAND"] = f"ssh -o BatchMode=yes -o ConnectTimeout=30 {alive}"
        return ways

    def _own_ssh(self) -> bool:
        try:
            return bool(self.local("config", "--get", "core.sshCommand", own_settings=True))
        except GitFailure:
            return False


@dataclass(slots=True)
class _Watch:
    """One command and the signs of life that it gives: words on standard error, a pack that grows."""

    git: Git
    place: Place
    name: str
    said: bytearray = field(default_factory=bytearray)
    answer: bytearray = field(default_factory=bytearray)
    grown: int = 0

    def run(self, command: Sequence[str], environ: Mapping[str, str]) -> bytes:
        session = self.git.session
        session.stop_when_asked()
        lifeline_end, lifeline = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), str(lifeline_end), *command],
                env=environ,
                cwd=self.git.folder.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(lifeline_end,),
                start_new_session=True,  # without a terminal nothing can ask, and a Ctrl-C reaches the engine alone
            )
        except BaseException:
            os.close(lifeline)
            raise
        finally:
            os.close(lifeline_end)
        if self.name:
            session.progress.start(self.name, None)
        failure = None
        try:
            failure = self._listen(process)
        finally:
            os.close(lifeline)
            code = process.wait()
            self._close(process)
            if self.name:
                session.progress.done(self.name)
        if failure is not None:
            raise failure
        if code:
            raise classify(self.place.redact(self.said.decode("utf-8", "replace")))
        return bytes(self.answer)

    def _listen(self, process: subprocess.Popen[bytes]) -> GitFailure | None:
        """Take what git writes until it has ended; returns why it must be ended instead."""
        assert process.stdout is not None
        assert process.stderr is not None
        session = self.git.session
        heard = time.monotonic()
        ended = os.pidfd_open(process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor in (process.stdout.fileno(), process.stderr.fileno(), ended):
                    selector.register(descriptor, selectors.EVENT_READ)
                while True:
                    ready = {key.fd for key, _ in selector.select(_LOOK_S)}
                    for stream, kept in ((process.stdout, self.answer), (process.stderr, self.said)):
                        if stream.fileno() in ready and not self._take(stream.fileno(), kept):
                            selector.unregister(stream.fileno())
                    if self._grows() or ready:
                        heard = time.monotonic()
                    if ready == {ended}:
                        return None
                    session.stop_when_asked()
                    if len(self.answer) > _MOST_TEXT:
                        return GitFailure("other", f"more than {_MOST_TEXT >> 20} MiB of names")
                    if time.monotonic() - heard > session.silent_s:
                        return GitFailure("silent", f"silent for {session.silent_s:.0f} s")
        finally:
            os.close(ended)

    def _take(self, descriptor: int, kept: bytearray) -> bool:
        data = os.read(descriptor, 1 << 16)
        kept += data
        if kept is self.said:
            del kept[:-_LAST_WORDS]
        return bool(data)

    def _grows(self) -> bool:
        """Say whether more bytes lie in the scratch repository than before, and tell how many came."""
        if not self.name:
            return False
        size = 0
        with suppress(FileNotFoundError), os.scandir(self.git.folder / "objects" / "pack") as found:
            for item in found:
                with suppress(FileNotFoundError):
                    size += item.stat(follow_symlinks=False).st_size
        if size <= self.grown:
            return False
        self.git.session.progress.advance(self.name, size - self.grown)
        self.grown = size
        return True

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _allowed(*, folders: bool) -> list[str]:
    """Return the transports that git may use; a person may have ruled some out."""
    ruled = os.environ.get("GIT_ALLOW_PROTOCOL")
    kinds = (*_PROTOCOLS, "file") if folders else _PROTOCOLS
    return [kind for kind in kinds if ruled is None or kind in ruled.split(":")]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return what git gets to see: the person's variables, without those that would change what git does."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key in _KEPT or key.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
    }
    for key in ("LANGUAGE", "SSH_ASKPASS"):
        kept.pop(key, None)
    quiet = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GIT_DEFAULT_HASH": "sha1"}
    return {**kept, "LC_ALL": "C", **quiet, "GIT_NO_LAZY_FETCH": "1", **more}


def _neutral() -> dict[str, str]:
    """Return the variables under which git does the same for everybody."""
    kept = {key: value for key, value in _environment({}).items() if not key.startswith("GIT_CONFIG")}
    return {**kept, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
