# SPDX-License-Identifier: Apache-2.0
"""The builders that this machine's client of BuildKit knows: by what driver, on which nodes, for which platforms.

Edge: runs Docker's command.
"""

from __future__ import annotations

from derive.buildkit.client import INSTALL, STOPPED, docker_client, held_for
from derive.buildkit.inspected import Address, Builder, Node, read_builder
from derive.errors import DeriveError, HostRefuses, InputErrors, Unavailable
from derive.words import near

__all__ = ["Address", "Builder", "Node", "find_builder", "usable_builder"]

ANSWER_S = 20.0
"""How long a builder may take to say what it is."""

_NOT_STARTED = (126, 127)
"""The status of a program that is no program, or whose interpreter is not there, as a shell has it."""

_CREATE = "docker buildx create --name NAME --driver docker-container"


def find_builder(name: str = "", *, within_s: float = ANSWER_S) -> Builder:
    """Return a builder by name; without one, the current one.

    Raises:
        HostRefuses: when Docker's command, or its plugin buildx, is not on this machine.
        InputErrors: when buildx knows no builder of that name.
        Unavailable: when buildx does not say in time what it knows.
    """
    from python_on_whales.exceptions import DockerException
    from python_on_whales.utils import run

    with held_for(within_s) as pipe:
        command = docker_client(held_by=pipe).client_config.docker_cmd
        try:
            said = run([*command, "buildx", "inspect", *([name] if name else [])])
        except DockerException as error:
            refused = _refusal(name, error.return_code, error.stderr or str(error), within_s)
            raise refused or _unknown(name, _names(command)) from error
    found = read_builder(str(said), is_current=not name)
    if not found.name and not found.nodes:
        lines = str(said).strip().splitlines()[-3:]
        raise HostRefuses("docker's plugin buildx on this machine says nothing of builders", detail=lines, hint=INSTALL)
    return found


def usable_builder(name: str, platform: str) -> Builder:
    """Return a builder that can run steps of a platform now.

    Raises:
        InputErrors, Unavailable: as :func:`find_builder`; Unavailable too when none of its nodes answers.
        HostRefuses: when none of its nodes can run that platform, or take its contexts.
    """
    found = find_builder(name)
    label = f"builder {found.name}"
    if not found.is_running:
        hint = f"docker buildx inspect --bootstrap {found.name} starts it, or says why not"
        raise Unavailable(f"no node of the {label} answers", detail=_nodes(found), hint=hint)
    node = found.node_for(platform)
    if node is None:
        raise HostRefuses(
            f"the {label} has no node for {platform}",
            detail=(f"it has    {', '.join(found.platforms)}",),
            hint=f"add a node of that platform: docker buildx create --name {found.name} --append ENDPOINT",
        )
    if not node.takes_layouts:
        raise HostRefuses(
            f"the {label} takes no contexts by digest: its Docker engine keeps images in its older store",
            hint=f'turn on the containerd image store ("features" in daemon.json), or make a builder: {_CREATE}',
        )
    return found


def _nodes(builder: Builder) -> tuple[str, ...]:
    rows = [f"node      {node.name or '?'} at {node.endpoint or '?'}" for node in builder.nodes if not node.error]
    return (*rows, *(f"said      {node.error}" for node in builder.nodes if node.error))


def _names(command: list[str]) -> list[str]:
    """Return the names of the builders that there are, none where buildx does not say."""
    from python_on_whales.exceptions import DockerException
    from python_on_whales.utils import run

    try:
        said = run([*command, "buildx", "ls", "--format", "{{.Builder.Name}}"])
    except DockerException:
        return []
    return list(dict.fromkeys(str(said).split()))  # one line for the builder, one for each of its nodes


def _unknown(name: str, names: list[str]) -> InputErrors:
    hint = near(name, names) or "docker buildx ls lists those that there are"
    detail = [f"known     {', '.join(names)}"] if names else []
    return InputErrors.one(f"buildx knows no builder {name!r}", detail=detail, hint=hint)


def _refusal(name: str, status: int, said: str, within_s: float) -> DeriveError | None:
    """Return what is raised where buildx does not say what a builder is; None where there is none of that name."""
    label = f"builder {name}" if name else "the current builder"
    if status == STOPPED:
        return Unavailable(f"{label} does not answer within {within_s:g} s")
    lines = tuple(line.removeprefix("ERROR: ") for line in said.strip().splitlines()[-3:])
    if "is not a docker command" in said or "unknown command" in said or "unknown flag" in said:
        return HostRefuses("docker on this machine has no plugin buildx", detail=lines, hint=INSTALL)
    if status in _NOT_STARTED:
        return HostRefuses("docker's plugin buildx on this machine cannot be started", detail=lines, hint=INSTALL)
    if name and "no builder" in said:
        return None
    return Unavailable(f"buildx does not say what {label} is", detail=lines)
