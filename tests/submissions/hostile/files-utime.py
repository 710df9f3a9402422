# family: files
# tries: dates somebody's submission a year later
# witness: its time
# control: yes
# %%
import os
os.utime(OTHER, (2_000_000_000, 2_000_000_000))
