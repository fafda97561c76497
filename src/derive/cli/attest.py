# SPDX-License-Identifier: Apache-2.0
"""Sign an image's provenance and bill of materials and attach them to it; or check what is attached.

Edge: the store, the project, your keys, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, store_folder, table, wants_json
from derive.cli.lapses import require_standing, tell_lapsed
from derive.cli.running import options_of
from derive.errors import InputErrors
from derive.store.local import LocalStore
from derive.words import count_text, size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.attest.attach import Attached
    from derive.attest.facts import ImageFacts
    from derive.attest.judge import Attestation
    from derive.canonical import Json
    from derive.trust.keys import SigningKey

EXAMPLES = """\
  derive attest probe --key build
  derive attest probe --key build --certificate   and that this builder derived it here, every step twice
  derive attest probe --check          are there both, signed by keys that the project trusts, and right?
"""

_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("operand", nargs="?", metavar="IMAGE", help="a name or digest (default: the project's default)")
    parser.add_argument("--platform", choices=("linux/amd64", "linux/arm64"), help="default: as the image's file says")
    parser.add_argument("--key", action="append", default=[], metavar="NAME", help="sign with it; may be given again")
    parser.add_argument("--unsigned", action="store_true", help="attach what nobody signs")
    parser.add_argument(
        "--certificate",
        action="store_true",
        help="derive it here, each step twice, and attach that you did, with this machine's hardware and kernel",
    )
    parser.add_argument("--check", action="store_true", help="look at what is attached, and attach nothing")


def run(args: argparse.Namespace) -> int:
    """Attach both, or check them."""
    if args.check and (args.key or args.unsigned or args.certificate):
        raise InputErrors.one("--check signs nothing", hint="leave out --key, --certificate and --unsigned")
    if args.check:
        return _check(args)
    if args.key and args.unsigned:
        raise InputErrors.one("--unsigned attaches what nobody signs", hint="leave out --key, or --unsigned")
    if not args.key and not args.unsigned:
        hint = "name your key with --key (derive key list), or say --unsigned"
        raise InputErrors.one("an attestation is signed", hint=hint)
    if args.certificate and args.unsigned:
        raise InputErrors.one("a certificate is signed", hint="name your key with --key (derive key list)")
    return _attach(args)


def _attach(args: argparse.Namespace) -> int:
    from derive.attest.attach import attest
    from derive.attest.gather import image_facts
    from derive.trust.keyring import user_keyring

    keys = user_keyring().usable(args.key) if args.key else ()
    with LocalStore(store_folder(args)) as store:
        facts = image_facts(store, lambda: project_of(args), args.operand, args.platform)
        if keys:
            require_standing(args, store, [facts.derivation], f"the image {facts.name}")
        else:
            tell_lapsed(args, store, [facts.derivation])
        certificate = _certificate(args, store, facts, keys) if args.certificate else None
        found = (*attest(store, facts, keys), *([] if certificate is None else [certificate]))
    if wants_json(args):
        attached: list[Json] = [
            {"kind": one.kind, "manifest": str(one.manifest), "size_bytes": one.size} for one in found
        ]
        signed_by = [str(key.public.id) for key in keys]
        answer_record("attest", facts.name, {"image": str(facts.image), "attached": attached, "signed_by": signed_by})
    else:
        answer(table([(one.kind, str(one.manifest)) for one in found]))
    note(f"attached to {facts.image}, which stays as it is: {size_text(sum(one.size for one in found))}")
    if facts.unknown:
        note(f"what {count_text(facts.unknown, 'step')} gave is not known to this store, and not said")
    if not keys:
        note("nobody signed it: --check says so")
    return 0


def _certificate(
    args: argparse.Namespace, store: LocalStore, facts: ImageFacts, keys: Sequence[SigningKey]
) -> Attached:
    import os
    import time

    from derive.certificates.host import host_here
    from derive.certificates.image import certify_image
    from derive.cli.progress import progress_for_stderr

    host = host_here(facts.image, os.environ)
    options = options_of(args)
    return certify_image(project_of(args), store, facts, keys, host, int(time.time()), options, progress_for_stderr())


def _check(args: argparse.Namespace) -> int:
    from derive.attest.check import attached, check_attestations
    from derive.attest.gather import image_here
    from derive.cli.trusting import require_keys_held, require_policy
    from derive.trust.keyring import user_keyring

    require_keys_held(args)
    with LocalStore(store_folder(args), reading=True) as store:
        image, facts = image_here(store, lambda: project_of(args), args.operand, args.platform)
        said = attached(store, image)
        there = f"find the file to read: derive store path {said[0][1]}" if said else "have it attested first"
        policy = require_policy(args, there if facts is None else "read it with derive provenance")
        found = check_attestations(store, image, facts, policy, user_keyring().revoked())
    if wants_json(args):
        body: dict[str, Json] = {
            "image": str(image),
            "compared": facts is not None,
            "attestations": [_document(one) for one in found.attestations],
            "passed_over": [
                {"manifests": [str(manifest) for manifest in manifests], "why": why}
                for _, manifests, why in found.passed_over()
            ],
            "findings": found.findings,
        }
        answer_record("attest-check", facts.name if facts is not None else str(image), body)
    elif found.attestations:
        answer(table([("attestation", "of", "signed by", ""), *map(_row, found.attestations)]))
    _tell("passed over", [f"{title}: {why}" for title, _, why in found.passed_over()])
    _tell("finding", found.findings)
    if facts is None:
        note("how the image came to be is not known to this store: signatures and subjects were checked, outputs not")
    note(f"{image}: {count_text(len(found.findings), 'finding')}")
    return 1 if found.findings else 0


def _tell(what: str, texts: Sequence[str]) -> None:
    for text in texts[:_SHOWN]:
        note(f"{what}: {text}")
    if len(texts) > _SHOWN:
        note(f"{what}: and {len(texts) - _SHOWN} more: --json")


def _row(one: Attestation) -> tuple[str, ...]:
    verdict = "right" if one.holds else "wrong" if one.wrong else "passed over"
    return one.place, one.kind, ", ".join(one.judgement.trusted), verdict


def _document(one: Attestation) -> Json:
    return {
        "manifests": [str(manifest) for manifest in one.manifests],
        "signed_in": [str(manifest) for manifest in one.signed_in],
        "kind": one.kind,
        "signed_by": one.judgement.trusted,
        "trusted": one.judgement.holds,
        "wrong": one.wrong,
    }
