# SPDX-License-Identifier: Apache-2.0
"""What stands in ``derivations/*.toml``, as typed values. The keys are explained on the builders' pages.

Core: no IO. Imports pydantic.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from derive.content import Content, parse_model, parse_toml, to_key
from derive.derivations.model import Platform
from derive.errors import Problem

NAME = r"^[a-z0-9][a-z0-9._+-]*$"


class Keyed(Content):
    """Content whose keys are written with hyphens."""

    model_config = ConfigDict(alias_generator=to_key, frozen=True, extra="forbid", strict=True)


class DebFrom(Keyed):
    """A locked binary package: every architecture of the set has its own."""

    set: str
    deb: str


class SourceFrom(Keyed):
    """One file of a locked Debian source package: ``orig``, ``debian`` or ``dsc``."""

    set: str
    source: str
    part: Literal["orig", "debian", "dsc"] = "orig"


class WheelFrom(Keyed):
    """A locked wheel, for the Python and host platform at hand."""

    set: str
    wheel: str
    python: str


class UnpackDecl(Keyed):
    """One archive, unpacked. ``kind`` says how; ``strip`` leading folders are dropped from a tar or zip."""

    builder: Literal["unpack"]
    kind: Literal["deb", "wheel", "sdist", "zip", "tar"]
    source: DebFrom | SourceFrom | WheelFrom = Field(alias="from")
    strip: int = Field(default=0, ge=0, le=8)


class PatchDecl(Keyed):
    """A tree with the series ``patches/<series>/series`` applied."""

    builder: Literal["patch"]
    source: str = Field(alias="from")
    series: str


class AllowDecl(Keyed):
    """A path of the sandbox that may stand in some files of an output, with the reason why."""

    path: str
    text: Literal["/in/", "/out", "/build"]
    reason: str = Field(min_length=1)


class ScriptDecl(Keyed):
    """A script of ours, run in the sandbox over a composed root."""

    builder: Literal["script"]
    root: str
    script: str
    inputs: dict[str, str] = Field(default_factory=dict)
    files: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    allow: tuple[AllowDecl, ...] = ()
    host: Platform | None = None
    timeout: int = Field(default=3600, ge=1)


class AccountDecl(Keyed):
    """An account that the root has beyond those of Debian's base-passwd."""

    uid: int = Field(ge=0, le=65535)
    gid: int = Field(ge=0, le=65535)
    gecos: str = ""
    home: str = "/nonexistent"
    shell: str = "/usr/sbin/nologin"


class DebianRootDecl(Keyed):
    """A root made of unpacked packages, with what their scripts would have added."""

    model_config = ConfigDict(alias_generator=to_key, frozen=True, extra="forbid", strict=True)

    builder: Literal["debian-root"]
    set: str
    closure: str
    accounts: dict[str, AccountDecl] = Field(default_factory=dict)
    groups: dict[str, int] = Field(default_factory=dict)
    alternatives: dict[str, str] = Field(default_factory=dict)
    files: dict[str, str] = Field(default_factory=dict)
    replaces: dict[str, str] = Field(default_factory=dict)
    covered: dict[str, str] = Field(default_factory=dict)
    waived: dict[str, str] = Field(default_factory=dict)


class WheelsDecl(Keyed):
    """All wheels of a set for one Python, each installed, byte-compiled and recorded, in one tree."""

    builder: Literal["wheels"]
    set: str
    python: str
    root: str


class BytecodeDecl(Keyed):
    """Byte code of the sources below some paths of a tree."""

    builder: Literal["bytecode"]
    source: str = Field(alias="from")
    root: str
    python: str
    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()


class PartDecl(Keyed):
    """One part of a union: a tree, and where it is put."""

    source: str = Field(alias="from")
    at: str = ""


class ComposeDecl(Keyed):
    """A union of trees. ``wins`` names, per path, the part that stands where two differ."""

    builder: Literal["compose"]
    parts: tuple[PartDecl, ...] = Field(min_length=1)
    wins: dict[str, str] = Field(default_factory=dict)


Declaration = UnpackDecl | PatchDecl | ScriptDecl | DebianRootDecl | WheelsDecl | BytecodeDecl | ComposeDecl

_MODELS: dict[str, type[Content]] = {
    "unpack": UnpackDecl,
    "patch": PatchDecl,
    "script": ScriptDecl,
    "debian-root": DebianRootDecl,
    "wheels": WheelsDecl,
    "bytecode": BytecodeDecl,
    "compose": ComposeDecl,
}


def parse_declarations(data: bytes, file: str) -> tuple[dict[str, Declaration], list[Problem]]:
    """Read one derivations file: a table per name."""
    tables, problems = parse_toml(data, file)
    found: dict[str, Any] = {}
    for name, table in (tables or {}).items():
        if not isinstance(table, dict):
            problems.append(Problem(where=f"{file}: {name}", message="not a table: a derivation is declared by one"))
            continue
        builder = table.get("builder")
        model = _MODELS.get(builder) if isinstance(builder, str) else None
        if model is None:
            problems.append(
                Problem(
                    where=f"{file}: {name}.builder",
                    message="no such builder" if builder else "this key is missing",
                    detail=(f"expected  one of {', '.join(sorted(_MODELS))}", f"got       {builder!r}"),
                )
            )
            continue
        value, wrong = parse_model(model, table, file, name)
        problems.extend(wrong)
        if value is not None:
            found[name] = value
    return found, problems
