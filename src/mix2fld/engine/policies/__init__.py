"""Policies of time: when the server takes its step. One file each, and this table."""

from collections.abc import Callable

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.config.settings import Config
from mix2fld.engine.policies.all import All
from mix2fld.engine.policies.deadline import Deadline
from mix2fld.engine.policies.policy import Policy
from mix2fld.engine.policies.quorum import Share

POLICIES: dict[str, Callable[[str, Config], Policy]] = {
    #                        # the server's step
    "all": All.of,           # when all uploads are over; all devices transmit at once
    "quorum": Share.of,      # when a share of the uploads, or a number, has arrived
    "deadline": Deadline.of, # so many seconds after the order
}  # fmt: skip


def make_policy(config: Config) -> Policy:
    """The policy that the setting ``wait`` names: a name, and a value behind a colon."""
    spelled = config.availability.wait
    name, _, value = spelled.partition(":")
    if name not in POLICIES:
        raise InputError(
            field="wait",
            value=f"{spelled!r}",
            hint=f"no such policy; {did_you_mean(name, POLICIES)}",
        )
    return POLICIES[name](value, config)
