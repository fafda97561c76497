# SPDX-License-Identifier: Apache-2.0
"""From what a person writes for records to the records: a name, a number, a file, a digest or its beginning.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Sequence

from derive.errors import InputErrors
from derive.operands import is_digest
from derive.records.chain import FOLDER, Chain, Entry
from derive.words import count_text, near

DIGITS_HINT = "of a digest, give 12 or more digits"
_SUFFIX = ".json"
_NAMED = 6


def find_entries(chain: Chain, text: str) -> Sequence[Entry]:
    """Return the records that a text means: all about a name, all about the release of a digest, or one.

    One is meant by its number with or without zeros, by its file, or by its own digest. Of digests 12 digits do.

    Raises:
        InputErrors: when none or several are meant.
    """
    name = text.removeprefix("release:")
    about = [one for one in chain.entries if one.record.subject == name]
    if about:
        return about
    if name.isdecimal() and name.isascii() and len(name) <= 4:
        return _numbered(chain, int(name), text)
    by_file = [one for one in chain.entries if one.file.removesuffix(_SUFFIX) == _stem(name)]
    if by_file:
        return by_file
    prefix = name.removeprefix("sha256:")
    found = _by_digest(chain, prefix) if is_digest(prefix) else []
    if len(found) > 1:
        detail = [f"may be    {digest}  {one.file}" for digest, one in found]
        raise InputErrors.one(f"{text} is ambiguous", detail=detail, hint="give more digits")
    if not found:
        raise InputErrors.one(f"no record is about {text!r}", where=FOLDER, hint=_hint(chain, name, prefix))
    digest, entry = found[0]
    return (entry,) if digest == entry.digest.hex else chain.of(entry.record.subject)


def there_is(chain: Chain) -> str | None:
    """Name what releases there are, historical ones in few words; None where there is none."""
    made = [one.record.subject for one in chain.entries if one.record.kind == "candidate"]
    past = [one.record.subject for one in chain.entries if one.record.kind == "historical"]
    told = []
    if made:
        told.append(", ".join(made[-_NAMED:]) + (f" and {len(made) - _NAMED} before" if len(made) > _NAMED else ""))
    if past:
        told.append(f"{count_text(len(past), 'historical one')}, {_range(past)}")
    return f"there is {'; '.join(told)}" if told else None


def _range(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED else f"{names[0]} to {names[-1]}"


def _numbered(chain: Chain, number: int, text: str) -> Sequence[Entry]:
    found = [one for one in chain.entries if one.number == number]
    if found:
        return found
    hint = f"the last is {chain.entries[-1].number:04d}" if chain.entries else "there is none"
    raise InputErrors.one(f"no record has the number {text}", where=FOLDER, hint=hint)


def _stem(text: str) -> str:
    return text.rpartition("/")[2].removesuffix(_SUFFIX)


def _by_digest(chain: Chain, prefix: str) -> list[tuple[str, Entry]]:
    """Return the records, and the releases by the record that made them, whose digest begins so."""
    every = [(one.digest.hex, one) for one in chain.entries]
    made = (one for one in chain.entries if one.record.kind == "candidate")
    every += [(str(one.record.body.get("release")).removeprefix("sha256:"), one) for one in made]
    return [(digest, one) for digest, one in every if digest.startswith(prefix)]


def _hint(chain: Chain, name: str, prefix: str) -> str:
    if prefix and not prefix.strip("0123456789abcdef") and not is_digest(prefix):
        return DIGITS_HINT
    known = {one.record.subject for one in chain.entries}
    return near(name, known) or there_is(chain) or "make one: derive release NAME --recipe R"
