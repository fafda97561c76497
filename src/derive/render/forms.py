# SPDX-License-Identifier: Apache-2.0
"""The files of one node: one launch, said in the form of each program that could start it.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.fabric.site import Site
from derive.recipes.resolved import GuardPhase, Phase
from derive.render import docker_run, units
from derive.render.compose import compose_file
from derive.render.documents import laid_out, launch_document
from derive.render.environment_file import environment_file
from derive.render.launch import Launch
from derive.render.netplan import netplan_file
from derive.render.templates import Templates, Value

UNIT_FOLDER = "systemd"
_STOP_MARGIN_SECONDS = 30
_START_MARGIN_SECONDS = 30


def labelled_files(launch: Launch, templates: Templates) -> dict[str, bytes]:
    """Return those files in which the container's labels stand."""
    return {
        "container.json": laid_out(launch_document(launch)),
        "run": templates.render("run", _run(launch)),
        "compose.yaml": compose_file(launch),
    }


def plain_files(launch: Launch, site: Site, templates: Templates) -> dict[str, bytes]:
    """Return those files in which they do not."""
    files = {
        "environment.env": environment_file(launch.environment),
        "netplan.yaml": netplan_file(site, launch.rank),
        **{f"{UNIT_FOLDER}/{name}": data for name, data in _unit_files(launch, templates).items()},
    }
    if launch.guard:
        files["await-guard"] = templates.render("await-guard", {})
    return files


def created_folders(launch: Launch) -> tuple[str, ...]:
    """Return the folders that must be there before a start, empty at first: those of derive that are written in."""
    base = units.site_folder(launch)
    return tuple(mount.source for mount in launch.mounts if not mount.read_only and mount.source.startswith(f"{base}/"))


def _run(launch: Launch) -> Mapping[str, Value]:
    return {
        "title": _title(launch),
        "options": docker_run.options(launch),
        "reference": launch.reference,
        "lines": docker_run.process_lines(launch),
    }


def _unit_files(launch: Launch, templates: Templates) -> dict[str, bytes]:
    phases = {phase.phase: phase for phase in launch.guard}
    shared = _shared(launch, phases)
    files = {
        launch.slice: templates.render("slice", shared),
        f"{units.unit(launch)}.service": templates.render("service", shared),
    }
    for phase in launch.guard:
        values = {**shared, **_guard(launch, phase)}
        files[_guard_unit(launch, phase.phase)] = templates.render(f"guard-{phase.phase}", values)
    return files


def _shared(launch: Launch, phases: Mapping[Phase, GuardPhase]) -> dict[str, Value]:
    stop = launch.container.stop_seconds
    return {
        "title": _title(launch),
        "name": launch.name,
        "slice": launch.slice,
        "service": f"{units.unit(launch)}.service",
        "startup": _guard_unit(launch, "startup") if "startup" in phases else None,
        "started_file": units.started_file(launch),
        "folders": created_folders(launch),
        "run": f"{launch.folder}/run",
        "await_guard": f"{launch.folder}/await-guard",
        "evidence": units.evidence_folder(launch),
        "run_folder": units.run_folder(launch),
        "stop_seconds": str(stop),
        "stop_timeout": str(stop + _STOP_MARGIN_SECONDS),
    }


def _guard(launch: Launch, phase: GuardPhase) -> dict[str, Value]:
    return {
        "guard": units.guard_words(launch, phase),
        "ready_file": units.ready_file(launch, phase.phase),
        "start_timeout": str(phase.wait_seconds + _START_MARGIN_SECONDS),
    }


def _title(launch: Launch) -> str:
    return f"{launch.recipe} {launch.shape} on {launch.node}, rank {launch.rank} of {launch.nodes}"


def _guard_unit(launch: Launch, phase: Phase) -> str:
    return f"{units.unit(launch, f'guard-{phase}')}.service"
