"""Shared blocks: all treatments of a block run at once, and one load generator sends the requests of all by turns.

- `spec`: whether a study's treatments can share one generator; the turns of their requests
- `replay`: recorded blocks, played back
- `rules`: requests that are open when the next treatment's slice begins
- `read`: rates, times and processes of one treatment
- `run_load`: the load of a block on its drivers
- `run_block`: one attempt at one block
- `run_dry`: the steps of a block, for a dry run
- `run`: the blocks of a run, and what they require of hosts
- `mode`: the mode
- `page`: turns and rates
"""
