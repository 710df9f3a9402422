# family: files
# tries: adds to somebody else's notebook
# witness: the notebook, byte for byte
# control: yes
# %%
with open(OTHER, "a") as file:
    file.write("changed")
