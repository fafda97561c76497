# SPDX-License-Identifier: Apache-2.0
"""Real git repositories on loopback: written by git itself, served by its own HTTP backend and by sshd.

Edge: git, sshd, loopback sockets, threads, the file system.
"""

from __future__ import annotations

import base64
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from derive.trees.listing import Symlink
from support.folders import Plain
from support.require import skip_or_fail

NEUTRAL = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    "LC_ALL": "C",
}
"""Variables under which git does the same for everybody."""


@dataclass(frozen=True, slots=True)
class Link:
    """A submodule in a tree: the commit it stands at."""

    commit: str


Files: TypeAlias = Mapping[bytes, "Plain | Symlink | Link"]


def git(folder: Path, *arguments: str, given: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run git in a folder with neutral settings; return what it printed."""
    if shutil.which("git") is None:
        skip_or_fail("git is not installed")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**kept, **NEUTRAL, **(env or {})},
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace')}"
    return done.stdout.decode("utf-8", "surrogateescape").strip()


class Upstream:
    """A bare repository that a test fills."""

    def __init__(self, path: Path, *, object_format: str = "sha1") -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main", f"--object-format={object_format}")

    def git(self, *arguments: str, given: bytes | None = None) -> str:
        """Run git here."""
        return git(self.path, *arguments, given=given)

    def commit(
        self, files: Files, *, branch: str = "main", parent: str | None = None, message: str = "a commit\n"
    ) -> str:
        """Write a commit that holds exactly these files, put a branch at it, and return its id."""
        ref = f"refs/heads/{branch}"
        lines = [f"commit {ref}\ncommitter C <c@example.org> 1700000000 +0000\n".encode(), _data(message.encode())]
        if parent is not None:
            lines.append(f"from {parent}\n".encode())
        lines.append(b"deleteall\n")
        for path, entry in files.items():
            name = _quoted(path)
            match entry:
                case Plain(data, executable):
                    lines += [b"M %s inline %s\n" % (b"100755" if executable else b"100644", name), _data(data)]
                case Symlink(target):
                    lines += [b"M 120000 inline %s\n" % name, _data(target)]
                case Link(commit):
                    lines.append(b"M 160000 %s %s\n" % (commit.encode(), name))
        self.git("fast-import", "--quiet", "--force", given=b"".join(lines))
        return self.id(ref)

    def raw(self, kind: str, data: bytes) -> str:
        """Write an object that git would not write by itself, and return its id."""
        return self.git("hash-object", "-w", "-t", kind, "--literally", "--stdin", given=data)

    def commit_raw_tree(self, tree: str, *, branch: str = "main") -> str:
        """Write a commit of a tree that is there, and put a branch at it."""
        commit = self.git("commit-tree", tree, "-m", "a commit")
        self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def tag(self, name: str, target: str, *, annotated: bool = True) -> str:
        """Name an object; return the id that the tag's ref has."""
        self.git("tag", "--force", *(("-a", "-m", f"tag {name}") if annotated else ()), name, target)
        return self.id(f"refs/tags/{name}")

    def id(self, name: str) -> str:
        """Return what a name means."""
        return self.git("rev-parse", name)

    def set(self, key: str, value: str) -> None:
        """Set one of the repository's own settings."""
        self.git("config", key, value)

    def checkout(self, commit: str, target: Path) -> Path:
        """Lay a commit out as git does where no attribute counts, without ``.git``; submodules are empty folders."""
        target.mkdir(parents=True)
        (self.path / "info").mkdir(exist_ok=True)
        (self.path / "info" / "attributes").write_text("* -text !eol -ident !filter !working-tree-encoding\n")
        env = {"GIT_WORK_TREE": str(target), "GIT_DIR": str(self.path), "GIT_INDEX_FILE": f"{target}.index"}
        for words in (("read-tree", commit), ("checkout-index", "--all", "--force")):
            git(target, "-c", "core.bare=false", *words, env=env)
        return target


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(path: bytes) -> bytes:
    plain = all(0x20 < byte < 0x7F and byte not in b'"\\' for byte in path)
    return path if plain else b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'


Fault: TypeAlias = Literal["hang", "cut", "busy", "gone", "garbage"]
"""``hang``: never answer; ``cut``: close in the middle; ``busy``: 503; ``gone``: 404; ``garbage``: damage the bytes."""


@dataclass(slots=True)
class _Told:
    """How a server behaves now; a test changes it while it runs."""

    faults: list[Fault] = field(default_factory=list)
    old_protocol: bool = False
    plain_files: bool = False
    password: str | None = None
    asked: list[str] = field(default_factory=list)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients are killed here."""


class GitHttp:
    """Serves every bare repository below a folder, with ``git http-backend`` or as plain files.

    ``told.faults``: what happens to the next answers that carry a pack, one after the other.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.told = _Told()
        self._stopping = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer waits for the other side's delayed acknowledgement

            def do_GET(self) -> None:
                outer._handle(self)

            def do_POST(self) -> None:
                outer._handle(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
                del format, args

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base(self) -> str:
        """The server's root, without a closing slash."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def url(self, name: str, user: str | None = None) -> str:
        """Return a repository's URL, with credentials where a user is named."""
        host = self.base.removeprefix("http://")
        return f"http://{f'{user}@' if user else ''}{host}/{name}"

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length", "0"))
        body = handler.rfile.read(length)
        self.told.asked.append(handler.path)
        if not self._allowed(handler):
            _send(handler, 401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
            return
        fault = self.told.faults.pop(0) if self.told.faults and b"want " in body else None
        if fault == "hang":
            self._stopping.wait(60)
            handler.close_connection = True
            return
        if fault in ("busy", "gone"):
            _send(handler, 503 if fault == "busy" else 404, {}, b"")
            return
        status, headers, data = self._plain(handler) if self.told.plain_files else self._backend(handler, body)
        if fault == "garbage":
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
        _send(handler, status, headers, data, cut=fault == "cut")

    def _allowed(self, handler: BaseHTTPRequestHandler) -> bool:
        if self.told.password is None:
            return True
        given = handler.headers.get("authorization", "").removeprefix("Basic ")
        return base64.b64decode(given).decode().rpartition(":")[2] == self.told.password

    def _plain(self, handler: BaseHTTPRequestHandler) -> tuple[int, Mapping[str, str], bytes]:
        path = self.root / handler.path.partition("?")[0].lstrip("/")
        return (200, {}, path.read_bytes()) if path.is_file() else (404, {}, b"")

    def _backend(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        path, _, query = handler.path.partition("?")
        protocol = "" if self.told.old_protocol else handler.headers.get("git-protocol", "")
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "http-backend"],
            env={
                "PATH": os.environ["PATH"],
                **NEUTRAL,
                "GIT_PROJECT_ROOT": str(self.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": handler.command,
                "CONTENT_TYPE": handler.headers.get("content-type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": handler.headers.get("content-encoding", ""),
                "GIT_PROTOCOL": protocol,
            },
            input=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(headers.pop("Status", "200").split()[0]), headers, data


def _send(
    handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], data: bytes, *, cut: bool = False
) -> None:
    handler.send_response(status)
    for key, value in headers.items():
        handler.send_header(key, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    try:
        handler.wfile.write(data[: len(data) // 2] if cut else data)
    except (BrokenPipeError, ConnectionResetError):
        handler.close_connection = True
    handler.close_connection = handler.close_connection or cut


@dataclass(frozen=True, slots=True)
class GitSsh:
    """A running sshd: its port, and the ssh command that gets in by key."""

    port: int
    command: str
    folder: Path
    pid: int

    def url(self, path: Path) -> str:
        """Return the URL of a repository of this machine, through that sshd."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{path}"


@contextmanager
def git_ssh(folder: Path, *, new_protocol: bool = True, environment: str = "") -> Iterator[GitSsh]:
    """Run sshd on a port of its own, with a host key and a user key of its own; ``environment`` as in its SetEnv."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None:
        skip_or_fail("sshd is not installed (Debian package openssh-server)")
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    shutil.copy(folder / "user.pub", folder / "authorised")
    port = _free_port()
    lines = [
        *(f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}", "PidFile none", "UsePAM no"),
        *(f"AuthorizedKeysFile {folder / 'authorised'}", "StrictModes no", "PermitRootLogin yes", "LogLevel ERROR"),
        *("PasswordAuthentication no", *(("AcceptEnv GIT_PROTOCOL",) if new_protocol else ())),
        *((f"SetEnv {environment}",) if environment else ()),
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    public = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text(f"[127.0.0.1]:{port} {public}\n")
    client = f"ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o UserKnownHostsFile={folder / 'known'}"
    log = (folder / "sshd.log").open("wb")
    running = subprocess.Popen(
        [sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log, stdin=subprocess.DEVNULL
    )
    try:
        _wait_for(port, running)
        yield GitSsh(port, f"{client} -i {folder / 'user'}", folder, running.pid)
    finally:
        running.terminate()
        running.wait()
        log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, running: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if running.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    skip_or_fail("sshd does not start here")


def module_file(modules: Mapping[str, str]) -> Plain:
    """Write a ``.gitmodules``: path -> URL."""
    text = "".join(f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n' for path, url in modules.items())
    return Plain(text.encode())
