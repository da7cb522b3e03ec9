"""The fields of Grid Engine's accounting records: one line a record, split at colons that some of its texts hold as well.

accounting(5): 43 fields up to SGE 6.1 (the last is maxvmem), 45 in 6.2 (advance reservation), 46 to 55 in Univa's and Altair's 8.
A record holds two stretches of numbers, priority to ru_nivcsw and slots to io, and `iow:pe_taskid:maxvmem` behind the category: a
line whose texts hold colons is split by these from both ends. A name with colons ends before the job's number and account; the
command line of UGE stands last. Versions that replace a colon inside a text write the byte 255 for it.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The fields that are read, by their places in a record.
FIELDS = {
    "queue": 0, "host": 1, "group": 2, "user": 3, "job_name": 4, "number": 5, "account": 6, "submit": 8, "start": 9, "end": 10,
    "failed": 11, "exit_status": 12, "project": 31, "department": 32, "granted_pe": 33, "slots": 34, "task": 35, "category": 39,
    "pe_task": 41, "deleted_by": 46, "work_dir": 50,
}  # fmt: skip
_LEAST = 43
_MOST = 64  # no version has so many: such a line is looked at as one with colons in its texts
_PARTS_AT_MOST = 4096  # no command line has so many colons
_PADDING = ":" * (FIELDS["work_dir"] + 1 - _LEAST)
_NUMBER = r"^-?[0-9]{1,20}(\.[0-9]*)?([eE][-+]?[0-9]{1,3})?$"
_WHOLE = r"^-?[0-9]{1,10}$"
_TIME = r"^[0-9]{1,13}(\.[0-9]{1,9})?$"
_PE_TASK = r"^(NONE|[0-9]+\.[^ ]+)$"
#: What a line of plain texts has at its usual places: digits, at most so many, and numbers.
_DIGITS = {**dict.fromkeys((5, 11, 12, 34, 35), 10), **dict.fromkeys((8, 9, 10), 13), 30: 20}
_PATTERNS = {**dict.fromkeys((7, 13, 36, 38, 40, 42), _NUMBER), 41: _PE_TASK}
_is_number, _is_whole, _is_time, _is_pe_task = (re.compile(one, re.ASCII).fullmatch for one in (_NUMBER, _WHOLE, _TIME, _PE_TASK))
_COLONS = ("\\xff", "\ufffd")  # the byte 255 as `text_of` writes it, and what a copy through UTF-8 makes of it


def split_records(lines: list[str]) -> tuple[dict[str, pa.Array], np.ndarray]:
    """Return the fields of the lines that are records, by name, and the positions of these lines."""
    text = pa.array(lines, pa.string())
    parts = pc.split_pattern(pc.binary_join_element_wise(text, _PADDING, ""), ":")
    count = pc.list_value_length(parts)
    at = np.flatnonzero(pc.greater_equal(count, _LEAST + len(_PADDING)).to_numpy(zero_copy_only=False))
    if len(at) < len(lines):
        parts, count = parts.take(pa.array(at)), count.take(pa.array(at))
    plain = pc.less(count, _MOST)
    for place, most in _DIGITS.items():
        digits = pc.list_element(parts, place)
        plain = pc.and_(plain, pc.and_(pc.ascii_is_decimal(digits), pc.less_equal(pc.binary_length(digits), most)))
    for place, pattern in _PATTERNS.items():
        plain = pc.and_(plain, pc.match_substring_regex(pc.list_element(parts, place), pattern))
    is_plain = plain.to_numpy(zero_copy_only=False)
    cut = [(int(one), fields) for one in at[~is_plain] if (fields := split_by_structure(lines[one])) is not None]
    taken = parts.filter(plain)
    where = np.concatenate([at[is_plain], np.array([one for one, _ in cut], np.int64)])
    order = np.argsort(where, kind="stable")
    columns = {}
    for name, place in FIELDS.items():
        column = pc.list_element(taken, place)
        if cut:
            column = pa.concat_arrays([column, pa.array([fields[place] for _, fields in cut], pa.string())])
            column = column.take(pa.array(order))
        columns[name] = column
    for name in ("job_name", "category"):
        for sign in _COLONS:
            columns[name] = pc.replace_substring(columns[name], sign, ":")
    return columns, where[order]


def split_by_structure(line: str) -> list[str] | None:
    """Return the fields of a line whose texts may hold colons; None where it has no record's structure, or has it twice."""
    parts = line.split(":")
    if len(parts) > _PARTS_AT_MOST:
        return None
    starts = [at for at in range(7, len(parts) - 35) if _is_usage(parts, at)]
    if len(starts) != 1 or not _is_whole(parts[starts[0] - 2]):
        return None
    usage = starts[0]
    for end in range(usage + 33, len(parts) - 2):
        if _is_number(parts[end]) and _is_pe_task(parts[end + 1]) and _is_number(parts[end + 2]):
            name, category = ":".join(parts[4 : usage - 2]), ":".join(parts[usage + 32 : end])
            fields = [*parts[:4], name, *parts[usage - 2 : usage + 32], category, *parts[end:]]
            return [*fields, *[""] * len(_PADDING)]
    return None


def _is_usage(parts: list[str], at: int) -> bool:
    """Whether the numbers of a record begin here: 24 from the priority, and after three texts five from the slots."""
    return (
        all(_is_time(part) for part in parts[at + 1 : at + 4])
        and all(_is_whole(part) for part in (*parts[at + 4 : at + 6], *parts[at + 27 : at + 29]))
        and all(_is_number(part) for part in (*parts[at : at + 24], *parts[at + 29 : at + 32]))
    )
