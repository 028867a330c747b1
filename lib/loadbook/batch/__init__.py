"""Many studies in one go: batch file, scheduler, worker processes, result pages."""
