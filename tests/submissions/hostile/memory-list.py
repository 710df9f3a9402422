# family: memory
# tries: grows a list in a cell for as long as it may
# witness: the neighbour, the next submission
# %%
kept = []
while True:
    kept.append("x" * 10_000_000)
