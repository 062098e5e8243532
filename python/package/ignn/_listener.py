"""What long work reports: to `logging`, to a callback and to a progress bar."""

from __future__ import annotations

import atexit
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import _ignn

logger = logging.getLogger("ignn")

#: Called with the record of an epoch; training stops after it if the answer is true.
Callback = Callable[[Mapping[str, Any]], object]

# Training that was interrupted writes its checkpoint before the process ends.
atexit.register(_ignn.wait)

#: Seconds between plain lines of progress.
_PAUSE = 1.0


class Listener:
    """Receives reports on the thread that called, and passes them on.

    Notes are log records of level WARNING of the logger ``ignn``; epochs and phases are of level
    INFO.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        callback: Callback | None = None,
        *,
        quiet: bool,
        shown: Callable[[str], str] = str,
    ) -> None:
        self._what, self._total, self._callback, self._quiet = what, total, callback, quiet
        # What is shown of a note.
        self._shown_text = shown
        self._bar: Any = None
        self._shown = time.monotonic()

    @property
    def wants_epochs(self) -> bool:
        """Whether anybody would see epochs; a short epoch is not worth a report to nobody."""
        return not self._quiet or self._callback is not None or logger.isEnabledFor(logging.INFO)

    def __call__(self, what: str, value: Any) -> bool:
        if what == "epoch":
            return self._epoch(value)
        if what == "note":
            logger.warning("%s", self._shown_text(value))
        elif what == "phase":
            logger.info("%s: %s", self._what, value[0])
            self._restart(value[0], value[1])
        elif what == "progress":
            self._advance(int(value), "")
        return False

    def _epoch(self, record: Mapping[str, Any]) -> bool:
        text = _epoch_text(record)
        logger.info("epoch %s: %s", record["epoch"], text)
        self._advance(int(record["epoch"]), text)
        if self._callback is None:
            return False
        answer: object = self._callback(record)
        # Also that of numpy, but not whatever else a callback may return.
        return type(answer).__name__ in ("bool", "bool_") and bool(answer)

    def _restart(self, what: str, total: int | None) -> None:
        self.close()
        self._what, self._total, self._bar = what, total, None

    def _advance(self, now: int, text: str) -> None:
        if self._quiet:
            return
        if self._bar is None:
            self._bar = _bar(self._what, self._total)
        if self._bar is not False:
            self._bar.update(now - self._bar.n)
            self._bar.set_postfix_str(text)
        elif time.monotonic() - self._shown >= _PAUSE or now == self._total:
            self._shown = time.monotonic()
            of = "" if self._total is None else f" of {self._total}"
            print(f"{self._what} {now}{of} {text}".rstrip(), file=sys.stderr)

    def close(self) -> None:
        """Ends the bar."""
        if self._bar:
            self._bar.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bar(what: str, total: int | None) -> Any:
    """A bar of tqdm; False where that is not installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return False
    return tqdm(total=total, desc=what, leave=False)


def _epoch_text(record: Mapping[str, Any]) -> str:
    parts = []
    if record.get("loss") is not None:
        parts.append(f"loss {record['loss']:.4f}")
    for name in ("validation", "test"):
        scores = dict(record.get(name) or {})
        scores.pop("loss", None)
        for score, value in scores.items():
            if value is not None:
                parts.append(f"{name} {score.replace('_', ' ')} {value:.4f}")
                break
    return ", ".join(parts)
