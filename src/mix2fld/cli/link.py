"""``mix2fld link``."""

from dataclasses import dataclass, field
from pathlib import Path

import tyro

from mix2fld.config import Config


@dataclass(frozen=True)
class LinkCommand:
    """Link budget of every protocol, in closed form: bits, slots, delivery probability, latency."""

    config: Path | None = None
    """TOML file with any of the fields below; flags override it."""
    preset: tuple[str, ...] = ()
    """Named settings: symmetric, literal, ideal, iid, robust."""
    json: bool = False
    """Print JSON instead of a table."""
    settings: tyro.conf.OmitArgPrefixes[Config] = field(default_factory=Config)

    def run(self) -> None:
        """Print the budget of every transfer."""
        from json import dumps

        from mix2fld.cli.console import PipedConsole
        from mix2fld.protocol import PROTOCOLS
        from mix2fld.report.tables import link_table
        from mix2fld.runs.simulation import plan_link

        console = PipedConsole()
        by_default = self.settings.protocols == Config().protocols
        names = tuple(PROTOCOLS) if by_default else self.settings.protocols
        plans = plan_link(self.settings.replace(protocols=names))
        if self.json:
            print(dumps([plan.as_dict() for plan in plans], indent=2))
            return
        console.print(link_table(plans))
        for plan in plans:
            if plan.problem:
                console.print(plan.problem, style="red", markup=False, soft_wrap=True)
