"""Every setting of a run. Defaults are those of the paper's Sec. IV; units are in the names.

Where the paper is silent or contradicts itself, the default is our decision and the other values
are the literal readings; ``docs/decisions`` gives the reasons. This module imports no JAX.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mix2fld.base.bounds import how_many
from mix2fld.base.errors import InputError, did_you_mean
from mix2fld.config.data import DataConfig as DataConfig
from mix2fld.config.fields import (
    AUTO_EVALUATED,
    HOMES,
    AutoOrNotNegative,
    AutoOrPositive,
    Count,
    Evaluated,
    Participants,
    Positive,
    PositiveFloat,
    Section,
    Spread,
    StepTimes,
)
from mix2fld.config.presets import NAMED
from mix2fld.config.radio import AvailabilityConfig, CellConfig, EnergyConfig, RadioConfig
from mix2fld.config.trust import AttackConfig, DefenceConfig, PrivacyConfig
from mix2fld.config.uploads import SeedingConfig, StatisticsConfig, UpdateConfig


class LearningConfig(Section):
    """Model and training: Eqs. 1, 2, 3 and 5."""

    model: str = "auto"
    """paper-cnn, cifar-cnn, signal-cnn, mlp, linear, text-gru or package.module:function; auto."""
    trained: str = "all"
    """Weights that are trained and sent: all, head, norms, lora:4, or a pattern of their names."""
    personal: str = "none"
    """Weights that stay on their device and are never sent: none, head, norms, or a pattern."""
    initial_weights: Literal["common", "independent", "edges"] = "common"
    """One random draw for all devices, one for each, or fixed edge filters (paper-cnn)."""
    kernel: Literal["auto", "xla", "native"] = "auto"
    """Train with XLA, or with a native kernel if the model has one; auto: the faster."""
    optimizer: str = "sgd"
    """sgd, momentum or adam; its state is reset in every local phase and every conversion."""
    learning_rate: AutoOrPositive = "auto"
    """Step size, eta, just as given; auto: 0.01, in the protocol's own schedule."""
    final_learning_rate: AutoOrPositive = "auto"
    """Step size of the last round, reached geometrically; auto: as the first, or the schedule's."""
    batch_size: Positive = 1
    """Samples per SGD step."""
    target_loss: Literal["squared", "absolute", "huber"] = "huber"
    """Loss of numbers as targets, in units of their standard deviation."""
    local_steps: Positive = 6400
    """SGD steps of a device per round, K."""
    finetune_steps: Annotated[int, Field(ge=0, le=10**8)] = 0
    """SGD steps of each device on its own samples after the last round."""
    server_steps: Annotated[int, Field(ge=0, le=10**8)] = 3200
    """SGD steps of the output-to-model conversion per round, K_s."""
    distillation_weight: Annotated[float, Field(ge=0)] = 0.01
    """Weight of the distillation term, beta."""
    distillation_loss: Literal["cross-entropy", "printed"] = "cross-entropy"
    """Sign of psi: as in a cross-entropy, or as printed, without the minus."""
    soft_label_teacher: Literal["mixture", "dominant"] = "mixture"
    """Teacher of a soft label: the mixture of its labels' outputs, or its dominant label's."""
    unseen_labels: Literal["skip", "zero"] = "skip"
    """A label that a device never drew: skipped in the mean, or averaged in as zeros."""
    logit_adjustment: AutoOrNotNegative = "auto"
    """Weight tau of log label frequencies in the local loss; 0: off; auto: the protocol's."""
    same_training: bool = False
    """Train alike whatever the protocol recommends: what is stated, and plain steps where auto."""
    prior_floor: Annotated[float, Field(gt=0, le=1)] = 1e-4
    """Logit adjustment: lowest frequency assumed for a label."""
    device_model: Literal["auto", "trained", "mean", "received"] = "auto"
    """Model that a device uses: trained, or the mean with its start; auto: the protocol's."""
    student_start: Literal["continue", "fresh"] = "continue"
    """The server's student continues from the last global model, or starts untrained each round."""


class ChannelConfig(Section):
    """The radio link of Sec. II-C."""

    link: str = "rayleigh"
    """rayleigh (the paper's), cell ([cell] and [radio]), trace, air (adds uploads), or ideal."""
    bandwidth_hz: PositiveFloat = 10e6
    """Bandwidth of a channel, W."""
    uplink_channels: PositiveFloat = 2
    """Uplink channels that the transmitting devices share by FDMA, N_ch."""
    uplink_power_dbm: Annotated[float, Field(ge=0, le=100)] = 23
    """Transmit power of a device, P_up; 40 is the paper's symmetric link."""
    downlink_power_dbm: Annotated[float, Field(ge=0, le=100)] = 40
    """Transmit power of the server, P_dn."""
    distance_m: PositiveFloat = 1000
    """Distance from each device to the server, r_d."""
    path_loss_exponent: Annotated[float, Field(ge=2)] = 4
    """Path loss exponent, alpha."""
    noise_dbm_per_hz: Annotated[float, Field(ge=-200, le=0)] = -174
    """Noise power spectral density, N_0."""
    uplink_snr_threshold: PositiveFloat = 3
    """Target SNR of the uplink as a ratio, theta_up."""
    downlink_snr_threshold: PositiveFloat = 3
    """Target SNR of the downlink as a ratio, theta_dn."""
    slot_ms: PositiveFloat = 1
    """Length of a slot, tau."""
    max_slots: Positive = 105
    """Slots after which a transfer is in outage, T_max; the paper prints 100, see decision 1."""
    air_truncation: Annotated[float, Field(gt=0, le=10)] = 0.1
    """Link air: channel gain below which a device is silent in a slot, g_th."""
    no_uploads: Literal["silent", "rebroadcast"] = "silent"
    """If no upload is delivered: the server stays silent, or rebroadcasts the last global state."""


class ClockConfig(Section):
    """Simulated computing time, accounted separately from communication time."""

    computing_time: Literal["stated", "measured"] = "stated"
    """Charge the stated costs below (reproducible), or the time measured on this machine."""
    device_step_us: StepTimes = 100.0
    """Stated time of one SGD step on a device: one value, or one for each device."""
    device_step_spread: Spread = 0
    """Spread of device speeds: sigma of a log-normal factor on device_step_us, median 1."""
    server_step_us: Annotated[float, Field(ge=0)] = 100
    """Stated time of one SGD step at the server."""


class CommonSettings(Section):
    """What the runs of a comparison share: everything but protocol and seed."""

    rounds: Positive = 10
    """Communication rounds."""
    participants: Participants = "all"
    """Devices sampled in each round: all, a number, or a fraction such as 0.1."""
    evaluated_devices: Evaluated = "auto"
    """Devices whose models are measured: all, or a number, drawn once; auto: at most 100."""
    evaluated_rounds: Literal["all", "last"] = "all"
    """Rounds in which devices are measured; last: only the reference device in earlier ones."""
    device_states: Literal["memory", "disk"] = "memory"
    """Where a simulation keeps device states: in memory, or in files of the run."""
    tolerance: PositiveFloat = 0.05
    """Relative change below which the stopping rule holds, epsilon."""
    stop_when_converged: bool = False
    """Stop at the round where the stopping rule holds, instead of only marking it."""
    curve_points: Annotated[int, Field(ge=1, le=10**5)] = 8
    """Measurements of the reference device's model within a local phase."""

    data: DataConfig = DataConfig()
    learning: LearningConfig = LearningConfig()
    seeding: SeedingConfig = SeedingConfig()
    updates: UpdateConfig = UpdateConfig()
    statistics: StatisticsConfig = StatisticsConfig()
    channel: ChannelConfig = ChannelConfig()
    cell: CellConfig = CellConfig()
    radio: RadioConfig = RadioConfig()
    availability: AvailabilityConfig = AvailabilityConfig()
    energy: EnergyConfig = EnergyConfig()
    defence: DefenceConfig = DefenceConfig()
    attack: AttackConfig = AttackConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    clock: ClockConfig = ClockConfig()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("participants", "evaluated_devices"):
            count = getattr(self, name)
            if isinstance(count, int) and count > self.data.devices:
                raise InputError(f"{name} = {count}: must be at most devices = {self.data.devices}")
        if self.evaluated_rounds == "last" and (
            self.participants != "all" or self.stop_when_converged
        ):
            raise InputError(
                field="evaluated_rounds",
                value="last",
                hint="must be all with participants or stop_when_converged, where "
                "the last round of a device is not known in advance",
            )
        every = self.updates.upload_every
        if every > self.rounds:
            raise InputError(
                field="upload_every",
                value=every,
                hint=f"nothing would be uploaded; must be at most rounds = {self.rounds}",
            )
        needed, asked = self.availability.min_uploads, self.participants_per_round
        if needed > asked:
            raise InputError(
                field="min_uploads",
                value=needed,
                hint=f"must be at most {asked}, the devices asked in a round",
            )
        costs = self.clock.device_step_us
        if isinstance(costs, tuple) and len(costs) != self.data.devices:
            raise InputError(
                field="device_step_us",
                hint=f"{len(costs)} values; must be one, or one for each of devices = "
                f"{self.data.devices}",
            )
        if self.attack.attack != "none" and self.attack.attackers >= self.data.devices:
            raise InputError(
                field="attackers",
                value=self.attack.attackers,
                hint=f"must be below devices = {self.data.devices}",
            )
        if self.attack.attack != "none" and self.attack.attack_from > self.rounds:
            raise InputError(
                field="attack_from",
                value=self.attack.attack_from,
                hint=f"must be at most rounds = {self.rounds}",
            )
        return self

    @property
    def participants_per_round(self) -> int:
        """Number of devices sampled in a round, if all are available."""
        return how_many(self.participants, self.data.devices)

    @property
    def devices_evaluated(self) -> int:
        """Number of devices whose models are measured."""
        if isinstance(self.evaluated_devices, int):
            return self.evaluated_devices
        most = AUTO_EVALUATED if self.evaluated_devices == "auto" else self.data.devices
        return min(most, self.data.devices)

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Return settings from plain field names: ``Config.of(devices=4, protocol="fl")``."""
        return cls().replace(**fields)

    def replace(self, **fields: Any) -> Self:
        """Return these settings with some fields changed, by their plain names."""
        tree, known = self.model_dump(), field_names(type(self))
        for name, value in fields.items():
            if name not in known:
                raise InputError(f"{name}: no such field; {did_you_mean(name, known)}")
            section = known[name]
            (tree[section] if section else tree)[name] = value
        return type(self)(**tree)


class _ProtocolAndSeed(Section):
    """What tells the runs of a comparison apart; the first fields of a run."""

    protocol: str = "mix2fld"
    """The protocol, with its parameters if it is given any: fl, mix2fld, murmur:bits=200."""
    seed: Count = 0
    """Random seed."""


class Config(CommonSettings, _ProtocolAndSeed):
    """Everything that determines the result of one run; ``Grid`` has the settings of several."""

    def replace(self, **fields: Any) -> Self:
        """Return this config with some fields changed, by their plain names."""
        for name, value in fields.items():
            several = name == "seed" and isinstance(value, (tuple, list))
            if several or name in ("protocols", "seeds"):
                raise InputError(
                    field=name,
                    value=value,
                    hint="Config is one run; must be protocol = ... and seed = ... with one value "
                    "each, or mix2fld.Grid.of(protocols=..., seed=...) for several",
                )
        return super().replace(**fields)

    def runs(self) -> list[Self]:
        """Return this run, as ``Grid.runs`` returns several."""
        return [self]

    @property
    def run_name(self) -> str:
        """Name of the run's folder, ``<protocol>-s<seed>``."""
        return f"{re.sub(r'[:=,]', '-', self.protocol)}-s{self.seed}"


SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in CommonSettings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}

PRESETS: dict[str, dict[str, Any]] = {
    "symmetric": {"uplink_power_dbm": 40.0},
    "literal": {"max_slots": 100},
    "ideal": {"link": "ideal"},
    "iid": {"partition": "iid"},
    "robust": {
        "aggregation": "filtered-median",
        "sample_weights": "capped",
        "seed_check": "agreement",
    },
    **NAMED,
}
"""Named changes to the default config; ``literal`` is T_max as the paper prints it, ``robust`` the
recommended defence and the default of a deployment."""


@cache
def field_names(kind: type[CommonSettings] = CommonSettings) -> Mapping[str, str]:
    """Return every plain field name with its section (empty for the top level)."""
    names = {name: "" for name in kind.model_fields if name not in SECTIONS}
    for section, fields in SECTIONS.items():
        names.update(dict.fromkeys(fields.model_fields, section))
    return MappingProxyType(names)


def setting(settings: CommonSettings, name: str) -> Any:
    """Return the value of a field by its plain name."""
    section = field_names(type(settings))[name]
    return getattr(getattr(settings, section) if section else settings, name)


HOMES.update(field_names())
"""Every setting of a run, and presets of links."""
