"""Compare the limit's weights with the package's, device by device: ``python -m ...`` prints JSON.

A device that meets a value within rounding of a kink of ReLU or of the max-pool takes another
branch there and drifts off; the others stay within rounding, which is what the median shows.
"""

import json
import statistics

from benchmarks import usage
from benchmarks.contenders.limit import train_all
from benchmarks.work import difference, paper_work, reference

DEVICES, STEPS = 10, 1000


def main() -> None:
    """Print the differences after 1,000 steps."""
    work = paper_work(DEVICES, STEPS)
    trained = train_all(work)
    found = [difference(tensors, reference(work, d)) for d, tensors in enumerate(trained)]
    print(json.dumps({"steps": STEPS, "median": statistics.median(found), "largest": max(found)}))


if __name__ == "__main__":
    usage.arguments(__doc__)
    main()
