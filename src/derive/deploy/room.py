# SPDX-License-Identifier: Apache-2.0
"""Makes room for a service, and gives it back: containers that no deploy started are stopped and stand aside.

Edge: the nodes and their engines.

A container's guard of the deployment that this one follows is a unit ``NAME-memguard.service``, often a transient one,
which is gone once it has stopped: what it says is written down on the node before, and brought back from there. What is
brought back is gone once it has ended, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from derive.deploy import arming, engines
from derive.deploy.consents import NEVER, restart_policy
from derive.deploy.effects import put_file, read_files, renew_lease, run_fenced, unit_states
from derive.deploy.former import Standing
from derive.deploy.model import Stood
from derive.deploy.node_errors import EffectFailed
from derive.render.plan import LAUNCH_BUNDLE_LABEL

if TYPE_CHECKING:
    from derive.deploy.lease import Fence
    from derive.deploy.model import Container
    from derive.deploy.remote import Node
    from derive.deploy.work import Work

STOP_S = 60
"""How long a container that no deploy started has to end by itself."""
_RUN_UNITS = "/run/systemd/system"
_ACTIVE = ("active", "activating", "reloading")
_RESTARTS = re.compile(rb"^\s*Restart\s*=\s*(?!no\s*$)\S", re.MULTILINE)


async def put_aside(work: Work, node: Node, one: Standing) -> str:
    """Stop what stands in the way, guard first, and keep it under another name; returns what was done, in words.

    A service of a deploy's own is stopped, and keeps its name.
    """
    if one.kind is Stood.SERVICE:
        await arming.stop(node, one.name, fence=work.held.fence, seconds=STOP_S)
        return f"{one.name} stopped"
    guard = "" if one.guard is None else await stop_guard(node, work.held.fence, one.guard, _noted(work, one))
    await renew_lease(node, work.held.fence)  # an engine asks for no lease
    found = {seen.name: seen for seen in await node.ask(engines.containers, [one.name, one.aside])}
    if one.aside in found and (one.name not in found or LAUNCH_BUNDLE_LABEL in found[one.name].labels):
        # A deploy that was cut off put it there; what has its name since then is that deploy's own.
        await _end(node, found[one.aside])
        return f"{guard}{one.name} is kept as {one.aside}"
    if one.name in found:
        await _end(node, found[one.name])
    if one.was_aside:
        return f"{guard}{one.name} stopped"
    await node.ask(engines.rename, one.name, one.aside)
    return f"{guard}{one.name} stopped, and kept as {one.aside}"


async def _end(node: Node, container: Container) -> None:
    """Stop a container, for as long as nobody starts it: its engine would, when the machine is up again."""
    if restart_policy(container) != NEVER:
        await node.ask(engines.set_restart, container.name, NEVER)
    await node.ask(engines.stop, container.name, STOP_S)


async def put_back(work: Work, node: Node, one: Standing) -> str:
    """Undo :func:`put_aside`, however far that came; what did not run before, or was not to, is not started."""
    if one.kind is Stood.SERVICE:
        return await _start_service(work, node, one.name) if one.running else ""
    if one.was_aside:
        return f"{one.name} stays stopped"
    await renew_lease(node, work.held.fence)
    found = {seen.name: seen for seen in await node.ask(engines.containers, [one.name, one.aside])}
    if one.aside in found and one.name not in found:
        await node.ask(engines.rename, one.aside, one.name)
        found[one.name] = found[one.aside]
    if one.name in found and one.restart not in (None, restart_policy(found[one.name])):
        await node.ask(engines.set_restart, one.name, one.restart)
    if not one.running:
        return f"{one.name} has its name again"
    guard = await _start_guard(work, node, one)
    await node.ask(engines.start, one.name)
    return f"{guard}{one.name} runs again"


async def _start_service(work: Work, node: Node, name: str) -> str:
    if not await _has_systemd(node):
        message = f"{name} was stopped to make room, and is not started by itself"
        raise EffectFailed(
            message, node=node.name, effect="start", hint=f"which release that was: derive status {name}"
        )
    await _systemctl(node, work.held.fence, "start", f"derive-{name}.service")
    return f"{name} runs again"


def _noted(work: Work, one: Standing) -> str:
    """Return where a guard's unit is written down, below the site's folder."""
    return f"{work.service}/before/{one.guard}"


async def stop_guard(node: Node, fence: Fence, guard: str, note: str | None = None) -> str:
    """Stop a container's guard, and refuse to go on while it is active: it would kill what comes next.

    What its unit says is written to the path ``note`` first, where that is given. Returns what was done, in words.
    """
    if not await _has_systemd(node):
        return ""
    seen = (await unit_states(node, [guard]))[guard]
    if seen.load == "not-found" or seen.active not in _ACTIVE:
        return ""
    text = await _systemctl(node, fence, "cat", guard)
    if note is not None:
        await put_file(node, fence, note, text)
    await _systemctl(node, fence, "stop", guard)
    if (await unit_states(node, [guard]))[guard].active in _ACTIVE:
        hint = f"stop it by hand: sudo systemctl stop {guard}"
        raise EffectFailed("the guard of a former container is still active", node=node.name, effect="stop", hint=hint)
    return f"{guard} stopped, "


async def _start_guard(work: Work, node: Node, one: Standing) -> str:
    if one.guard is None:
        return ""
    path = f"{work.folder}/{_noted(work, one)}"
    noted = (await read_files(node, [path])).get(path)
    if noted is None:
        return ""
    if (await unit_states(node, [one.guard]))[one.guard].load == "not-found":
        path = f"{_RUN_UNITS}/{one.guard}"
        await _run(node, work.held.fence, ["tee", path], passing(noted.data, path))
        await _run(node, work.held.fence, ["systemctl", "daemon-reload"])
    await _systemctl(node, work.held.fence, "start", one.guard)
    return f"{one.guard} and "


def passing(text: bytes, path: str) -> bytes:
    """Return a unit's text that also removes its file at ``path`` once it has ended; systemd forgets the unit then.

    One that systemd starts again when it ends keeps its file, which is needed for that, until the machine boots.
    """
    last = f"ExecStopPost=-+/bin/rm -f {path}"
    if last.encode() in text or _RESTARTS.search(text) is not None:
        return text
    return b"%s\n[Service]\n%s\n" % (text.rstrip(b"\n"), last.encode())


async def _has_systemd(node: Node) -> bool:
    return (await node.run(["test", "-d", "/run/systemd/system"])).code == 0


async def _systemctl(node: Node, fence: Fence, verb: str, unit: str) -> bytes:
    return await _run(node, fence, ["systemctl", verb, unit])


async def _run(node: Node, fence: Fence, argv: Sequence[str], stdin: bytes = b"") -> bytes:
    ran = await run_fenced(node, fence, argv, sudo=True, stdin=stdin, timeout_s=2 * STOP_S)
    if ran.code != 0:
        said = ran.err.decode("utf-8", "replace").strip().splitlines()
        raise EffectFailed(
            f"{argv[0]} ended with {ran.code}", node=node.name, effect=" ".join(argv[:3]), detail=said[-5:]
        )
    return ran.out
