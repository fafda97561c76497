# SPDX-License-Identifier: Apache-2.0
"""Derivations made up for tests of questions about them, and a store that remembers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from derive.build.plan import resolved_of
from derive.canonical import Digest, Json, sha256
from derive.derivations.model import (
    BuiltInput,
    Derivation,
    FixedInput,
    Input,
    Output,
    Platform,
    TreeOutput,
    closure,
    parse_output,
)
from derive.store import history
from derive.store.database import Database, Realisation
from derive.store.history import PastStep, Run


def step(
    name: str,
    builder: str = "script",
    inputs: Mapping[str, Derivation] | None = None,
    /,
    *,
    number: int = 1,
    host: Platform = "any",
    labels: Sequence[str] = (),
    **arguments: Json,
) -> Derivation:
    """Return a step; an input that is a fetch is named by its hash alone.

    A script says its name, which is in no id by itself.
    """
    roles: dict[str, Input] = {
        role: FixedInput(one) if one.fixed is not None else BuiltInput(one) for role, one in (inputs or {}).items()
    }
    return Derivation(
        name=name,
        builder=builder,
        version=number,
        build="any",
        host=host,
        arguments={"what": name, **arguments} if builder == "script" else arguments,
        inputs=roles,
        labels=tuple(labels),
    )


def fetch_deb(name: str, version: str = "1", architecture: str = "amd64", **more: Json) -> Derivation:
    """Return the fetch of a package; its bytes follow from what it is called."""
    file = f"{name}_{version}_{architecture}.deb"
    arguments: dict[str, Json] = {
        "name": name,
        "version": version,
        "architecture": architecture,
        "locator": f"pool/{file}",
        "size": 10,
        "sha256": sha256(file.encode()).hex,
        **more,
    }
    return replace(step(file, "fetch-deb"), arguments=arguments)


def unpacked(fetch: Derivation) -> Derivation:
    """Return the step that unpacks a package."""
    expected = {key: fetch.arguments[key] for key in ("name", "version", "architecture")}
    return step(f"{fetch.name} unpacked", "unpack", {"archive": fetch}, kind="deb", strip=0, expected=expected)


def root(name: str, *debs: Derivation, host: Platform = "linux/amd64", **arguments: Json) -> Derivation:
    """Return a Debian root of some packages."""
    inputs = {f"{deb.arguments['name']}:{deb.arguments['architecture']}": unpacked(deb) for deb in debs}
    return step(name, "debian-root", inputs, host=host, root=arguments)


def realise(
    database: Database,
    target: Derivation,
    *,
    at_s: int,
    outputs: Mapping[Digest, str] | None = None,
    steps: bool = True,
    requested: Derivation | None = None,
) -> None:
    """Note that a target was derived: what of its closure is new was run, and gave what ``outputs`` says.

    Without it each step gave a tree of its own. ``steps`` writes history, as it has been written since there is one;
    ``requested`` is what the run was asked for, if not the target.
    """
    known = database.resolved_ids(one.id for one in closure(target))
    asked = requested or target
    run = history.begin_run(database, a_run(asked)) if steps else 0
    given: dict[Digest, Output] = {}
    for one in closure(target):
        inputs = {role: given[reference.derivation.id] for role, reference in one.inputs.items()}
        resolved = resolved_of(one, inputs).id
        found = database.realisation(resolved)
        said = (outputs or {}).get(one.id) or (found.outputs["out"] if found is not None else None)
        given[one.id] = parse_output(said) if said is not None else one.fixed or TreeOutput(one.id)
        if one.id in known:
            continue
        entry = Realisation(
            resolved=resolved,
            outputs={"out": str(given[one.id])},
            builder=f"{one.builder}/{one.version}",
            engine="e" * 64,
            host="x86_64",
            duration_ns=1_500_000_000,
            log="",
            built_s=at_s,
        )
        database.add_realisation(entry, one.id, one.name, one.encoded())
        if steps:
            outcome = "reused" if found is not None else "built" if one.fixed is None else "fetched"
            history.add_step(database, a_step(run, one, resolved, at_s, outcome))


def a_run(target: Derivation) -> Run:
    """Return a run of a target."""
    return Run(
        run=0,
        target=target.id,
        name=target.name,
        host=target.host,
        jobs=1,
        started_s=0,
        expected_ns=None,
        expected_fetch_bytes=0,
        expected_write_bytes=None,
    )


def a_step(run: int, one: Derivation, resolved: Digest, at_s: int, outcome: str = "built") -> PastStep:
    """Return a step of a run."""
    return PastStep(
        run=run,
        derivation=one.id,
        resolved=resolved,
        name=one.name,
        host=one.host,
        builder=f"{one.builder}/{one.version}",
        outcome=outcome,
        reason="",
        ended_s=at_s,
        duration_ns=1_500_000_000,
    )
