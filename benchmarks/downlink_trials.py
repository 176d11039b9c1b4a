"""Contenders of the comparison that are run with another downlink."""

from typing import Any, NamedTuple

CODED: dict[str, Any] = {"downlink": "coded"}
EDEN_BITS = 1262
"""Of an upload of EDEN with 0.1 bit a weight."""


class Trial(NamedTuple):
    """A contender of the comparison with another downlink."""

    key: str
    title: str
    contender: str
    changes: dict[str, Any]


TRIALS = (
    Trial("murmur-200", "Murmur 200, relay", "murmur-200", {"downlink": "relay"}),
    Trial("murmur-200-edges", "Murmur 200 from edges, relay", "murmur-200-edges",
          {"downlink": "relay"}),
    Trial("murmur-1400", "Murmur 1,400, relay", "murmur-1400", {"downlink": "relay"}),
    Trial("murmur-1400-edges", "Murmur 1,400 from edges, relay", "murmur-1400-edges",
          {"downlink": "relay"}),
    Trial("coded-1300-edges", "Murmur 1,400 from edges, coded step of 1,300 bits",
          "murmur-1400-edges", {**CODED, "downlink_step_bits": 1300}),
    Trial("coded-1300", "Murmur 1,400, coded step of 1,300 bits",
          "murmur-1400", {**CODED, "downlink_step_bits": 1300}),
    Trial("coded-2600-edges", "Murmur 1,400 from edges, coded step of 2,600 bits",
          "murmur-1400-edges", {**CODED, "downlink_step_bits": 2600}),
    Trial("coded-5200-edges", "Murmur 1,400 from edges, coded step of 5,200 bits",
          "murmur-1400-edges", {**CODED, "downlink_step_bits": 5200}),
    Trial("coded-12560-edges", "Murmur 1,400 from edges, coded step of 1 bit a weight",
          "murmur-1400-edges", CODED),
    Trial("sign", "FL, 1 bit a weight each way, error feedback", "sign", CODED),
    Trial("eden-0.1", "EDEN, 0.1 bit a weight each way", "eden-0.1",
          {**CODED, "downlink_step_bits": EDEN_BITS}),
    Trial("eden-0.1-edges", "EDEN, 0.1 bit a weight each way, from edges", "eden-0.1-edges",
          {**CODED, "downlink_step_bits": EDEN_BITS}),
    Trial("eden-1", "EDEN, 1 bit a weight each way", "eden-0.1", {**CODED, "bits_per_weight": 1.0}),
    Trial("eden-1-edges", "EDEN, 1 bit a weight each way, from edges", "eden-0.1-edges",
          {**CODED, "bits_per_weight": 1.0}),
    Trial("fl8", "FL 8-bit up, coded step of 1 bit a weight", "fl8", CODED),
)  # fmt: skip
