"""Effects of treatments: the base page of every study.

- `effect_rows`: rows of intervals on one axis of ratios
- `figure`: the effect plot
- `non_inferiority`: each loss against the largest loss that is accepted
- `pairs`: the paired blocks of one comparison
- `page`: the page that answers a study's question
"""
