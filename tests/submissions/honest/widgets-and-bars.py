# family: notebook
# tries: sliders, interact, a progress bar, rich reprs
# %%
import ipywidgets as widgets
from IPython.display import display
slider = widgets.IntSlider(value=3)
display(slider)
widgets.interact(lambda n: None, n=(0, 5))
try:
    from tqdm.auto import tqdm
    for _ in tqdm(range(3)):
        pass
except ImportError:
    pass
def works(x):
    return slider.value == 3
