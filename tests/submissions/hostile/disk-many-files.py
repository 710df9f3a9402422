# family: disk
# tries: fills the disk with files below the size limit
# witness: a claim beyond the size allowed; the neighbour's files
# only: full
# %%
written = 0
for number in range(100):
    with open(f"part-{number}", "wb") as file:
        for _ in range(8):
            written += file.write(b"x" * 2**20)
print("REACHED", written)
