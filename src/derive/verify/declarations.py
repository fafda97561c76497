# SPDX-License-Identifier: Apache-2.0
"""What stands in ``images/verify/NAME.toml``: what an image's surroundings give, and which findings are known.

Core: no IO. Imports pydantic. The keys are explained on docs/verify.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, model_validator

from derive.content import Keyed, Some, parse_model, parse_toml
from derive.derivations.model import Platform
from derive.errors import InputErrors, Problem
from derive.images.declarations import ImagePlatform
from derive.verify.architectures import parse_device
from derive.verify.drivers import DRIVER_LIBRARIES, parse_driver
from derive.verify.findings import Rule

if TYPE_CHECKING:
    from derive.project import Project

FOLDER = "images/verify"

_RULES = tuple(rule.value for rule in Rule if rule is not Rule.STALE)


def _rule(text: str) -> str:
    if text not in _RULES:
        raise ValueError(f"no such rule; there are {', '.join(_RULES)}")
    return text


def _device(text: str) -> str:
    parse_device(text)
    return text


def _driver(text: str) -> str:
    parse_driver(text)
    return text


Reason = Annotated[str, Field(min_length=1)]
Patterns = Annotated[tuple[str, ...], Some]


class DriverDecl(Keyed):
    """The NVIDIA driver of the machines: what its container toolkit mounts, and the oldest version that they run."""

    libraries: tuple[str, ...] = DRIVER_LIBRARIES
    version: Annotated[str, AfterValidator(_driver)] | None = None


class ServingDecl(Keyed):
    """The machines' GPUs, which all GPU code in the image must be for.

    Of the owners in ``separate``, which have code for each GPU in files of its own, each file is for one of them.
    """

    separate: tuple[str, ...] = ()
    devices: dict[ImagePlatform, Annotated[tuple[Annotated[str, AfterValidator(_device)], ...], Some]]


class LoadedDecl(Keyed):
    """Libraries that a process has loaded before it loads the files of some owners."""

    by: str
    libraries: Patterns
    users: Patterns = Field(alias="for")
    reason: Reason


class ExceptionDecl(Keyed):
    """A finding that is known, and why it is none; patterns are those of ``fnmatch``, where ``*`` spans slashes.

    ``licence`` is what a person found, where the package does not say.
    """

    rule: Annotated[str, AfterValidator(_rule)]
    path: str | None = None
    owner: str | None = None
    about: str | None = None
    platforms: tuple[ImagePlatform, ...] = ()
    reason: Reason
    licence: str | None = None

    @model_validator(mode="after")
    def _names_something(self) -> ExceptionDecl:
        if self.path is None and self.owner is None:
            raise ValueError("name a path or an owner")
        if (self.licence is not None) != (self.rule == Rule.LICENCE.value):
            raise ValueError("an exception of the rule licence says which it is, and no other does")
        return self


class VerifyDecl(Keyed):
    """One verify file."""

    driver: DriverDecl = DriverDecl()
    serving: ServingDecl | None = None
    loaded: tuple[LoadedDecl, ...] = ()
    exceptions: tuple[ExceptionDecl, ...] = ()

    def devices(self, platform: Platform) -> tuple[int, ...]:
        """Return the GPUs of the machines of a platform, as 121 for ``sm_121``."""
        named = self.serving.devices if self.serving is not None else {}
        return tuple(parse_device(text) for key, texts in named.items() if key == platform for text in texts)


def parse_verify(data: bytes, file: str) -> tuple[VerifyDecl | None, list[Problem]]:
    """Read one verify file."""
    table, problems = parse_toml(data, file)
    if table is None:
        return None, problems
    return parse_model(VerifyDecl, table, file)


def verify_decl(project: Project, image: str) -> VerifyDecl:
    """Return what is declared for an image: nothing, where it has no verify file.

    Raises:
        InputErrors: everything wrong with it.
    """
    _refuse_strays(project)
    file = f"{FOLDER}/{image}.toml"
    data = project.files.get(file)
    if data is None:
        return VerifyDecl()
    found, problems = parse_verify(data, file)
    if found is None:
        raise InputErrors(problems)
    return found


def _refuse_strays(project: Project) -> None:
    """Refuse verify files of images that the project does not have: nothing would ever read them."""
    from derive.derivations.scope import absent

    images = {name.removesuffix(".toml") for name in project.below("images") if "/" not in name}
    files = [name for name in project.below(FOLDER) if name.removesuffix(".toml") not in images]
    if files:
        raise InputErrors([absent(f"{FOLDER}/{name}", "image", name.removesuffix(".toml"), images) for name in files])
