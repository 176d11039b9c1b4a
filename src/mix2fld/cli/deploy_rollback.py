"""``mix2fld deploy rollback``: a deployed run as it was after an earlier round."""

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class DeployRollback:
    """Roll a deployed run back to an earlier round, such as one before a bad model.

    Later rounds are removed. Stop the server first; the same command as before then resumes the
    run, and devices catch up. Up to 20 rounds are kept, spread over the run.

    Example: mix2fld deploy rollback runs/deployment/fl-s0 --round 20
    """

    run_folder: tyro.conf.Positional[Path]
    """Folder of the run."""
    round: int
    """The last round that remains."""

    def run(self) -> None:
        from mix2fld.deploy.rollback import roll_back

        before = roll_back(self.run_folder, self.round)
        print(f"{self.run_folder}: {self.round} rounds, {before - self.round} removed")
