# SPDX-License-Identifier: Apache-2.0
"""An engine's pull of an image by digest: begun, followed line by line, and stopped when nobody wants it any more.

Edge: the engine's socket. Everything here blocks: callers use a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from derive.deploy.engines import refusals
from derive.errors import Unavailable

if TYPE_CHECKING:
    import docker

    from derive.canonical import Digest


class PullFailed(Unavailable):
    """An engine could not pull an image; the message is what it said."""


@dataclass(slots=True)
class Heard:
    """What an engine has said of its pulls: how many lines, and whether anybody still listens."""

    lines: int = 0
    _stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Have every pull end at the next thing that its engine says."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether nobody listens any more."""
        return self._stopped.is_set()


def pull(
    client: docker.DockerClient, repository: str, platform: str, heard: Heard, digest: Digest, *, ours: bool
) -> None:
    """Pull an image by its digest, unless somebody stops it.

    ``ours`` says that the registry is this process's own, which asks for no login; another one is given the login that
    the operator's Docker has for it.

    Raises:
        PullFailed: with the engine's words.
    """
    try:
        lines: Iterator[Mapping[str, Any]] = client.api.pull(
            repository,
            tag=str(digest),
            stream=True,
            decode=True,
            platform=platform,
            auth_config={} if ours else None,
        )
        for line in lines:
            heard.lines += 1
            if "error" in line:
                raise PullFailed(str(line["error"]))
            if heard.is_stopped:
                return
    except refusals() as error:
        raise PullFailed(str(getattr(error, "explanation", None) or error)) from error


def remove_parts(client: docker.DockerClient, label: str) -> int:
    """Remove the images that have a label, whose layers others hold too; returns how many went.

    Raises:
        PullFailed: with the engine's words.
    """
    from docker.errors import NotFound

    count = 0
    try:
        for one in client.api.images(filters={"label": label}):
            with suppress(NotFound):
                client.api.remove_image(one["Id"], force=True)
                count += 1
    except refusals() as error:
        raise PullFailed(str(getattr(error, "explanation", None) or error)) from error
    return count
