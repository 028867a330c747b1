"""Interleaved blocks: all treatments of a block run at once, and their load generators take turns in slices.

- `spec`: whether a study's treatments can be interleaved; lengths of slices and gaps
- `replay`: recorded blocks, played back
- `services`: memory for all treatments at once, connections that outlive pauses
- `stats_slices`: effects that depend on the length of slices
- `stats_noise`: noise of interleaved trials by its source: slices, starts, hosts
- `stats`: the best length of a trial
- `rules`: late slices, slices without work, CPU time outside of slices
- `read_outside_cpu`: CPU time of an arm's services outside of its slices, from readings on another machine than the
  driver's
- `read`: rates and processes of one arm
- `run_cpu`: CPU time that services use outside of their arm's slices, on other machines than the driver's
- `run_load`: the load of a block on its drivers
- `run_block`: one attempt at one block
- `run_dry`: the steps of a block, for a dry run
- `run`: the blocks of a run, and what they require of hosts
- `mode`: the mode
- `page`: lengths of slices, carry-over between slices
"""
