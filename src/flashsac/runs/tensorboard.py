"""TensorBoard's copy of the metrics, which survives a disk that was full for a while."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any


class TensorBoard:
    """A writer of metrics as scalars. Rows that could not be written are kept and written later.

    It writes at once and without a thread, unlike torch's SummaryWriter, which ends for good with its first error. And
    the names of its files do not say on which computer they were made.
    """

    def __init__(self, folder: Path, purge_step: int | None = None):
        """`purge_step`: what earlier files say of this step and of later ones no longer counts."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._folder, self._file, self._records = (
            folder,
            _new_name(folder),
            [Event(wall_time=time.time(), file_version="brain.Event:2")],
        )
        if purge_step is not None:
            self._records.append(
                Event(wall_time=time.time(), step=purge_step, session_log=SessionLog(status=SessionLog.START))
            )

    def keep(self, row: dict[str, float]) -> None:
        """Remember a row for the next `flush`."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        for name, value in row.items():
            if name != "step" and value is not None:
                group = "" if "/" in name else "eval/" if name.startswith("eval_") else "train/"
                summary = Summary(value=[Summary.Value(tag=f"{group}{name}", simple_value=value)])
                self._records.append(Event(wall_time=time.time(), step=int(row["step"]), summary=summary))

    def flush(self) -> None:
        """Write the rows that are kept; after an OSError they still are."""
        if not self._records:
            return
        data = _encoded(self._records)
        self._folder.mkdir(exist_ok=True)
        try:
            with self._file.open("ab") as file:
                file.write(data)
        except OSError:
            self._file = _new_name(self._folder)  # readers stop at half a record
            raise
        self._records.clear()


def _new_name(folder: Path) -> Path:
    return folder / f"events.out.tfevents.{time.time():.9f}"


def _encoded(records: list[Any]) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    for record in records:
        writer.write(record.SerializeToString())
    return buffer.getvalue()
