"""How is it asked in a cell? The verbs of ``import loadbook as lb``; what they find is the same as in the reports."""
