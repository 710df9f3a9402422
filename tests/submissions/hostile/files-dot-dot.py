# family: files
# tries: climbs out of its folder step by step
# witness: the secret's text
# control: yes
# %%
import os
print(open("../" * 30 + SECRET[1:]).read())
