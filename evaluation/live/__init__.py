"""What became of the forecasts that were served: read from the service's files, joined with the jobs that ended, judged by day."""
