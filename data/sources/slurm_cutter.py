"""Odd lines of a sacct log gone through one by one: each becomes a record on one line of its own, part of one, or a reject."""

import re

from runcast.data.sources.batch import Reject
from runcast.data.sources.blocks import Block, text_of
from runcast.data.sources.slurm_ids import JOB_ID, STEP_ID
from runcast.data.sources.slurm_layout import Layout

#: Stand in, inside a field, for a line end that belongs to it, and inside the last one for a delimiter.
DELIMITER_INSIDE, LINE_END_INSIDE = b"\x1c", b"\x1d"
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT|\d{9}")
NAME_BYTES = 255  # of a job's name in Slurm's accounting
ID = re.compile(f"{JOB_ID}|{STEP_ID}", re.ASCII)
_ID_OR_NAME = re.compile(f"{JOB_ID}|{STEP_ID}|(?i:jobid|jobidraw)$", re.ASCII)


class Cutter:
    """Goes through odd lines one by one; leaves records of the right number of fields on one line each, and rejects."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.clean: list[bytes] = []
        self.numbers: list[int] = []
        self.texts: list[bytes] = []
        self.rejects: list[Reject] = []
        self._broken_up_to = 0  # the line after the last reject
        self.notes: dict[str, int] = {}

    def cut_at_lines(self, block: Block) -> None:
        """Take a line as a record, or as the rest of the one before where the last field is free text and it is no record."""
        open_line, open_text = 0, b""
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
            if not line.strip():
                self._note("blank_lines")
                continue
            self._refuse_error(number, line)
            if open_line and self._continues(line):
                open_text += LINE_END_INSIDE + line
                self._note("continuation_lines")
            else:
                if open_line:
                    self._record(open_line, open_text)
                open_line, open_text = number, line
        if open_line:
            self._record(open_line, open_text)

    def cut_at_counts(self, block: Block) -> None:
        """Take as a record the lines that together hold all its delimiters, which stand nowhere but between fields."""
        delimiter, layout = self._layout.delimiter, self._layout
        whole = len(layout.names) - 1 + layout.ends_with_delimiter
        open_line, open_text = 0, b""
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
            count = line.count(delimiter)
            if open_line and count < whole:
                open_text += LINE_END_INSIDE + line
                if line.strip():
                    self._note("continuation_lines")
            elif not line.strip():
                self._note("blank_lines")
                continue
            else:
                if open_line:  # it was cut off
                    self._record(open_line, open_text)
                if not count:
                    layout.refuse_error(line, number)
                open_line, open_text = number, line
            so_far = open_text.count(delimiter)
            if not so_far or so_far >= whole:
                self._record(open_line, open_text)
                open_line, open_text = 0, b""
        if open_line:
            self._record(open_line, open_text)

    def cut_at_marks(self, block: Block, mark: bytes) -> None:
        """Take as a record what stands before each mark, whatever line ends it holds."""
        number = block.first_line
        pieces = block.data.split(mark)
        for at, piece in enumerate(pieces):
            text = piece.lstrip(b"\n")  # the line end after the mark before, and blank lines
            begins = number + len(piece) - len(text)
            number += piece.count(b"\n")
            if not text.strip():
                continue
            self._layout.refuse_error(text, begins)
            if at == len(pieces) - 1:
                self._reject(begins, "record_end_missing", text)
            else:
                self._record(begins, text.replace(b"\n", LINE_END_INSIDE))

    def _refuse_error(self, number: int, line: bytes) -> None:
        if line.count(self._layout.delimiter) < len(self._layout.names) - 1:
            self._layout.refuse_error(line, number)

    def _continues(self, line: bytes) -> bool:
        layout = self._layout
        if not layout.is_free_text_last:
            return False
        parts = line.split(layout.delimiter, len(layout.names) - 1)
        begins_a_record = len(parts) > layout.id_at + 1 and _ID_OR_NAME.match(text_of(parts[layout.id_at])) is not None
        return len(parts) < len(layout.names) and not begins_a_record

    def _record(self, number: int, text: bytes) -> None:
        layout = self._layout
        width = len(layout.names)
        record = text.removesuffix(layout.delimiter) if layout.ends_with_delimiter else text
        parts = record.split(layout.delimiter, width - 1 if layout.is_free_text_last else -1)
        if len(parts) != width and not self._is_of_the_same_name(number, text):
            self._reject(number, "wrong_field_count", text, f"expected {width} fields, found {len(parts)}")
        if len(parts) != width:
            self._broken_up_to = number + text.count(LINE_END_INSIDE) + 1
            return
        parts[-1] = parts[-1].replace(layout.delimiter, DELIMITER_INSIDE)
        self.clean.append(layout.between.join(parts))
        self.numbers.append(number)
        self.texts.append(text)

    def _is_of_the_same_name(self, number: int, text: bytes) -> bool:
        """Add lines to the reject that they follow, as long as one job's name could hold them all; a line with a time may be a record."""
        if self._layout.record_end or not self._layout.is_free_text_last or number != self._broken_up_to or _TIME.search(text):
            return False
        before = self.rejects[-1]
        if len(before.raw.encode()) + len(text) >= NAME_BYTES:
            return False
        self.rejects[-1] = before._replace(raw=before.raw + "\n" + _shown(text))
        self._note("continuation_lines")
        return True

    def _reject(self, number: int, reason: str, text: bytes, detail: str = "") -> None:
        self.rejects.append(Reject("", number, reason, detail, _shown(text)))

    def _note(self, name: str) -> None:
        self.notes[name] = self.notes.get(name, 0) + 1


def _shown(text: bytes) -> str:
    return text_of(text.replace(LINE_END_INSIDE, b"\n"))
