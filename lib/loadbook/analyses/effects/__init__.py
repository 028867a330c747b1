"""Effects of treatments: the base page of every study.

- `figure`: the effect plot, and each loss against the largest loss that is accepted
- `pairs`: the paired blocks of one comparison
- `page`: the page that answers a study's question
"""
