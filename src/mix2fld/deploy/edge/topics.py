"""The topics of a fleet, and the guarantee that each message is sent with.

Names are short: they are part of every message, and a topic alias would save none of three bytes.

==============  ==================================  =========================================
topic           what                                guarantee, and why
==============  ==================================  =========================================
``s``           settings of the run, retained       1: a run begins with them
``g``           the download, retained, to all      0: only the latest counts, and a copy for
                                                    one device repairs a loss
``o/<device>``  orders, which expire with the       1: a device that sleeps gets it when it
                round                               wakes, if the round still waits
``u/<device>``  uploads and other answers           1: an upload is what the round is for
``p/<device>``  presence, retained; the last will   1: it must not be wrong for long
                clears it
==============  ==================================  =========================================
"""

SETTINGS, DOWNLOAD = "s", "g"
HERE, HERE_AGAIN = b"1", b"2"
"""How presence begins, of a device that was started and of one whose session was resumed; then
come its version of mix2fld and the format of its messages."""


def orders(device: int | str) -> str:
    """Where a device hears what it is asked."""
    return f"o/{device}"


def uploads(device: int | str) -> str:
    """The topic of the answers of a device."""
    return f"u/{device}"


def presence(device: int | str) -> str:
    """Where a device says that it is connected."""
    return f"p/{device}"
