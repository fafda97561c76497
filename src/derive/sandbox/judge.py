# SPDX-License-Identifier: Apache-2.0
"""From facts about this machine to whether it can run the sandbox, and what a person does if not.

Core: no IO.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive.errors import HostRefuses
from derive.sandbox.filter import knows_machine

OLDEST = (0, 8, 0)
"""The first bubblewrap with --disable-userns, which Debian 12 and Ubuntu 24.04 both have or exceed."""

TRIAL = "/.derive-trial"
"""A program that no root has: an attempt to run it fails last, after everything else worked."""

_APPARMOR_PROFILE = (
    "abi <abi/4.0>,",
    "include <tunables/global>",
    "profile bwrap {program} flags=(unconfined) {{",
    "  userns,",
    "}}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What a probe found out. A setting is None where this kernel does not have it.

    ``trial`` is what bubblewrap said when it was asked for a sandbox in which :data:`TRIAL` is run; None without
    bubblewrap. ``superuser``: the engine runs as root.
    """

    machine: str
    program: str | None
    version: str | None
    trial: str | None
    superuser: bool
    userns_clone: int | None = None
    max_user_namespaces: int | None = None
    apparmor_restricts: int | None = None


def trial_passed(said: str) -> bool:
    """Say whether a trial came as far as the missing program."""
    return f"execvp {TRIAL}: No such file or directory" in said


def refusal(facts: HostFacts) -> HostRefuses | None:
    """Return why this machine cannot run the sandbox, with the remedy, or None when it can."""
    if not knows_machine(facts.machine):
        return HostRefuses(
            f"the sandbox knows no system calls of {facts.machine}", detail=("it knows  x86_64, aarch64",)
        )
    if facts.program is None or facts.trial is None:
        return HostRefuses(
            "bubblewrap is not installed", detail=("looked for  bwrap",), hint="sudo apt-get install bubblewrap"
        )
    if trial_passed(facts.trial):
        return None
    if facts.version is not None and (version := _parse(facts.version)) is not None and version < OLDEST:
        return HostRefuses(
            f"{facts.program} is too old",
            detail=(f"expected  {'.'.join(map(str, OLDEST))} or newer", f"got       {facts.version.strip()}"),
            hint="sudo apt-get install bubblewrap, on Debian 12 or Ubuntu 24.04 or newer",
        )
    return _namespaces_refused(facts, facts.program, tuple(facts.trial.strip().splitlines()[:5]))


def _namespaces_refused(facts: HostFacts, program: str, said: tuple[str, ...]) -> HostRefuses:
    """Return the refusal of a bubblewrap that is there and cannot make its namespaces; the surest cause first."""
    if facts.max_user_namespaces == 0:
        return HostRefuses(
            "this machine allows no user namespaces: user.max_user_namespaces is 0",
            detail=said,
            hint="sudo sysctl -w user.max_user_namespaces=10000 (and a file in /etc/sysctl.d to keep it)",
        )
    if facts.userns_clone == 0 and not facts.superuser:
        return HostRefuses(
            "this machine allows user namespaces to root alone: kernel.unprivileged_userns_clone is 0",
            detail=said,
            hint="sudo sysctl -w kernel.unprivileged_userns_clone=1 (and a file in /etc/sysctl.d to keep it)",
        )
    if facts.apparmor_restricts and not facts.superuser:
        profile = (f"  {line.format(program=program)}" for line in _APPARMOR_PROFILE)
        return HostRefuses(
            "AppArmor keeps user namespaces from bubblewrap: kernel.apparmor_restrict_unprivileged_userns is 1",
            detail=(
                *said,
                "remedy    a profile that allows them to bubblewrap alone, as /etc/apparmor.d/bwrap:",
                *profile,
                "or        sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, for every program",
            ),
            hint="write /etc/apparmor.d/bwrap as above, then: sudo apparmor_parser -r /etc/apparmor.d/bwrap",
        )
    if any("mount proc" in line for line in said):
        return HostRefuses(
            "this machine allows no /proc of the sandbox's own: it seems to be a container",
            detail=said,
            hint="start the container with --security-opt systempaths=unconfined, or --privileged",
        )
    return HostRefuses(
        "bubblewrap cannot make its namespaces on this machine",
        detail=said,
        hint="in a container, allow unshare and mount (--security-opt seccomp=unconfined --security-opt"
        " apparmor=unconfined --security-opt systempaths=unconfined)",
    )


def _parse(version: str) -> tuple[int, ...] | None:
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else None
