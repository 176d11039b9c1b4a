"""``mix2fld link``."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from mix2fld.cli.options import Configured
from mix2fld.config.grid import Grid
from mix2fld.config.settings import Config

if TYPE_CHECKING:
    from mix2fld.runs.link_plan import LinkPlan


@dataclass(frozen=True)
class LinkCommand(Configured):
    """Compute what fits a link: bits, delivery probability, time and energy of every transfer.

    Examples:
      mix2fld link --preset nb-iot --protocols fl fd mix2fld
      mix2fld link --preset lorawan-dr5 phone --devices 50 --out cell.png
    """

    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Also draw the cell, with the delivery probability of each device (PNG, SVG or PDF)."""
    transport: Literal["none", "mqtt", "flower"] = "none"
    """Add the overhead of this transport to each payload: headers, encryption, envelopes."""
    json: bool = False
    """Print JSON instead of tables."""
    settings: tyro.conf.OmitArgPrefixes[Grid] = field(default_factory=Grid)

    def run(self) -> None:
        from mix2fld.cli.console import PipedConsole, print_table
        from mix2fld.engine.policies import make_policy
        from mix2fld.protocols.table import PROTOCOLS
        from mix2fld.report.tables import link_table, rounds_table
        from mix2fld.runs.link_plan import plan_all

        by_default = self.settings.protocols == Grid().protocols
        names = self.settings.protocols
        if by_default:  # all that can be waited for so
            late = make_policy(self.settings.at()).uses_late
            names = tuple(n for n, row in PROTOCOLS.items() if row.late_uploads or not late)
        grid = self.settings.replace(protocols=names)
        plan = plan_all(grid, transport=self.transport)
        if self.out is not None:
            _draw(grid.at(), plan, self.out)
        if self.json:
            _print_json(plan)
            return
        console = PipedConsole()
        print_table(console, link_table(plan.transfers))
        print_table(console, rounds_table(plan.rounds, plan.transfers))
        for transfer in plan.transfers:
            if transfer.problem:
                console.print(transfer.problem, style="red", markup=False, soft_wrap=True)


def _draw(config: Config, plan: "LinkPlan", out: Path) -> None:
    import numpy as np

    from mix2fld.base.errors import InputError
    from mix2fld.engine.plan import lasting_state
    from mix2fld.report.maps import draw_cell

    if config.channel.link not in ("cell", "rayleigh"):
        raise InputError(
            field="out",
            value=out,
            hint=f"devices have no places with link = {config.channel.link}; must be "
            "rayleigh or cell",
        )
    state = lasting_state(config, plan.link)
    alike = np.full(config.data.devices, config.channel.distance_m)
    draw_cell(state.get("link", state).get("distance_m", alike), plan.transfers, out)


def _print_json(plan: "LinkPlan") -> None:
    from json import dumps

    rounds = {each.protocol: asdict(each) for each in plan.rounds}
    rows = [{**each.as_dict(), "round": rounds[each.protocol]} for each in plan.transfers]
    print(dumps(rows, indent=2))
