# SPDX-License-Identifier: Apache-2.0
"""A node's memory guard and its container: armed, started, handed over, stopped; by systemd, or by a supervisor.

Edge: what it does is done on a node, over SSH.

Either way the same holds. No container is started before its guard has had a good first look; from then on there is
a guard at every moment; and the end of a guard, whatever ends it, ends the container.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from derive.canonical import CanonicalError, decode
from derive.deploy.effects import UnitSeen, install_units, put_file, read_files, run_fenced, unit_states
from derive.deploy.model import GuardSeen
from derive.deploy.node_errors import EffectFailed
from derive.errors import Corrupt, expected_got
from derive.images.documents import DocumentError
from derive.render import units
from derive.render.documents import launch_from_document
from derive.render.plan import LAUNCH_BUNDLE_LABEL

if TYPE_CHECKING:
    from derive.deploy.guard import GuardFile
    from derive.deploy.lease import Fence
    from derive.deploy.model import Target
    from derive.deploy.remote import Node
    from derive.render.launch import Launch

PHASES = ("startup", "steady")
UNITS_FOLDER = "systemd/"
_LOOK_S = 0.2
_MARGIN_S = 40
"""What is added to a limit of the guard's or the container's own, before the node is called stuck."""
_LINES = "12"

T = TypeVar("T")


async def stage_guard(node: Node, target: Target, guard: GuardFile | None, *, fence: Fence) -> int:
    """Put the guard where the node's launch files name it; returns the bytes moved, 0 where it was there."""
    launch = launch_of(node, target)
    if guard is None or not launch.guard:
        return 0
    path = units.guard_program(launch).removeprefix(f"{units.site_folder(launch)}/")
    return (await put_file(node, fence, path, guard.data, mode=0o755)).bytes_moved


async def arm(node: Node, target: Target, guard: GuardFile | None, *, fence: Fence) -> None:
    """Have the guard of the start at work: it has had its first good look when this returns.

    The program on the node is held against ``guard`` first. The service must be stopped; what an earlier attempt left
    armed is armed anew. A launch without guards has only its units installed.

    Raises:
        Corrupt: when the program on the node is not the one that was taken out of the image.
        EffectFailed: when the guard ended or did not begin, with what it said; or the service runs.
    """
    launch = launch_of(node, target)
    if launch.guard:
        await _check_program(node, launch, guard)
    if await _has_systemd(node, launch.name):
        await _arm_units(node, target, launch, fence)
    else:
        await _arm_supervised(node, launch, fence)


async def start(node: Node, target: Target, *, fence: Fence) -> None:
    """Start the container below its guard; returns when what runs it was started, which is not yet a ready service.

    A guard waits for its container for a limited time: one that has waited for half of it, or no more, is armed anew.

    Raises:
        EffectFailed: when no guard gets to work, or the container could not be started, with what was said.
    """
    launch = launch_of(node, target)
    found: Any = await node.effect("guard-seen", {"service": launch.name})
    if not found["systemd"]:
        if not _is_supervised(launch, found):
            await _arm_supervised(node, launch, fence)
        await _ask(node, "guard-start", launch, fence)
        await _supervised(node, launch.name, ("running", "steady"), seconds=300 + _MARGIN_S)
        return
    service, guard = _unit(launch.name), _unit(launch.name, "guard-startup")
    has_guard = _startup_wait_s(launch) is not None
    if has_guard and not _waits(launch, found, guard) and not await _is_active(node, service):
        hold = _unit(launch.name, "armed")
        # A guard that was armed earlier may be that of another launch, and has waited for its container since then.
        for word in ("stop", "reset-failed"):
            await _systemctl(node, fence, word, hold, guard, must=False)
        await _hold(node, fence, launch, hold, guard)
    await _systemctl(node, fence, "start", service, says=(service, guard) if has_guard else (service,))
    # The service needs the guard itself from now on.
    await _systemctl(node, fence, "stop", _unit(launch.name, "armed"), must=False)


async def steady(node: Node, target: Target, *, fence: Fence) -> None:
    """Hand over from the guard of the start to the steady one, which guards before the first is told to end.

    Raises:
        EffectFailed: when the steady guard could not begin: the container is stopped then.
    """
    launch = launch_of(node, target)
    phases = {phase.phase for phase in launch.guard}
    if not await _has_systemd(node, launch.name):
        await _ask(node, "guard-steady", launch, fence)
        await _supervised(node, launch.name, ("steady",), seconds=_MARGIN_S)
        return
    if "steady" not in phases:
        return
    unit, former = _unit(launch.name, "guard-steady"), _unit(launch.name, "guard-startup")
    await _systemctl(node, fence, "start", unit)
    seen = (await unit_states(node, [unit]))[unit]
    if seen.active != "active":
        # Its condition: without a container it is skipped, which is no failure to systemd.
        raise _failed(node, "steady", f"{unit} was not started: the container does not run", [_shown(seen)])
    if "startup" in phases:
        await _until(node, "steady", 10, lambda: _is_over(node, former), f"{former} does not end")


async def stop(node: Node, service: str, *, fence: Fence, seconds: int) -> None:
    """Stop the container, then its guards.

    The container has as long to end as its launch files say, to which the service's link leads; ``seconds`` where they
    cannot be read. A service that does not run is stopped already.

    Raises:
        EffectFailed: when something of it still runs in the end, by name.
    """
    seconds = await time_to_end(node, fence.folder, service) or seconds
    limit = seconds + _MARGIN_S
    if not await _has_systemd(node, service):
        arguments = {**fence.document(), "service": service, "seconds": seconds, "engine": node.engine_socket}
        answer: Any = await node.effect("guard-stop", arguments, sudo=True, timeout_s=limit + _MARGIN_S)
        if answer["state"] != "ended":
            await _supervised(node, service, ("ended",), seconds=limit)
        return
    # The service first: the stop jobs of its guards then wait for its own.
    names = [_unit(service, part) for part in ("", "armed", "guard-startup", "guard-steady")]
    there = [one.name for one in (await unit_states(node, names)).values() if one.load != "not-found"]
    if not there:
        return
    await _systemctl(node, fence, "stop", "--no-block", *there, must=False)

    async def stopped() -> bool | None:
        found = (await unit_states(node, there)).values()
        return None if any(one.active not in ("inactive", "failed") for one in found) else True

    await _until(node, "stop", limit, stopped, f"{there[0]} is not stopped after {limit} s")


async def time_to_end(node: Node, folder: str, service: str) -> int | None:
    """Return the seconds that the container of a service has to end, by the launch files that it was started from.

    None where the node has none that can be read.
    """
    path = f"{folder}/{service}/current/container.json"
    found = (await read_files(node, [path])).get(path)
    try:
        return None if found is None else launch_from_document(decode(found.data)).container.stop_seconds
    except (CanonicalError, DocumentError):
        return None


async def seen(node: Node, service: str) -> tuple[GuardSeen, ...]:
    """Return the guards that a service has, or should have, by phase; none where it has none. No rights are needed."""
    found: Any = await node.effect("guard-seen", {"service": service})
    return guards_in(service, found)


def guards_in(service: str, found: Mapping[str, Any]) -> tuple[GuardSeen, ...]:
    """Read what the effect ``guard-seen`` answers."""
    known = (found["supervised"] or {}).get("guards", {})
    guards = []
    for phase in PHASES:
        name = _unit(service, f"guard-{phase}")
        unit = found["units"].get(name, {"load": "not-found"})
        has_unit = unit["load"] != "not-found"
        if not (has_unit or phase in known or phase in found["running"]):
            continue
        pid = found["running"].get(phase)
        code = _code(unit) if has_unit else known.get(phase, {}).get("code")
        guards.append(
            GuardSeen(
                phase=phase,
                # One that is halted has a process, and looks at nothing.
                alive=pid is not None and phase not in found["halted"],
                says=found["says"][phase] if pid is not None else None,
                unit=name if has_unit else None,
                pid=pid,
                code=code if pid is None else None,
            )
        )
    return tuple(guards)


def launch_of(node: Node, target: Target) -> Launch:
    """Return the node's launch."""
    return next(launch for launch in target.bundle.launches if launch.node == node.name)


# By systemd


async def _arm_units(node: Node, target: Target, launch: Launch, fence: Fence) -> None:
    service, hold = _unit(launch.name), _unit(launch.name, "armed")
    guards = [_unit(launch.name, f"guard-{phase}") for phase in PHASES]
    found = (await unit_states(node, [service]))[service]
    if found.active not in ("inactive", "failed"):
        raise _failed(node, "arm", f"{service} is {found.active}: it is stopped before its guard is armed")
    await _systemctl(node, fence, "stop", hold, *guards, must=False)
    files = target.bundle.node(node.name).items()
    mine = {path.removeprefix(UNITS_FOLDER): data for path, data in files if path.startswith(UNITS_FOLDER)}
    await install_units(node, fence, mine, remove=[name for name in guards if name not in mine])
    await _systemctl(node, fence, "reset-failed", hold, *mine, must=False)
    if guards[0] in mine:
        await _hold(node, fence, launch, hold, guards[0])


async def _hold(node: Node, fence: Fence, launch: Launch, hold: str, guard: str) -> None:
    """Have something need the guard, which ends when nothing does, until the service is there to need it."""
    # One that was killed left its last word, which would be taken for the next one's.
    left = [units.ready_file(launch, phase.phase) for phase in launch.guard]
    await run_fenced(node, fence, ["rm", "--force", "--", *left], sudo=True)
    properties = ("Type=oneshot", "RemainAfterExit=yes", f"Requires={guard}", f"After={guard}")
    told = ("--no-block", "--quiet", "--collect", f"--unit={hold}", *(f"--property={one}" for one in properties))
    ran = await run_fenced(node, fence, ["systemd-run", *told, "--", "true"], sudo=True)
    if ran.code != 0:
        raise _failed(node, "arm", f"systemd-run failed with {ran.code}", _lines(ran.err))

    async def armed() -> bool | None:
        found = await unit_states(node, [guard, hold])
        if found[hold].active == "active":
            return True
        return False if found[guard].active == "failed" or found[hold].active == "failed" else None

    limit = (_startup_wait_s(launch) or 0) + _MARGIN_S
    good = await _until(node, "arm", limit, armed, f"{guard} did not begin within {limit} s")
    if not good:
        raise _failed(node, "arm", f"{guard} failed: no container is started without it", await _said(node, guard))


def _waits(launch: Launch, found: Mapping[str, Any], guard: str) -> bool:
    """Say whether the guard of the start waits for its container, and will for a while."""
    unit = found["units"][guard]
    age_s = (found["now_ns"] - unit["since_ns"]) / 1e9
    return bool(unit["active"] == "active" and unit["pid"] and 2 * age_s < (_startup_wait_s(launch) or 0))


async def _is_active(node: Node, unit: str) -> bool:
    return (await unit_states(node, [unit]))[unit].active in ("active", "activating")


async def _systemctl(
    node: Node, fence: Fence, *words: str, must: bool = True, says: tuple[str, ...] | None = None
) -> None:
    """Ask systemd for something; ``says`` are the units of which an error tells, the last that was named by itself."""
    ran = await run_fenced(node, fence, ["systemctl", *words], sudo=True, timeout_s=180)
    if ran.code != 0 and must:
        said = _lines(ran.err)
        for unit in says or words[-1:]:
            said += await _said(node, unit)
        raise _failed(node, f"systemctl {words[0]}", f"{words[-1]}: systemctl {words[0]} failed", said)


async def _said(node: Node, unit: str) -> list[str]:
    """Return how a unit is, and the last lines that the journal has of it."""
    shown = _shown((await unit_states(node, [unit]))[unit])
    words = ["journalctl", "--quiet", "--no-pager", "--output=cat", f"--lines={_LINES}", f"--unit={unit}"]
    ran = await node.run(words, sudo=True)
    return [shown, *_lines(ran.out)]


async def _is_over(node: Node, unit: str) -> bool | None:
    found = (await unit_states(node, [unit]))[unit]
    return True if found.pid == 0 or found.sub == "exited" else None


def _shown(found: UnitSeen) -> str:
    return f"{found.name} is {found.active} ({found.sub}), result {found.result}, exit status {found.exit_status}"


def _unit(service: str, part: str = "") -> str:
    return f"derive-{service}-{part}.service" if part else f"derive-{service}.service"


def _code(unit: Mapping[str, Any]) -> int | None:
    """Return how a unit's process ended: waitid's codes are 1 for an exit, 2 and 3 for a signal, 0 for none yet."""
    status = int(unit["exit_status"])
    return {0: None, 1: status}.get(unit["exit_code"], -status)


# By a supervisor


async def _arm_supervised(node: Node, launch: Launch, fence: Fence) -> None:
    from derive.deploy.guard_words import PlaceError, group_of, supervised
    from derive.render.forms import created_folders

    place: Any = await node.effect("guard-place", {"engine": node.engine_socket})
    try:
        group = group_of(launch, place["groups"], place["mounts"])
    except PlaceError as error:
        raise _failed(node, "arm", str(error)) from error
    told = supervised(launch, group, created_folders(launch))
    found: Any = await node.effect("guard-seen", {"service": launch.name})
    if found["alive"] and found["supervised"]["state"] in ("arming", "armed", "ending"):
        await stop(node, launch.name, fence=fence, seconds=launch.container.stop_seconds)
    await node.effect("guard-arm", {**fence.document(), **told, "engine": node.engine_socket}, sudo=True)
    await _supervised(node, launch.name, ("armed",), seconds=(_startup_wait_s(launch) or 0) + _MARGIN_S)


def _is_supervised(launch: Launch, found: Mapping[str, Any]) -> bool:
    """Say whether a supervisor has this launch's guard at work, which will wait for a while, or its container."""
    known = found["supervised"]
    if not found["alive"] or known["launch"] != launch.labels[LAUNCH_BUNDLE_LABEL]:
        return False
    wait_s, age_s = _startup_wait_s(launch), (found["now_ns"] - known["since_ns"]) / 1e9
    return known["state"] in ("starting", "running", "handing-over", "steady") or (
        known["state"] == "armed" and (wait_s is None or 2 * age_s < wait_s)
    )


async def _ask(node: Node, effect: str, launch: Launch, fence: Fence) -> None:
    told = {"service": launch.name, "launch": launch.labels[LAUNCH_BUNDLE_LABEL]}
    await node.effect(effect, {**fence.document(), **told}, sudo=True)


async def _supervised(node: Node, service: str, wanted: tuple[str, ...], *, seconds: float) -> None:
    """Wait until a supervisor is in one of some states; one that has ended instead is an error, with its reason."""

    async def reached() -> str | None:
        found: Any = await node.effect("guard-seen", {"service": service})
        known = found["supervised"] or {"state": "", "why": None}
        if known["state"] in wanted:
            return ""
        if known["state"] in ("killing", "ending", "ended"):
            return None if "ended" in wanted else str(known["why"] or "it ends")
        # Written down by a supervisor that is no more: its end was no end of the service's.
        return "its supervisor was killed" if known["state"] and not found["alive"] else None

    why = await _until(node, "supervise", seconds, reached, f"{service} is not {wanted[0]} after {seconds:.0f} s")
    if why:
        raise _failed(node, "supervise", f"{service} is not {wanted[0]}", why.split("; "))


# Either way


def _startup_wait_s(launch: Launch) -> int | None:
    """Return how long the guard of the start waits for the container; None for a launch without that guard."""
    return next((phase.wait_seconds for phase in launch.guard if phase.phase == "startup"), None)


async def _has_systemd(node: Node, service: str) -> bool:
    found: Any = await node.effect("guard-seen", {"service": service})
    return bool(found["systemd"])


async def _check_program(node: Node, launch: Launch, guard: GuardFile | None) -> None:
    path = units.guard_program(launch)
    ran = await node.run(["sha256sum", "--", path])
    got = ran.out.decode(errors="replace").partition(" ")[0].lstrip("\\") or "; ".join(_lines(ran.err))
    wanted = "none" if guard is None else guard.digest.hex
    if got != wanted:
        detail = expected_got(wanted, got)
        hint = "deploy again: it is staged anew"
        raise Corrupt(
            "the memory guard is not the one in the image", where=f"{node.name}: {path}", detail=detail, hint=hint
        )


async def _until(node: Node, effect: str, seconds: float, look: Callable[[], Awaitable[T | None]], late: str) -> T:
    """Look again and again until there is an answer."""
    deadline = time.monotonic() + seconds
    while True:
        answer = await look()
        if answer is not None:
            return answer
        if time.monotonic() > deadline:
            raise _failed(node, effect, late)
        await asyncio.sleep(_LOOK_S)


def _failed(node: Node, effect: str, message: str, detail: list[str] | None = None) -> EffectFailed:
    return EffectFailed(message, node=node.name, effect=effect, detail=detail or ())


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="replace").strip().splitlines()
