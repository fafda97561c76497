# SPDX-License-Identifier: Apache-2.0
"""What a promotion asks of a release, its shape and its image: each requirement judged by itself.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.canonical import Digest
from derive.certificates.judge import Standing, lacking
from derive.errors import Problem, expected_got
from derive.promotion.part import Part
from derive.records.chain import Chain
from derive.releases.document import Release, ReleasedImage
from derive.releases.shapes import Judged as JudgedShape
from derive.releases.state import retirement
from derive.words import count_text, duration_text, near, one_line

_SHOWN = 5


def chain_part(problems: Sequence[Problem], refused: str | None = None) -> Part:
    """Ask that every record is as it was written and committed; ``refused`` is why git did not say."""
    if problems:
        return Part(problems=tuple(problems))
    unchecked = () if refused is None else (f"the records were not held against git: {one_line(refused)}",)
    return Part(
        checked=("the chain of records and the release's documents are as they were written",), unchecked=unchecked
    )


def release_part(chain: Chain, name: str, release: Release, shape: str, *, whole: bool = True) -> Part:
    """Ask that there is such a shape; what was retired may be promoted again, by all that is asked of a promotion.

    Unless the promotion is ``whole``, and all is asked: then neither the release nor this shape of it may be retired.
    """
    problems, checked = [], []
    entry = retirement(chain, name, shape)
    if entry is not None:
        why = entry.record.body.get("why")
        message = f"{name} was retired{'' if entry.record.body.get('shape') is None else f' for {shape}'}"
        if whole:
            checked.append(f"{message}, in {entry.file}: {why}; this promotion takes that back for {shape}")
        else:
            hint = f"promote it again, with all that is asked: derive promote {name} --shape {shape} --check"
            problems.append(Problem(where=entry.where, message=message, detail=(f"why       {why}",), hint=hint))
    if shape not in release.shapes:
        hint = near(shape, release.shapes) or f"it has {', '.join(sorted(release.shapes)) or 'none'}"
        where = f"records/releases/{name}/release.json: shapes"
        problems.append(Problem(where=where, message=f"the release has no shape {shape!r}", hint=hint))
    return Part(checked=tuple(checked), problems=tuple(problems))


def shape_part(release: Release, shape: str, judged: JudgedShape, bundle: Digest) -> Part:
    """Ask that a shape can be deployed, now as then, and that it is rendered to the bundle that is recorded.

    ``bundle`` is the digest of the shape bundle as this engine renders it from the release's content.
    """
    recorded, resolved = release.shapes[shape], judged.resolved
    where = f"recipes/{release.recipe}.toml: shapes.{shape}"
    problems = [
        Problem(where=where, message=reason, hint=f"see derive render --shape {shape}, and derive doctor")
        for reason in judged.judgement.reasons()
    ]
    if not recorded.deployable and not problems:
        needs = ", ".join(recorded.needs) or "something that release.json does not name"
        message = f"was not deployable when it was released: needed {needs}"
        hint = f"make a release anew: derive release NAME --recipe {release.recipe}"
        problems.append(Problem(where=f"release.json: shapes.{shape}", message=message, hint=hint))
    if not resolved.promotion.launch_enabled:
        hint = "set it to true, or take it away: promotion keys are in no digest"
        problems.append(
            Problem(
                where=f"{where}.promotion.launch-enabled", message="the recipe does not let it be launched", hint=hint
            )
        )
    if bundle != recorded.bundle:
        hint = f"see what moved: derive diff shape:{release.recipe}/{shape} with the release"
        message = "the shape bundle is not rendered as it was recorded"
        detail = expected_got(recorded.bundle, bundle)
        problems.append(
            Problem(where=f"release.json: shapes.{shape}.bundle", message=message, detail=detail, hint=hint)
        )
    checked = ["the shape bundle is rendered to the same digest", "nothing stands against deploying the shape"]
    if resolved.model is not None:
        checked.append("the model is pinned")
    return Part(checked=() if problems else tuple(checked), problems=tuple(problems))


def image_asked(name: str, platform: str) -> Part:
    """Say what may be done where nobody asked for any proof of the image."""
    return Part(
        problems=(
            Problem(
                where=f"release.json: images.{platform}",
                message="nothing was asked that shows that the image follows from its content",
                hint=f"derive it here with --check; or, where derive certify {name} --need 2 says yes: --certified",
            ),
        )
    )


def checked_part(
    image: ReleasedImage,
    platform: str,
    got: Digest,
    steps: int,
    differences: Sequence[str],
    *,
    same_engine: bool,
    age_s: int = 0,
) -> Part:
    """Ask that the image came out as it is recorded when it was derived here, each step twice."""
    where = f"release.json: images.{platform}"
    problems = []
    if got != image.digest:
        hint = "find the first step that differs: derive audit"
        problems.append(
            Problem(
                where=where,
                message="derived here, it is another image",
                detail=expected_got(image.digest, got),
                hint=hint,
            )
        )
    if differences:
        more = [f"and {len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
        message = f"{count_text(len(differences), 'output')} came out otherwise the second time"
        hint = f"see them all: derive image {image.name} --platform {platform} --check"
        problems.append(Problem(where=where, message=message, detail=(*differences[:_SHOWN], *more), hint=hint))
    if problems:
        return Part(problems=tuple(problems))
    other = () if same_engine else ("with the engine of the time: the one here has other sources",)
    ago = f", {duration_text(age_s * 1_000_000_000)} before" if age_s else ""
    told = f"the image of {platform} was derived here, {count_text(steps, 'step')} of it twice{ago}"
    return Part(checked=(told,), unchecked=other)


def alarm_part(standing: Standing, name: str) -> Part:
    """Ask that no builder contradicts the release, whoever else agrees."""
    hint = f"see who says what: derive certify {name} --need {standing.need}; find who is right: derive audit {name}"
    return Part(
        problems=tuple(
            Problem(
                where=f"records/certificates/{name}/", message=f"a builder contradicts the release: {text}", hint=hint
            )
            for text in standing.alarms
        )
    )


def certified_part(standing: Standing, name: str, threshold: int) -> Part:
    """Ask that enough builders say the same, and none otherwise; where fewer than the threshold were asked, say so."""
    where = f"records/certificates/{name}/"
    problems = list(alarm_part(standing, name).problems)
    short = lacking(standing)
    if short:
        hint = f"have another builder run, on a host of their own: derive certify {name} --key NAME"
        message = f"not certified by {count_text(standing.need, 'builder')} on unlike hosts"
        problems.append(Problem(where=where, message=message, detail=short, hint=hint))
    if problems:
        return Part(problems=tuple(problems))
    told = tuple(
        f"the image of {platform} is certified by {' and '.join(names)}"
        for platform, names in sorted(standing.counted.items())
    )
    unchecked = ["the image was not derived here: others say that they did"]
    if standing.need < threshold:
        unchecked.append(f"the project's threshold of {threshold} was lowered to {standing.need}")
    return Part(checked=told, unchecked=tuple(unchecked))


def other_platforms(release: Release, platform: str) -> Part:
    """Say which images of the release the shape does not run, and nothing was asked about."""
    others = sorted(set(release.images) - {platform})
    return Part(unchecked=tuple(f"the image of {one}: the shape does not run it" for one in others))
