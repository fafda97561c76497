# SPDX-License-Identifier: Apache-2.0
"""What a report must say to be evidence: what it measured, and of which release, image and shape.

Core: no IO. Specified on docs/formats/release.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from derive.canonical import Digest, Json
from derive.errors import Problem, expected_got
from derive.records.model import Record
from derive.releases.document import Release

KINDS: Mapping[str, str] = {
    "benchmark": "benchmark",
    "benchmark-report": "benchmark",
    "release-test": "release-test",
    "release-test-report": "release-test",
    "kernel-report": "kernel",
    "image-build": "image-build",
    "verify": "verify",
}
"""From the kind of a record to the kind of evidence that it is."""

OF_A_SHAPE = ("benchmark", "release-test")
_SUBJECTS = ("release", "image", "images")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The release that is spoken for: its name, its digest and the digests of its images."""

    name: str
    release: str
    images: Collection[str]

    @classmethod
    def of(cls, name: str, release: Release) -> About:
        """Return what tells a release."""
        return cls(name=name, release=str(release.digest), images=[str(one.digest) for one in release.images.values()])


def speaks_problems(record: Record, shape: str | None, about: About | None, file: str) -> Iterator[Problem]:
    """Yield why a record is no evidence for a shape (None: all) of a release (None: of one that is still to be).

    The record is of a kind in ``KINDS``.
    """
    body, kind = record.body, KINDS[record.kind]
    if kind in OF_A_SHAPE:
        yield from _measured(body, kind, file)
    else:
        yield from _form(body, _FORMS[kind], file)
    said = body.get("shape")
    if said is not None and shape is not None and said != shape:
        hint = f"name it for the shape that it measured: --evidence {file}:{said}"
        detail = expected_got(shape, _shown(said))
        yield Problem(where=f"{file}: body.shape", message="measured on another shape", detail=detail, hint=hint)
    if about is not None:
        yield from _of_another(body, about, file)


def _measured(body: Mapping[str, Json], kind: str, file: str) -> Iterator[Problem]:
    hint = "have what measured it write what it ran: docs/formats/release.md"
    if not isinstance(body.get("shape"), str) or not body["shape"]:
        detail = expected_got("the name of a shape", _shown(body.get("shape")))
        message = f"a {kind} that does not say of which shape it is"
        yield Problem(where=f"{file}: body.shape", message=message, detail=detail, hint=hint)
    if not any(body.get(key) for key in _SUBJECTS):
        detail = expected_got("release, image or images", ", ".join(sorted(body)) or "an empty body")
        message = f"a {kind} that does not say of what it is"
        yield Problem(where=f"{file}: body", message=message, detail=detail, hint=hint)


def _of_another(body: Mapping[str, Json], about: About, file: str) -> Iterator[Problem]:
    """Yield each mention of a release or an image that is not of the one that is spoken for."""
    known = " or ".join(sorted(about.images))
    release = body.get("release")
    if release is not None and release not in (about.name, about.release):
        detail = expected_got(f"{about.name} or {about.release}", _shown(release))
        yield Problem(where=f"{file}: body.release", message="measured on another release", detail=detail, hint=_ANEW)
    images = body.get("images")
    given = [("image", body.get("image"))]
    if isinstance(images, Mapping):
        given += [(f"images.{platform}", one) for platform, one in images.items()]
    elif images is not None:
        given.append(("images", images))
    for key, image in given:
        if image is not None and image not in about.images:
            detail = expected_got(known, _shown(image))
            yield Problem(where=f"{file}: body.{key}", message="measured on another image", detail=detail, hint=_ANEW)


_ANEW = "measure this release, and name that report"


def _form(
    body: Mapping[str, Json], form: Mapping[str, tuple[str, Callable[[Json], bool]]], file: str
) -> Iterator[Problem]:
    for path, (expected, fits) in form.items():
        found = _at(body, path)
        if not fits(found):
            detail = expected_got(expected, _shown(found))
            hint = "name the report as the command wrote it"
            yield Problem(
                where=f"{file}: body.{path}", message="a report that does not say it", detail=detail, hint=hint
            )


def _at(body: Mapping[str, Json], path: str) -> Json:
    found: Json = body
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and bool(value)


def _is_some(value: Json) -> bool:
    return isinstance(value, Mapping | list | tuple) and bool(value)


def _is_list(value: Json) -> bool:
    return isinstance(value, list | tuple)


def _are_digests(value: Json) -> bool:
    try:
        return _is_some(value) and all(
            Digest.parse(str(one)) for one in (value if isinstance(value, list | tuple) else ())
        )
    except ValueError:
        return False


_FORMS: Mapping[str, Mapping[str, tuple[str, Callable[[Json], bool]]]] = {
    "kernel": {
        "run.bundle.gpu": ("the GPU that they are for", _is_text),
        "run.bundle.units": ("the kernels, one at least", _is_some),
        "run.ok": ("true: a run that failed speaks for nothing", lambda value: value is True),
    },
    "image-build": {"platform": ("a platform", _is_text), "digests": ("digests of the image", _are_digests)},
    "verify": {
        "platform": ("a platform", _is_text),
        "looked_at": ("what was looked at", _is_some),
        "findings": ("a list, empty where nothing was found", _is_list),
    },
}
"""The least that the body of a report says which is of no shape: key path, what is expected, what fits."""


def _shown(value: Json) -> str:
    if value is None:
        return "nothing"
    return repr(value)[:80] if not isinstance(value, Mapping | list | tuple) else f"a table or list of {len(value)}"
