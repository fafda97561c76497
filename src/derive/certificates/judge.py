# SPDX-License-Identifier: Apache-2.0
"""How many named builders, on unlike hosts, say that a release gave the images that it names; and who says otherwise.

Core: no IO.

Anybody may write a certificate: one by nobody whose word is taken proves nothing and breaks nothing. One by a builder
that names another image for the same release is an alarm, whatever others say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

from derive.canonical import Digest
from derive.certificates.hosts import likeness, most_on_unlike
from derive.certificates.model import Certificate
from derive.trust.dsse import Envelope
from derive.trust.history import End, History
from derive.trust.keys import PublicKey
from derive.trust.policy import Policy
from derive.words import count_text

Worth: TypeAlias = Literal["builder", "no builder", "ended", "unknown", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A certificate, the file that it lies in, and the digest of the file's bytes."""

    file: str
    digest: Digest
    certificate: Certificate
    envelope: Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A file that is no certificate, and why."""

    file: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the chain of releases says of early and late.

    ``numbers`` are those of records by their digests; ``named`` the number of the first record that names a
    certificate, by the digest of its file.
    """

    numbers: Mapping[Digest, int]
    named: Mapping[Digest, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What one signature is worth: the name of its key (None: nobody's that is known), its id, and why."""

    name: str | None
    key: Digest
    worth: Worth
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What must be certified: a release's digest, and by platform the digest and derivation of its images."""

    release: Digest
    images: Mapping[str, tuple[Digest, Digest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A certificate with the worth of its signatures. ``builders`` are those whose word counts.

    ``agrees`` are platforms whose image it has as the release; ``contradicts`` those of which it has another;
    ``elsewhere`` is why it is about something else, empty where it is about this.
    """

    held: Held
    signed: tuple[Signed, ...]
    agrees: tuple[str, ...]
    contradicts: tuple[str, ...]
    elsewhere: str

    @property
    def builders(self) -> tuple[str, ...]:
        """The builders that signed it, and count."""
        return tuple(sorted({one.name for one in self.signed if one.worth == "builder" and one.name is not None}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a release is certified. ``counted`` are, by platform, the builders that agree and count together.

    ``alarms`` are contradictions by builders; ``likeness`` says how alike the hosts of those who agree are.
    """

    need: int
    judged: tuple[Judged, ...]
    unread: tuple[Unread, ...]
    counted: Mapping[str, tuple[str, ...]]
    alarms: tuple[str, ...]
    likeness: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Say whether enough builders agree on every image, and none contradicts."""
        return not self.alarms and all(len(names) >= self.need for names in self.counted.values())

    @property
    def used(self) -> tuple[Digest, ...]:
        """The certificates of builders that agree, by the digests of their files."""
        return tuple(sorted({one.held.digest for one in self.judged if one.builders and one.agrees}))


def stand(
    wanted: Wanted,
    held: Iterable[Held | Unread],
    policy: Policy,
    history: History,
    order: Order,
    *,
    need: int,
    unlike_hosts: bool = True,
    revoked: Collection[Digest] = (),
) -> Standing:
    """Judge every certificate that lies by a release; ``revoked`` are keys that this user takes no longer."""
    found = sorted(held, key=lambda one: one.file)
    judged = tuple(
        _judged(one, wanted, _signatures(one, policy, history, order, revoked))
        for one in found
        if isinstance(one, Held)
    )
    return Standing(
        need=need,
        judged=judged,
        unread=tuple(one for one in found if isinstance(one, Unread)),
        counted={platform: _counted(judged, platform, unlike_hosts=unlike_hosts) for platform in wanted.images},
        alarms=tuple(_alarms(judged)),
        likeness=tuple(_likeness(judged)),
    )


def _signatures(
    held: Held, policy: Policy, history: History, order: Order, revoked: Collection[Digest]
) -> Iterator[Signed]:
    known: set[Digest] = set()
    named = {signature.key for signature in held.envelope.signatures}
    for name, key in sorted(policy.keys.items()):
        for one in history.kin(key):
            known.add(one.id)
            if held.envelope.is_signed_by(one):
                yield _signed(name, one, held, policy, history, order, revoked)
            elif one.id in named:
                yield Signed(name=name, key=one.id, worth="wrong", why="the signature is not over this")
    for key_id in sorted(named - known):
        yield Signed(name=None, key=key_id, worth="unknown", why="the project does not name this key")


def _signed(
    name: str,
    key: PublicKey,
    held: Held,
    policy: Policy,
    history: History,
    order: Order,
    revoked: Collection[Digest],
) -> Signed:
    if key.id in revoked:
        return Signed(name=name, key=key.id, worth="ended", why="revoked by this user")
    ends = history.ends.get(key.id, ())
    late = next((why for end in ends if (why := _late(end, held.digest, order))), "")
    if late:
        return Signed(name=name, key=key.id, worth="ended", why=late)
    if name not in policy.builders:
        return Signed(name=name, key=key.id, worth="no builder", why="not among the project's builders")
    why = f"recorded before {ends[0].file}" if ends else "a builder of the project"
    return Signed(name=name, key=key.id, worth="builder", why=why)


def _late(end: End, certificate: Digest, order: Order) -> str:
    """Say why a certificate does not count after its key's end; nothing where a record had it before."""
    first = order.named.get(certificate)
    last = 0 if end.upto is None else order.numbers.get(end.upto, 0)
    if first is not None and first <= last:
        return ""
    if end.upto is not None and not last:
        return f"{end.cause}, see {end.file}, which names a release record that is not here"
    told = "no record names it" if first is None else f"record {first:04d} is the first that names it"
    return f"{end.cause}, see {end.file}; {told}, and the key vouches up to {f'record {last:04d}' if last else 'none'}"


def _judged(held: Held, wanted: Wanted, signed: Iterable[Signed]) -> Judged:
    said = held.certificate
    release = None if said.release is None else said.release.digest
    agrees: list[str] = []
    contradicts: list[str] = []
    for platform, (image, derivation) in sorted(wanted.images.items()):
        one = said.images.get(platform)
        # A derivation gives one image: also who certified it for another release, or for none, contradicts.
        if one is None or (release != wanted.release and one.derivation != derivation):
            continue
        (agrees if one.digest == image else contradicts).append(platform)
    elsewhere = ""
    if release != wanted.release:
        elsewhere = "about images alone" if release is None else f"about another release, {release.short}"
    elif not agrees and not contradicts:
        elsewhere = f"about {', '.join(sorted(said.images))} alone"
    return Judged(
        held=held,
        signed=tuple(signed),
        agrees=() if release != wanted.release else tuple(agrees),
        contradicts=tuple(contradicts),
        elsewhere=elsewhere,
    )


def _counted(judged: Sequence[Judged], platform: str, *, unlike_hosts: bool) -> tuple[str, ...]:
    agreeing = [one for one in judged if platform in one.agrees]
    names = sorted({name for one in agreeing for name in one.builders})
    if not unlike_hosts:
        return tuple(names)
    known = [one for one in agreeing if one.held.certificate.host_is_known]
    # Workers may be any machine, also one that somebody else built on: they count where nobody else does.
    return most_on_unlike((name, one.held.certificate.host) for one in known for name in one.builders) or tuple(
        names[:1]
    )


def _alarms(judged: Sequence[Judged]) -> Iterator[str]:
    for one in judged:
        for platform in one.contradicts if one.builders else ():
            image = one.held.certificate.images[platform]
            who = " and ".join(one.builders)
            yield f"{one.held.file}: {who} says that the image {image.name} of {platform} is {image.digest}"


def _likeness(judged: Sequence[Judged]) -> Iterator[str]:
    agreeing = [one for one in judged if one.agrees]
    hosts = {
        name: one.held.certificate.host
        for one in agreeing
        if one.held.certificate.host_is_known
        for name in one.builders
    }
    for first, second in combinations(sorted(hosts), 2):
        yield f"{first} and {second}: {likeness(hosts[first], hosts[second])}"
    for name in sorted({name for one in agreeing for name in one.builders} - hosts.keys()):
        yield f"{name}: had workers alone build, whose machines are not known, and counts where nobody else does"


def lacking(standing: Standing) -> tuple[str, ...]:
    """Say, by platform, how many builders agree and how many must; nothing where that is enough."""
    return tuple(
        f"{platform}: {count_text(len(names), 'builder')} of {standing.need}"
        + (f" ({', '.join(names)})" if names else "")
        for platform, names in sorted(standing.counted.items())
        if len(names) < standing.need
    )


def unnamed(standing: Standing) -> tuple[str, ...]:
    """Say of each certificate that is not used, and of each file that is none, why that is so."""
    found = {one.file: one.why for one in standing.unread}
    for one in standing.judged:
        if one.held.digest not in standing.used:
            signers = (f"signed by {each.name or each.key.short}: {each.why}" for each in one.signed)
            otherwise = f"{' and '.join(one.builders)} says otherwise of {', '.join(one.contradicts)}"
            why = otherwise if one.builders and one.contradicts else one.elsewhere
            found[one.held.file] = why or "; ".join(signers) or "nobody signed it"
    return tuple(f"{file}: {why}" for file, why in sorted(found.items()))
