"""What long work reports: to `logging`, to a callback and to a progress bar."""

from __future__ import annotations

import atexit
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import _ignn
from ._ignn import NotConverged

logger = logging.getLogger("ignn")

#: Called with the record of an epoch; training stops after it if the answer is true.
Callback = Callable[[Mapping[str, Any]], object]

# Training that was interrupted writes its checkpoint before the process ends.
atexit.register(_ignn.wait)

#: Seconds between plain lines of progress.
_PAUSE = 1.0


#: Arguments of the package for options of the command line that have another form.
_ARGUMENTS = {
    "force": "force=True",
    "header": "header=True",
    "no-header": "header=False",
    "split": "draw",
    "unweighted": "unweighted=True",
}


def in_python(text: str) -> str:
    """A message of the command line with the arguments of the package.

    >>> in_python("--set model.state=0: wrong: pass --force, or raise --memory")
    'model.state=0: wrong: pass force=True, or raise memory'
    >>> in_python("ingest with --features FILE: see `ignn ingest --help`")
    'ingest with features=FILE: see `ignn ingest --help`'
    """

    def argument(found: re.Match[str]) -> str:
        name, is_value_next = found[1], found[2]
        return _ARGUMENTS.get(name, name.replace("-", "_")) + ("=" if is_value_next else "")

    # A word in capitals stands for a value. Between backquotes are commands for a shell.
    option = r"(?<![\w-])--([a-z][a-z-]*[a-z])( (?=[A-Z]{3,}\b))?"
    pieces = text.split("`")
    pieces[::2] = [re.sub(option, argument, own.replace("--set ", "")) for own in pieces[::2]]
    return "`".join(pieces)


@contextmanager
def errors_in_python(shown: Callable[[str], str] = str) -> Iterator[None]:
    """Errors of the engine within, in the words of the package."""
    try:
        yield
    except (ValueError, OSError, MemoryError, NotConverged) as error:
        text = shown(in_python(str(error)))
        if text == str(error):
            raise
        raise type(error)(text) from None


def plural(count: int, one: str, many: str) -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else many}"


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
        # What is shown of a note or an error.
        self._shown_text = shown
        self._errors = errors_in_python(shown)
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
            logger.warning("%s", self._shown_text(in_python(value)))
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
        self._errors.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        self.close()
        return self._errors.__exit__(*error)


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
