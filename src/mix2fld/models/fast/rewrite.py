"""A JAX function with some of its operations in another form.

The function is traced, and its operations are replayed one by one; where a rule applies, the rule
computes the result. Done before differentiation, so that gradients are those of the new form.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, jaxpr_as_fun


class Rule(NamedTuple):
    """Another form of an operation."""

    applies: Callable[[JaxprEqn], bool]
    form: Callable[..., Any]  # (*operands, **parameters of the operation) -> its result


Rules = Mapping[Primitive, Rule]


def rewritten(function: Callable[..., Any], rules: Rules, *args: Any) -> Any:
    """``function(*args)`` by these rules; the function itself where none applies."""
    traced, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    if not _concerned(traced.jaxpr, rules):
        return function(*args)
    results = _replay(traced, rules, jax.tree.leaves(args))
    return jax.tree.unflatten(jax.tree.structure(shape), results)


def _replay(traced: ClosedJaxpr, rules: Rules, args: Sequence[Any]) -> list[Any]:
    jaxpr = traced.jaxpr
    known = dict(zip(jaxpr.constvars, traced.consts, strict=True))
    known.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        operands = [read(atom) for atom in equation.invars]
        if _applies(equation, rules):
            results = [rules[equation.primitive].form(*operands, **equation.params)]
        else:
            results = _as_it_is(jaxpr, equation, rules, operands)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _as_it_is(jaxpr: Jaxpr, equation: JaxprEqn, rules: Rules, operands: Sequence[Any]) -> list[Any]:
    """An operation without a rule; rules apply to the functions that it calls."""
    params = {name: _inside(value, rules) for name, value in equation.params.items()}
    given = {
        atom: operand
        for atom, operand in zip(equation.invars, operands, strict=True)
        if not isinstance(atom, Literal)
    }
    alone = jaxpr.replace(
        constvars=[],
        invars=list(given),
        outvars=equation.outvars,
        eqns=[equation.replace(params=params)],
        effects=equation.effects,
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    results: list[Any] = jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())
    return results


def _inside(value: Any, rules: Rules) -> Any:
    """A parameter of an operation, with the rules applied if it is a function that it calls."""
    if isinstance(value, ClosedJaxpr) and _concerned(value.jaxpr, rules):
        return _traced(value, rules)
    if isinstance(value, Jaxpr) and _concerned(value, rules):
        return _traced(ClosedJaxpr(value, ()), rules).jaxpr
    if type(value) is tuple and any(isinstance(part, ClosedJaxpr) for part in value):
        return tuple(_inside(part, rules) for part in value)
    return value


def _traced(function: ClosedJaxpr, rules: Rules) -> ClosedJaxpr:
    return jax.make_jaxpr(lambda *args: _replay(function, rules, args))(*function.in_avals)


def _concerned(jaxpr: Jaxpr, rules: Rules) -> bool:
    """Whether a rule applies in this function or in one that it calls."""
    return any(
        _applies(equation, rules) or any(_concerned(inner, rules) for inner in _called(equation))
        for equation in jaxpr.eqns
    )


def _applies(equation: JaxprEqn, rules: Rules) -> bool:
    rule = rules.get(equation.primitive)
    return rule is not None and rule.applies(equation)


def _called(equation: JaxprEqn) -> list[Jaxpr]:
    values = list(equation.params.values())
    values += [part for value in values if type(value) is tuple for part in value]
    found = [value.jaxpr if isinstance(value, ClosedJaxpr) else value for value in values]
    return [value for value in found if isinstance(value, Jaxpr)]
