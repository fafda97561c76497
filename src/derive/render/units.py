# SPDX-License-Identifier: Apache-2.0
"""What stands in the units of a launch: their names, and the command line of the memory guard.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from derive.canonical import Digest
from derive.recipes.resolved import GuardPhase, Phase
from derive.render.launch import Launch

_CGROUPS = "/sys/fs/cgroup"


def unit(launch: Launch, part: str = "") -> str:
    """Return the name of a unit of the launch, without what kind it is: ``derive-ds41f-guard-steady``."""
    return f"derive-{launch.name}-{part}" if part else f"derive-{launch.name}"


def site_folder(launch: Launch) -> str:
    """Return the folder of launch files, caches and evidence on the node."""
    return launch.folder.removesuffix(f"/{launch.name}/current")


def guard_program(launch: Launch) -> str:
    """Return where the node has the guard, as it was copied out of the image: a program of each image beside others."""
    return f"{site_folder(launch)}/guard/{Digest.parse(launch.image).short}/memguard"


def evidence_folder(launch: Launch) -> str:
    """Return the folder in which the guard records what it killed."""
    return f"{site_folder(launch)}/{launch.name}/evidence"


def run_folder(launch: Launch) -> str:
    """Return the folder below ``/run`` for what lasts as long as the machine is up."""
    return f"derive/{launch.name}"


def ready_file(launch: Launch, phase: Phase) -> str:
    """Return the file that says that the guard of a phase is at work."""
    return f"/run/{run_folder(launch)}/guard-{phase}"


def started_file(launch: Launch) -> str:
    """Return the file that is there while the container is."""
    return f"/run/{run_folder(launch)}/started"


def cgroup(launch: Launch) -> str:
    """Return the control group of the slice: each hyphen of a slice's name is a level, with all before it in its name.

    ``derive-ds41f.slice`` lies in ``derive.slice``.
    """
    parts = launch.slice.removesuffix(".slice").split("-")
    levels = ("-".join(parts[: depth + 1]) + ".slice" for depth in range(len(parts)))
    return "/".join((_CGROUPS, *levels))


def guard_words(launch: Launch, phase: GuardPhase) -> tuple[str, ...]:
    """Return the guard's command line for one phase."""
    options = {
        "container": launch.name,
        "phase": phase.phase,
        "cgroup": cgroup(launch),
        "floor": str(phase.floor_bytes),
        "interval": phase.interval,
        "wait": str(phase.wait_seconds),
        "ready-file": ready_file(launch, phase.phase),
        "evidence": evidence_folder(launch),
    }
    return (guard_program(launch), *(word for name, value in options.items() for word in (f"--{name}", value)))
