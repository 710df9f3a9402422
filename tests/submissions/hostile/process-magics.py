# family: processes
# tries: shell escapes and script cells
# witness: the file they would leave
# control: yes
# %%
!touch {OUTSIDE}/was-here
!!touch {OUTSIDE}/was-here
%sx touch {OUTSIDE}/was-here
# %%
get_ipython().run_cell_magic("bash", "", f"touch {OUTSIDE}/was-here")
# %%
get_ipython().run_cell_magic("script", "sh", f"touch {OUTSIDE}/was-here")
# %%
get_ipython().__class__.__mro__[1].system(get_ipython(), f"touch {OUTSIDE}/was-here")
