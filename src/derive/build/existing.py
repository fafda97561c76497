# SPDX-License-Identifier: Apache-2.0
"""The image that an operand names, as it lies in the store: nothing is derived or fetched for it.

Edge: the project, the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from derive.build.memo import image_is_whole, memo_key, recall, remember
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Platform
from derive.errors import Corrupt, InputErrors, Missing
from derive.operands import ByDigest, Named, Operand, Released, Working, parse_operand
from derive.project import Project
from derive.store.local import LocalStore
from derive.store.places import find_place


def existing_image(
    store: LocalStore, project: Callable[[], Project], text: str | None, platform: Platform | None
) -> Digest:
    """Return the manifest's digest; without an operand, of the project's default image.

    A name means what the project at hand makes of it now.

    Raises:
        InputErrors: when it is no image, or not derived yet: then with the command that derives it.
    """
    operand: Operand = Working() if text is None else parse_operand(text, platform)
    match operand:
        case ByDigest():
            found = _output(store, operand, _never)
            if found is None:
                raise InputErrors.one(f"{operand} is no image in the store", hint="a name, or the digest of an image")
            return found
        case Named(kind="drv"):
            raise InputErrors.one(f"{operand} is no image", hint="name an image: derive show lists them")
        case Named(name=name, platform=said):
            return _derived(store, project(), name, said)
        case Working():
            known = project()
            return _derived(store, known, known.settings.default_image, platform)
        case Released():
            return _released(store, project(), operand)
        case _:
            assert_never(operand)


def usual_platform(project: Callable[[], Project]) -> Platform | None:
    """Return the platform of the project's default image; None where there is no project, or no such image."""
    from derive.derivations.scope import load_scope

    try:
        known = project()
    except InputErrors:
        return None
    image = load_scope(known).images.get(known.settings.default_image)
    return None if image is None else image.default_platform


def find_image(store: LocalStore, project: Project, name: str, platform: Platform | None) -> Digest | None:
    """Return the manifest's digest of what the project makes of a name now; None where it is not derived yet."""
    key = memo_key(project, name, platform)
    found = recall(store, key, project.root)
    if found is not None:
        return found
    from derive.build.service import evaluate

    def current(named: Named) -> Derivation:
        return evaluate(project, f"image:{named.name}", named.platform)

    wanted = Named(name, "image", platform)
    if store.database.has_substituted() and not _is_believed(store, project, current(wanted)):
        return None
    found = _output(store, wanted, current)
    if found is not None and not store.read_only:
        remember(store, key, project.root, found)  # evaluating takes longer than all else
    return found


def _is_believed(store: LocalStore, project: Project, target: Derivation) -> bool:
    """Say whether a target is derived as far as the project believes those by whose word anything under it came."""
    from derive.build.service import plan_for

    return plan_for(target, store, project.root, to_run=False).is_done


def _derived(store: LocalStore, project: Project, name: str, platform: Platform | None) -> Digest:
    found = find_image(store, project, name, platform)
    if found is None:
        flag = f" --platform {platform}" if platform else ""
        raise InputErrors.one(f"the image {name} is not derived yet", hint=f"run: derive image {name}{flag}")
    return found


def _released(store: LocalStore, project: Project, operand: Released) -> Digest:
    from derive.why.released import find, image_of

    known = find(project.root, operand)
    platform, image = image_of(known, project.root, operand.platform, store.root)
    if not image_is_whole(store, image.digest):
        hint = f"derive it from its content: derive records checkout {known.name} DIR"
        raise InputErrors.one(f"the image of {operand} for {platform} is not in the store", hint=hint)
    return image.digest


def _output(store: LocalStore, operand: Operand, current: Callable[[Named], Derivation]) -> Digest | None:
    """Return the manifest that an operand leads to; None where it is none, or not whole."""
    try:
        output = find_place(store, operand, "out", current).output
        if isinstance(output, FlatOutput) and image_is_whole(store, output.digest):
            return output.digest
    except (Missing, Corrupt, ValueError, KeyError, TypeError):
        return None
    return None


def _never(named: Named) -> Derivation:
    raise AssertionError(named)
