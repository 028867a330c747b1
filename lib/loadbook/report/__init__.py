"""Floor 8: how is it shown? Figures, tables, sentences, notebooks, HTML."""
