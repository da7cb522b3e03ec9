"""Words by which Slurm's commands say that there is nothing to say.

One list for everything that reads them: the sources that read a log, and the feeder beside the scheduler, which has no pyarrow.
"""

#: For a value of any field that is not set: an account, a time, a limit.
NO_VALUE_WORDS = frozenset({"", "(null)", "N/A", "NULL", "None", "Unknown", "null"})
#: For a text that users choose, such as a job's name: `None` and `null` are names.
NO_NAME_WORDS = frozenset({"", "(null)"})
#: For the nodes of a job that was given none.
NO_NODES_WORDS = NO_VALUE_WORDS | {"None assigned"}
