"""What the numbers of one replay do not say: what each feature family is worth, how old a model may be, whether running jobs
mislead it, and how far a search over models gets with the same features.

One module per study, pure: ablation.py, cadence.py, censoring.py, outside.py. job.py reads the logs, keeps each log's findings and
writes the measured sections of docs/studies.md with page.py and figures.py.
"""
