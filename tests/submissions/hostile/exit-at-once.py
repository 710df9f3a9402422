# family: exits
# tries: ends with success before anything can be asked
# witness: points
# %%
import os
os._exit(0)
