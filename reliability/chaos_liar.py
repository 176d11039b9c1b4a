"""A device that lies: what it trained is of false labels, and now and then it sends what is none.

By the number of the round: values that are not finite, half an upload, or accuracies above one.
"""

from mix2fld.deploy.edge import device
from mix2fld.deploy.edge.__main__ import main
from mix2fld.deploy.edge.messages import Answer, Trained

NOT_FINITE = b"\xff\xff\xff\x7f"
EVERY = 5
"""One round in so many is one of these lies; each third of them is of a kind."""


def falsified(answer: Answer) -> Answer:
    """What is sent in place of an answer."""
    if not isinstance(answer, Trained) or answer.round % EVERY:
        return answer
    kind = answer.round // EVERY % 3
    if kind == 0:
        body = (NOT_FINITE * len(answer.upload))[: len(answer.upload)]
        return answer._replace(upload=body)
    if kind == 1:
        return answer._replace(upload=answer.upload[: len(answer.upload) // 2])
    return answer._replace(scores=[7.0] * len(answer.scores))


class Liar(device.EdgeDevice):
    """Trains as all others, and sends something else."""

    def _send(self, line: device.Line, answer: Answer) -> None:
        super()._send(line, falsified(answer))


if __name__ == "__main__":
    import mix2fld.deploy.edge.__main__ as program

    program.Device = Liar  # type: ignore[misc]
    main()
