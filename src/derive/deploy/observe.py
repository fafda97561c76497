# SPDX-License-Identifier: Apache-2.0
"""Whether a container is what its launch says: arguments, environment, mounts, image, limits, labels; nothing besides.

Core: no IO. Standard library only.

What an image sets is expected beside what the launch says. Labels that the launch does not name are no difference:
they change nothing that runs, and images have some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Json
from derive.deploy.model import Container, Mounted
from derive.deploy.observe_limits import limit_differences
from derive.deploy.observe_words import HIDDEN, is_secret_name, word_differences
from derive.render.launch import BindMount, Launch
from derive.words import one_line


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Difference:
    """One thing in which a container is not as its launch says.

    ``field`` is a path such as ``environment.NCCL_ALGO``; ``expected`` and ``got`` text, None where there is nothing.
    """

    field: str
    expected: str | None
    got: str | None

    def document(self) -> dict[str, Json]:
        """Return it as it stands in a record."""
        return {"field": self.field, "expected": self.expected, "got": self.got}

    def line(self) -> str:
        """Return it in one line for people."""
        expected, got = ("nothing" if one is None else one_line(one) or "''" for one in (self.expected, self.got))
        return f"{self.field}: expected {expected}, got {got}"


def drift(
    launch: Launch,
    container: Container | None,
    known_image_ids: Collection[str],
    *,
    unheld: Collection[str] = (),
) -> tuple[Difference, ...]:
    """Return every difference, sorted by field.

    ``known_image_ids`` are the digests of the launch's image, of which an engine knows one or more: its manifest's and
    its config's. ``unheld`` are settings that the node's engine cannot hold, by their names in ``HostConfig``, as
    :attr:`derive.deploy.machine.EngineSeen.unheld` says. No container at all is one difference, of the field ``state``.
    """
    if container is None:
        return (Difference(field="state", expected="running", got=None),)
    found = [
        *_plain(launch, container),
        *_image(launch, container, known_image_ids),
        *(_made(*one) for one in word_differences(launch, container)),
        *_environment(launch, container),
        *_mounts(launch, container),
        *_labels(launch, container),
        *(_made(*one) for one in limit_differences(launch, container.host, unheld)),
    ]
    return tuple(sorted(found, key=lambda one: (one.field, one.expected or "", one.got or "")))


def _made(field: str, expected: str | None, got: str | None) -> Difference:
    return Difference(field=field, expected=expected, got=got)


def _plain(launch: Launch, container: Container) -> Iterator[Difference]:
    if container.state != "running":
        yield _made("state", "running", container.state)
    if container.name != launch.name:
        yield _made("name", launch.name, container.name)


def _image(launch: Launch, container: Container, known: Collection[str]) -> Iterator[Difference]:
    if not {launch.image, *known}.intersection(container.image_ids):
        yield _made("image", launch.image, ", ".join(container.image_ids) or container.image or None)


def _environment(launch: Launch, container: Container) -> Iterator[Difference]:
    wanted = {**dict(container.image_environment), **launch.environment}
    got = dict(container.environment)
    for name in sorted(wanted.keys() | got.keys()):
        expected, seen = wanted.get(name), got.get(name)
        if expected == seen:
            continue
        is_secret = seen is not None and name not in launch.environment and is_secret_name(name)
        yield _made(f"environment.{name}", expected, HIDDEN if is_secret else seen)


def _mounts(launch: Launch, container: Container) -> Iterator[Difference]:
    wanted = {one.target: _bind_text(one) for one in launch.mounts}
    got = {one.target: _mounted_text(one) for one in container.mounts}
    yield from _by_name("mounts", wanted, got)


def _bind_text(mount: BindMount) -> str:
    return f"bind {mount.source} {'read-only' if mount.read_only else 'read-write'}"


def _mounted_text(mount: Mounted) -> str:
    return f"{mount.type} {mount.source} {'read-only' if mount.read_only else 'read-write'}"


def _labels(launch: Launch, container: Container) -> Iterator[Difference]:
    seen = {name: container.labels[name] for name in launch.labels if name in container.labels}
    yield from _by_name("labels", launch.labels, seen)


def _by_name(field: str, wanted: Mapping[str, str], got: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted(wanted.keys() | got.keys()):
        if wanted.get(name) != got.get(name):
            yield _made(f"{field}.{name}", wanted.get(name), got.get(name))
