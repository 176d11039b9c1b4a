"""``mix2fld deploy key``: the keys of a deployment over its life."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from mix2fld.base.errors import InputError

if TYPE_CHECKING:
    from mix2fld.deploy.keys import Authority


@dataclass(frozen=True)
class DeployKey:
    """Add, renew or revoke one certificate of an MQTT deployment; all others stay as they are.

    Of a deployment over Flower, that of the server can be renewed. Needs the folder that deploy
    keys wrote, with ca.key and issued/. A renewed certificate goes to its machine; the one before
    it is valid until it ends. After a revocation, ca.crl goes to the broker, which reads it when it
    is started again. A device that lost its key is revoked, then added.

    Example: mix2fld deploy key revoke device-3 --keys keys
    """

    action: tyro.conf.Positional[Literal["add", "renew", "revoke"]]
    """What to do."""
    name: tyro.conf.Positional[str]
    """device-0 and so on, and to renew also broker or server."""
    keys: Path = Path("keys")
    """Folder of mix2fld deploy keys --transport mqtt."""
    serial: str = ""
    """Revoke the certificate with this serial number, in hexadecimal, and no other."""
    certificate: Path | None = None
    """Revoke the certificate in this file, and no other."""

    def run(self) -> None:
        from mix2fld.cli.deploy import needs_mqtt

        needs_mqtt()
        from mix2fld.base.files import writing
        from mix2fld.deploy.keys import Authority

        device = re.fullmatch(r"device-(0|[1-9]\d{0,8})", self.name)
        if device is None and (self.action != "renew" or self.name not in ("broker", "server")):
            raise InputError(
                field="name",
                value=f"{self.name!r}",
                hint="must be device-0 and so on, or, to renew, broker or server",
            )
        if self.name != "server" and not (self.keys / "broker.crt").is_file():
            raise InputError(
                field="keys",
                value=self.keys,
                hint="has no broker.crt; it must be the folder of deploy keys --transport mqtt. "
                "Over Flower, use flwr supernode register and unregister",
            )
        if self.action != "revoke" and (self.serial or self.certificate):
            raise InputError(field="serial", hint="and certificate only say what to revoke")
        authority = Authority.of(self.keys)
        with writing("keys", self.keys):
            if device is not None and self.action == "revoke":
                self._revoke(authority, device[1])
            elif device is not None and self.action == "add":
                self._add(authority, device[1])
            elif not (self.keys / f"{self.name}.crt").exists():
                raise InputError(field="name", value=f"{self.name}.crt", hint="is not there")
            else:
                authority.renew(self.name)
                print(f"{self.name}.crt and {self.name}.key are new: copy them to its machine")

    def _add(self, authority: "Authority", number: str) -> None:
        self._check_issued()
        if authority.valid(self.name, number):
            hint = "already exists; renew or revoke it"
            raise InputError(field="name", value=self.name, hint=f"a valid certificate {hint}")
        authority.issue(self.name, number)
        print(f"{self.name}.crt and {self.name}.key are for its machine")

    def _revoke(self, authority: "Authority", number: str) -> None:
        if self.serial:
            if not re.fullmatch(r"[0-9a-fA-F]{1,40}", self.serial):
                raise InputError(field="serial", value=self.serial, hint="must be hexadecimal")
            numbers = {int(self.serial, 16)}
        elif self.certificate is not None:
            numbers = {authority.number_of(self.certificate, number)}
        else:
            self._check_issued()
            numbers = {one.serial_number for one in authority.valid(self.name, number)}
        revoked = authority.revoke(self.name, numbers)
        if not revoked:
            raise InputError(
                field="name",
                value=self.name,
                hint="has no certificate that could be revoked; nothing is changed",
            )
        print(f"{revoked} certificates of {self.name} revoked: copy ca.crl, start the broker")

    def _check_issued(self) -> None:
        """Whose certificates are valid is known by all that were issued, or not at all."""
        from mix2fld.deploy.keys import ISSUED

        if not (self.keys / ISSUED).is_dir():
            raise InputError(
                field="keys",
                value=self.keys,
                hint=f"has no {ISSUED}/, which says what was issued; put it back, or revoke with "
                "--serial or --certificate",
            )
