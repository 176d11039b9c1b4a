"""What is trained is what is sent: a model of which all but some weights stay as they are made."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from mix2fld.base.errors import InputError, some_of
from mix2fld.types import Model

ALL, HEAD, NORMS, LORA, NONE = "all", "head", "norms", "lora:", "none"
EVERY = "*"
"""The pattern of all names: every weight is trained, and all else stays as it is made."""
MOST_RANK = 1024


def only_trained(model: Model, trained: str) -> Model:
    """The model with these of its weights: all, head, norms, lora:RANK, or a pattern of names.

    ``head`` is the last layer, ``norms`` what scales and shifts within normalisations. With
    ``lora:4``, every other linear layer learns the product of two matrices of rank 4, and the head
    is trained too (Hu et al. 2022). A pattern is that of file names, as in ``layers.1*``; several
    are separated by commas. What is not trained is the same for all devices.
    """
    if trained == ALL:
        return model
    if model.torch is not None:
        from mix2fld.models.torch_trained import only_trained_torch

        return only_trained_torch(model, model.torch, trained)
    from mix2fld.models.jax_trained import only_trained_jax

    return only_trained_jax(model, trained)


def personal_places(model: Model, personal: str) -> tuple[int, ...]:
    """Places of the arrays that stay on their device: none, head, norms, or a pattern of names.

    What else a normalisation has, such as running statistics, stays with its scales and shifts.
    """
    if personal == NONE:
        return ()
    from mix2fld.models.model_checks import weight_names, weight_shapes

    names = weight_names(model)
    try:
        if model.torch is not None:
            from mix2fld.models.torch_trained import chosen_parameters

            found = chosen_parameters(model.torch.make(), personal)
        else:
            from mix2fld.models.jax_trained import chosen_names

            found = chosen_names(names, weight_shapes(model), personal)
    except InputError:
        found = set()
    if personal == NORMS:
        layers = {name.rpartition(".")[0] for name in found}
        found = {name for name in names if name.rpartition(".")[0] in layers}
    places = tuple(place for place, name in enumerate(names) if name in found)
    if not 0 < len(places) < len(names):
        keeps = "leaves nothing to send" if places else "keeps nothing"
        raise InputError(
            field="personal",
            value=personal,
            hint=f"{keeps}; weights are {some_of(list(names))}; must be none, head, norms or a "
            "pattern of names",
        )
    return places


def lora_rank(trained: str) -> int:
    """The rank that ``lora:4`` names; 0 for anything else."""
    if not trained.startswith(LORA):
        return 0
    given = trained.removeprefix(LORA)
    if not given.isdecimal() or not 1 <= int(given) <= MOST_RANK:
        raise InputError(
            field="trained", value=trained, hint=f"must be lora:RANK, from lora:1 to {MOST_RANK}"
        )
    return int(given)


def matching(names: Sequence[str], trained: str) -> set[str]:
    """The names that one of the patterns means; raises ``InputError`` if none does."""
    patterns = [pattern.strip() for pattern in trained.split(",")]
    found = {name for name in names if any(fnmatchcase(name, each) for each in patterns)}
    return checked(found, names, trained)


def checked(found: set[str], names: Sequence[str], trained: str) -> set[str]:
    """The same set; raises ``InputError`` if it is empty."""
    if not found:
        raise InputError(
            field="trained",
            value=trained,
            hint=f"trains nothing; weights are {some_of(list(names))}; must be all, head, norms, "
            "lora:RANK or a pattern of names",
        )
    return found
