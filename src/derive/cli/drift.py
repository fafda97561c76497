# SPDX-License-Identifier: Apache-2.0
"""Compare what runs with the release that is said to run: every argument, variable, mount, file and unit.

Edge: the project, the site's file, the store, SSH, standard streams. Changes nothing.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from derive.cli.at_site import add_site, again_of, services_at, site_of, ssh_of
from derive.cli.console import answer, answer_record, note, project_root, store_folder, table, wants_json
from derive.cli.options import something
from derive.errors import CheckFailed
from derive.words import count_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.deploy.again import Again
    from derive.deploy.compared import Compared
    from derive.deploy.model import Served
    from derive.deploy.status import NodeSeen
    from derive.deploy.target import Aimed
    from derive.releases.facts import ImageFacts

EXAMPLES = """\
  derive drift
  derive drift probe --site lab.toml
  derive drift --json
"""

_UNKNOWN = 3
_LONGEST = 72
_HEADER = ("node", "what", "expected", "got")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("service", nargs="?", type=something, metavar="SERVICE", help="default: the only one")
    add_site(parser)


def run(args: argparse.Namespace) -> int:
    """Compare and answer: exit 1 for any difference, 3 where a node could not be asked and there is none."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from derive.deploy.compared import compare
    from derive.deploy.look import lookout
    from derive.deploy.services import only_one

    site = site_of(args)
    async with lookout(site, ssh_of()) as nodes:
        service = only_one(args.service, await services_at(nodes, site))
        seen = await nodes.look(service)
        served = _served(service, seen, again_of(args))
        aimed = await asyncio.to_thread(_aimed, args, served)
        found = await compare(nodes, aimed.target, seen, _facts(aimed))
    _answer(args, service, served, found)
    if any(one.differences for one in found):
        return 1
    return _UNKNOWN if any(one.trouble for one in found) else 0


def _served(service: str, seen: Sequence[NodeSeen], again: Again) -> Served:
    """Return what the nodes say runs; raises CheckFailed where they do not agree, or none knows anything."""
    every = {one.node: one.state.current for one in seen if one.state is not None and one.state.current is not None}
    known = {served.launch_bundle: served for served in every.values()}
    if len(known) == 1:
        return next(iter(known.values()))
    if not known:
        raise CheckFailed(f"no node remembers a release of {service}", hint=f"see: {again.command('derive status')}")
    detail = [f"{node}  {served.release}  launch {served.launch_bundle.short}" for node, served in every.items()]
    hint = f"{again.command('derive status')} says what to do next"
    raise CheckFailed("nodes are of different releases", detail=detail, hint=hint)


def _aimed(args: argparse.Namespace, served: Served) -> Aimed:
    from derive.deploy.target import aim
    from derive.render.chosen import Chosen

    chosen = Chosen(recipe=None, shape=served.shape, site=args.site)
    operand = f"release:{served.release_digest.hex}"
    return aim(project_root(args), operand, chosen, os.environ, store_folder(args))


def _facts(aimed: Aimed) -> ImageFacts | None:
    """Return what the release says of the image that is served; told where that leaves the guard out."""
    from derive.deploy.guard import names_guard

    known, image = aimed.known, aimed.target.served.image
    by_digest = {known.release.images[one].digest: found for one, found in known.facts.images.items()}
    found = by_digest.get(image)
    is_guarded = any(launch.guard for launch in aimed.target.bundle.launches)
    if is_guarded and (found is None or not names_guard(found)):
        note(f"the memory guard's program is not compared: {known.name} does not say what it was built as")
        return None
    return found


def _answer(args: argparse.Namespace, service: str, served: Served, found: Sequence[Compared]) -> None:
    for one in found:
        if one.trouble is not None:
            note(f"{one.node}: could not be compared: {one.trouble}")
    if wants_json(args):
        nodes = [one.document() for one in found]
        answer_record("drift", service, {"service": service, "served": served.document(), "nodes": nodes})
        return
    rows = [
        (one.node, difference.field, _cell(difference.expected), _cell(difference.got))
        for one in found
        for difference in one.differences
    ]
    if rows:
        answer(table([_HEADER, *rows]))
        again = again_of(args).deploy(served, ("--replace",))
        note(f"{count_text(len(rows), 'difference')} from {served.release}: deploy it again, or another: {again}")
        return
    compared = sum(one.trouble is None for one in found)
    answer(f"{count_text(compared, 'node')} as {served.release} says: container, image, files and units")


def _cell(text: str | None) -> str:
    if text is None:
        return "nothing"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
