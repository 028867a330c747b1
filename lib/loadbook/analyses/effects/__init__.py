"""Effects of treatments: the page that every kind of study can use.

- `figure`: the effect plot, and the non-inferiority plot (each loss against the largest accepted loss)
- `pairs`: plot of one comparison block by block
- `page`: the page that answers a study's question
"""
