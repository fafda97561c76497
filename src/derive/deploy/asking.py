# SPDX-License-Identifier: Apache-2.0
"""Asks a service for what it is there for: a completion, or of a plain one its page. Health checks alone prove nothing.

Edge: HTTP on this machine's loopback.
"""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection, HTTPException

_CONNECT_S = 10
_ANSWER_S = 120
"""A first completion may have kernels to prepare."""
_LARGEST = 1 << 20
_PROMPT = "The capital of France is"
_OK = 200


async def ask(port: int, path: str, *, completes: bool) -> tuple[bool, str]:
    """Return whether the service at a port of loopback answered well, and what in words.

    ``completes`` says that it serves a model: then its list of models is asked for, and of the first one a completion.
    """
    try:
        return await asyncio.to_thread(_completion if completes else _page, port, path)
    except (OSError, HTTPException, ValueError) as error:
        return False, str(error) or type(error).__name__


def _page(port: int, path: str) -> tuple[bool, str]:
    code, body = _get(port, path)
    return code == _OK and bool(body), f"GET {path}: {code}, {len(body)} bytes"


def _completion(port: int, path: str) -> tuple[bool, str]:
    code, _ = _get(port, path)
    if code != _OK:
        return False, f"GET {path}: {code}"
    code, body = _get(port, "/v1/models")
    if code != _OK:
        return False, f"GET /v1/models: {code}"
    models = json.loads(body).get("data")
    name = models[0].get("id") if isinstance(models, list) and models else None
    if not isinstance(name, str):
        return False, "no model is listed"
    asked = {"model": name, "prompt": _PROMPT, "max_tokens": 4, "temperature": 0}
    code, body = _request(port, "POST", "/v1/completions", json.dumps(asked).encode())
    if code != _OK:
        return False, f"a completion of {name}: {code}"
    choices = json.loads(body).get("choices")
    text = choices[0].get("text") if isinstance(choices, list) and choices else None
    return isinstance(text, str), f"a completion of {name}: {'answered' if isinstance(text, str) else 'no text'}"


def _get(port: int, path: str) -> tuple[int, bytes]:
    return _request(port, "GET", path, None)


def _request(port: int, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=_CONNECT_S if body is None else _ANSWER_S)
    try:
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST)
    finally:
        connection.close()
