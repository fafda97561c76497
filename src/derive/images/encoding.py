# SPDX-License-Identifier: Apache-2.0
"""How a layer's tar is stored, as a value: what of it stands in a derivation decides every byte of the blob.

Core: no IO.

The encodings are specified on docs/formats/layer.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.canonical import Json
from derive.images.compressor import COMPRESSOR, KNOWN_ANSWERS, LEVELS
from derive.images.documents import DocumentError, fields, integer, mapping, text

PLAIN = "gzip-members/1"
"""Every byte goes through the compressor."""

CARRYING = "gzip-members/2"
"""A large file that came deflated in a wheel keeps the stream that it came in."""

MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"

SEGMENT = 1 << 20
"""Bytes of tar stream in the largest segment."""

CARRIED = 1 << 16
"""A file of this many bytes or more is carried; smaller ones pack better together."""

_TAGS = {PLAIN: "layer-encoding/1", CARRYING: "layer-encoding/2"}
_KEYS = ("name", "compressor", "level", "known-answer", "segment", "carry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a layer's tar is stored: with the tar and the wheels, everything that decides a byte of the blob.

    ``level`` is libdeflate's, 1 to 12.
    """

    name: str = PLAIN
    compressor: str = COMPRESSOR
    level: int = 6

    def __post_init__(self) -> None:
        if self.name not in _TAGS or self.compressor != COMPRESSOR:
            raise ValueError(f"unknown layer encoding: {self.name} by {self.compressor}")
        if self.level not in LEVELS:
            raise ValueError(f"{COMPRESSOR} has levels 1 to 12, not {self.level}")

    @property
    def media_type(self) -> str:
        """The media type of a layer in this encoding."""
        return MEDIA_TYPE

    @property
    def carries(self) -> bool:
        """Whether the deflate streams of wheels are carried over."""
        return self.name == CARRYING

    def to_document(self) -> dict[str, Json]:
        """Return the encoding as the part of a derivation that it is.

        The compressor stands there by what it makes of a known text: its wheel has another hash on each platform.
        """
        return {
            "derive": _TAGS[self.name],
            "name": self.name,
            "compressor": self.compressor,
            "level": self.level,
            "known-answer": f"sha256:{KNOWN_ANSWERS[self.level]}",
            "segment": SEGMENT,
            "carry": {"from": "wheels", "least": CARRIED} if self.carries else [],
        }

    @classmethod
    def from_document(cls, document: Json) -> Encoding:
        """Read what :meth:`to_document` wrote; raises ValueError on anything else."""
        found = mapping(document, "an encoding")
        tag = found.get("derive")
        if tag not in _TAGS.values():
            raise DocumentError(f"no layer encoding has the tag {tag}")
        fields(found, tag=str(tag), keys=_KEYS)
        encoding = cls(name=text(found, "name"), compressor=text(found, "compressor"), level=integer(found, "level"))
        if encoding.to_document() != document:
            raise ValueError(f"{tag}: other settings than this program has")
        return encoding
