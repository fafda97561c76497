# SPDX-License-Identifier: Apache-2.0
"""Render a launch from a project: the image that the project makes now, the site of this user, and all files.

Edge: the project's files, the site's file, the store. What renders is imported when it is needed: an answer that was
given before is found without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from derive.canonical import Digest
from derive.errors import HostRefuses, Missing
from derive.render.chosen import Chosen
from derive.render.show import Answer, answer_of

if TYPE_CHECKING:
    from derive.derivations.model import Platform
    from derive.project import Project
    from derive.render.bundle import Bundle
    from derive.render.inputs import Inputs
    from derive.store.local import LocalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A bundle and what it was made from."""

    bundle: Bundle
    inputs: Inputs


def render(
    root: Path,
    chosen: Chosen,
    environ: Mapping[str, str],
    image: Callable[[Inputs], Digest],
    usual: str,
) -> Rendered:
    """Render the files of all nodes; ``image`` says which image a recipe's shape runs.

    Raises:
        InputErrors: when anything is wrong with recipe, fabric, site or templates; everything at once.
        Missing: when the image is not derived yet.
    """
    from derive.render.bundle import bundle
    from derive.render.inputs import read_inputs

    inputs = read_inputs(root, chosen, environ, usual)
    found = bundle(inputs.resolved, inputs.site, image(inputs), inputs.fabric, inputs.files, inputs.judgement)
    return Rendered(bundle=found, inputs=inputs)


def answered(
    root: Path,
    chosen: Chosen,
    environ: Mapping[str, str],
    image: Digest | None,
    usual: str,
    project: Callable[[], Project],
    store: Callable[[], Path],
) -> Answer:
    """Render, unless the same was rendered before and the store still has it; raises as :func:`render` does.

    Without an image, it is the one that the project makes now, as :func:`derived_image` says.
    """
    with ExitStack() as held:
        opened = _opened(held, store, needed=image is None)

        def afresh(known: Digest | None) -> Rendered:
            return render(root, chosen, environ, lambda inputs: known or _derived(opened, inputs, project), usual)

        if opened is None:
            return _made(afresh(image))
        from derive.render import recall

        asked = recall.question(root, chosen, environ, usual)
        if asked is None:
            return _made(afresh(image))
        known = image or _image_of(opened, opened.database.memo(recall.image_key(asked)), project)
        given = None if known is None else recall.recalled(opened, recall.answer_key(asked, known))
        if given is not None:
            return given
        rendered = afresh(known)
        answer = _made(rendered)
        recall.remember(opened, asked, rendered.bundle.image, " ".join(_asked(rendered.inputs)), answer)
        return answer


def _made(rendered: Rendered) -> Answer:
    return answer_of(rendered.bundle, rendered.inputs)


def derived_image(inputs: Inputs, project: Callable[[], Project], store: Path) -> Digest:
    """Return the digest of the image that the project makes now, as the store has it; nothing is derived.

    Raises:
        Missing: when it is not derived yet: with the command that derives it.
    """
    from derive.store.local import LocalStore

    with LocalStore(store, reading=True) as opened:
        return _derived(opened, inputs, project)


def _opened(held: ExitStack, store: Callable[[], Path], *, needed: bool) -> LocalStore | None:
    """Open the store until the stack ends; None where there is none, or it cannot be opened and is not needed."""
    try:
        folder = store()
        if not folder.is_dir():
            return None
        from derive.store.local import LocalStore

        opened = held.enter_context(LocalStore(folder, reading=True))
    except HostRefuses:
        if needed:
            raise
        return None
    return None if opened.is_absent else opened


def _derived(store: LocalStore | None, inputs: Inputs, project: Callable[[], Project]) -> Digest:
    name, platform = inputs.resolved.image, inputs.resolved.platform
    found = None if store is None else _image_of(store, " ".join(_asked(inputs)), project)
    if found is None:
        raise Missing(
            f"the image {name} is not derived yet for {platform}, and launch files name its digest",
            hint=f"run: derive image {name} --platform {platform}; or name an image: --image sha256:...",
        )
    return found


def _image_of(store: LocalStore, asked: str | None, project: Callable[[], Project]) -> Digest | None:
    """Return the digest of an image by name and platform, if it is derived."""
    if asked is None:
        return None
    from derive.build.existing import find_image

    name, _, platform = asked.partition(" ")
    return find_image(store, project(), name, cast("Platform", platform) if platform else None)


def _asked(inputs: Inputs) -> tuple[str, ...]:
    """Return an image's name, and its platform where that is not its usual one: so ``derive image`` remembers it."""
    from derive.toml import parse_toml

    name, platform = inputs.resolved.image, inputs.resolved.platform
    file = f"images/{name}.toml"
    table, _ = parse_toml(inputs.files[file], file)
    return (name,) if table is not None and table.get("default-platform") == platform else (name, platform)
