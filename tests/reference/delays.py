"""Independent NumPy reference of messages on their way: a list of all that was ever sent.

Nothing here imports the package.
"""

from dataclasses import dataclass
from typing import Any


@dataclass
class Message:
    """One message of one sender."""

    sender: int
    sent: int
    due: int
    value: Any
    weight: float


class Links:
    """Messages wait on lists; what is late is told apart when it arrives.

    `depth` is the longest wait after which a message is heard; with `in_order` a message is due no
    earlier than the last one of its sender.
    """

    def __init__(self, depth, in_order=False):
        self.depth, self.in_order = depth, in_order
        self.waiting: list[Message] = []
        self.newest: dict[int, int] = {}  # sender -> when the newest message heard was sent
        self.due: dict[int, int] = {}
        self.seen = {"lost": 0, "overtaken": 0, "together": 0, "held": 0}

    def round(self, index, values, weights, sends, waits):
        """Send, and return the messages heard in this round by sender."""
        for sender in range(len(sends)):
            if not sends[sender]:
                continue
            if waits[sender] > self.depth:
                self.seen["lost"] += 1
                continue
            due = index + waits[sender]
            if self.in_order and due < self.due.get(sender, -1):
                due = self.due[sender]
                self.seen["held"] += 1
            self.due[sender] = due
            message = Message(sender, index, due, values[sender].copy(), weights[sender])
            self.waiting.append(message)
        arriving = [message for message in self.waiting if message.due == index]
        self.waiting = [message for message in self.waiting if message.due != index]
        heard: dict[int, Message] = {}
        for sender in {message.sender for message in arriving}:
            mine = [message for message in arriving if message.sender == sender]
            self.seen["together"] += len(mine) > 1
            newest = max(mine, key=lambda message: message.sent)
            if newest.sent <= self.newest.get(sender, -1):
                self.seen["overtaken"] += 1
                continue
            self.newest[sender] = newest.sent
            heard[sender] = newest
        return heard
