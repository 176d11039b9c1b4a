"""X25519, HKDF, ChaCha20 and ChaCha20-Poly1305, as the package ``cryptography`` has them."""

from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def derived(secret: bytes, purpose: bytes, size: int = 32) -> bytes:
    """Bytes for one purpose, from which neither the secret nor those of others follow."""
    return HKDF(hashes.SHA256(), size, salt=None, info=purpose).derive(secret)


def keystream(seed: bytes, size: int) -> bytes:
    """Pseudorandom bytes; a seed has one stream, and is used once."""
    key = derived(seed, b"mix2fld keystream")
    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(size))


@lru_cache(maxsize=4)
def _loaded(private: bytes) -> X25519PrivateKey:
    """A device agrees with many others by the same key."""
    return X25519PrivateKey.from_private_bytes(private)


def public_key(private: bytes) -> bytes:
    """The half of a key that others are told."""
    return _loaded(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes, purpose: bytes) -> bytes | None:
    """What two ends have in common and nobody else; None for a key that is none."""
    try:
        shared = _loaded(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return None
    return derived(shared, purpose)


def seal(key: bytes, data: bytes, place: bytes, sender: int) -> bytes:
    """Data for the other end alone; a key seals once for each sender."""
    return ChaCha20Poly1305(key).encrypt(sender.to_bytes(12, "little"), data, place)


def unseal(key: bytes, data: bytes, place: bytes, sender: int) -> bytes | None:
    """What was sealed; None if it was changed, or sealed elsewhere."""
    try:
        return ChaCha20Poly1305(key).decrypt(sender.to_bytes(12, "little"), data, place)
    except InvalidTag:
        return None
