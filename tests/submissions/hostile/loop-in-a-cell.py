# family: cpu
# tries: never comes to the end of a cell, and catches whoever stops it
# witness: the verdict
# %%
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
