"""A step for every upload, mixed in by its staleness (FedAsync, Xie et al., 2019)."""

from dataclasses import dataclass, field
from typing import ClassVar

from mix2fld.engine.policies.buffered import Buffered


@dataclass(frozen=True)
class Asynchronous(Buffered):
    """A step for every upload (FedAsync): a buffer of one."""

    spelled: ClassVar[str] = (
        "asynchronous, or asynchronous:0.2, its mixing; also power= and oldest="
    )
    uploads: float = field(default=1, init=False)
    mixing: float = 0.6
