# SPDX-License-Identifier: Apache-2.0
"""What ``derive image`` and ``derive export`` share: the choice of a backend, and an image's name, platform and layers.

Edge: arguments, the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import note
from derive.cli.running import options_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from derive.canonical import Digest, Json
    from derive.derivations.model import Platform
    from derive.project import Project
    from derive.store.local import LocalStore

_BACKEND = "buildkit"


def backend_option(parser: argparse.ArgumentParser) -> None:
    """Declare what assembles the image, where derive itself does not."""
    parser.add_argument(
        "--backend",
        type=_backend,
        metavar="buildkit[=BUILDER]",
        help="have a builder of buildx assemble the image, too, prove it the same, and answer with its digest",
    )


def assembled(
    backend: str, project: Project, name: str, platform: Platform | None, store: LocalStore, native: Digest
) -> tuple[Digest, Mapping[str, Json]]:
    """Have a builder assemble an image once more; return the digest, and what a record says of it beside that.

    Raises:
        InputErrors, HostRefuses, Unavailable, BuildFailed, CheckFailed: as :func:`build_image`.
        HostRefuses: when the builder's host has a guard, and may not build now.
    """
    import os

    from derive.buildkit.image_build import build_image
    from derive.schedule.guards import require_idle

    builder = backend.partition("=")[2]
    require_idle((builder,), os.environ)
    names = layer_names_of(project, name, platform, store)
    made = build_image(store, native, name, names, builder=builder, note=note)
    note(f"the native image is {native}; the same at {made.paths} paths, and in its settings")
    return made.manifest, {
        "backend": _BACKEND,
        "native": str(native),
        "paths": made.paths,
        "builder": dict(made.builder),
    }


def derived_image(args: argparse.Namespace, project: Project, store: LocalStore) -> tuple[str, Platform | None, Digest]:
    """Return the name, the platform and the digest of the image that the arguments name; derived where it is not there.

    Raises:
        InputErrors: when no image has that name; else what its steps raise.
    """
    from derive.build.images import derive_image
    from derive.build.memo import memo_key, recall, remember
    from derive.build.service import named
    from derive.cli.progress import progress_for_stderr

    wanted = named(args.name or project.settings.default_image, args.platform)
    key = memo_key(project, wanted.name, wanted.platform)
    store.protect(())  # a collection must not take what is about to be read
    manifest = recall(store, key, project.root)
    if manifest is None:
        options = options_of(args)
        manifest = derive_image(project, wanted.name, wanted.platform, store, options, progress_for_stderr()).manifest
        remember(store, key, project.root, manifest)
    return wanted.name, wanted.platform, manifest


def layer_names_of(project: Project, name: str, platform: Platform | None, store: LocalStore) -> Mapping[Digest, str]:
    """Return what the layers of a derived image are called in its file, by their blobs."""
    from derive.build.service import evaluate
    from derive.buildkit.image_layers import layer_names

    return layer_names(evaluate(project, f"image:{name}", platform), store)


def _backend(text: str) -> str:
    import argparse

    kind, equals, name = text.partition("=")
    if kind != _BACKEND or (equals and not name):
        raise argparse.ArgumentTypeError(f"not buildkit, and not buildkit=BUILDER: {text!r}")
    return text
