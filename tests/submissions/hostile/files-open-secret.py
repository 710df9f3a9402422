# family: files
# tries: reads a file of the teacher's by its path
# witness: its text in what comes back
# control: yes
# %%
print(open(SECRET).read())
