# family: pictures
# tries: draws, shows, saves and closes figures, with a colour map, text and another style
# %%
import matplotlib.pyplot as plt, numpy as np, os
with plt.style.context("ggplot"):
    figure, axes = plt.subplots(1, 2, figsize=(6, 3), layout="constrained")
    axes[0].imshow(np.eye(5), cmap="RdBu")
    axes[1].plot(np.arange(5), label=r"$A \otimes W$")
    axes[1].legend()
    figure.suptitle("Ünïcode ✓")
plt.show()
figure.savefig("picture.png", dpi=50)
figure.savefig("picture.svg")
plt.close("all")
def works(x):
    return os.path.getsize("picture.png") > 1000 and os.path.exists("picture.svg")
