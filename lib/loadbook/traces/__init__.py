"""Floor 3: what did the hosts do? Samples of CPU, memory, network and processes as rows of `traces`, whoever took them.

Every reader is a pure function of bytes. Whatever is wrong with a file is a problem, never an exception; over gaps and
counters that went back there is no row. `kinds` finds the reader of a file.
"""
