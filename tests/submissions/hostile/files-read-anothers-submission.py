# family: files
# tries: copies the answers of somebody else
# witness: their text
# control: yes
# %%
print(open(OTHER).read())
