# SPDX-License-Identifier: Apache-2.0
"""Who deploys to a node: the owner's process, and the lease that it holds there until the node's own clock says so.

Core: no IO.

A lease is known by its *nonce*, which the owner made. Every change of a node shows the nonce, and is refused where the
node's lease is another's: a deploy that was cut off cannot go on beside its successor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from derive.canonical import Json
from derive.errors import Corrupt, expected_got

LEASE_TAG = "deploy-lease/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that deploys, so that it is known again on its own machine, and nowhere taken for another.

    ``boot_id`` and ``pid_namespace`` say which machine it is: a host name alone may be had by two. ``started`` is when
    the process began, in the kernel's ticks since boot. ``what`` is for people: ``derive deploy r6 --shape tp3``.
    """

    user: str
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: int
    what: str

    def document(self) -> dict[str, Json]:
        """Return it as part of a document."""
        return {
            "user": self.user,
            "host": self.host,
            "boot-id": self.boot_id,
            "pid-namespace": self.pid_namespace,
            "pid": self.pid,
            "started": self.started,
            "what": self.what,
        }

    def words(self) -> str:
        """Name it for people."""
        return f"{self.user}@{self.host} (process {self.pid}): {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A node's lease as the node keeps it: ``taken_s`` and ``expires_s`` are seconds since 1970 by the node's clock.

    ``left_s`` is how long it still holds, by the node's clock that only goes forward; 0 once it has expired. The
    owner of one that ``is_gone`` ran on that node, and does so no more, as the node says when it is asked.
    """

    nonce: str
    owner: Owner
    taken_s: int
    expires_s: int
    left_s: int
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A lease that was taken, and what it was taken over from.

    ``why`` is ``expired``, ``owner gone``, ``damaged`` or None; of one that could not be read there is no ``former``.
    """

    lease: Lease
    former: Lease | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What every change of a node shows: the site's folder there, and the nonce of the lease."""

    folder: str
    nonce: str

    def document(self) -> dict[str, Json]:
        """Return it as part of an effect's arguments."""
        return {"folder": self.folder, "lease": self.nonce}


def parse_lease(value: Json, where: str) -> Lease:
    """Read a lease as a node's program answers it.

    Raises:
        Corrupt: when it is none.
    """
    try:
        document: Any = value
        owner = document["owner"]
        return Lease(
            nonce=str(document["nonce"]),
            owner=_owner(owner),
            taken_s=int(document["taken_s"]),
            expires_s=int(document["expires_s"]),
            left_s=int(document["left_s"]),
            is_gone=document.get("is_gone", False) is True,
        )
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        detail = expected_got(LEASE_TAG, f"no {error}" if isinstance(error, KeyError) else str(error))
        hint = "the next deploy takes it over: derive stop --apply, or derive deploy"
        raise Corrupt("not a lease", where=where, detail=detail, hint=hint) from error


def _owner(owner: Mapping[str, Any]) -> Owner:
    return Owner(
        user=str(owner["user"]),
        host=str(owner["host"]),
        boot_id=str(owner["boot-id"]),
        pid_namespace=str(owner["pid-namespace"]),
        pid=int(owner["pid"]),
        started=int(owner["started"]),
        what=str(owner["what"]),
    )
