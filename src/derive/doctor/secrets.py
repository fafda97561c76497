# SPDX-License-Identifier: Apache-2.0
"""What a secret looks like: names of files, headers of private keys, tokens with the prefixes that their issuers give.

Core: no IO. Standard library only.

A pattern asks for the whole secret: its prefix alone, as in this module or a page that explains it, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LARGEST = 2 << 20
"""Bytes of the largest file whose contents are looked at."""

NAMES = frozenset({".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials.json"})
SUFFIXES = (".pem", ".key", ".local.env", ".local.json", ".local.toml")

_START = rb"(?<![A-Za-z0-9_])"

_SHAPES: tuple[tuple[str, tuple[bytes, ...], bytes], ...] = (
    (
        "private key",
        (b"PRIVATE KEY",),
        # A header alone is no key: its material follows, after line ends, or what stands for them, and PEM's headers.
        rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S]){0,400}?[A-Za-z0-9+/=]{40}",
    ),
    ("age key", (b"AGE-SECRET-KEY-1",), rb"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    ("GitHub token", (b"github_pat_",), _START + rb"github_pat_[A-Za-z0-9_]{22,}"),
    (
        "GitHub token",
        (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
        _START + rb"gh[pousr]_[A-Za-z0-9]{30,}",
    ),
    ("GitLab token", (b"glpat-",), _START + rb"glpat-[A-Za-z0-9_-]{20,}"),
    ("Hugging Face token", (b"hf_",), _START + rb"hf_[A-Za-z0-9]{30,}"),
    ("Tailscale key", (b"tskey-",), _START + rb"tskey-[a-z]+-[A-Za-z0-9-]{16,}"),
    ("AWS access key", (b"AKIA", b"ASIA"), rb"(?<![A-Za-z0-9+/_])A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9+/])"),
    ("NVIDIA key", (b"nvapi-",), _START + rb"nvapi-[A-Za-z0-9_-]{40,}"),
    ("Docker token", (b"dckr_pat_",), _START + rb"dckr_pat_[A-Za-z0-9_-]{20,}"),
    ("Slack token", (b"xox",), _START + rb"xox[abprs]-[A-Za-z0-9-]{20,}"),
    ("npm token", (b"npm_",), _START + rb"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
)

_COMPILED = tuple((kind, literals, re.compile(pattern)) for kind, literals, pattern in _SHAPES)

KINDS = tuple(dict.fromkeys(kind for kind, _, _ in _SHAPES))


def is_secret_name(path: str) -> bool:
    """Say whether a file is called as files with secrets are; ``path`` has slashes."""
    name = path.rpartition("/")[2].lower()
    return name in NAMES or name.endswith(SUFFIXES)


def secrets_in(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield the kind and line (from 1) of each thing in a file that looks like a secret, in no stated order."""
    for kind, literals, pattern in _COMPILED:
        # Looking for a prefix costs a hundredth of matching a pattern.
        if any(literal in data for literal in literals):
            for match in pattern.finditer(data):
                yield kind, data.count(b"\n", 0, match.start()) + 1
