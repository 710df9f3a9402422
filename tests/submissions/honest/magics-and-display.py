# family: notebook
# tries: what people type into notebooks: magics, display, the last line's value, history, timing
# %%
%matplotlib inline
%load_ext autoreload
%autoreload 2
%config InlineBackend.figure_format = "retina"
from IPython.display import HTML, Markdown, display, clear_output
display(HTML("<b>x</b>"), Markdown("# y"))
clear_output(wait=True)
# %%
%%time
total = sum(range(1000))
# %%
%%capture output
print("kept")
# %%
timed = %timeit -o -q -n 1 -r 1 sum(range(10))
!echo not run
%pip install nothing
_ = 5
total
# %%
def works(x):
    return total == 499500 and output.stdout == "kept\n" and timed.loops == 1
