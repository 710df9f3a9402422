# family: course
# tries: loads the course's models and texts, gives functions to check, draws the course's pictures
# %%
import torch
from grader import check, hint, models, progress, solution
from grader.lab import pictures
from grader.transformer import Transformer
model = models.load(models.names()[0])
pictures.heat(torch.eye(3)).show()
def answer(x):
    return x
check(answer)
hint(answer)
progress()
def works(x):
    return isinstance(model, Transformer) and model.tokenizer is not None
