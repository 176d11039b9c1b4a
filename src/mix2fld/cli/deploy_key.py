"""``mix2fld deploy key``: the keys of a deployment over its life."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from mix2fld.base.errors import InputError


@dataclass(frozen=True)
class DeployKey:
    """Add, renew or revoke one certificate of an MQTT deployment; all others stay as they are.

    Of a deployment over Flower, that of the server can be renewed. Needs the folder that deploy
    keys wrote, with ca.key. A renewed certificate goes to its machine; the one before it is valid
    until it ends. After a revocation, ca.crl goes to the broker, which reads it when it is started
    again. A device that lost its key is revoked, then added.

    Example: mix2fld deploy key revoke device-3 --keys keys
    """

    action: tyro.conf.Positional[Literal["add", "renew", "revoke"]]
    """What to do."""
    name: tyro.conf.Positional[str]
    """device-0 and so on, and to renew also broker or server."""
    keys: Path = Path("keys")
    """Folder of mix2fld deploy keys --transport mqtt."""

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
        authority, certificate = Authority.of(self.keys), self.keys / f"{self.name}.crt"
        if certificate.exists() == (self.action == "add"):
            hint = "already exists; renew or revoke it" if self.action == "add" else "is not there"
            raise InputError(field="name", value=certificate, hint=hint)
        with writing("keys", self.keys):
            if self.action == "revoke":
                revoked = authority.revoke(self.name)
                print(
                    f"{revoked} certificates of {self.name} revoked: copy ca.crl, start the broker"
                )
            elif device is not None and self.action == "add":
                authority.issue(self.name, device[1])
                print(f"{self.name}.crt and {self.name}.key are for its machine")
            else:
                authority.renew(self.name)
                print(f"{self.name}.crt and {self.name}.key are new: copy them to its machine")
