# family: environment
# tries: reads secrets of the grader from its own environment
# witness: the secret's text
# control: yes
# %%
import os
print(dict(os.environ))
print(os.popen)
