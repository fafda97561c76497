# SPDX-License-Identifier: Apache-2.0
"""Print what an image is made of, as a CycloneDX bill of materials: packages, patches, what we built, and layers.

Edge: the store, the project, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, project_of, store_folder, wants_json
from derive.cli.lapses import tell_lapsed
from derive.store.local import LocalStore

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
  derive sbom probe > probe.cdx.json
  derive sbom probe --platform linux/arm64
  derive sbom sha256:<hex>             of an image that the store knows
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("operand", nargs="?", metavar="IMAGE", help="a name or digest (default: the project's default)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")


def run(args: argparse.Namespace) -> int:
    """Read the closure, print the bill."""
    from derive.attest.gather import image_facts
    from derive.attest.sbom import bill, sbom

    with LocalStore(store_folder(args), reading=True) as store:
        facts = image_facts(store, lambda: project_of(args), args.operand, args.platform)
        tell_lapsed(args, store, [facts.derivation])
    if wants_json(args):
        answer_record("sbom", facts.name, {"image": str(facts.image), "bill": bill(facts)})
    else:
        answer(sbom(facts).decode())
    return 0
