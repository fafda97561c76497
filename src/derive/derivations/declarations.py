# SPDX-License-Identifier: Apache-2.0
"""What stands in ``derivations/*.toml``, as typed values. The keys are explained on the builders' pages.

Core: no IO. Imports pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, assert_never

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from derive.content import Content, Keyed, Some, choice, key_path, parse_model, parse_toml
from derive.derivations.model import Identity, Platform
from derive.errors import Problem
from derive.kernels.declarations import Gpus

NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")
"""What derivations, images and lock sets may be called."""

_PYTHON = re.compile(r"3\.[0-9]+")


def _python(text: str) -> str:
    if not _PYTHON.fullmatch(text):
        raise ValueError("not a version of Python, such as 3.13")
    return text


Python: TypeAlias = Annotated[str, AfterValidator(_python)]


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
    python: Python


class GitFrom(Keyed):
    """A git upstream of a set, at its locked commit."""

    set: str
    git: str


class UrlFrom(Keyed):
    """The file of an upstream that is served at a URL."""

    set: str
    url: str


class OciFrom(Keyed):
    """The image of an upstream, for the host platform at hand."""

    set: str
    oci: str


class HuggingFaceFrom(Keyed):
    """Files of a model or data set: those whose paths fit a pattern, where ``*`` stands for any text without ``/``."""

    set: str
    huggingface: str
    files: Annotated[tuple[str, ...], Some]


_FROM = ("deb", "source", "wheel", "url")
_SOURCE = ("git", "oci", "huggingface")


def _from_kind(value: Any) -> str | None:
    """Say which artifact a ``from`` table names: the keys that name one exclude each other."""
    names = value if isinstance(value, dict) else {}
    found = [name for name in (*_FROM, *_SOURCE) if name in names]
    return choice(found[0]) if len(found) == 1 else None


From = Annotated[
    Annotated[DebFrom, Tag(choice("deb"))]
    | Annotated[SourceFrom, Tag(choice("source"))]
    | Annotated[WheelFrom, Tag(choice("wheel"))]
    | Annotated[UrlFrom, Tag(choice("url"))],
    Discriminator(
        _from_kind,
        custom_error_type="from_kind",
        custom_error_message="name one artifact: with the key deb, source, wheel or url",
    ),
]

TreeFrom = Annotated[
    Annotated[GitFrom, Tag(choice("git"))]
    | Annotated[OciFrom, Tag(choice("oci"))]
    | Annotated[HuggingFaceFrom, Tag(choice("huggingface"))],
    Discriminator(
        _from_kind,
        custom_error_type="from_kind",
        custom_error_message="name one upstream: with the key git, oci or huggingface",
    ),
]


class SourceDecl(Keyed):
    """The tree of a locked upstream: a git commit with what is picked on top of it, an image, a model's files."""

    builder: Literal["source"]
    source: TreeFrom = Field(alias="from")


class UnpackDecl(Keyed):
    """One archive, unpacked. ``kind`` says how (``file``: kept as it is); ``strip`` drops folders of a tar or zip.

    ``identity``, of a wheel, is what the tree's digest is taken of.
    """

    builder: Literal["unpack"]
    kind: Literal["deb", "wheel", "sdist", "zip", "tar", "file"]
    source: From = Field(alias="from")
    strip: int = Field(default=0, ge=0, le=8)
    identity: Identity = "nar"

    @model_validator(mode="after")
    def _kind_fits(self) -> UnpackDecl:
        match self.source:
            case DebFrom():
                kinds: tuple[str, ...] = ("deb",)
            case WheelFrom():
                kinds = ("wheel",)
            case SourceFrom():
                kinds = ("tar", "zip", "sdist")
            case UrlFrom():
                kinds = ("tar", "zip", "sdist", "file")
            case _:
                assert_never(self.source)
        if self.kind not in kinds:
            raise ValueError(
                f"kind {self.kind} does not fit what from names, which is unpacked as {' or '.join(kinds)}"
            )
        if self.strip and self.kind not in ("tar", "zip"):
            raise ValueError(f"strip is for tar and zip: a {self.kind} has one layout")
        if self.identity != "nar" and self.kind != "wheel":
            raise ValueError(f"identity is for wheels: the digest of a {self.kind} is its NAR's")
        return self


class PatchDecl(Keyed):
    """A tree with the series ``patches/<series>/series`` applied; ``identity`` is what its digest is taken of."""

    builder: Literal["patch"]
    source: str = Field(alias="from")
    series: str
    identity: Identity = "nar"


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
    """All wheels of a set for one Python, each installed, byte-compiled and recorded, in one tree.

    ``without`` names those that are left out, each with the reason; ``patches`` which series are applied to which;
    ``drop`` files of a wheel that are not installed, by pattern, each with the reason. ``identity`` is what the
    trees' digests are taken of: large wheels are not read once more for each step by ``facts``.
    """

    builder: Literal["wheels"]
    set: str
    python: Python
    root: str
    without: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    identity: Identity = "nar"
    patches: dict[str, str] = Field(default_factory=dict)
    drop: dict[str, Annotated[dict[str, Annotated[str, Field(min_length=1)]], Some]] = Field(default_factory=dict)


class InstallWheelDecl(Keyed):
    """One unpacked wheel, which some step has made: installed, byte-compiled and recorded."""

    builder: Literal["install-wheel"]
    source: str = Field(alias="from")
    root: str
    python: Python


class BytecodeDecl(Keyed):
    """Byte code of the sources below some paths of a tree."""

    builder: Literal["bytecode"]
    source: str = Field(alias="from")
    root: str
    python: Python
    paths: Annotated[tuple[str, ...], Some]
    exclude: tuple[str, ...] = ()


class PartDecl(Keyed):
    """One part of a union: a tree, and where it is put."""

    source: str = Field(alias="from")
    at: str = ""


class ComposeDecl(Keyed):
    """A union of trees. ``wins`` names, per path, the part that stands where two differ."""

    builder: Literal["compose"]
    parts: Annotated[tuple[PartDecl, ...], Some]
    wins: dict[str, str] = Field(default_factory=dict)


class KernelSourcesDecl(Keyed):
    """Folders of ``kernels/`` as a tree: some kernels, or all, and whatever is shared by them.

    ``exclude`` are patterns of paths in the tree; ``*`` spans slashes.
    """

    builder: Literal["kernel-sources"]
    kernels: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class KernelsDecl(Keyed):
    """The cache that TileLang reads on a host: compiled kernels for some GPU architectures, with an index.

    No ``kernels``: all but those whose file says otherwise. ``gpus`` has a host for each platform of the cache.
    """

    builder: Literal["kernels"]
    kernels: tuple[str, ...] = ()
    root: str
    python: Python
    gpus: Annotated[dict[Literal["linux/amd64", "linux/arm64"], Annotated[Gpus, Some]], Some]
    timeout: int = Field(default=600, ge=1)


Declaration = (
    SourceDecl
    | UnpackDecl
    | PatchDecl
    | ScriptDecl
    | DebianRootDecl
    | WheelsDecl
    | InstallWheelDecl
    | BytecodeDecl
    | ComposeDecl
    | KernelSourcesDecl
    | KernelsDecl
)

_MODELS: dict[str, type[Content]] = {
    "source": SourceDecl,
    "unpack": UnpackDecl,
    "patch": PatchDecl,
    "script": ScriptDecl,
    "debian-root": DebianRootDecl,
    "wheels": WheelsDecl,
    "install-wheel": InstallWheelDecl,
    "bytecode": BytecodeDecl,
    "compose": ComposeDecl,
    "kernel-sources": KernelSourcesDecl,
    "kernels": KernelsDecl,
}


class Parsed(NamedTuple):
    """What one file declares, what is wrong with it, and every name that it gives, right or wrong."""

    declarations: Mapping[str, Declaration]
    problems: list[Problem]
    names: frozenset[str] = frozenset()


def parse_declarations(data: bytes, file: str) -> Parsed:
    """Read one derivations file: a table per name."""
    tables, problems = parse_toml(data, file)
    found: dict[str, Any] = {}
    for name, table in (tables or {}).items():
        where = key_path((name,))
        if not NAME.fullmatch(name):
            hint = "use lower-case letters, digits and . _ + -"
            problems.append(Problem(where=f"{file}: {where}", message="not a name for a derivation", hint=hint))
        elif not isinstance(table, dict):
            message = "not a table: a derivation is declared by one"
            problems.append(Problem(where=f"{file}: {where}", message=message))
        elif (model := _model(table)) is None:
            problems.append(_no_builder(table, f"{file}: {where}.builder"))
        else:
            value, wrong = parse_model(model, table, file, where)
            problems.extend(wrong)
            if value is not None:
                found[name] = value
    return Parsed(found, problems, frozenset(tables or ()))


def _model(table: Mapping[str, Any]) -> type[Content] | None:
    builder = table.get("builder")
    return _MODELS.get(builder) if isinstance(builder, str) else None


def _no_builder(table: Mapping[str, Any], where: str) -> Problem:
    expected = f"expected  one of {', '.join(sorted(_MODELS))}"
    if "builder" not in table:
        return Problem(where=where, message="this key is missing", detail=(expected,))
    return Problem(where=where, message="no such builder", detail=(expected, f"got       {table['builder']!r}"))
