# SPDX-License-Identifier: Apache-2.0
"""What an answer, or the want of one, means for whoever asked.

Edge: knows the errors of the HTTP libraries; asks nothing itself.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from derive.net.failures import Broken, Distrusted, Failure, Gone, Refused, TimedOut, asked_pause
from derive.net.places import hide_credentials

if TYPE_CHECKING:
    import requests


def headers_of(response: requests.Response) -> dict[str, str]:
    """Return an answer's headers, names in lower case."""
    return {name.lower(): value for name, value in response.headers.items()}


def status_failure(status: int, reason: str | None, headers: Mapping[str, str]) -> Failure:
    """Return what a status that was not hoped for means."""
    said = f"{status} {reason or ''}".strip()
    if status in (404, 410):
        return Gone(said, status=status, headers=headers)
    if status == 429 or status >= 500:
        return Broken(said, after=asked_pause(headers), status=status, headers=headers)
    return Refused(said, status=status, headers=headers)


def broken_by(error: BaseException, *, connect_s: float, read_s: float) -> Failure:
    """Say briefly what went wrong below HTTP, and whether trying again makes sense."""
    import requests
    import urllib3

    errors = requests.exceptions
    if isinstance(error, errors.SSLError):
        failure: Failure = Distrusted(f"no trusted TLS connection: {_innermost(error)}")
    elif isinstance(error, errors.ConnectTimeout):
        failure = TimedOut(f"no connection in {connect_s:g} s")
    elif isinstance(error, errors.Timeout | urllib3.exceptions.TimeoutError | TimeoutError):
        failure = TimedOut(f"no answer in {read_s:g} s")
    elif isinstance(error, errors.ConnectionError):
        failure = Broken(_innermost(error), silent=True)
    elif isinstance(error, errors.TooManyRedirects):
        failure = Refused("redirects in a circle")
    elif isinstance(error, ValueError):  # requests' word for an URL that it cannot use
        failure = Refused(f"not usable: {hide_credentials(str(error))}")
    else:
        failure = Broken(f"the connection broke off: {_innermost(error)}")
    return failure


def _innermost(error: BaseException) -> str:
    """Return the most telling words in a chain of wrapped errors."""
    seen: set[int] = set()
    queue: list[BaseException] = [error]
    words = type(error).__name__
    while queue:
        current = queue.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, socket.gaierror):
            return "the host name is not known"
        if isinstance(current, OSError) and current.strerror:
            words = current.strerror.lower()
        elif isinstance(current, TimeoutError):
            words = "nothing moved for too long"
        elif isinstance(current, ConnectionError):
            words = "the connection was closed"
        reasons = (current.__cause__, current.__context__, getattr(current, "reason", None), *current.args)
        queue.extend(item for item in reasons if isinstance(item, BaseException))
    return words
