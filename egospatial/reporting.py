"""What a command says: results on stdout, everything else on stderr, errors on one line, exit statuses."""

import contextlib
import errno
import json
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import typer

from cuda_kernels.errors import InputError

_LINE_EVERY_S = 15.0
UNUSABLE_PATH = (errno.ENAMETOOLONG, errno.ELOOP)  # can only come from what a user or a manifest names


class Reporter:
    """Progress and messages of one command. Nothing here touches stdout but ``result`` and ``text``."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        """``as_json``: stdout gets one JSON document; ``quiet``: no progress."""
        self.as_json, self.quiet = as_json, quiet
        self._on_terminal = sys.stderr.isatty() and not quiet
        self._stage, self._last = "", 0.0

    def note(self, text: str) -> None:
        """A line on stderr."""
        if not self.quiet:
            self._clear()
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """A warning on stderr, whatever ``quiet`` says."""
        self._clear()
        typer.echo(f"warning: {text}", err=True)

    def stage(self, name: str, text: str) -> None:
        """A stage begins, is skipped or ends."""
        self._stage, self._last = name, time.monotonic()
        self.note(f"{name:<12} {text}")

    def progress(self, done: int, total: int, what: str) -> None:
        """Called often; shown as a bar on a terminal, as a line now and then elsewhere."""
        if self.quiet:
            return
        now = time.monotonic()
        if self._on_terminal and (now - self._last > 0.1 or done >= total):
            self._last = now
            share = done / total if total else 1.0
            bar = "#" * round(30 * share)
            sys.stderr.write(f"\r\x1b[K{self._stage:<12} [{bar:<30}] {done}/{total} {what}")
            sys.stderr.flush()
        elif not self._on_terminal and now - self._last > _LINE_EVERY_S:
            self._last = now
            typer.echo(f"{self._stage:<12} {done}/{total} {what}", err=True)

    def _clear(self) -> None:
        if self._on_terminal:
            sys.stderr.write("\r\x1b[K")

    def result(self, document: dict[str, Any]) -> None:
        """The command's one JSON document, if it was asked for."""
        if self.as_json:
            from egospatial.store.atomic import json_text

            typer.echo(json_text(document, indent=1))

    def text(self, text: str) -> None:
        """Human-readable result on stdout, unless JSON was asked for."""
        if not self.as_json:
            typer.echo(text)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        """A table on stdout, unless JSON was asked for."""
        if self.as_json:
            return
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*row)
        Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120).print(table)


@contextlib.contextmanager
def _ended_cleanly() -> Iterator[None]:
    """While the block runs, SIGTERM unwinds it as Ctrl-C does: temporary files and folders are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def command(as_json: bool = False, quiet: bool = False) -> Iterator[Reporter]:
    """Run a command's body; turn its errors into a line and an exit status.

    A known error (``InputError``, or a path that no system takes) is one line and status 2. Anything else is our own
    mistake: its trace goes to stderr, status 1. With ``--json`` the error is also a JSON document on stdout.
    """
    reporter = Reporter(as_json, quiet)
    try:
        with _ended_cleanly():
            yield reporter
    except (InputError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in UNUSABLE_PATH:
            _say_trace(reporter, error)
            raise typer.Exit(1) from None
        line = " ".join(str(error).split())
        reporter.result({"error": line, "kind": type(error).__name__})
        reporter._clear()
        typer.echo(f"error: {line}", err=True)
        raise typer.Exit(2) from None
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        _say_trace(reporter, error)
        raise typer.Exit(1) from None


def _say_trace(reporter: Reporter, error: Exception) -> None:
    reporter.result({"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()})
    reporter._clear()
    typer.echo(traceback.format_exc(), err=True)
    typer.echo("error: this is a mistake in egospatial itself; please report it with the lines above", err=True)


def dump(document: Any) -> str:
    """Indented JSON for people."""
    return json.dumps(document, ensure_ascii=False, indent=1)
