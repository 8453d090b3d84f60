"""Lets the faults of a plan strike at their time, each in a thread of its own, and tells what came of them.

Invariant: nobody is struck by two at once. One that lasts longer than it was planned makes the next wait.
"""

import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from chaos.faults import STRIKES
from chaos.plan import KINDS, Fault
from chaos.world import World


@dataclass(frozen=True)
class Struck:
    fault: Fault
    began_at: float  # by time.time()
    ended_at: float
    has_struck: bool
    error: str = ""  # of the harness, never of the product


class Striker:
    def __init__(self, world: World, faults: Sequence[Fault], tell: Callable[[Fault], None]) -> None:
        self._world = world
        self._faults = faults
        self._tell = tell
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self.struck: list[Struck] = []

    def run(self, began: float) -> None:
        """All of them; returns when the last is over. `began` is by time.monotonic()."""
        threads: list[threading.Thread] = []
        for fault in self._faults:
            time.sleep(max(0.0, began + fault.at - time.monotonic()))
            thread = threading.Thread(target=self._strike, args=(fault,), name=fault.kind, daemon=True)
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()

    def _strike(self, fault: Fault) -> None:
        with ExitStack() as stack:
            for name in sorted((fault.whom, *KINDS[fault.kind].besides)):
                stack.enter_context(self._locks[name])
            self._tell(fault)
            began_at, has_struck, error = time.time(), False, ""
            try:
                has_struck = STRIKES[fault.kind](self._world, fault)
            except Exception:
                error = traceback.format_exc()
            self.struck.append(Struck(fault, began_at, time.time(), has_struck, error))
