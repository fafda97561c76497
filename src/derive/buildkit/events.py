# SPDX-License-Identifier: Apache-2.0
"""What a client of BuildKit tells while a build runs (``--progress=rawjson``): the step's log, told from the rest.

Core: no IO.

A client tells each thing as a JSON object, on one line or on many. The step's own log comes with it as it is, byte by
byte; whatever is no such object are the client's own words, among which it says why a build failed.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from derive.buildkit.request import STAGE

_COMMAND = re.compile(rf"\[(?:\S+ )?{STAGE} \d+/\d+\] RUN ")
_EXIT = re.compile(r"did not complete successfully: exit code: (\d+)(: cannot allocate memory)?\s*$")
"""What follows the status otherwise is why the worker gave the step up."""

_LONGEST = 1 << 22
_WORDS = 40


@dataclass(slots=True)
class Told:
    """What was told so far.

    ``sent_bytes`` counts the layers that a worker had to be sent. ``began``: the step itself has. ``ended``: it has,
    well or not. ``error`` is what went wrong with it; ``words`` are the last lines of the client itself.
    """

    sent: dict[str, int] = field(default_factory=dict)
    began: bool = False
    ended: bool = False
    error: str = ""
    words: list[str] = field(default_factory=list)
    _step: str = ""
    _text: str = ""

    @property
    def sent_bytes(self) -> int:
        """Bytes of layers that the worker did not have."""
        return sum(self.sent.values())

    @property
    def exit_status(self) -> int | None:
        """The status that the step's command ended with, None while it runs and where it never ran to an end."""
        found = _EXIT.search(self.error)
        if found:
            return int(found[1])
        return 0 if self.ended and not self.error else None

    def take(self, line: str) -> Iterator[bytes]:
        """Take one line of the client's, and yield what it holds of the step's log."""
        if not self._text and not line.startswith("{"):
            self._say(line)
            return
        is_whole = not self._text and line.rstrip().endswith("}")
        self._text += line
        if not is_whole and not line.startswith("}") and len(self._text) < _LONGEST:
            return
        text, self._text = self._text, ""
        try:
            document = json.loads(text)
        except ValueError:
            self._say(text[:200])
        else:
            yield from self._read(document)

    def _say(self, line: str) -> None:
        text = line.rstrip()
        if text:
            self.words = [*self.words[1 - _WORDS :], text]

    def _read(self, document: Mapping[str, object]) -> Iterator[bytes]:
        for vertex in _maps(document.get("vertexes")):
            if _COMMAND.match(str(vertex.get("name", ""))):
                self._step = str(vertex.get("digest"))
                self.began |= bool(vertex.get("started"))
                self.ended |= bool(vertex.get("completed"))
                self.error = str(vertex.get("error") or self.error)
        for status in _maps(document.get("statuses")):
            if str(status.get("id", "")).startswith("sha256:") and isinstance(total := status.get("total"), int):
                self.sent[str(status["id"])] = total
        for log in _maps(document.get("logs")):
            if log.get("vertex") == self._step:
                with contextlib.suppress(binascii.Error):
                    yield base64.b64decode(str(log.get("data", "")))


def _maps(items: object) -> Iterator[Mapping[str, object]]:
    return (item for item in items if isinstance(item, dict)) if isinstance(items, list) else iter(())
