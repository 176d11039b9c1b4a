"""Policies of time: when the server takes its step. One file each, and this table."""

from typing import TYPE_CHECKING

from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.engine.policies.all import All
from mix2fld.engine.policies.asynchronous import Asynchronous
from mix2fld.engine.policies.buffered import Buffered
from mix2fld.engine.policies.deadline import Deadline
from mix2fld.engine.policies.policy import Policy
from mix2fld.engine.policies.quorum import Quorum

if TYPE_CHECKING:
    from mix2fld.config.settings import Config

POLICIES: dict[str, type[Policy]] = {
    #                              # the server's step
    "all": All,                    # when all uploads are over; all devices transmit at once
    "quorum": Quorum,              # when a share of the uploads, or a number, has arrived
    "deadline": Deadline,          # so many seconds after the order
    "buffered": Buffered,          # after so many uploads; those that come later are used later
    "asynchronous": Asynchronous,  # after every upload
}  # fmt: skip


def make_policy(config: "Config") -> Policy:
    """The policy that the setting ``wait`` names, if it means something in this run."""
    policy = policy_of(config.availability.wait)
    policy.check(config)
    return policy


def policy_of(spelled: str) -> Policy:
    """The policy of these words: a name, and a value behind a colon."""
    name, _, value = spelled.partition(":")
    if name not in POLICIES:
        raise InputError(
            field="wait",
            value=f"{spelled!r}",
            hint=f"no such policy; {did_you_mean(name, POLICIES)}",
        )
    return POLICIES[name].of(value, spelled)
