# SPDX-License-Identifier: Apache-2.0
"""Gathers all that a promotion asks, has it judged, and returns the record that would be written.

Edge: the project and its records, the site's file, the store, through the services below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from derive.build.engine import engine_digest
from derive.build.execute import Progress
from derive.build.service import Options
from derive.canonical import Digest, Json, digest_document, encode
from derive.certificates.folder import read_folder
from derive.certificates.gather import stand_here
from derive.certificates.judge import Standing, unnamed
from derive.certificates.rederive import rederive
from derive.errors import CheckFailed, InputErrors, Problem, RecordEdited, RecordGone
from derive.project import load_policy
from derive.promotion.content import Content, content_of, with_todays_promotion
from derive.promotion.evidence import evidence_part, for_shape, needs_waiver, waiver_entry
from derive.promotion.gather import Asked, all_evidence, ask_doctor, machines_of, read_records, waived_before
from derive.promotion.machines import Machines, doctor_part, machines_part
from derive.promotion.part import NotPromoted, Part, joined
from derive.promotion.requirements import (
    alarm_part,
    certified_part,
    checked_part,
    image_asked,
    other_platforms,
    release_part,
    shape_part,
)
from derive.records.chain import FOLDER, Chain, Entry
from derive.records.folder import alone, append_to, load
from derive.records.held import Held
from derive.releases.find import Known, entry_of, known_of
from derive.releases.state import promotions, retirement
from derive.render.bundle import shape_document
from derive.store.local import LocalStore
from derive.words import near


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A promotion that nothing stands against: the body of its record, and the last record when it was judged.

    ``known`` is the release. ``standing`` is the record that says the same already: nothing moved since it was written.
    ``unnamed`` says of certificates that lie by the release, and that the record does not name, why it does not.
    """

    known: Known
    body: Mapping[str, Json]
    head: Digest | None
    standing: Entry | None = None
    unnamed: tuple[str, ...] = ()

    @property
    def unchecked(self) -> Sequence[str]:
        """What was not checked, in sentences."""
        found = self.body["unchecked"]
        assert isinstance(found, Sequence)
        return tuple(str(one) for one in found)


def promote(asked: Asked, options: Options, progress: Progress) -> Promotion:
    """Judge a promotion.

    Raises:
        NotPromoted: with everything that is missing.
        InputErrors: when no such release or shape is known, or a file that was named cannot be read.
    """
    what = f"{asked.name} is not promoted for {asked.shape}"
    records, chained = read_records(asked.root)
    known, chain = _known(asked, records, chained, what), records.chain
    _require_shape(asked.shape, known)
    parts = [chained, release_part(chain, known.name, known.release, asked.shape)]
    machines = machines_of(asked)
    with content_of(asked.root, known, asked.store) as released:
        content = with_todays_promotion(released, asked.root)
        resolved = content.served.shapes[asked.shape].resolved
        entries = all_evidence(asked, known)
        waiver = asked.waiver or waived_before(asked, known)
        parts += [
            _shape(asked, known, content),
            _image(asked, known, content, options, progress),
            doctor_part(ask_doctor(asked, content)),
            machines_part(resolved, machines),
            evidence_part(resolved, entries, waiver),
            other_platforms(known.release, resolved.platform),
        ]
        waived = waiver if needs_waiver(resolved, entries) else None
    found = joined(parts)
    if asked.waiver is not None and waived is None:
        hint = "leave out --waive and --expires"
        unneeded = Problem(where="--waive", message="there is nothing that it would stand for", hint=hint)
        found = replace(found, problems=(*found.problems, unneeded))
    if found.problems:
        raise NotPromoted(what, found.problems)
    evidence = [*for_shape(entries, asked.shape), *([waiver_entry(waived)] if waived is not None else [])]
    # Of all platforms: a certificate that no record names is lost with its key, whichever platform a shape runs.
    said = _said(asked, known, tuple(known.release.images))
    certificates = () if said is None else said.used
    body = _body(asked, known, found, evidence, certificates, machines, resolved.platform)
    return Promotion(
        known=known,
        body=body,
        head=chain.head,
        standing=_standing(chain, known.name, body),
        unnamed=_without_builders(asked, known) if said is None else unnamed(said),
    )


def _standing(chain: Chain, name: str, body: Mapping[str, Json]) -> Entry | None:
    """Return the promotion that stands, where it was made of the same, and nothing retired it since."""
    before = promotions(chain, name, str(body["shape"]))
    made_of = ("release", "shape", "image", "shape_bundle", "evidence", "certificates")
    stands = before and retirement(chain, name, str(body["shape"])) is None
    same = stands and all(encode(before[-1].record.body.get(key)) == encode(body[key]) for key in made_of)
    return before[-1] if same else None


def write_promotion(root: Path, promotion: Promotion) -> Path:
    """Append the record of a promotion, and return its file; that of the one that stands where nothing moved.

    Raises:
        CheckFailed: when somebody wrote a record since it was judged: it may speak against this one.
    """
    with alone(root):
        chain = load(root)
        if chain.head != promotion.head:
            hint = "run the same command again"
            raise CheckFailed("a record was written meanwhile, and nothing is promoted", where=FOLDER, hint=hint)
        if promotion.standing is not None:
            return root / promotion.standing.where
        shape = str(promotion.body["shape"])
        return append_to(root, chain, "promoted", promotion.known.name, promotion.body, shape)


def _known(asked: Asked, records: Held, chained: Part, what: str) -> Known:
    """Return the release, also where something is wrong that the rest can be asked without; it is said with that."""
    try:
        entry = entry_of(records.chain, asked.name.removeprefix("release:"))
        return known_of(entry, records.files, without_facts=bool(chained.problems))
    except (InputErrors, RecordEdited, RecordGone, KeyError, AssertionError):
        if chained.problems:
            raise NotPromoted(what, chained.problems) from None
        raise


def _require_shape(shape: str, known: Known) -> None:
    """Refuse a shape that the release has not; raises InputErrors."""
    if shape not in known.release.shapes:
        hint = near(shape, known.release.shapes) or f"it has {', '.join(sorted(known.release.shapes)) or 'none'}"
        raise InputErrors.one(f"{known.name} has no shape {shape!r}", where="--shape", hint=hint)


def _shape(asked: Asked, known: Known, content: Content) -> Part:
    judged = content.served.shapes[asked.shape]
    image = known.release.images[judged.platform].digest
    document = shape_document(judged.resolved, image, content.served.recipe.fabric, content.files)
    return shape_part(known.release, asked.shape, judged, digest_document(document))


def _image(asked: Asked, known: Known, content: Content, options: Options, progress: Progress) -> Part:
    """Return what was asked of the image."""
    platform = content.served.shapes[asked.shape].platform
    image = known.release.images[platform]
    match asked.proof:
        case None:
            return image_asked(known.name, platform)
        case "certified":
            try:
                standing = stand_here(asked.root, known, None, need=asked.need, platforms=(platform,))
            except InputErrors as error:  # too few builders are named: one thing more that is missing
                return Part(problems=error.problems())
            return certified_part(standing, known.name, _threshold(asked.root))
        case "check":
            with LocalStore(asked.store) as store:
                (done,) = rederive(content.project, {platform: (image.name, image.digest)}, store, options, progress)
            part = checked_part(
                image,
                platform,
                done.image.digest,
                done.image.steps,
                [f"differs   {one.derivation}: {one.path or 'its one file'}, {one.what}" for one in done.differences],
                same_engine=engine_digest() == known.release.engine.digest,
                age_s=done.age_s,
            )
            others = _said(asked, known, (platform,))
            return part if others is None else joined([part, alarm_part(others, known.name)])


def _threshold(root: Path) -> int:
    policy = load_policy(root)
    return 1 if policy is None else policy.threshold


def _said(asked: Asked, known: Known, platforms: Sequence[str]) -> Standing | None:
    """Return what builders say of images, however many do; None where the project names none."""
    try:
        return stand_here(asked.root, known, None, need=1, platforms=platforms)
    except InputErrors:
        return None


def _without_builders(asked: Asked, known: Known) -> tuple[str, ...]:
    why = "`builders` of [tool.derive.trust] name nobody"
    return tuple(f"{one.file}: {why}" for one in read_folder(asked.root, known.name))


def _body(
    asked: Asked,
    known: Known,
    found: Part,
    evidence: Sequence[Mapping[str, Json]],
    certificates: Sequence[Digest],
    machines: Machines,
    platform: str,
) -> dict[str, Json]:
    images = {str(name): one.digest for name, one in known.release.images.items()}
    return {
        "release": str(known.digest),
        "shape": asked.shape,
        "image": str(images[platform]),
        "shape_bundle": str(known.release.shapes[asked.shape].bundle),
        "by": asked.by,
        "why": asked.why,
        "promoted_s": asked.now_s,
        "checked": list(found.checked),
        "unchecked": list(found.unchecked),
        "evidence": list(evidence),
        "certificates": [str(one) for one in certificates],
        "facts_age_s": machines.age_s,
    }
