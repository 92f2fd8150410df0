"""Work that another thread does before its result is needed, such as reading files."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def ahead(jobs: Iterable[Callable[[], Result]], number: int) -> Iterator[Result]:
    """Yield what jobs return, in their order.

    Args:
      jobs: functions without arguments; the iterable itself stays in the thread of the caller.
      number: how many jobs after the one that is yielded another thread works on; with 0 there is
        no other thread.
    """
    if number == 0:
        yield from (job() for job in jobs)
        return
    begun: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(1) as thread:
        try:
            for job in jobs:
                begun.append(thread.submit(job))
                if len(begun) > number:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()
