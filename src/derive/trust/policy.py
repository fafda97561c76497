# SPDX-License-Identifier: Apache-2.0
"""Whose word a project takes: named public keys, and how many of them must agree.

Core: no IO. Imports nothing heavy: a project's settings are checked on the way to every answer.

``[tool.derive.trust]`` decides no byte of any output, only what is believed without building it again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from derive.canonical import Digest
from derive.errors import CheckFailed, Problem
from derive.trust.keys import PublicKey
from derive.words import count_text, near

if TYPE_CHECKING:
    from derive.trust.dsse import Envelope

KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEYS = {"keys", "threshold", "builders", "outputs"}
_RULES = "tool.derive.trust.outputs"
_RULE_KEYS = {"derivations", "builders", "keys", "threshold"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRule:
    """Who must vouch for the outputs of some steps before they are taken from elsewhere, and not built.

    ``derivations`` are names with ``*`` for any text, ``image:`` or ``drv:`` before them for one kind alone;
    ``builders`` are kinds of steps such as ``kernel``. A step fits that fits one of each that is named. ``keys`` are
    names of keys, one at least, of which ``threshold`` must agree.
    """

    derivations: tuple[str, ...] = ()
    builders: tuple[str, ...] = ()
    keys: tuple[str, ...]
    threshold: int

    def holds(self, signers: Collection[str]) -> bool:
        """Say whether keys enough are among some, given by name."""
        return len(set(self.keys).intersection(signers)) >= self.threshold

    def fits(self, name: str, builder: str) -> bool:
        """Say whether a step of that name, made by that kind of builder, is one of those meant."""
        named = not self.derivations or any(_fits(pattern, name, builder) for pattern in self.derivations)
        return named and (not self.builders or builder in self.builders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Public keys by name, and the number of different keys whose signatures are needed: 1 or more.

    ``builders`` are names of keys whose certificates count. ``revoked`` are ids of keys that the project itself, in
    ``records/keys/``, takes no longer. ``outputs`` say otherwise of some steps: the first one that fits holds.
    """

    keys: Mapping[str, PublicKey]
    threshold: int
    builders: tuple[str, ...] = ()
    revoked: frozenset[Digest] = field(default_factory=frozenset)
    outputs: tuple[OutputRule, ...] = ()

    def own_rule(self, name: str, builder: str) -> OutputRule | None:
        """Return the first rule that fits a step; None where none does."""
        return next((rule for rule in self.outputs if rule.fits(name, builder)), None)

    def rule_for(self, name: str, builder: str) -> OutputRule:
        """Return who must vouch for a step's output: the first rule that fits, else all keys and the threshold."""
        return self.own_rule(name, builder) or OutputRule(keys=tuple(sorted(self.keys)), threshold=self.threshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the signatures on an envelope are worth: names of keys, sorted, and ids of keys not named.

    ``trusted`` signed, and count. ``revoked`` signed, and do not. ``wrong`` are named beside signatures that they did
    not make. ``unknown`` are the other key ids beside signatures.
    """

    trusted: tuple[str, ...]
    revoked: tuple[str, ...]
    wrong: tuple[str, ...]
    unknown: tuple[Digest, ...]
    threshold: int

    @property
    def holds(self) -> bool:
        """Say whether enough keys agree."""
        return len(self.trusted) >= self.threshold


def judge(envelope: Envelope, policy: Policy, revoked: Collection[Digest]) -> Judgement:
    """Find which trusted keys signed an envelope; ``revoked`` are further key ids that no longer count."""
    revoked = policy.revoked.union(revoked)
    signed = [name for name, key in sorted(policy.keys.items()) if envelope.is_signed_by(key)]
    named = {signature.key for signature in envelope.signatures}
    return Judgement(
        trusted=tuple(name for name in signed if policy.keys[name].id not in revoked),
        revoked=tuple(name for name in signed if policy.keys[name].id in revoked),
        wrong=tuple(name for name, key in sorted(policy.keys.items()) if key.id in named and name not in signed),
        unknown=tuple(sorted(named - {key.id for key in policy.keys.values()})),
        threshold=policy.threshold,
    )


def require_trusted(judgement: Judgement, what: str) -> None:
    """Raise CheckFailed, saying what each signature is worth, unless enough trusted keys signed."""
    if judgement.holds:
        return
    detail = [f"expected  signatures of {count_text(judgement.threshold, 'trusted key')}"]
    got = [
        *(f"{name}" for name in judgement.trusted),
        *(f"{name}, which is revoked" for name in judgement.revoked),
        *(f"{name}, whose signature is not over this" for name in judgement.wrong),
        *(f"{key}, which the project does not trust" for key in judgement.unknown),
    ]
    detail += [f"got       {line}" for line in got or ["none"]]
    raise CheckFailed(
        f"{what} is not trusted",
        detail=detail,
        hint="trusted keys are those of [tool.derive.trust.keys] in pyproject.toml",
    )


def parse_policy(table: object, where: str) -> tuple[Policy | None, list[Problem]]:
    """Read the ``trust`` table of a project, or say everything that is wrong with it."""
    if not isinstance(table, Mapping):
        return None, [Problem(where=where, message="not a table")]
    problems = [Problem(where=f"{where}.{key}", message="unknown key") for key in sorted(table.keys() - _KEYS)]
    keys = _keys(table.get("keys", {}), f"{where}.keys", problems)
    threshold = table.get("threshold", 1)
    if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 1:
        problems.append(Problem(where=f"{where}.threshold", message="not a whole number above 0"))
    elif not problems and threshold > max(len(keys), 1):
        message = f"{threshold} keys must sign, and {count_text(len(keys), 'key')} can"
        problems.append(Problem(where=f"{where}.threshold", message=message))
    builders = _names_of_keys(table.get("builders", []), keys, f"{where}.builders", problems)
    outputs = _rules(table.get("outputs", []), keys, threshold, f"{where}.outputs", problems)
    if problems:
        return None, problems
    return Policy(keys=keys, threshold=int(threshold), builders=builders, outputs=outputs), []


def _rules(
    items: object, keys: Collection[str], threshold: object, where: str, problems: list[Problem]
) -> tuple[OutputRule, ...]:
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        problems.append(Problem(where=where, message="not a list of tables", hint=f"write [[{_RULES}]]"))
        return ()
    found = (_rule(item, keys, threshold, f"{where}[{at}]", problems) for at, item in enumerate(items))
    return tuple(rule for rule in found if rule is not None)


def _rule(
    item: Mapping[str, object], keys: Collection[str], usual: object, where: str, problems: list[Problem]
) -> OutputRule | None:
    before = len(problems)
    problems += [Problem(where=f"{where}.{key}", message="unknown key") for key in sorted(item.keys() - _RULE_KEYS)]
    derivations = _texts(item, "derivations", where, problems)
    builders = _texts(item, "builders", where, problems)
    if not derivations and not builders:
        hint = 'name steps, as derivations = ["kernel-*"], or kinds of them, as builders = ["kernel"]'
        problems.append(Problem(where=where, message="says nothing of which outputs it is about", hint=hint))
    names = _names_of_keys(item.get("keys", sorted(keys)), keys, f"{where}.keys", problems)
    threshold = item.get("threshold", usual)
    if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 1:
        if "threshold" in item:
            problems.append(Problem(where=f"{where}.threshold", message="not a whole number above 0"))
        return None
    if len(problems) == before and threshold > len(names):
        message = f"{threshold} keys must sign, and {count_text(len(names), 'key')} can"
        problems.append(Problem(where=f"{where}.threshold", message=message))
    if len(problems) > before:
        return None
    return OutputRule(derivations=derivations, builders=builders, keys=names, threshold=threshold)


def _texts(item: Mapping[str, object], key: str, where: str, problems: list[Problem]) -> tuple[str, ...]:
    found = item.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) and text for text in found):
        problems.append(Problem(where=f"{where}.{key}", message="not a list of names"))
        return ()
    return tuple(found)


def _fits(pattern: str, name: str, builder: str) -> bool:
    kind, colon, rest = pattern.partition(":")
    if colon and kind in ("image", "drv"):
        if (kind == "image") != (builder == "image"):
            return False
        pattern = rest
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _names_of_keys(names: object, keys: Collection[str], where: str, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        problems.append(Problem(where=where, message="not a list of names of keys"))
        return ()
    for at, name in enumerate(names):
        if name in names[:at]:
            problems.append(Problem(where=f"{where}[{at}]", message=f"{name} is there twice"))
        elif name not in keys:
            hint = near(name, keys) or "write its public key below [tool.derive.trust.keys]"
            problems.append(Problem(where=f"{where}[{at}]", message=f"no key is called {name!r}", hint=hint))
    return tuple(sorted(names))


def _keys(table: object, where: str, problems: list[Problem]) -> dict[str, PublicKey]:
    if not isinstance(table, Mapping):
        problems.append(Problem(where=where, message="not a table of keys by name"))
        return {}
    found: dict[str, PublicKey] = {}
    for name, text in table.items():
        place = f"{where}.{name}"
        if not KEY_NAME.fullmatch(name):
            problems.append(Problem(where=place, message="not a name of letters, digits, '.', '_' and '-'"))
            continue
        try:
            key = PublicKey.parse(text if isinstance(text, str) else "")
        except ValueError:
            hint = "derive key show NAME prints one: ed25519:<base64>"
            problems.append(Problem(where=place, message="not a public key", hint=hint))
            continue
        # One signer under two names would count twice.
        same = next((other for other, known in found.items() if known == key), None)
        if same is not None:
            problems.append(Problem(where=place, message=f"the same key as {same}"))
        found[name] = key
    return found
