"""The table of exchanges."""

from mix2fld_lab.rl.exchange import FRL, Alone, Exchange, MurmurRL
from mix2fld_lab.rl.proxies import FRD, MANY_STEPS, Mix2FRD, MixFRD, RawDistillation

EXCHANGES: dict[str, Exchange] = {
    "alone": Alone(),
    "frl": FRL(),
    "murmur": MurmurRL(),
    "frd": FRD(),
    "mixfrd": MixFRD(),
    "mix2frd": Mix2FRD(),
    "frd-50": FRD("FRD, 50 steps", MANY_STEPS),
    "mixfrd-50": MixFRD("MixFRD, 50 steps", MANY_STEPS),
    "mix2frd-replaced": Mix2FRD("Mix2FRD, actor replaced", replaced=True),
    "raw": RawDistillation(),
}
