"""CartPole as a compiled loop: gymnasium's equations, with a pole of any length.

``step`` is written for any array library, so that the same lines are checked against gymnasium in
double precision and run in the compiled loop in single.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mix2fld_lab.rl.environment import Environment

GRAVITY, CART, POLE, FORCE, SECONDS = 9.8, 1.0, 0.1, 10.0, 0.02
MOST_X, MOST_ANGLE = 2.4, 12 * 2 * 3.141592653589793 / 360
START = 0.05
"""Each number of a state is at most so large at the start."""
HALF_LENGTH = 0.5
"""Of the pole, in metres, unless an agent has another."""


class State(NamedTuple):
    """Of the cart and the pole: numbers, or arrays of them."""

    x: Any
    speed: Any
    angle: Any
    spin: Any


def step(library: Any, state: State, action: Any, half_length: Any = HALF_LENGTH) -> State:
    """A fiftieth of a second later; ``action`` is 1 for a push to the right, 0 to the left."""
    force = (2.0 * action - 1.0) * FORCE
    cosine, sine = library.cos(state.angle), library.sin(state.angle)
    total, moment = POLE + CART, POLE * half_length
    pushed = (force + moment * library.square(state.spin) * sine) / total
    spin_up = (GRAVITY * sine - cosine * pushed) / (
        half_length * (4.0 / 3.0 - POLE * library.square(cosine) / total)
    )
    speed_up = pushed - moment * spin_up * cosine / total
    return State(
        state.x + SECONDS * state.speed,
        state.speed + SECONDS * speed_up,
        state.angle + SECONDS * state.spin,
        state.spin + SECONDS * spin_up,
    )


def has_fallen(state: State) -> Any:
    """Whether an episode ends here."""
    return (abs(state.x) > MOST_X) | (abs(state.angle) > MOST_ANGLE)


CARTPOLE = Environment(
    title="CartPole-v1",
    about="A cart is pushed to the left or right, so that its pole stays upright; a step of 0.02 s "
    "is worth 1.",
    actions=2,
    reach=(MOST_X, 3.0, MOST_ANGLE, 3.0),
    bins=9,
    longest=500,
    solved=475.0,
    start=lambda key, _: jax.random.uniform(key, (4,), minval=-START, maxval=START),
    step=lambda state, action, own: jnp.stack(step(jnp, State(*state), action, own)),
    seen=lambda state: state,
    is_over=lambda state: has_fallen(State(*state)),
    reward=lambda _: 1.0,
)
