"""The words of verdicts, errors and headlines; numbers rounded once, in `shown`."""
