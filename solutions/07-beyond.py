# %% [markdown]
# # 07 · Beyond: MLPs, LayerNorm, biases, larger models
#
# So far every model was a simple one: attention only, no LayerNorm, no biases. The models that people use
# have all three. This notebook brings them back one at a time and asks the same question each time: **what
# of our mathematics survives?**
#
# **After this notebook you can**
#
# - follow paths into an MLP, and say exactly where they end;
# - fold LayerNorm's scale and shift and the biases of values into weights, and say what cannot be folded;
# - find heads that erase what they read;
# - build induction in *one* layer with smeared keys;
# - bring in an attention-only model from another library, and refuse one that does not fit.
#
# **Time:** about two hours. **It builds on** notebooks 02 to 05. In the
# [paper](https://transformer-circuits.pub/2021/framework/index.html) you are in "Additional Intuition and
# Observations" and the notes on simplifying assumptions.
#
# `check(name)` judges your function, `hint(name)` gives one hint at a time, `solution(name)` shows our way
# once you have passed.

# %%
import torch

from grader import check, hint, models, progress, solution
from grader.lab import pictures
from grader.transformer import Transformer

model = models.load("one-layer")
text = models.sample_tokens("docs")[:128]

# %% [markdown]
# ## 1 · Paths into an MLP
#
# An MLP layer reads the stream with one matrix, applies a function such as ReLU or GELU to each number by
# itself, and writes with another matrix:
#
# $$ \text{pre} = x\,W_\text{in}, \qquad \text{output} = \mathrm{act}(\text{pre})\,W_\text{out} $$
#
# The first step is linear. The stream is a sum of paths, so the **pre-activations** are a sum of paths too:
# a direct one, and one through each head. You did this with $W_U$ in place of $W_\text{in}$. An MLP reads
# the stream as the unembedding does.
#
# ### Exercise: An MLP's inputs, path by path
#
# *12 minutes · difficulty 2 of 3 · 2 points*
#
# Given a one-layer model and the reading matrix of an MLP behind it, return the pre-activations by path:
# the direct path first, then each head in order. No activation, no sum.


# %% answer
def mlp_path_expansion(tokens, model, W_in):
    """Pre-activations of an MLP that reads the stream after one layer of attention, by path.

    tokens (pos,); model, one layer; W_in (d_model, d_mlp) → (1 + head, pos, d_mlp)
    """
    ### BEGIN SOLUTION
    cache = model.run_with_cache(tokens)[1]
    paths = [cache.stream[0], *cache.head_out[0]]
    return torch.stack([path @ W_in for path in paths])
    ### END SOLUTION


# %% check
check(mlp_path_expansion)

# %% [markdown]
# **What you showed.** Everything up to the activation is as before. And there the paths end. The activation
# of a sum is not the sum of the activations. The picture takes two paths into one ReLU neuron:

# %% demo
one, two = torch.linspace(-2, 2, 41), torch.linspace(2, -2, 41) + 0.8
pictures.lines(
    {"relu(one + two)": (one + two).relu(), "relu(one) + relu(two)": one.relu() + two.relu()},
    x=one,
    x_label="pre-activation from path one (path two is 0.8 minus this)",
    y_label="activation",
    title="After the activation there are no paths",
)

# %% [markdown]
# **Question.** *For attention we froze the patterns and had a linear model again. Could we freeze an MLP?*
#
# <details><summary>Answer</summary>
#
# For ReLU, yes: note which neurons are on, and keep that as a mask. The layer is then linear for this one
# input. But a pattern is a table that one can look at, with an explanation of its own (the QK circuit). A mask
# over thousands of neurons explains nothing until one knows what the neurons mean. In a standard transformer
# two thirds of the parameters are in MLPs, so the methods of this course reach less than one third. The paper
# says so itself.
#
# </details>

# %% [markdown]
# ## 2 · LayerNorm
#
# LayerNorm takes the mean off each vector, divides by the standard deviation, multiplies by a learned
# *scale* and adds a learned *shift*. Four steps, and three of them are harmless:
#
# | step | linear? | where it can go |
# |---|---|---|
# | take the mean off | yes | into the weights that wrote the stream |
# | divide by the standard deviation | **no**, one number for each position | nowhere |
# | multiply by the scale | yes | into the weights that read next |
# | add the shift | yes | into the bias of what reads next |
#
# ### Exercise: Fold LayerNorm's scale and shift
#
# *12 minutes · difficulty 2 of 3 · 2 points*
#
# A LayerNorm with `weight` (its scale) and `bias` (its shift) is followed by a linear map `x @ W + b`. Return a
# new pair `(W, b)`: applied to an input that was normalized *without* scale and shift, it must give what the
# two gave together.


# %% answer
def fold_layer_norm(weight, bias, W, b):
    """The scale and shift of a LayerNorm moved into the linear map behind it.

    weight (d_model,), bias (d_model,), W (d_model, d_out), b (d_out,) → tuple (W, b)
    """
    ### BEGIN SOLUTION
    # (n · weight + bias) W + b, multiplied out: each row of W takes its entry of the scale.
    return torch.diag(weight) @ W, b + torch.einsum("d,do->o", bias, W)
    ### END SOLUTION


# %% check
check(fold_layer_norm)

# %% [markdown]
# **What you showed.** Scale and shift are only weights in another place. The division stays. It is one number
# for each position, and it multiplies all paths there alike, so *within* one position the shares of the paths
# are still right. Between positions, or layers, sizes cannot be compared without that number.

# %% demo
stream = model.run_with_cache(text)[1].stream[-1]
pictures.lines(
    {"standard deviation": stream.std(dim=-1)},
    x_label="position",
    y_label="size of the stream",
    title="What LayerNorm would divide by, in our one-layer model",
)

# %% [markdown]
# ## 3 · Biases
#
# Queries, keys, values and outputs can have biases. Those of values and outputs fold into one, and the reason
# is a fact about patterns: their rows sum to 1.
#
# ### Exercise: One bias for two
#
# *8 minutes · difficulty 1 of 3 · 2 points*
#
# Each head adds `b_V` to its values before the pattern mixes them; the layer adds `b_O` to its output once.
# Return the one vector that, added to the output of a layer without biases, replaces both.


# %% answer
def fold_value_bias(b_V, W_O, b_O):
    """One bias on the output of a layer that replaces the biases of its values and its own.

    b_V (head, d_head), W_O (head, d_head, d_model), b_O (d_model,) → (d_model,)
    """
    ### BEGIN SOLUTION
    total = b_O
    for bias, W in zip(b_V, W_O, strict=True):
        total = total + bias @ W  # arrives everywhere unchanged: rows of a pattern sum to 1
    return total
    ### END SOLUTION


# %% check
check(fold_value_bias)

# %% [markdown]
# **What you showed.** The pattern has no say in it. Libraries use this: TransformerLens can fold value biases
# when it loads a model. A bias on keys that is the same everywhere changes nothing at all; a bias on queries
# does (why?).
#
# <details><summary>Why?</summary>
#
# A key bias adds $q_i \cdot b_K$ to every score of row $i$, and a softmax does not see what a whole row shares.
# A query bias adds $b_Q \cdot k_j$, which differs between sources: some sources become attractive to everyone.
#
# </details>

# %% [markdown]
# ## 4 · Heads that erase
#
# A copying head has an OV circuit with positive eigenvalues (notebook 03). Turn the sign round, and let the head
# look at its own position: it adds $x W_{OV} \approx -x$ for the part it reads. What was there is gone. The paper
# saw such heads and reads them as *memory management*: they free room in the stream.
#
# ### Exercise: How much a head erases
#
# *10 minutes · difficulty 2 of 3 · 2 points*
#
# Return $-\mathrm{Re}\sum\lambda \,/\, \sum|\lambda|$ for the eigenvalues $\lambda$ of $W_{OV}$ itself (not the full
# circuit: memory is freed whatever it held). A head that erases what it reads comes out near 1.


# %% answer
def erasure_score(W_V, W_O):
    """Minus the eigenvalue score of W_OV: near 1 for a head that takes away what it reads.

    W_V (d_model, d_head), W_O (d_head, d_model) of one head → one number in [−1, 1]
    """
    ### BEGIN SOLUTION
    # W_V W_O has the non-zero eigenvalues of the small W_O W_V.
    eigenvalues = torch.linalg.eigvals(W_O @ W_V)
    return -eigenvalues.real.sum() / eigenvalues.abs().sum()
    ### END SOLUTION


# %% check
check(erasure_score)

# %% [markdown]
# **What you showed.** One number finds candidates. Whether a head really erases also depends on where it looks,
# so the picture plots both, for every head of the course's models: the score, and the attention to its own
# position. An eraser would stand at the top right.

# %% demo
names = [name for name in models.names() if name.startswith(("one-", "two-"))][:3]
own, scores = [], []
for name in names:
    each = models.load(name)
    looks = each.run_with_cache(text)[1].pattern.diagonal(dim1=-2, dim2=-1).mean(dim=-1)
    for layer in range(each.n_layers):
        for head in range(each.n_heads):
            small = each.W_O[layer, head] @ each.W_V[layer, head]
            eigenvalues = torch.linalg.eigvals(small)
            scores.append(-eigenvalues.real.sum() / eigenvalues.abs().sum())
            own.append(looks[layer, head])
pictures.points(
    own,
    scores,
    x_label="attention to its own position",
    y_label="erasure score",
    title="Heads of " + ", ".join(names),
)

# %% [markdown]
# In the models as shipped nobody stands there: small models with wide streams have room enough, perhaps. The dot at
# the lower right is the opposite of an eraser. It looks at itself and *adds* what it reads, and you met it in notebook
# 06. Scores above 0 alone are common and prove little: a head with negative eigenvalues that looks *elsewhere* lowers
# the token that it finds. Heads of that kind are known in larger models. One head of GPT-2 small, 10.7, does
# little else; its authors call it [copy suppression](https://arxiv.org/abs/2310.04625). It also explains part of
# a nuisance: remove a head, and a later one that suppressed its output repairs the damage. So removing one head
# understates what it does.

# %% [markdown]
# ## 5 · Induction in one layer
#
# Why do induction heads need two layers? Because a key must say "the token *before* me was A", and in an ordinary
# layer a key knows its own token only. The authors tested this in
# [a later paper](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html). They
# changed the architecture so that each key is a mix of itself and the key before. If the explanation is right,
# one layer should be enough then. It was.
#
# ### Exercise: Keys that remember the token before
#
# *10 minutes · difficulty 1 of 3 · 2 points*
#
# Replace each key by $\sigma(\alpha)\,k_j + (1 - \sigma(\alpha))\,k_{j-1}$ with $\sigma$ the sigmoid. The key
# before is the one that came in, not a mixed one. The first key stays as it was. Any number of axes may stand in
# front of the last two.


# %% answer
def smeared_keys(k, alpha):
    """Each key mixed with the one before it; the first key stays.

    k (…, pos, d_head), alpha a number → the same shape
    """
    ### BEGIN SOLUTION
    own = 1 / (1 + torch.exp(-torch.as_tensor(alpha, dtype=k.dtype)))
    smeared = k.clone()
    smeared[..., 1:, :] = own * k[..., 1:, :] + (1 - own) * k[..., :-1, :]
    return smeared
    ### END SOLUTION


# %% check
check(smeared_keys)

# %% [markdown]
# **What you showed.** No weights, one number, and a key knows its neighbor. Below, one head compares tokens: its
# query and its key are both the token. The text is a random block, three times. On the left with plain keys, on the
# right with keys that are the token before ($\alpha$ very negative).

# %% demo
block = torch.randperm(20, generator=torch.Generator().manual_seed(0))[:7]
codes = torch.linalg.qr(torch.randn(20, 20, generator=torch.Generator().manual_seed(1))).Q
queries = codes[block.repeat(3)]
before = torch.cat([queries[:1], queries[:-1]])
hide = torch.ones(21, 21).triu(1).bool()
seen = [(12 * queries @ keys.T).masked_fill(hide, -torch.inf) for keys in (queries, before)]
pictures.patterns(
    torch.stack(seen).softmax(dim=-1),
    [f"{i}" for i in block.repeat(3)],
    titles=["plain keys", "keys of the token before"],
    columns=2,
)

# %% [markdown]
# Plain keys find the same token. Smeared keys find the token *after* the same token: the stripe moved by one. Add a
# copying OV circuit and this is an induction head, in one layer.

# %% [markdown]
# ## 6 · Somebody else's model
#
# TransformerLens is the library that most people in this field use. A saved model there is a dict from names to
# arrays: `embed.W_E`, `pos_embed.W_pos`, `unembed.W_U`, and for each layer $N$ `blocks.N.attn.W_Q`, `W_K`, `W_V` and
# `W_O`, each (head, …) as here. There are also biases (`b_Q`, `b_K`, `b_V`, `b_O`, `unembed.b_U`) and two buffers,
# `mask` and `IGNORE`, which hold no weights. This is the form up to version 3 of the library. Version 4 has
# rebuilt it around other libraries' models, and no longer runs models with positions as in the paper. Files
# that were saved before stay as they are.
#
# ### Exercise: Bring in somebody else's model
#
# *20 minutes · difficulty 2 of 3 · 3 points*
#
# Return a `Transformer` (or a dict of its seven weights) with the same logits, for attention-only models without
# LayerNorm whose positions go into queries and keys only. Ignore `mask` and `IGNORE`. A bias that is not zero would
# change the logits: raise a `ValueError` that names it. Mind the order of the layers when there are more than ten.


# %% answer
def from_transformer_lens(state):
    """A state dict of TransformerLens as a model of this course.

    state, a dict from names to arrays → Transformer; raises ValueError for a bias that is not zero
    """
    ### BEGIN SOLUTION
    layers, weights = {}, {}
    for key, value in state.items():
        name = key.split(".")[-1]
        if name.startswith("b_") and (value != 0).any():
            raise ValueError(f"{key} is not zero; these models have no biases.")
        if name.startswith("W_") and key.startswith("blocks."):
            layers.setdefault(int(key.split(".")[1]), {})[name] = value
        elif name.startswith("W_"):
            weights[name] = value
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        weights[name] = torch.stack([layers[n][name] for n in sorted(layers)])
    return Transformer(**weights)
    ### END SOLUTION


# %% check
check(from_transformer_lens)

# %% [markdown]
# **What you showed.** Two libraries, one mathematics. Loading is where silent mistakes are made: a dropped bias, layers
# in the wrong order, positions added in the wrong place. All of them give a model that runs. So compare logits,
# always, before you read anything from an imported model.

# %% [markdown]
# ## 7 · What is known not to hold
#
# The paper is from 2021. This is what later work, and the authors themselves, changed:
#
# | claim | what is known now |
# |---|---|
# | One composition figure shows only K-composition. | The authors published an erratum: the figure's numbers were wrong; corrected, there is more composition (notebook 04). |
# | The stream has no privileged basis. | True of the mathematics; [trained models have one all the same](https://www.anthropic.com/research/privileged-bases-in-the-transformer-residual-stream), an effect of the optimizer. |
# | Composition scores find what composes. | [Disputed](https://www.lesswrong.com/posts/vaHxk9jSfmGbzvztT/thoughts-on-formalizing-composition): they see weights only, not which directions are used. |
# | One layer is a set of skip-trigrams. | [With frozen patterns](https://www.lesswrong.com/posts/b5HNYh9ne5vEkX5ag/one-layer-transformers-aren-t-equivalent-to-a-set-of-skip); the softmax makes sources compete. |
# | Induction heads work by previous token plus match. | A [test by resampling](https://www.lesswrong.com/posts/j6s9H9SHrEhEfuJnq/causal-scrubbing-results-on-induction-heads) recovers 35 % of the loss with the simple story and 89 % with a refined one. |

# %% [markdown]
# ### Question: A claim, put to a larger model
#
# *15 minutes · 2 points, marked by a person*
#
# Take one claim of the table above. Which measurement of this course would you repeat on a larger model to test it? Write down
# what you would measure, which outcome would count against the claim, and what stands in the way (LayerNorm, MLPs, biases) and what
# you would do about it.
#
# Write your answer into the next cell: double-click it, replace the words that stand there, press Shift+Enter.
# No program judges it. In a class a person does. Alone, mark it yourself by `solution("a_claim_on_a_larger_model")`.

# %% question [markdown] name="a_claim_on_a_larger_model" points=2
# ### BEGIN SOLUTION
# **A good answer** states the claim so that it can fail, and names the number that would decide. It says what can be folded first
# (scale, shift, value biases) and what then remains (the division by the spread, the MLPs): for instance that the eigenvalues of an OV
# circuit don't see the division, while attention scores of two positions can't be compared without it. It has a control: a random
# model of the same sizes, or a head known to do something else.
#
# **Marking guide**
#
# - **1 point**: a measurement of this course, and an outcome that would speak *against* the claim.
# - **1 point**: says rightly for one of LayerNorm, MLPs and biases what can be folded and what remains, or names a control.
# ### END SOLUTION

# %% [markdown]
# ## What you have shown
#
# | | survives | does not |
# |---|---|---|
# | MLPs | paths into them: `mlp_path_expansion` | paths through the activation |
# | LayerNorm | scale and shift fold: `fold_layer_norm` | the division |
# | biases | value and output biases fold: `fold_value_bias` | query biases |
# | heads | the eigenvalue reading, with the sign: `erasure_score` | a reading without looking at the pattern |
# | induction | its explanation predicts a new architecture: `smeared_keys` | |
# | other libraries | the same matrices: `from_transformer_lens` | trust without comparing logits |
#
# **Next:** [08 · mystery models](../08-mystery-models/08-mystery-models.ipynb) hands you transformers whose circuits we know and you do not. Find them.

# %%
progress()
