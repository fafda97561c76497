# SPDX-License-Identifier: Apache-2.0
"""What the user has set for SSH: configuration files, hosts that are known, keys; no password is asked for or kept.

Edge: the environment, the user's files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from derive.errors import InputErrors, Problem

if TYPE_CHECKING:
    import asyncssh

_KNOWN = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_KNOWN_TO_ALL = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_SIGNS = 3
"""How many signs of life in a row may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """How nodes are reached.

    ``files`` are read as ssh reads its own, the first one's word counting; those that are not there are passed over.
    ``connect_s`` is how long a connection may take, ``silent_s`` after how long without a sign of life it counts as
    lost. ``engine_socket`` is where the engine listens on each node.
    """

    files: tuple[Path, ...]
    connect_s: float = 15
    silent_s: float = 15
    engine_socket: str = "/var/run/docker.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The way to one host: options of the connection, where it leads, and the names of files of known hosts."""

    options: asyncssh.SSHClientConnectionOptions
    files: list[str]
    """Read once more for hosts on the way, such as that of ProxyJump."""
    user: str
    host: str
    port: int
    known: asyncssh.SSHKnownHosts
    known_files: tuple[Path, ...]

    def is_known(self, address: str = "") -> bool:
        """Say whether any key of this host is known."""
        alias = self.options.host_key_alias or self.host
        return any(self.known.match(alias, address, self.port if self.port != _PORT else None)[:2])


_PORT = 22
_QUICK = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"
"""Ciphers that take a third less time than what asyncssh would take first: images go through the connection."""


def ssh_settings(environ: Mapping[str, str]) -> SshSettings:
    """Return the user's settings.

    They are those of ssh's own two files, the user's and the machine's; where ``DERIVE_SSH_CONFIG`` names a file, that
    one's alone. ``DERIVE_ENGINE_SOCKET`` says where the engine listens on each node, if not where it does everywhere.
    """
    named = environ.get("DERIVE_SSH_CONFIG")
    files = (Path(named),) if named else (Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config"))
    settings = SshSettings(files=files)
    socket = environ.get("DERIVE_ENGINE_SOCKET")
    if named and not files[0].is_file():
        hint = "name a file that ssh -F could read, or unset DERIVE_SSH_CONFIG"
        raise InputErrors.one(f"no file {named}", where="DERIVE_SSH_CONFIG", hint=hint)
    return replace(settings, engine_socket=socket) if socket else settings


def way_to(host: str, user: str, settings: SshSettings) -> Way:
    """Return how a host is reached. Keys of hosts are always checked, and passwords never tried, whatever files say.

    Raises:
        InputErrors: when a configuration file or a key cannot be read as one, or a host on the way is left unchecked.
    """
    import asyncssh

    files = [str(file) for file in settings.files if file.is_file()]
    keys: Sequence[str] = ()
    try:
        # Once to see what files say of known hosts and keys, which asyncssh refuses to read where they are not there.
        said = asyncssh.SSHClientConnectionOptions(
            config=files, host=host, username=user, client_keys=None, known_hosts=b"", client_host_keysign=False
        ).config
        _refuse_unchecked(said.get("ProxyJump"), files)
        known_files = tuple(_known_files(said.get("UserKnownHostsFile"), said.get("GlobalKnownHostsFile")))
        known = _read_known(known_files)
        keys = _keys(said.get("IdentityFile"))
        options = asyncssh.SSHClientConnectionOptions(
            config=files,
            host=host,
            username=user,
            known_hosts=known,
            client_keys=keys or (),
            ignore_encrypted=True,
            client_host_keysign=False,
            preferred_auth=("publickey",),
            password_auth=False,
            kbdint_auth=False,
            gss_auth=False,
            gss_kex=False,
            host_based_auth=False,
            agent_forwarding=False,
            x11_forwarding=False,
            command=None,
            request_pty=False,
            env=None,
            send_env=None,
            connect_timeout=settings.connect_s,
            login_timeout=settings.connect_s,
            encryption_algs=() if said.get("Ciphers") is not None else _QUICK,
            keepalive_interval=settings.silent_s / _SIGNS,
            keepalive_count_max=_SIGNS,
        )
    except (asyncssh.ConfigParseError, ValueError, OSError) as error:
        problems = list(_unreadable_keys(keys))
        if not problems:
            message, hint = f"not a configuration of ssh: {error}", f"ssh -G {host}"
            problems = [Problem(where=", ".join(files), message=message, hint=hint)]
        raise InputErrors(problems) from error
    return Way(
        options=options,
        files=files,
        user=user,
        host=options.host,
        port=options.port,
        known=known,
        known_files=known_files,
    )


def _refuse_unchecked(jump: object, files: Sequence[str]) -> None:
    """Refuse a host on the way whose key nobody would check: asyncssh reads the settings of those by itself."""
    import asyncssh

    for hop in str(jump or "").split(","):
        host = hop.rpartition("@")[2].partition(":")[0]
        if host and host.lower() != "none":
            options = asyncssh.SSHClientConnectionOptions(config=list(files), host=host, client_keys=None)
            if options.known_hosts is None:
                hint = "name a file that has its key"
                where = f"{', '.join(files)}: {host}"
                raise InputErrors.one("keys of hosts are checked: UserKnownHostsFile none", where=where, hint=hint)


def _known_files(of_user: object, of_all: object) -> Iterator[Path]:
    """Yield the files of known hosts; ``none`` is one file less, and never a host that is not checked."""
    for said, usual in ((of_user, _KNOWN), (of_all, _KNOWN_TO_ALL)):
        named = usual if said is None else [str(one) for one in said] if isinstance(said, Sequence) else []
        yield from (Path(one).expanduser() for one in named if one.lower() != "none")


def _read_known(files: Sequence[Path]) -> asyncssh.SSHKnownHosts:
    import asyncssh

    known = asyncssh.SSHKnownHosts()
    for file in files:
        with suppress(OSError):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError):  # one odd line makes no host unknown that another line names
                    known.load(line)
    return known


def _unreadable_keys(named: Sequence[str]) -> Iterator[Problem]:
    """Yield each file of a key that is none; an encrypted one is one, and is left to the agent."""
    import asyncssh

    usual = (str(path) for path in sorted(Path("~/.ssh").expanduser().glob("id_*")) if path.suffix != ".pub")
    for file in named or usual:
        try:
            asyncssh.read_private_key(Path(file).expanduser())
        except asyncssh.KeyEncryptionError:
            continue
        except (asyncssh.KeyImportError, ValueError, OSError) as error:
            hint = f"ssh-keygen -y -f {file} says why; name another with IdentityFile"
            yield Problem(where=file, message=f"not a key of ssh: {error}", hint=hint)


def _keys(said: object) -> Sequence[str]:
    """Return the keys that files name and that are there; empty for the usual ones, and those of the agent."""
    if not isinstance(said, Sequence) or isinstance(said, str):
        return ()
    return [str(one) for one in said if Path(str(one)).expanduser().is_file()]
