"""Sealed secrets (AES-256-GCM) and the private files (0600) that hold keys.

What a plan, proxy or webhook must keep secret is stored only sealed. The context ties a sealed text to its
place, so that one copied from another row does not open.
"""

import base64
import binascii
import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from scrubjay.errors import ConfigurationError, HomeUnusable, KeyFileExposed, SecretUnreadable
from scrubjay.settings import Settings

KEY_FILE = "secret.key"

_KEY_BYTES = 32
_NONCE_BYTES = 12
# Version, key id, and at least the 28 bytes of a nonce and a tag.
_SEALED = re.compile(r"v1\.(?P<key_id>[0-9a-f]{8})\.(?P<body>[A-Za-z0-9_-]{38,})")


class SecretBox:
    """Seals text under one key, and unseals what that one or an older one sealed; `open_secret_box` makes one."""

    def __init__(self, key: bytes, *older: bytes) -> None:
        for each in (key, *older):
            if len(each) != _KEY_BYTES:
                raise ConfigurationError(f"A secret key has {_KEY_BYTES} bytes, not {len(each)}.")
        self._cipher = AESGCM(key)
        self.key_id = _key_id(key)
        self._ciphers = {_key_id(each): AESGCM(each) for each in (*older, key)}

    def __repr__(self) -> str:
        return f"SecretBox(key_id={self.key_id!r})"

    def seal(self, plaintext: str, *, context: str) -> str:
        """Seal a text for one place, such as `plan:cplan_…:password`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        body = nonce + self._cipher.encrypt(nonce, plaintext.encode(), context.encode())
        return f"v1.{self.key_id}.{base64.urlsafe_b64encode(body).rstrip(b'=').decode()}"

    def unseal(self, sealed: str, *, context: str) -> str:
        found = _SEALED.fullmatch(sealed)
        if found is None:
            raise SecretUnreadable("This is not a sealed secret.")
        cipher = self._ciphers.get(found["key_id"])
        if cipher is None:
            raise SecretUnreadable(
                f"This secret was sealed with the key {found['key_id']}, and the current one is {self.key_id}."
            )
        try:
            body = base64.urlsafe_b64decode(found["body"] + "=" * (-len(found["body"]) % 4))
            plaintext = cipher.decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], context.encode())
        except (InvalidTag, binascii.Error) as error:
            raise SecretUnreadable("This sealed secret was altered or belongs to another place.") from error
        return plaintext.decode()


def is_sealed(text: str) -> bool:
    return _SEALED.fullmatch(text) is not None


def sealed_with(text: str) -> str | None:
    """The id of the key that sealed a text; nothing for one that is not sealed."""
    found = _SEALED.fullmatch(text)
    return None if found is None else found["key_id"]


def open_secret_box(settings: Settings) -> SecretBox:
    """The box under the key of the settings, or under `$home/secret.key`, which is made at the first start.

    Older keys only unseal: those of the setting `old_secret_keys`, or the further lines of the file.
    """
    if settings.secret_key is not None:
        given = settings.old_secret_keys.get_secret_value() if settings.old_secret_keys is not None else ""
        source = "The setting 'secret_key' (SCRUBJAY_SECRET_KEY)"
        older = [
            decode_key(each, "Each of 'old_secret_keys' (SCRUBJAY_OLD_SECRET_KEYS)")
            for each in given.split(",")
            if each.strip()
        ]
        return SecretBox(decode_key(settings.secret_key.get_secret_value(), source), *older)
    path = settings.home / KEY_FILE
    try:
        text = _read_or_make_key(path)
    except OSError as error:
        raise HomeUnusable(f"The key file {path} cannot be read or made: {error.strerror}.") from error
    return read_key_file(text, path)


def read_key_file(text: str, path: Path) -> SecretBox:
    lines = text.split() or [""]
    return SecretBox(*(decode_key(line, f"The key file {path}") for line in lines))


def begin_new_key(path: Path) -> None:
    """Put a new key before those in a key file. What they sealed still opens."""
    text = new_key() + "\n" + read_private_file(path)
    replace_private_file(path, text)


def forget_old_keys(path: Path) -> None:
    """Leave only the newest key in a key file."""
    replace_private_file(path, read_private_file(path).split()[0] + "\n")


def new_key() -> str:
    return base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def replace_private_file(path: Path, content: str) -> None:
    """Write a file that only its owner can read in the place of one that is there, in one step."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    write_private_file(new, content)
    new.replace(path)


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"scrubjay key id:" + key).hexdigest()[:8]


def _read_or_make_key(path: Path) -> str:
    try:
        return read_private_file(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # When another process made it first, its key is the key.
    with suppress(FileExistsError):
        write_private_file(path, new_key() + "\n")
    return read_private_file(path)


def decode_key(text: str, source: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        # Without `from`: the text of the first error could show part of the key.
        raise ConfigurationError(f"{source} must be the base64 of {_KEY_BYTES} bytes.")
    return key


def write_private_file(path: Path, content: str) -> None:
    """Make a file that only its owner can read. It appears complete or not at all.

    A file that exists stays as it is, and FileExistsError is raised.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # Unlike a rename, a link never replaces what is there.
        path.hardlink_to(draft)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_private_file(path: Path) -> str:
    """Read a file that only its owner can read; one that others can read is a KeyFileExposed."""
    with path.open("rb") as file:
        # Asked of the open file: a path could be exchanged between the look and the read.
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyFileExposed(f"Other users can read {path} (mode {mode:04o}); run: chmod 600 {path}")
        content = file.read()
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"The file {path} is not text.") from None
