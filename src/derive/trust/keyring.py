# SPDX-License-Identifier: Apache-2.0
"""The user's own keys, and the keys that this user no longer takes the word of.

Edge: the user's data folder, the system's randomness. A private key is written once, whole, for its owner alone, and
never over another.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import CanonicalError, Digest, decode, encode
from derive.errors import Corrupt, HostRefuses, InputErrors, expected_got
from derive.trust.keys import KEY_SIZE, PublicKey, SigningKey
from derive.trust.policy import KEY_NAME

_TAG = "revoked-keys/1"
_MAX_FILE = 1 << 20
_NAMES = "a name has letters, digits, '.', '_' and '-', and at most 64 of them"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKey:
    """A private key in the folder: its name, its public half (None for a file that holds no key), where it lies."""

    name: str
    public: PublicKey | None
    path: Path


class Keyring:
    """``keys/<name>.key`` and ``revoked-keys.json`` in one folder; nothing is there before the first key is made."""

    def __init__(self, folder: Path) -> None:
        self._keys = folder / "keys"
        self._revoked = folder / "revoked-keys.json"

    def new(self, name: str) -> SigningKey:
        """Make a key and return it; :meth:`path` says where it lies.

        Raises:
            InputErrors: when the name is no name, or taken.
            HostRefuses: when the folder cannot be written.
        """
        _check_name(name)
        key = SigningKey(secrets.token_bytes(KEY_SIZE))
        path = self.path(name)
        with _refusals(self._keys):
            self._keys.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._keys.chmod(0o700)
            try:
                _write_new(path, key.to_pem())
            except FileExistsError:
                raise InputErrors.one(f"there is a key named {name!r} already", where=str(path)) from None
        return key

    def path(self, name: str) -> Path:
        """Return where the key of a name lies, or would."""
        return self._keys / f"{name}.key"

    def own(self) -> tuple[OwnKey, ...]:
        """Return the keys in the folder, by name, whoever else can read them: what was exposed must be revocable."""
        with _refusals(self._keys):
            paths = sorted(self._keys.glob("*.key"))
        return tuple(
            OwnKey(name=path.stem, public=_public(path), path=path) for path in paths if KEY_NAME.fullmatch(path.stem)
        )

    def signing_key(self, name: str) -> SigningKey:
        """Return a private key.

        Raises:
            InputErrors: when no key has that name.
            HostRefuses: when others than its owner can read it, or it cannot be read.
            Corrupt: when the file holds no key.
        """
        _check_name(name)
        path = self.path(name)
        try:
            data = _read_key(path, private=True)
        except FileNotFoundError:
            hint = f"make it: derive key new {name}; those that there are: derive key list"
            raise InputErrors.one(f"there is no key named {name!r}", hint=hint) from None
        try:
            return SigningKey.from_pem(data)
        except ValueError as error:
            raise Corrupt(str(error), where=str(path)) from error

    def usable(self, names: Iterable[str]) -> tuple[SigningKey, ...]:
        """Return private keys that may sign; raises InputErrors for a revoked one, and as :meth:`signing_key` does."""
        revoked = self.revoked()
        found = {name: self.signing_key(name) for name in names}
        for name, key in found.items():
            if key.public.id in revoked:
                raise InputErrors.one(f"the key {name!r} is revoked", hint="make another: derive key new NAME")
        return tuple(found.values())

    def revoked(self) -> Mapping[Digest, str]:
        """Return the ids of keys that no longer count, with the names that they were revoked under.

        Raises:
            Corrupt, HostRefuses: when it cannot be known: no key is then taken for one that counts.
        """
        try:
            with _refusals(self._revoked):
                data = self._revoked.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return _revoked(data)
        except (CanonicalError, ValueError) as error:
            raise Corrupt(f"the revoked keys cannot be read: {error}", where=str(self._revoked)) from error

    def revoke(self, key: Digest, name: str) -> bool:
        """Note that a key no longer counts, for good; return False when that was noted before.

        ``name`` is what people called the key, or nothing.
        """
        with _refusals(self._revoked), self._locked():
            known = self.revoked()
            if key in known:
                return False
            names = {one.hex: text for one, text in {**known, key: name}.items()}
            staged = _stage(self._revoked, encode({"derive": _TAG, "keys": names}) + b"\n", 0o644)
            staged.replace(self._revoked)
            _sync(self._revoked.parent)
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._revoked.parent.mkdir(parents=True, exist_ok=True)
        with self._revoked.with_suffix(".lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def user_keyring() -> Keyring:
    """Return the keyring of the user who runs this: ``$XDG_DATA_HOME/derive``, else ``~/.local/share/derive``."""
    data = os.environ.get("XDG_DATA_HOME")
    try:
        return Keyring((Path(data) if data else Path.home() / ".local" / "share") / "derive")
    except RuntimeError:
        raise HostRefuses("this user has no home folder for keys", hint="set XDG_DATA_HOME") from None


def _revoked(data: bytes) -> dict[Digest, str]:
    document = decode(data)
    found = document.get("keys") if isinstance(document, Mapping) and document.get("derive") == _TAG else None
    if not isinstance(found, Mapping):
        raise ValueError(f"not a {_TAG} document")  # noqa: TRY004 - one kind of error for a file that is wrong
    return {Digest(key): str(name) for key, name in found.items()}


def _check_name(name: str) -> None:
    if not KEY_NAME.fullmatch(name):
        raise InputErrors.one(f"no key can have the name {name!r}", hint=_NAMES)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe of that name would be waited for


def _read_key(path: Path, *, private: bool) -> bytes:
    with _refusals(path), open(path, "rb", opener=_opener) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise HostRefuses("a private key is an ordinary file", where=str(path))
        if private:
            _check_private(facts, path)
        return file.read(_MAX_FILE)


def _public(path: Path) -> PublicKey | None:
    try:
        return SigningKey.from_pem(_read_key(path, private=False)).public
    except (ValueError, HostRefuses, FileNotFoundError):
        return None


def _check_private(facts: os.stat_result, path: Path) -> None:
    if facts.st_mode & 0o077:
        mode = oct(stat.S_IMODE(facts.st_mode))
        hint = f"if nobody has read it: chmod 600 {path}; else make another, and revoke this one"
        detail = expected_got("0o600", mode)
        raise HostRefuses("others than its owner can use this private key", where=str(path), detail=detail, hint=hint)


def _write_new(path: Path, data: bytes) -> None:
    """Write a file whole under a name that nothing has; raises FileExistsError when something does."""
    staged = _stage(path, data, 0o600)
    try:
        os.link(staged, path)  # a rename would replace what another process put there meanwhile
    finally:
        staged.unlink()
    _sync(path.parent)


def _stage(path: Path, data: bytes, mode: int) -> Path:
    staged = path.parent / f".{path.name}.{secrets.token_hex(8)}.partial"
    try:
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        raise
    return staged


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _refusals(place: Path) -> Iterator[None]:
    """Turn what the system refuses into words; that something is absent is the caller's to say."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HostRefuses(f"cannot be used: {(error.strerror or str(error)).lower()}", where=str(place)) from error
