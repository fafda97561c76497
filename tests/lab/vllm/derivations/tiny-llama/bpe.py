# SPDX-License-Identifier: Apache-2.0
"""A byte-level BPE of a given size, learnt from a text: the commonest pair of neighbours first, of equals the first."""

from __future__ import annotations

import itertools
import re
from collections import Counter

SPECIAL = ("<pad>", "<s>", "</s>")


def alphabet() -> list[str]:
    """Return the letter that stands for each byte: itself where it can be seen, else one from 256 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    unseen = iter(range(256, 512))
    return [chr(byte if byte in seen else next(unseen)) for byte in range(256)]


def learn(text: str, size: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return a vocabulary of so many words, by number, and the merges that lead to it."""
    letters = alphabet()
    spelt = Counter(re.findall(r" ?[A-Za-z]+", text))
    words = {tuple(letters[byte] for byte in word.encode()): count for word, count in sorted(spelt.items())}
    vocabulary = [*SPECIAL, *letters]
    merges: list[tuple[str, str]] = []
    while len(vocabulary) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        vocabulary.append("".join(best))
        words = {_merged(word, best): count for word, count in words.items()}
    return {word: number for number, word in enumerate(vocabulary)}, merges


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for letter in word:
        if found and (found[-1], letter) == pair:
            found[-1] += letter
        else:
            found.append(letter)
    return tuple(found)
