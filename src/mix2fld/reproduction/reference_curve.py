"""The learning curve of the reference device, as recorded in a run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mix2fld.report.curves import with_holds


def reference_curve(run: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Simulated seconds and accuracy in %; the accuracy holds until a download changes it."""
    curve = run["curve"]
    corners, heights = with_holds(curve["event"], curve["accuracy"])
    seconds = np.array(curve["communication"]) + np.array(curve["computing"])
    return seconds[corners], 100 * heights
