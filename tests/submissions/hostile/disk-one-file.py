# family: disk
# tries: fills the disk with one file
# witness: a claim beyond the size allowed
# %%
written = 0
with open("big", "wb") as file:
    while written < 2**29:
        file.write(b"x" * 2**20)
        written += 2**20
print("REACHED", written)
