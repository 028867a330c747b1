"""What small studies of the lab have in common."""

# short, and valid where driver and server share two CPUs with other work; more keys of [validity] may follow it
ON_A_BUSY_MACHINE = """
[workload]
warmup_s = 0.2

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""

SMALL = (
    """
include = "aa.toml"
name = "small"
execution = "plain"
blocks = 2
"""
    + ON_A_BUSY_MACHINE
)
