# SPDX-License-Identifier: Apache-2.0
"""What an operator has to agree to, each thing by an option of its own: that something running ends, or is changed.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from derive.deploy.model import Container, Served, Target
from derive.errors import Problem
from derive.render.plan import LAUNCH_BUNDLE_LABEL

ASIDE = "-before-derive"
"""What ends the name of a container that a deploy moved aside: it waits to be put back, and is not to run meanwhile."""


class Consent(Enum):
    """A consent, by the option that gives it."""

    REPLACE = "--replace"
    CHANGE_SHAPE = "--change-shape"
    UNQUALIFIED = "--unqualified-shape"
    EXPERIMENT = "--experiment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A container that stands in the way and is no launch that its node remembers; ``why`` says how it is in the way.

    ``labelled`` says whether a deploy started it all the same.
    """

    container: Container
    why: str
    labelled: bool = False


InTheWay: TypeAlias = "Served | Foreign"
Running: TypeAlias = tuple[InTheWay, ...]
"""What is at a node where a service is to run, the service's own first; empty where nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeFacts:
    """What makes an engine's shape: nodes, ranks of tensor parallelism, tokens of context, memory for the KV cache.

    Text as the engine's arguments say it; None where they do not, and nobody knows.
    """

    nodes: str | None = None
    tensor_parallel: str | None = None
    context: str | None = None
    kv: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualified:
    """What the records say of a shape: whether it is promoted, and the reasons of what was let pass for it."""

    promoted: bool
    waived: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """A consent that is needed, and why: one line for each reason."""

    consent: Consent
    because: tuple[str, ...]

    def problem(self) -> Problem:
        """Return it as what stands against a deploy while it is not given."""
        hint = f"where that is meant: {self.consent.value}"
        return Problem(where=self.consent.value, message=f"not agreed to: {'; '.join(self.because)}", hint=hint)


_OPTIONS: Mapping[str, str] = {
    "--tensor-parallel-size": "tensor_parallel",
    "-tp": "tensor_parallel",
    "--max-model-len": "context",
    "--kv-cache-memory-bytes": "kv",
    "--nnodes": "nodes",
}
_WORDS = {"nodes": "nodes", "tensor_parallel": "tensor parallelism", "context": "context", "kv": "KV cache"}


def shape_facts(arguments: Sequence[str], nodes: int | None = None) -> ShapeFacts:
    """Return what an engine's arguments say of its shape; ``nodes`` is how many run it, where they do not say."""
    found: dict[str, str] = {} if nodes is None else {"nodes": str(nodes)}
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        key = _OPTIONS.get(name.replace("_", "-"))
        if key is not None:
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            found[key] = value if equals else following
    return ShapeFacts(**found)


def shape_of(target: Target) -> ShapeFacts:
    """Return the shape that is to run."""
    launches = target.bundle.launches
    return shape_facts(launches[0].arguments, len(launches))


def shape_running(
    target: Target, found: Mapping[str, Running], containers: Mapping[str, Sequence[Container]]
) -> ShapeFacts | None:
    """Return the shape of what is in the way, whoever started it; None where nothing is. ``found`` as of `running`.

    A rank of ours may have ended: how many nodes it is for is then known by its arguments alone.
    """
    ended: list[tuple[Container, bool]] = []
    for node, ones in found.items():
        # What was moved aside is no service that anybody means to run.
        for one in [one for one in ones if isinstance(one, Served) or not is_aside(one.container.name)][:1]:
            if isinstance(one, Foreign):
                ended.append((one.container, one.labelled))
            else:
                ended += [(seen, True) for seen in containers.get(node, ()) if seen.name == target.service]
    if not ended:
        return None
    first, is_ours = ended[0]
    return shape_facts((*first.entrypoint, *first.arguments), None if is_ours else len(ended))


def running(
    target: Target, containers: Mapping[str, Sequence[Container]], known: Mapping[str, Collection[Served]]
) -> dict[str, Running]:
    """Say for each node of the target what is there that a deploy ends, or moves aside.

    ``known`` are the launches that each node remembers. A container of ours that has ended is in nobody's way.
    """
    found = {}
    for launch in target.bundle.launches:
        name = launch.node
        ones = _in_the_way(target, containers.get(name, ()), known.get(name, ()))
        found[name] = tuple(
            sorted(ones, key=lambda one: isinstance(one, Foreign) and one.container.name != launch.name)
        )
    return found


def needed(
    target: Target,
    found: Mapping[str, Running],
    shape: ShapeFacts | None,
    qualified: Qualified,
    *,
    experiment: bool = False,
) -> tuple[Needed, ...]:
    """Return every consent that a deploy needs.

    ``found`` is what is in the way, by node; ``shape`` the one that runs, None where nothing runs; ``experiment``
    whether what only production asks is passed over.
    """
    reasons = {
        Consent.REPLACE: tuple(_replaced(found)),
        Consent.CHANGE_SHAPE: () if shape is None else tuple(_changed(shape, shape_of(target))),
        Consent.UNQUALIFIED: tuple(_unqualified(target, qualified, experiment=experiment)),
    }
    return tuple(Needed(consent=one, because=because) for one, because in reasons.items() if because)


def is_aside(name: str) -> bool:
    """Say whether a container of this name was moved aside by a deploy."""
    return name.endswith(ASIDE)


NEVER = "no"
"""The restart policy of a container that nobody but a person starts again."""


def is_up(container: Container) -> bool:
    """Say whether a container has processes."""
    return container.state in _UP


def has_port(container: Container, port: int) -> bool:
    """Say whether a port of the machine may be a container's: it has the machine's network, or was given the port."""
    return container.host.get("NetworkMode") == "host" or str(port) in _published(container)


def restart_policy(container: Container) -> str:
    """Return whether a container's engine starts it again: ``always``, ``unless-stopped``, ``on-failure:3``, ``no``."""
    found = container.host.get("RestartPolicy")
    if not isinstance(found, Mapping):
        return NEVER
    count = found.get("MaximumRetryCount")
    return f"{found.get('Name') or NEVER}{f':{count}' if count else ''}"


def missing(wanted: Iterable[Needed], given: Collection[Consent]) -> tuple[Needed, ...]:
    """Return what is needed and was not given."""
    return tuple(one for one in wanted if one.consent not in given)


def _in_the_way(target: Target, seen: Sequence[Container], known: Collection[Served]) -> Iterator[InTheWay]:
    by_launch = {str(one.launch_bundle): one for one in known}
    for one in seen:
        launch = one.labels.get(LAUNCH_BUNDLE_LABEL)
        if one.name == target.service:
            if launch is None:
                yield Foreign(container=one, why=f"has the name {one.name}")
            elif is_up(one):
                served = by_launch.get(launch)
                why = f"runs {launch.rpartition(':')[2][:12]}, which its node does not remember"
                yield served or Foreign(container=one, why=why, labelled=True)
        elif is_up(one) and is_aside(one.name):
            yield Foreign(container=one, why=_AGAIN)
        elif is_up(one) and (clash := _clash(target, one)) is not None:
            yield Foreign(container=one, why=clash, labelled=launch is not None)


_UP = frozenset({"running", "paused", "restarting"})
_AGAIN = "was moved aside, and runs again without a guard"


def _clash(target: Target, one: Container) -> str | None:
    """Say what a container of another name has that the launch wants alone: its port, the GPUs, its control group."""
    launch = target.bundle.launches[0]
    words, port = (*one.entrypoint, *one.arguments), str(launch.port)
    said = f"--port={port}" in words or any(
        word in ("--port", "-p") and words[index : index + 1] == (port,) for index, word in enumerate(words, start=1)
    )
    if said or port in _published(one):
        return f"has the port {port}"
    if launch.container.gpus is not None and one.host.get("DeviceRequests"):
        return "has the GPUs"
    if one.host.get("CgroupParent") == launch.slice:
        return f"runs in {launch.slice}, at which the service's guard looks"
    return None


def _published(one: Container) -> Iterator[str]:
    """Yield the ports of the machine that a container was given."""
    bindings = one.host.get("PortBindings")
    for entries in bindings.values() if isinstance(bindings, Mapping) else ():
        for entry in entries if isinstance(entries, list | tuple) else ():
            if isinstance(entry, Mapping):
                yield str(entry.get("HostPort"))


def _replaced(found: Mapping[str, Running]) -> Iterator[str]:
    """Yield what ends, each thing once with its nodes."""
    by_text: dict[str, list[str]] = {}
    for node, ones in found.items():
        for one in ones:
            by_text.setdefault(running_text(one), []).append(node)
    for text, nodes in by_text.items():
        yield f"{text} on {', '.join(nodes)}"


def running_text(one: InTheWay) -> str:
    """Name what is in the way: a release with its shape, or a container with what it has."""
    match one:
        case Served():
            return f"{one.release} ({one.shape}) runs"
        case Foreign():
            whose = "" if one.labelled else ", which no deploy started,"
            return f"the container {one.container.name}{whose} {one.why}"


def _changed(before: ShapeFacts, after: ShapeFacts) -> Iterator[str]:
    if before.nodes not in (None, after.nodes):
        yield f"nodes: {before.nodes} run, {after.nodes} are to"
    for key in ("tensor_parallel", "context", "kv"):
        was, becomes = getattr(before, key), getattr(after, key)
        if was != becomes:
            yield f"{_WORDS[key]}: {was or 'not said'} now, then {becomes or 'not said'}"


def _unqualified(target: Target, qualified: Qualified, *, experiment: bool) -> Iterator[str]:
    served = target.served
    if not qualified.promoted and experiment:
        yield f"{served.shape} of {served.release} is not promoted"
    for reason in qualified.waived:
        yield (
            f"{served.shape} of {served.release} is promoted with a waiver: {reason}"
            if qualified.promoted
            else (f"{served.shape} of {served.release} has a waiver: {reason}")
        )
