"""Answers of devices as they are read: what no honest device says is refused, with the reason."""

from typing import NamedTuple

from mix2fld.codecs import Encoded, PayloadError
from mix2fld.deploy.diary import one_line
from mix2fld.deploy.edge.messages import Answer, MessageError, Refused, Trained, TrainOrder
from mix2fld.engine.messages import Message
from mix2fld.engine.scenario import Scenario
from mix2fld.tasks.base import Score
from mix2fld.tasks.stepper import snapshot_steps


class TakenUpload(NamedTuple):
    """What the server took from one device in one round."""

    message: Message
    scores: list[Score]
    seconds: float


class AnswerReader:
    """Reads the answers of one run."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def read(
        self, device: int, order: TrainOrder, reply: Answer | MessageError, waited: float
    ) -> TakenUpload:
        """Read an answer; raises ``MessageError`` for one that no honest device gives."""
        if isinstance(reply, MessageError | Refused):
            raise MessageError(words_of(reply))
        if not isinstance(reply, Trained):
            raise MessageError("it is still behind")
        if reply.round != order.round:
            raise MessageError(f"an answer for round {reply.round}")
        scores = self._scores(reply.scores, len(self.steps()) if order.watched else 1)
        if reply.seconds > waited:
            raise MessageError(f"{reply.seconds:g} s of computing in a wait of {waited:.1f} s")
        message = self._message(device, order, reply)
        return TakenUpload(message, scores, reply.seconds)

    def _scores(self, values: list[float], points: int) -> list[Score]:
        """What a device says of itself: all metrics of the task, that many times."""
        task = self._scenario.learning.task
        each = 1 + len(task.further)
        if len(values) != each * points:
            raise MessageError(f"{len(values)} scores; must be {each * points}")
        low, high = task.bounds
        for value in values[::each]:
            if not low <= value <= high:
                raise MessageError(f"{task.metric.name} {value:g}; must be {low:g} to {high:g}")
        return [tuple(values[n : n + each]) for n in range(0, len(values), each)]

    def _message(self, device: int, order: TrainOrder, reply: Trained) -> Message:
        """The upload, if it can be charged and has its seeds just when they are due."""
        wire, once = self._scenario.wire, None
        if reply.seeds is not None:
            bits = wire.upload_size(with_seeds=True).bits - wire.upload_size(with_seeds=False).bits
            once = Encoded(reply.seeds, bits)
        try:
            masks = wire.masks if wire.uploads_in(order.round) else None
            body = masks.held(reply.upload) if masks else Encoded(reply.upload, reply.bits)
            message = Message(device, order.round, body, once, reply.samples)
            wire.check_bits(message)
        except PayloadError as error:
            raise MessageError(str(error)) from None
        if once is not None and order.uploaded:
            raise MessageError("seeds: they were uploaded before")
        resent = self._scenario.config.seeding.lost_seeds == "resend"
        due = wire.protocol.once is not None and wire.uploads_in(order.round) and not order.uploaded
        if due and once is None and resent:
            raise MessageError("seeds: missing; they are part of the first upload")
        return message

    def steps(self) -> tuple[int, ...]:
        """After how many steps of its local phase the reference device is tested."""
        config = self._scenario.config
        return snapshot_steps(config.learning.local_steps, config.curve_points)


def words_of(reply: MessageError | Refused) -> str:
    """Why there is no answer to be taken."""
    return f"it says: {one_line(reply.reason)}" if isinstance(reply, Refused) else str(reply)
