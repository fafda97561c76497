# SPDX-License-Identifier: Apache-2.0
"""The checks of what shapes ask of their image: capabilities, options, memory; and of files that were made from images.

Core: no IO.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, Unknown, each_shape
from derive.doctor.model import Unreadable
from derive.doctor.table_guard import CAPABILITY as GUARD
from derive.errors import InputErrors, Problem
from derive.lock.documents import PythonLock
from derive.memory import ledger
from derive.recipes.deployable import awaited, clashes, verdict
from derive.schema.check import problems
from derive.schema.pin import file_of, stale

if TYPE_CHECKING:
    from derive.canonical import Json
    from derive.doctor.case import Case
    from derive.recipes.resolved import Resolved

_RECORDS = "records/verify/"
_VERIFY = "images/verify/"


def _capabilities(case: Case, resolved: Resolved) -> Iterator[Answer]:
    where = f"images/{resolved.image}.toml: capabilities"
    image = case.content.images.get(resolved.image)
    if image is None:
        yield Unknown(where=where, reason=f"the image {resolved.image} is not declared, or cannot be read")
        return
    for missing in verdict(resolved, image.capabilities.keys()):
        # A transport that is only planned, and the guard, have checks of their own.
        if missing.capability not in (None, GUARD):
            others = any(
                one.recipe == resolved.recipe and missing.capability not in {need.capability for need in one.needs}
                for one in case.shapes
            )
            instead = ", or choose another shape" if others else ": every shape needs it"
            yield Problem(where=where, message=missing.text, hint=f"provide {missing.capability}{instead}")


def _other_collectives(case: Case, resolved: Resolved) -> Iterator[Answer]:
    image, fabric = case.content.images.get(resolved.image), case.places.fabric
    where = f"images/{resolved.image}.toml: capabilities"
    if image is None:
        yield Unknown(where=where, reason=f"the image {resolved.image} is not declared, or cannot be read")
    elif fabric is None:
        yield Unknown(where="fabric/transports.toml", reason="fabric/ cannot be read: see fabric.readable")
    else:
        for clash in clashes(resolved, image.capabilities.keys(), fabric):
            hint = f"choose transport {clash.owner}, or an image without {clash.capability}"
            yield Problem(where=f"{where}.{clash.capability}", message=clash.because, hint=hint)


def _arguments(case: Case, resolved: Resolved) -> Iterator[Answer]:
    if resolved.schema is None:
        return
    schema = case.schemas.schemas.get(resolved.image)
    if schema is None:
        yield Unknown(where=file_of(resolved.image), reason="there is no schema to be read: see artifact.schema")
    else:
        image = case.content.images.get(resolved.image)
        missing = () if image is None else verdict(resolved, image.capabilities.keys())
        yield from problems(resolved, schema, resolved.dropped, awaited(resolved, missing))


def _schema(case: Case) -> Iterator[Answer]:
    yield from case.schemas.problems
    project = case.facts.project
    if project is None:
        return
    for image, schema in case.schemas.schemas.items():
        moved = stale(project, schema)
        if moved:
            yield Problem(
                where=file_of(image),
                message="is not of what the project derives now",
                detail=(f"moved     {', '.join(moved)}",),
                hint=f"run: derive schema {image} --write",
            )


def _platform(case: Case, resolved: Resolved) -> Iterator[Answer]:
    image = case.content.images.get(resolved.image)
    where = f"images/{resolved.image}.toml: platforms"
    if image is None:
        yield Unknown(where=where, reason=f"the image {resolved.image} is not declared, or cannot be read")
    elif resolved.platform not in image.platforms:
        message = f"this image is not made for {resolved.platform}, on which the shape runs"
        yield Problem(where=where, message=message, detail=(f"made for  {', '.join(image.platforms)}",))


def _fits(case: Case, resolved: Resolved) -> Iterator[Answer]:
    try:
        found = ledger.judge(resolved, case.facts.launching)
    except InputErrors as error:
        yield from error.problems()
        return
    if found is not None:
        yield from ledger.problems(found)
    elif resolved.schema is not None:
        where = f"recipes/{resolved.recipe}.toml: memory"
        yield Unknown(
            where=where, reason="nothing says how much memory there is", fix="write [memory]: docs/recipes.md"
        )


def _verify_records(case: Case) -> Iterator[Answer]:
    for path, data in case.facts.records.items():
        if path.startswith(_RECORDS):
            if isinstance(data, Unreadable):
                yield Unknown(where=path, reason=data.reason)
            else:
                yield from _verify_record(case, path, data)


def _verify_record(case: Case, path: str, data: bytes) -> Iterator[Answer]:
    body, subject = _verified(data)
    if body is None:
        yield Problem(where=path, message="not a record of verifying an image")
        return
    gone = sorted(name for name in _wheels(body) - _locked(case) if not _is_built(case, name))
    if gone:
        detail = (f"gone      {', '.join(gone[:5])}{f' and {len(gone) - 5} more' if gone[5:] else ''}",)
        message = "names wheels that are neither locked nor built any more"
        yield Problem(where=f"{path}: body.licences", message=message, detail=detail)
    declared = _declared(case, subject)
    if declared is not None:
        strange = [one for one in _reasons(body) if one not in declared]
        if strange:
            message = f"takes exceptions that {_VERIFY}{subject}.toml does not declare, or not so"
            yield Problem(where=f"{path}: body.exceptions", message=message, detail=(f"for one   {strange[0]}",))


def _verified(data: bytes) -> tuple[Mapping[str, Json] | None, str]:
    try:
        document = json.loads(data)
    except ValueError:
        return None, ""
    if not isinstance(document, dict) or document.get("kind") != "verify" or not isinstance(document.get("body"), dict):
        return None, ""
    return document["body"], str(document.get("subject"))


def _locked(case: Case) -> set[str]:
    locks = (lock for lock in case.content.locks.values() if isinstance(lock, PythonLock))
    return {entry.name for lock in locks for entry in lock.wheels}


def _is_built(case: Case, wheel: str) -> bool:
    """Say whether a file of the derivations names a wheel, as whatever builds one does."""
    project = case.facts.project
    files = project.below("derivations").values() if project is not None else ()
    return any(wheel.encode() in data for data in files)


def _wheels(body: Mapping[str, Json]) -> set[str]:
    licences = body.get("licences")
    owners = [owner for found in licences.values() for owner in found] if isinstance(licences, dict) else []
    return {owner.removeprefix("wheel ") for owner in owners if isinstance(owner, str) and owner.startswith("wheel ")}


def _declared(case: Case, image: str) -> set[str] | None:
    """Return the reasons of an image's declared exceptions; None where they cannot be read."""
    from derive.toml import parse_toml

    path = f"{_VERIFY}{image}.toml"
    files = case.facts.launching
    table = parse_toml(files[path], path)[0] if path in files else None
    exceptions = table.get("exceptions", []) if table is not None else None
    if not isinstance(exceptions, list):
        return None
    return {str(one.get("reason")) for one in exceptions if isinstance(one, dict)}


def _reasons(body: Mapping[str, Json]) -> list[str]:
    exceptions = body.get("exceptions")
    found = exceptions if isinstance(exceptions, list) else []
    return [str(one.get("reason")) for one in found if isinstance(one, dict)]


CHECKS: tuple[Check, ...] = (
    Check(
        id="image.capabilities",
        severity="error",
        what="every shape's image has the capabilities that the shape needs",
        why="what is not in the image is not there on the node: the service refuses to start, or runs without a limit",
        how="what each shape needs, against [capabilities] of its image's file; transports that are only planned are "
        "looked at by fabric.planned, and the guard by guard.program",
        fix="provide the capability, or choose another shape",
        place="recipes/*.toml images/*.toml",
        judge=each_shape(_capabilities),
        over="shapes",
    ),
    Check(
        id="image.other-transport-capability",
        severity="error",
        what="no shape's image has collectives of another engine than the shape's transport",
        why="an image with the collectives of one engine takes the calls of every other, and of NCCL alone",
        how="[capabilities] of each image's file, against the engines of fabric/transports.toml; shapes without "
        "collectives go with every image",
        fix="choose a transport of the image's engine, or an image without it",
        place="recipes/*.toml images/*.toml fabric/transports.toml",
        judge=each_shape(_other_collectives),
        over="shapes",
    ),
    Check(
        id="image.platform",
        severity="error",
        what="every shape's image is made for the platform that the shape runs on",
        why="an image of another platform does not start",
        how="platform of each shape, linux/arm64 where it says nothing, against platforms of the image's file",
        fix="add the platform to the image's file, or correct the shape's",
        place="recipes/*.toml images/*.toml",
        judge=each_shape(_platform),
        over="shapes",
    ),
    Check(
        id="image.arguments",
        severity="error",
        what="the image's programs take every option and read every variable of every shape",
        why="an unknown option ends the service at its start, and an unknown variable does nothing and says nothing",
        how="each argument, key of JSON and variable of each shape against the pinned schema of its image: names, "
        "types, choices",
        fix="see docs/recipes.md",
        place="recipes/*.toml recipes/*.schema.json",
        judge=each_shape(_arguments),
        over="shapes",
    ),
    Check(
        id="memory.fits",
        severity="error",
        what="every shape fits the memory of a rank",
        why="what does not fit is killed by the guard while it starts, after minutes of loading",
        how="the ledger of derive memory, line by line, against memory.usable; no machine is asked",
        fix="see what derive memory says of the shape",
        place="recipes/*.toml",
        judge=each_shape(_fits),
        over="shapes",
    ),
    Check(
        id="artifact.schema",
        severity="error",
        what="argument schemas are of the images that the project derives now",
        why="shapes are checked against the schema: one of an older image lets through what the new one refuses",
        how="the digest of all content that decides a schema, and where that moved the ids of its derivations, against "
        "recipes/*.schema.json; nothing is built",
        fix="run: derive schema IMAGE --write",
        place="recipes/*.schema.json",
        judge=_schema,
    ),
    Check(
        id="artifact.verified",
        severity="warn",
        what="records of verified images are of what is locked and declared now",
        why="a record of an older image says nothing about this one",
        how="the wheels that each records/verify/*.json names are locked or built, and its exceptions declared; "
        "whether the image still has no findings, derive verify says",
        fix="run: derive verify IMAGE --record FILE",
        place="records/verify/",
        judge=_verify_records,
    ),
)
