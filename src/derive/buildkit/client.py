# SPDX-License-Identifier: Apache-2.0
"""One build by a client of BuildKit: what it tells as it comes, and a way to end it at any moment.

Edge: starts processes, a named pipe. Decides nothing about what is built.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from derive.buildkit.inspected import Address
from derive.buildkit.plugin import buildx_command
from derive.errors import HostRefuses

if TYPE_CHECKING:
    from python_on_whales import DockerClient

_HELD = Path(__file__).with_name("held.py")
STOPPED = 130
"""The status of a client that was ended; held.py gives it."""

_POLL_S = 0.02
_END_S = 5.0
"""How long an end is waited for; longer than held.py gives its client."""

INSTALL = (
    "sudo apt-get install docker-cli docker-buildx, or Docker's own packages docker-ce-cli and docker-buildx-plugin"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What is built, and where to.

    ``contexts`` are what :meth:`derive.buildkit.contexts.Contexts.place` gives, by name; ``folder`` is a new one for
    the Dockerfile; the result is written to ``result`` as an OCI layout, in the way that ``output`` says. ``progress``
    is how the client tells of it; ``uses_cache``: what the worker ran once is not run again.
    """

    address: Address
    dockerfile: str
    contexts: Mapping[str, str]
    platform: str
    build_arguments: Mapping[str, str]
    folder: Path
    output: Mapping[str, str]
    result: Path
    progress: str = "rawjson"
    uses_cache: bool = False


@dataclass(slots=True)
class Build:
    """A build that is run once by :meth:`lines`; :meth:`end` may be called from any thread, at any time."""

    request: BuildRequest
    status: int | None = None
    _lifeline: int | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _ended: bool = False

    def lines(self) -> Generator[str, None, None]:
        """Run the client, and yield what it tells, line by line; then ``status`` is 0 where it ended well.

        The client has ended when this has, or is closed: nothing is written to ``result`` any more.

        Raises:
            HostRefuses: when there is no client on this machine.
        """
        from python_on_whales.exceptions import DockerException

        asked = self.request
        asked.folder.mkdir()
        (asked.folder / "Dockerfile").write_text(asked.dockerfile)
        pipe = asked.folder.with_name(f"{asked.folder.name}.lifeline")
        os.mkfifo(pipe, 0o600)
        with self._guard:
            if self._ended:
                return
            self._lifeline = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)
        try:
            told = docker_client(held_by=pipe, context=asked.address.context).buildx.build(
                asked.folder,
                builder=asked.address.builder,
                build_args=dict(asked.build_arguments),
                build_contexts=dict(asked.contexts),
                cache=asked.uses_cache,
                output={**asked.output, "tar": "false", "dest": str(asked.result)},
                platforms=[asked.platform],
                progress=asked.progress,  # type: ignore[arg-type]  # passed on as it is; buildx has rawjson from 0.13 on
                provenance=False,
                stream_logs=True,
            )
            yield from cast("Iterator[str]", told)
            self.status = 0
        except DockerException as error:
            self.status = error.return_code
        finally:
            self.end()
            _await_end(pipe)

    def end(self) -> None:
        """End the client, and so what the worker does for it; nothing happens where it has ended."""
        with self._guard:
            self._ended = True
            if self._lifeline is not None:
                with contextlib.suppress(OSError):
                    os.close(self._lifeline)
                self._lifeline = None


def _await_end(pipe: Path) -> None:
    """Wait until nobody reads from a pipe whose end was told: held.py does so for as long as its client runs."""
    deadline = time.monotonic() + _END_S
    while time.monotonic() < deadline:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return
        time.sleep(_POLL_S)


@contextlib.contextmanager
def held_for(seconds: float) -> Iterator[Path]:
    """Lend a pipe to hold clients by, that ends them after so many seconds."""
    with tempfile.TemporaryDirectory(prefix="derive-buildx-") as folder:
        pipe = Path(folder) / "lifeline"
        os.mkfifo(pipe, 0o600)
        lifeline = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)
        over = threading.Event()

        def end() -> None:
            over.wait(seconds)
            os.close(lifeline)

        ending = threading.Thread(target=end, name="buildx-time", daemon=True)
        ending.start()
        try:
            yield pipe
        finally:
            over.set()
            ending.join()


def docker_client(*, held_by: Path, context: str | None = None) -> DockerClient:
    """Return the client of the machine's own settings; ``held_by`` is the pipe whose end is the client's.

    It has the commands of buildx alone.

    Raises:
        HostRefuses: when Docker's command, or its plugin buildx, is not on this machine.
    """
    import shutil

    from python_on_whales import DockerClient

    if shutil.which("docker") is None:
        raise HostRefuses("there is no docker on this machine's PATH, which speaks to BuildKit", hint=INSTALL)
    variable, program = buildx_command()
    held = [sys.executable, "-I", "-S", str(_HELD), str(held_by), variable, program]
    return DockerClient(client_call=held, client_type="docker", context=context)
