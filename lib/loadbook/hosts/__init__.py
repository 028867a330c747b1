"""Hosts: SSH, jobs, locks, labs, replay, facts and monitors."""
