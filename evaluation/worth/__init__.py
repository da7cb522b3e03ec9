"""What a forecast is worth to a scheduler: jobs are scheduled again, on a made-up pool, by policies that believe it.

pool.py says what is scheduled, queue.py and easy.py schedule it, merit.py measures the schedules, job.py reads the files.
"""
