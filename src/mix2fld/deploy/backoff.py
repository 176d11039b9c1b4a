"""How soon Flower looks again for a part of a message that has not arrived yet.

A message is announced before its content. A node that hears of it at once, as one with short pauses
does, would wait for a second until the content has arrived.
"""

from flwr.supercore.inflatable import inflatable_utils

FIRST_WAIT_S = 0.05
"""Each wait is twice as long as the one before."""
PULLS, FIRST_WAIT = ("pull_objects", "pull_and_inflate_object_from_tree"), "initial_backoff"


def shorten_first_wait() -> None:
    """Have this process look again soon, if this version of Flower waits where it is expected."""
    for name in PULLS:
        defaults = getattr(vars(inflatable_utils).get(name), "__kwdefaults__", None) or {}
        if FIRST_WAIT in defaults:
            defaults[FIRST_WAIT] = FIRST_WAIT_S
