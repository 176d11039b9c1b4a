"""The settings of several runs: one of each protocol for each seed."""

from typing import Annotated, Any, Self

from pydantic import model_validator

from mix2fld.base.errors import InputError
from mix2fld.config.fields import Count, Listed, Section
from mix2fld.config.settings import CommonSettings, Config


class _ProtocolsAndSeeds(Section):
    """What tells the runs of a grid apart; its first fields, in TOML files and as flags."""

    protocols: Annotated[tuple[str, ...], Listed] = ("fl", "fd", "mixfld", "mix2fld")
    """Protocols to compare: fl, fl8, fl4, topk, stc, sign, eden, projected,
    vote, feedsign, murmur, murmur-mix, murmur-stat, fd, cfd, fld, mixfld,
    mix2fld, statistics, own-statistics, dp-statistics, dp-sum, dp-seeds,
    dp-seeds-sum, dp-fl, dp-murmur, isolated; or package.module:NAME."""
    seed: Annotated[tuple[Count, ...], Listed] = (0,)
    """Random seeds; one run of every protocol for each."""


class Grid(CommonSettings, _ProtocolsAndSeeds):
    """Everything that determines the result of a run; one run for each protocol and seed."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for name in ("protocols", "seed"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise InputError(
                    f"{name} = {list(values)}: must name at least one, and each only once"
                )
        return self

    @classmethod
    def of_run(cls, config: Config) -> Self:
        """Return the grid of this run alone."""
        return cls(protocols=config.protocol, seed=config.seed, **_shared_fields(config))

    def replace(self, **fields: Any) -> Self:
        """Return this grid with some fields changed, by their plain names; seeds are ``seed``."""
        if "seeds" in fields:
            fields["seed"] = fields.pop("seeds")
        return super().replace(**fields)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The random seeds."""
        return self.seed

    def only_run(self) -> Config | None:
        """Return the run of a grid that has one; None for a grid that has several."""
        runs = self.runs()
        return runs[0] if len(runs) == 1 else None

    def runs(self) -> list[Config]:
        """Return the runs seed by seed, their protocols with parameters still as they are spelled.

        ``mix2fld.protocols.table.single_runs`` makes settings of these parameters.
        """
        return [self.at(protocol, seed) for seed in self.seeds for protocol in self.protocols]

    def at(self, protocol: str | None = None, seed: int | None = None) -> Config:
        """Return the config of one run, by default with the first protocol and the first seed.

        ``mix2fld.protocols.table.as_spelled`` makes settings of the protocol's parameters.
        """
        chosen = self.protocols[0] if protocol is None else protocol
        return Config(
            protocol=chosen, seed=self.seeds[0] if seed is None else seed, **_shared_fields(self)
        )


def _shared_fields(settings: CommonSettings) -> dict[str, Any]:
    """Return all fields but those of protocol and seed."""
    return {name: getattr(settings, name) for name in CommonSettings.model_fields}
