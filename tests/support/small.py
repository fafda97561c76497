# SPDX-License-Identifier: Apache-2.0
"""A small project that derives in a second: a root of busybox, a patched source, a script, an image.

Its packages are made here, and a loopback server serves them, so that a test may break any of it. Edge: the file
system, processes, loopback sockets.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from derive.canonical import Digest
from derive.lock.documents import DebEntry, DebianLock, PythonLock, SourceEntry, SourceFile, WheelEntry, render_lock
from derive.lock.wishes import require_wish, wish_digest
from support.archives import Tar, deb, folder, symlink, tar, wheel
from support.cli import Ran, derive
from support.require import skip_or_fail
from support.servers import FaultServer, Reply

APPLETS = (
    *("cat", "chmod", "cp", "dd", "echo", "env", "false", "find", "head", "ls", "mkdir", "mkfifo", "mknod", "mv"),
    *("nc", "rm", "sed", "sh", "sleep", "sort", "touch", "true", "wget"),
)

WISH = """\
# What the small project is made of.
kind = "debian"
suite = "trixie"

[keyring]
locator = "pool/main/k/keys/keys_1_all.deb"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
size = 1
member = "usr/share/keyrings/keys.pgp"

[closures.tools]
architectures = ["amd64"]
packages = ["busybox"]

[closures.run]
architectures = ["amd64", "arm64"]
packages = ["notes"]

[sources]
packages = ["hello"]
"""

DERIVATIONS = """\
[tools]
builder = "debian-root"
set = "base"
closure = "tools"

[notes]
builder = "debian-root"
set = "base"
closure = "run"

[notes.covered]
"notes.postinst" = "the note that it would write is declared"

[notes.files]
"/usr/share/notes/note" = "written by the declaration\\n"

[hello-source]
builder = "unpack"
kind = "tar"
from = { set = "base", source = "hello" }
strip = 1

[hello-patched]
builder = "patch"
from = "hello-source"
series = "hello"

[hello]
builder = "script"
root = "tools"
inputs = { source = "hello-patched" }
script = "build.sh"
timeout = 60
"""

SCRIPT = """\
mkdir -p "$DERIVE_OUT/usr/share/hello"
{ cat /in/source/greeting; echo "for $DERIVE_HOST"; } > "$DERIVE_OUT/usr/share/hello/greeting"
cp /in/source/run "$DERIVE_OUT/usr/share/hello/run"
echo "hello is built"
"""

PATCH = """\
Description: greet the world

diff --git a/greeting b/greeting
--- a/greeting
+++ b/greeting
@@ -1,4 +1,4 @@
 first
 second
-hello
+hello, world
 last
"""

IMAGE = """\
platforms = ["linux/amd64", "linux/arm64"]
default-platform = "linux/amd64"

[[layers]]
name = "notes"
from = ["notes"]

[[layers]]
name = "hello"
from = ["hello"]

[modes]
"/usr/share/notes" = { mode = "0700" }

[config]
command = ["/usr/share/hello/run"]
"""

CONTENT: Mapping[str, str] = {
    "pyproject.toml": '[tool.derive]\nformat = 1\ndefault-image = "small"\nbuild-platform = "linux/amd64"\n',
    "lock/base.toml": WISH,
    "derivations/small.toml": DERIVATIONS,
    "derivations/small/build.sh": SCRIPT,
    "patches/hello/series": "# licence: Apache-2.0\n0001-greet.patch\n",
    "patches/hello/0001-greet.patch": PATCH,
    "images/small.toml": IMAGE,
}
"""The project's files, but for the lock."""


@dataclass(slots=True)
class Small:
    """The project in a folder, and the mirror that serves its sources below ``/debian``."""

    root: Path
    store: Path
    server: FaultServer
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which derive finds store and mirror, and nothing of this machine's settings."""
        return {
            "DERIVE_MIRROR_DEBIAN": f"{self.server.url}/debian",
            "DERIVE_STORE": str(self.store),
            "XDG_CONFIG_HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home),
        }

    def derive(self, *arguments: str, env: Mapping[str, str] | None = None, before: tuple[str, ...] = ()) -> Ran:
        """Run a command in the project, as another process."""
        return derive(*arguments, env={**self.environment, **(env or {})}, cwd=self.root, before=before, timeout_s=120)

    def here(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ran:
        """Run a command in this process: the same code, without the start of an interpreter."""
        return run_here(*arguments, "--project", str(self.root), env={**self.environment, **(env or {})})

    def write(self, path: str, text: str | bytes) -> None:
        """Write one of the project's files."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode() if isinstance(text, str) else text)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that one of the project's files has."""
        text = (self.root / path).read_text()
        assert old in text, f"{path} has no {old!r}"
        self.write(path, text.replace(old, new, 1))

    def serve(self, file: str, *replies: Reply) -> None:
        """Set how the mirror answers for one of the locked files."""
        self.server.serve(f"/debian/{locator(file)}", *replies)

    def asked(self, file: str) -> int:
        """Say how often the mirror was asked for a file."""
        return self.server.paths().count(f"/debian/{locator(file)}")


@contextmanager
def small_project(place: Path) -> Iterator[Small]:
    """Write the project below a folder, and serve what it locks."""
    with FaultServer() as server:
        small = Small(place / "small", place / "store", server, place / "home")
        small.home.mkdir()
        for path, text in CONTENT.items():
            small.write(path, text)
        small.write("lock/base.lock.json", lock_bytes())
        for file, data in artifacts().items():
            small.serve(file, Reply(body=data))
        yield small


@cache
def artifacts() -> Mapping[str, bytes]:
    """Return what the lock names, by file name."""
    source = tar(
        folder(b"hello-1.0/"),
        Tar(name=b"hello-1.0/greeting", data=b"first\nsecond\nhello\nlast\n"),
        Tar(name=b"hello-1.0/run", data=b"#!/bin/sh\ncat /usr/share/hello/greeting\n", mode=0o755),
    )
    return {
        "busybox_1.0-1_amd64.deb": deb(*_busybox(), package="busybox"),
        "hello_1.0.orig.tar.gz": gzip.compress(source, mtime=0),
        **{f"notes_1.0-1_{arch}.deb": notes_deb(arch) for arch in ("amd64", "arm64")},
    }


def _busybox() -> list[Tar]:
    program = shutil.which("busybox", path="/bin:/usr/bin")
    if program is None or b"\x7fELF" not in Path(program).read_bytes()[:4]:
        skip_or_fail("the small project's root needs the package busybox-static")
    data = Path(program).read_bytes()
    members = [
        folder(b"./"),
        symlink(b"./bin", b"usr/bin"),
        *(folder(name) for name in (b"./etc/", b"./usr/", b"./usr/bin/")),
        Tar(name=b"./usr/bin/busybox", data=data, mode=0o755),
    ]
    return [*members, *(symlink(f"./usr/bin/{name}".encode(), b"busybox") for name in APPLETS)]


def notes_deb(architecture: str) -> bytes:
    """Return the small package, which has a setuid program and a script that installs."""
    members = [
        *(folder(name) for name in (b"./", b"./usr/", b"./usr/share/", b"./usr/share/notes/")),
        Tar(name=b"./usr/share/notes/readme", data=f"notes of {architecture}\n".encode()),
        Tar(name=b"./usr/share/notes/ping", data=b"#!/bin/sh\n", mode=0o4755),
    ]
    script = Tar(name=b"./postinst", data=b"#!/bin/sh\necho note > /usr/share/notes/note\n", mode=0o755)
    return deb(*members, package="notes", architecture=architecture, control=[script])


def locator(file: str) -> str:
    """Return where a file lies in the archive."""
    name = file.partition("_")[0]
    return f"pool/main/{name[0]}/{name}/{file}"


def deb_entry(file: str) -> DebEntry:
    """Return the lock entry of one of the packages."""
    name, version, rest = file.removesuffix(".deb").split("_")
    data = artifacts()[file]
    return DebEntry(
        name=name,
        version=version,
        architecture=rest,
        file=file,
        locator=locator(file),
        suite="trixie",
        size=len(data),
        sha256=Digest(hashlib.sha256(data).hexdigest()),
        licence="Apache-2.0",
    )


def base_lock() -> DebianLock:
    """Return the project's lock."""
    file = "hello_1.0.orig.tar.gz"
    data = artifacts()[file]
    part = SourceFile(file=file, locator=locator(file), size=len(data), sha256=Digest(hashlib.sha256(data).hexdigest()))
    source = SourceEntry(name="hello", version="1.0-1", suite="trixie", files=(part,), licence="Apache-2.0")
    debs = tuple(deb_entry(name) for name in sorted(artifacts()) if name.endswith(".deb"))
    return DebianLock(
        set="base",
        wish=wish_digest(require_wish(WISH.encode(), "lock/base.toml")),
        debs=debs,
        sources=(source,),
        closures={
            "tools": {"amd64": ("busybox_1.0-1_amd64.deb",)},
            "run": {arch: (f"notes_1.0-1_{arch}.deb",) for arch in ("amd64", "arm64")},
        },
    )


@cache
def lock_bytes() -> bytes:
    """Return the lock file."""
    return render_lock(base_lock())


WHEELS_WISH = """\
kind = "python"
pythons = ["3.13"]
architectures = ["amd64"]
glibc = "2.41"
exclude-newer = "2026-11-20T00:00:00Z"
requirements = ["demo"]
"""


def add_wheels(small: Small, file: str = "demo-1.0-py3-none-any.whl") -> None:
    """Add a set of one wheel to the project, and a part of the image that is made of it."""
    data = wheel()
    digest = Digest(hashlib.sha256(data).hexdigest())
    entry = WheelEntry(name="demo", version="1.0", file=file, size=len(data), sha256=digest, licence="MIT")
    wish = wish_digest(require_wish(WHEELS_WISH.encode(), "lock/wheels.toml"))
    lock = PythonLock(set="wheels", wish=wish, wheels=(entry,), targets={"cp313-amd64": (file,)})
    small.write("lock/wheels.toml", WHEELS_WISH)
    small.write("lock/wheels.lock.json", render_lock(lock))
    table = '[programs]\nbuilder = "wheels"\nset = "wheels"\npython = "3.13"\nroot = "tools"\n'
    small.write("derivations/other.toml", table)
    small.edit("images/small.toml", 'from = ["hello"]', 'from = ["hello", "programs"]')


def run_here(*arguments: str, env: Mapping[str, str] | None = None) -> Ran:
    """Run a command line in this process, and return its exit code and both streams."""
    from derive.cli.main import main

    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)
        for errors in ("strict", "backslashreplace")  # as the interpreter opens them
    )
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    before = dict(os.environ)
    os.environ.update(env or {})
    try:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main(arguments)
            except SystemExit as ended:  # how argparse ends
                code = ended.code if isinstance(ended.code, int) else 1
    finally:
        os.environ.clear()
        os.environ.update(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Ran(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))
