# SPDX-License-Identifier: Apache-2.0
"""From the files of ``fabric/`` to transports and tuning profiles: every problem of all of them at once.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from derive.errors import InputErrors, Problem
from derive.fabric.declarations import SETTINGS, TRANSPORTS, TUNING
from derive.fabric.table import Spec
from derive.fabric.table import problems as form_problems
from derive.fabric.transports import (
    FILE,
    SETTINGS_FILE,
    Engine,
    Fabric,
    KernelBackend,
    Transport,
    Tunable,
    Tuning,
)
from derive.fabric.tuning import tuning_problems
from derive.toml import parse_toml

TUNING_FOLDER = "fabric/tuning/"


def load_fabric(files: Mapping[str, bytes]) -> Fabric:
    """Read transports, settings and tuning profiles from a project's files, by their path below it.

    Raises:
        InputErrors: every problem of every file.
    """
    problems: list[Problem] = []
    transports = _parsed(TRANSPORTS, files, FILE, problems)
    tunable = _parsed(SETTINGS, files, SETTINGS_FILE, problems)
    profiles = {
        path: _parsed(TUNING, files, path, problems)
        for path in sorted(files)
        if path.startswith(TUNING_FOLDER) and path.endswith(".toml")
    }
    problems += _reference_problems(transports) if transports is not None else ()
    if transports is None or tunable is None:
        raise InputErrors(problems)
    fabric = _fabric(transports, tunable, profiles)
    for tuning in fabric.tunings.values():
        problems += tuning_problems(tuning, fabric)
    if problems:
        raise InputErrors(problems)
    return fabric


def load_tuning(data: bytes, file: str, fabric: Fabric) -> Tuning:
    """Read one tuning profile and judge it.

    Raises:
        InputErrors: every problem of the file.
    """
    problems: list[Problem] = []
    table = _parsed(TUNING, {file: data}, file, problems)
    if table is None:
        raise InputErrors(problems)
    tuning = _tuning(file, table)
    problems += tuning_problems(tuning, fabric)
    if problems:
        raise InputErrors(problems)
    return tuning


def _parsed(spec: Spec, files: Mapping[str, bytes], file: str, problems: list[Problem]) -> dict[str, Any] | None:
    """Return a file's table where its form is right."""
    data = files.get(file)
    if data is None:
        problems.append(Problem(where=file, message="no such file"))
        return None
    table, found = parse_toml(data, file)
    if table is not None:
        found += form_problems(spec, table, file)
    problems += found
    return None if found else table


def _reference_problems(table: Mapping[str, Any]) -> Iterator[Problem]:
    for name, transport in table["transports"].items():
        engine = transport.get("engine")
        if engine is not None and engine not in table["engines"]:
            place = f"{FILE}: transports.{name}.engine"
            hint = f"known: {', '.join(sorted(table['engines']))}"
            yield Problem(where=place, message=f"no engine is called {engine}", hint=hint)


def _fabric(
    table: Mapping[str, Any], settings: Mapping[str, Any], profiles: Mapping[str, Mapping[str, Any] | None]
) -> Fabric:
    tunings = [_tuning(path, profile) for path, profile in profiles.items() if profile is not None]
    return Fabric(
        transports={name: _transport(name, one, table) for name, one in table["transports"].items()},
        engines={name: _engine(name, one) for name, one in table["engines"].items()},
        tunings={one.name: one for one in tunings},
        tunable={name: Tunable(name=name, **one) for name, one in settings["settings"].items()},
        kernel_backends={name: _kernel_backend(name, one) for name, one in table["kernel-backends"].items()},
    )


def _engine(name: str, table: Mapping[str, Any]) -> Engine:
    return Engine(
        name=name,
        variables=tuple(table["variables"]),
        peers=table["peers"],
        gid_index=table["gid-index"],
        traffic_class=table["traffic-class"],
    )


def _kernel_backend(name: str, table: Mapping[str, Any]) -> KernelBackend:
    return KernelBackend(
        name=name,
        arguments=table.get("arguments", {}),
        draft_arguments=table.get("draft-arguments", {}),
        settings=table.get("settings", {}),
        off=table.get("off", {}),
        needs=tuple(table.get("needs", ())),
        cache=table.get("cache"),
    )


def _tuning(path: str, table: Mapping[str, Any]) -> Tuning:
    return Tuning(
        name=path.removeprefix(TUNING_FOLDER).removesuffix(".toml"),
        file=path,
        doc=table["doc"],
        nodes=table["nodes"],
        nccl=table.get("nccl", {}),
        engines=table.get("engines", {}),
        transports=table.get("transports", {}),
    )


def _transport(name: str, own: Mapping[str, Any], whole: Mapping[str, Any]) -> Transport:
    collectives, ring = own.get("collectives", True), own.get("ring", False)
    scopes = [("shared", whole["shared"])] if collectives else []
    scopes += [("ring", whole["ring"])] if ring else []
    scopes += [(f"transports.{name}", own)]
    given = {
        variable: (value, f"{scope}.settings.{variable}")
        for scope, table in scopes
        for variable, value in table.get("settings", {}).items()
    }
    channels = whole["ring"]["channels"] if ring else {}
    return Transport(
        name=name,
        doc=own["doc"],
        cablings=tuple(own["cablings"]),
        collectives=collectives,
        engine=own.get("engine"),
        own_needs=tuple(own.get("needs", ())),
        needs=tuple(need for _, table in scopes for need in table.get("needs", ())),
        settings=dict(sorted(given.items())),
        off={key: value for _, table in scopes for key, value in table.get("off", {}).items()},
        forbidden_variables=tuple(whole["ring"]["forbidden-variables"]) if ring else (),
        channels={cabling: tuple(counts) for cabling, counts in channels.items()},
        custom_all_reduce=own.get("custom-all-reduce"),
        stripes=own.get("stripes"),
        peers=own.get("peers", "cabled"),
        planned=own.get("planned"),
    )
