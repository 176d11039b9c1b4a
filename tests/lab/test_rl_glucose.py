"""Blood glucose: equations with known solutions, and the package whose people are simulated."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mix2fld.data.packages import _downloaded
from mix2fld.data.place_errors import PlaceError
from mix2fld_lab.rl import glucose
from mix2fld_lab.rl.glucose import GLUCOSE, Meal, Patient, eating, minute_later, people

NOTHING = Meal(0.0, 0.0, 0.0)
BASAL = 1.0


def toy() -> Patient:
    """An invented person, whose fasting state follows from the equations by hand."""
    own = {
        "BW": 70.0, "kabs": 0.1, "kmax": 0.04, "kmin": 0.01, "b": 0.8, "d": 0.2, "Vg": 1.8,
        "Vi": 0.05, "Vmx": 0.05, "Km0": 230.0, "k1": 0.06, "k2": 0.08, "p2u": 0.03, "m1": 0.2,
        "m2": 0.3, "m4": 0.12, "m30": 0.25, "ki": 0.008, "kp2": 0.004, "kp3": 0.01, "f": 0.9,
        "ke1": 0.0005, "ke2": 339.0, "Fsnc": 1.0, "kd": 0.016, "ksc": 0.08, "ka1": 0.003,
        "ka2": 0.015, "u2ss": 1.2,
    }  # fmt: skip
    skin = own["u2ss"] / (own["ka1"] + own["kd"])
    deep = own["kd"] * skin / own["ka2"]
    coming = own["ka1"] * skin + own["ka2"] * deep
    kept = own["m1"] * own["m2"] / (own["m1"] + own["m30"])
    blood = coming / (own["m2"] + own["m4"] - kept)
    liver = own["m2"] * blood / (own["m1"] + own["m30"])
    level, plasma, tissue = blood / own["Vi"], 1.8 * 120, 150.0
    passed = own["k1"] * plasma - own["k2"] * tissue
    fasting = {
        "Ib": level,
        "Vm0": passed * (own["Km0"] + tissue) / tissue,
        "kp1": own["Fsnc"] + passed + own["kp2"] * plasma + own["kp3"] * level,
    }
    start = np.array(
        [0, 0, 0, plasma, tissue, blood, 0, level, level, liver, skin, deep, plasma], np.float64
    )
    return Patient(start, **own, **fasting)


def after(minutes: int, rate: float, meal_at: int = -1, carbs: float = 0.0) -> np.ndarray:
    patient, meal, left = toy(), NOTHING, 0.0
    body, seen = patient.start.copy(), []
    for minute in range(minutes):
        left += carbs if minute == meal_at else 0.0
        bite = min(left, 5.0)
        left -= bite
        meal = eating(np, meal, body, bite)
        body = minute_later(np, patient, body, bite, rate, meal)
        seen.append(body)
    return np.array(seen)


def test_who_fasts_with_basal_insulin_stays_as_he_is() -> None:
    np.testing.assert_allclose(after(240, BASAL), np.tile(toy().start, (240, 1)), atol=1e-8)


def test_all_carbohydrates_leave_the_gut() -> None:
    """What is eaten is in the stomach or the gut, or has been absorbed."""
    patient, carbs = toy(), 60.0
    seen = after(600, BASAL, 0, carbs)
    inside = seen[:, :3].sum(axis=1)
    gut = np.concatenate([[0.0], seen[:, 2]])
    absorbed = np.cumsum(patient.kabs * (gut[1:] + gut[:-1]) / 2)
    np.testing.assert_allclose((inside + absorbed)[20:], 1000 * carbs, rtol=2e-3)


def test_insulin_lowers_glucose_and_meals_raise_it() -> None:
    basal, more, meal = (after(*case)[-1, 12] for case in ((180, 1), (180, 5), (180, 1, 0, 50.0)))
    assert more < basal - 10
    assert meal > basal + 10


def test_a_meal_after_a_pause_is_another_one() -> None:
    body = np.array([300.0, 200.0] + 11 * [1.0])
    begun = eating(np, NOTHING, body, 5.0)
    assert (begun.before, begun.eaten) == (500.0, 5.0)
    again = eating(np, begun, 2 * body, 5.0)
    assert (again.before, again.eaten) == (500.0, 10.0)
    other = eating(np, eating(np, again, body, 0.0), 2 * body, 5.0)
    assert (other.before, other.eaten) == (1000.0, 5.0)


def test_a_quarter_of_an_hour_is_fifteen_minutes() -> None:
    """The compiled step and the loop in double precision, and what the pump knows of it."""
    single = jax.tree.map(jnp.float32, toy())
    day = GLUCOSE.start(jax.random.PRNGKey(0), single)
    day = day._replace(body=single.start, planned=jnp.array([0.0, 900.0, 900.0]))
    later = GLUCOSE.step(day, jnp.float32(2), single)
    carbs = float(day.carbs[0])
    expected = after(15, 5.0, 0, carbs)[-1]
    np.testing.assert_allclose(later.body, expected, rtol=2e-4, atol=1e-3)
    level, change, insulin, announced = np.asarray(GLUCOSE.seen(later))
    assert level + 140 == pytest.approx(expected[12] / 1.8, rel=1e-3)
    assert change == pytest.approx((expected[12] - toy().start[12]) / 1.8, abs=1e-2)
    assert insulin == pytest.approx((5 - 1) / 4)
    assert announced == pytest.approx(min(carbs, 75.0) / 70 - 0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("level", "worth", "over"),
    [
        (39, 0, True),
        (69, 0, False),
        (70, 1, False),
        (180, 1, False),
        (181, 0, False),
        (501, 0, True),
    ],
)
def test_glucose_in_range_is_worth_one(level: float, worth: int, over: bool) -> None:
    single = jax.tree.map(jnp.float32, toy())
    day = GLUCOSE.start(jax.random.PRNGKey(0), single)
    day = day._replace(body=day.body.at[12].set(level * 1.8))
    assert (float(GLUCOSE.reward(day)), bool(GLUCOSE.is_over(day))) == (worth, over)


@pytest.mark.long
def test_glucose_is_that_of_the_package() -> None:
    """All thirty people, twelve hours, two meals: its own equations, solved by its own solver."""
    command = ["python3", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest=."]
    try:
        with _downloaded("*.whl", [*command, glucose.PACKAGE]) as wheel:
            text, source = _members(wheel)
    except PlaceError as error:
        pytest.skip(str(error))
    import pandas as pd

    names: dict = {"__name__": "patient"}
    source = source.replace("from .base import Patient", "Patient = object")
    source = source.replace("import pkg_resources", "").replace("pkg_resources.", "str.")
    source = source.replace("str.resource_filename", "str.join")
    exec(compile(source, "t1dpatient", "exec"), names)
    table, worst = pd.read_csv(glucose.io.StringIO(text)), 0.0
    for kind in ("adult", "adolescent", "child"):
        group = people(text, kind)
        for number, row in enumerate(table[table.Name.str.startswith(kind)].iloc):
            patient = Patient(*(part[number] for part in group))
            theirs, body, meal, left = names["T1DPatient"](row), patient.start, NOTHING, 0.0
            theirs._params = SimpleNamespace(**row.to_dict())  # a lookup in it is far faster
            for minute in range(720):
                rate, eaten = (1, 5, 0, 1)[minute // 180], 60.0 if minute in (100, 400) else 0.0
                left += eaten
                bite = min(left, 5.0)
                left -= bite
                meal = eating(np, meal, body, bite)
                body = minute_later(np, patient, body, bite, rate, meal)
                units = rate * row.u2ss * row.BW / 6000
                theirs.step(names["Action"](CHO=eaten, insulin=units))
                worst = max(worst, abs(body[12] / patient.Vg - theirs.observation.Gsub))
    assert worst < 0.2


def _members(wheel: Path) -> tuple[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return tuple(
            archive.read(f"simglucose/{name}").decode()
            for name in ("params/vpatient_params.csv", "patient/t1dpatient.py")
        )  # type: ignore[return-value]
