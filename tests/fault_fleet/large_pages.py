"""A publisher of bulk pages behind the doors: their files outlast takeovers, checkpoints and starts on empty disks."""

from __future__ import annotations

import random
import threading
from typing import Final

from forebay.client import Client, ForebayError, ReplayedRecord
from tests.support.campaigns.publishers import PATIENT

SINK: Final = "large"
RECORDS: Final = 16
"""Published together, so that they are bulk pages."""
RECORD_BYTES: Final = 1 << 20
KEPT: Final = 3
"""Of these the last that are left; what is before is settled."""
PAUSE_S: Final = 4.0
RECEIPT_S: Final = 120.0


def record(number: int) -> bytes:
    """A record that has its number."""
    return number.to_bytes(8, "big") + random.Random(number).randbytes(RECORD_BYTES)


class LargePages(threading.Thread):
    """Publishes, reads an older record, and settles, until ``stop``."""

    def __init__(self, endpoint: str, seed: int, stop: threading.Event) -> None:
        super().__init__(name="large pages", daemon=True)
        self._endpoint = endpoint
        self._chance = random.Random(seed)
        self._stop_event = stop
        self.published = 0
        """Records with a receipt."""
        self.settled = 0
        """Records below that were settled, or may be."""
        self.reads = 0
        """Records that were read while others were published."""
        self.wrong: list[str] = []
        self.failure: BaseException | None = None
        """Error that ended it."""

    def run(self) -> None:
        """Work until stopped."""
        try:
            with Client(self._endpoint, settings=PATIENT) as client, client.publisher(SINK) as publisher:
                while not self._stop_event.wait(PAUSE_S):
                    numbers = range(self.published, self.published + RECORDS)
                    sent = [publisher.send(record(number), partition=0) for number in numbers]
                    offsets = [each.result(RECEIPT_S).first_offset for each in sent]
                    if offsets != list(numbers):
                        self.wrong.append(f"records {numbers} have the offsets {offsets}")
                    self.published = numbers.stop
                    self._read(client)
                    self._settle(client)
        except BaseException as failure:
            self.failure = failure
            raise

    def _read(self, client: Client) -> None:
        number = self._chance.randrange(self.settled, self.published)
        try:
            self._compare(client, number, number + 1)
        except ForebayError:
            return  # of a broker that is cut off, or ends
        self.reads += 1

    def _settle(self, client: Client) -> None:
        end = self.published - KEPT * RECORDS
        if end > self.settled:
            self.settled = end
            try:
                client.subscriptions.seek(SINK, to=end)
            except ForebayError:
                return  # the next one settles these too

    def _compare(self, client: Client, first: int, end: int) -> None:
        found = list(client.replay(SINK, partition=0, start=first, end=end, on_gap="yield"))
        values = {each.offset: each.value for each in found if isinstance(each, ReplayedRecord)}
        for number in range(first, end):
            if values.get(number) != record(number):
                self.wrong.append(f"record {number} is {'another' if number in values else 'missing'}")

    def finish(self, client: Client) -> None:
        """Compare all that is left, after the end of the thread."""
        self._compare(client, self.settled, self.published)
