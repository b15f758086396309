"""A folder that is made beside its place and put there when it is whole; what lies there goes only if it may."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from egospatial.errors import FrontDoorError
from egospatial.store.atomic import no_room_reason, write_failure


@contextlib.contextmanager
def folder_beside(target: Path, is_ours: Callable[[Path], bool], sources: Sequence[Path] = ()) -> Iterator[Path]:
    """A folder that becomes ``target`` when all went well; an older ``target`` is replaced only then.

    Args:
        target: Where the result goes. The caller has asked whether an older one may be replaced.
        is_ours: True for a folder that an earlier call of the same command wrote. No other is ever replaced: with it
            would go whatever a user keeps there.
        sources: What the result is made from; a target that holds one of them is refused.

    Raises:
        FrontDoorError: the target may not be replaced, or cannot be written.
    """
    check_target(target, is_ours, sources)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:100]}."))
    except OSError as error:
        raise write_failure(target, error) or error from error
    try:
        yield part
        _put(part, target)
    except OSError as error:
        if no_room_reason(error) is None:
            raise
        raise write_failure(target, error) or error from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _put(part: Path, target: Path) -> None:
    """Move a finished folder to its place; an older one steps aside first, and comes back if that fails."""
    try:
        part.chmod(0o755)
        if not target.is_dir():
            os.replace(part, target)
            return
        older = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:100]}.old."))
        os.replace(target, older / "old")
        try:
            os.replace(part, target)
        except OSError:
            os.replace(older / "old", target)
            raise
        finally:
            shutil.rmtree(older, ignore_errors=True)
    except OSError as error:
        raise write_failure(target, error) or error from error


def check_target(target: Path, is_ours: Callable[[Path], bool], sources: Sequence[Path] = ()) -> None:
    """Refuse a target that must not be replaced; see ``folder_beside``.

    Raises:
        FrontDoorError: it is or holds a source, is a symbolic link or a file, or a folder that something else wrote.
    """
    real = target.resolve()
    for source in sources:
        if source.resolve().is_relative_to(real):
            raise FrontDoorError(f"{target}: is or holds {source}, which is read here; choose another folder.")
    if target.is_symlink():
        raise FrontDoorError(f"{target}: is a symbolic link; give the folder itself, or remove the link.")
    if target.is_dir():
        if any(target.iterdir()) and not is_ours(target):
            raise FrontDoorError(
                f"{target}: holds other things than this command writes, and would lose them; choose another folder, "
                "or remove it yourself."
            )
    elif target.exists():
        raise FrontDoorError(f"{target}: is a file, and a folder goes there; choose another name, or remove it.")
