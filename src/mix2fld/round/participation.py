"""Who takes part in a round."""

from collections.abc import Sequence

from mix2fld.config import Config
from mix2fld.streams import stream


def draw_participants(
    config: Config, available: Sequence[int], round_number: int
) -> tuple[int, ...]:
    """The devices that are asked: all that are available, or so many of them, drawn anew."""
    count = config.participants_per_round
    if count >= len(available):
        return tuple(sorted(available))
    rng = stream(config.seed[0], "participants", round_number)
    chosen = rng.choice(len(available), size=count, replace=False)
    return tuple(sorted(sorted(available)[place] for place in chosen))
